"""Processes on a virtual network: what a new steward is told, and what a run says that stalls."""

import numpy as np
import pytest
from simulation.stewards import replace_steward

import bequest as bq
from bequest.engines.loop.engine import Execution, Loop
from bequest.errors import Stalled
from bequest.model.events import Changes
from bequest.model.optima import Optima
from bequest.model.plan import Plan
from bequest.protocol.messages import STEWARD


def execution(schedule, absent, n=4, rounds=8):
    graph = bq.graphs.complete(n)
    everybody = frozenset(range(n))
    problem = bq.Problem([bq.Quadratic(np.eye(2), [float(k), 1.0]) for k in range(n)])
    counted = {0: everybody - absent, 5: everybody}
    plan = Plan(
        problem=problem,
        graph=graph,
        schedule=schedule,
        wills=dict.fromkeys(range(n), bq.wills.Consensus()),
        rounds=rounds,
        method=bq.GradientTracking(0.1),
        start=np.zeros((n, 2)),
        pilot=None,
        buddies=2,
        recall=True,
        checkpoint_every=1,
        absent=absent,
        known={node: graph.neighbours(node) for node in range(n)},
        counted=counted,
        optima=Optima(problem, counted, None),
    )
    return Execution(Loop(), plan)


def let_it_be_quiet(world):
    while len(world.network):
        world.step()


def test_a_new_steward_does_not_wait_for_a_crash_that_has_happened():
    """Node 1 crashes as planned and is back before the stop is over; then the steward dies."""
    run = execution({5: Changes(crashes=(1,), joins=(3,))}, absent=frozenset({3}))
    world = run.world
    run.start()
    while run.crashing != [1]:
        world.step()
    world.kill(1)
    let_it_be_quiet(world)
    assert world.steward.awaited == (3,)
    run.admit(1, "return", 5)  # no node has planned that
    run.admit(3, "join", 5)
    while 1 not in world.steward.present.network:
        world.step()
    world.kill_steward()
    let_it_be_quiet(world)
    replace_steward(run)
    let_it_be_quiet(world)
    assert world.is_finished
    assert run.outcome().survivors == (0, 1, 2, 3)
    assert {node.round for node in world.nodes.values()} == {8}


def test_a_new_steward_hears_of_nobody_who_can_answer():
    """A verdict about a node that is there was wrong, or it is about an earlier incarnation."""
    run = execution({}, absent=frozenset({3}))
    world, told = run.world, []
    run.start()
    let_it_be_quiet(world)
    world.kill(1)
    run.declare_lost(2, "wrongly")
    world.kill_steward()
    give = world.give
    world.give = lambda process, event: told.append((process, event)) or give(process, event)
    replace_steward(run)
    verdicts = [verdict for verdict in run.supervisor.incarnations.verdicts if verdict.node == 1]
    assert told == [(STEWARD, verdict) for verdict in verdicts]


def test_a_network_that_stays_silent_is_said_to():
    """Not an empty queue, and not a loop that never ends."""
    run = execution({}, absent=frozenset())
    run.start = run.let_the_world_move = lambda: None
    with pytest.raises(Stalled, match="Nothing is under way"):
        run.run()
