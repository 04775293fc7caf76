"""The pages that are driven and photographed: real runs, from small to too large to draw."""

from pathlib import Path

import numpy as np

import bequest as bq
from bequest.documents import outcome_document
from bequest.engines.vector.membership import Membership
from bequest.solver import prepare
from bequest.view.page import page_of
from bequest.view.reading import MANY, ShownRun
from bequest.view.scenery import staged


def told(title, problem, graph, **asked):
    """A run as the page is told of it, and the network that it ended with."""
    ends = []

    class Kept(Membership):
        def __init__(self, plan):
            super().__init__(plan)
            ends.append(self)

    class Watched(bq.engines.Vector):
        membership = Kept

    plan = prepare(problem, graph, **asked)
    outcome = Watched().run(plan)
    document = outcome_document(outcome, plan.scene, most=MANY)
    return ShownRun(title, f"{title}.record", document), outcome, ends[0].network


def write(folder: Path, name: str, *runs: ShownRun) -> Path:
    path = folder / f"{name}.html"
    path.write_bytes(page_of(staged(runs)))
    return path


def pair():
    """The paper's setting: forgetting beside remembering."""
    problem = bq.problems.quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=7)
    graph = bq.graphs.ring_with_chords(20, chords=15, seed=7)
    leaving = bq.departures.most_heterogeneous(problem, rounds=[300, 600, 900, 1200])
    return [
        told(title, problem, graph, departures=leaving, will=will, rounds=2600)[0]
        for title, will in (
            ("forgetting", bq.wills.Classic()),
            ("remembering", bq.wills.Adaptive()),
        )
    ]


EVENTS = [
    bq.Join(11, 40), bq.Departure(3, 120), bq.Departure(4, 200), bq.Crash(7, 280),
    bq.Departure(0, 330), bq.Departure(2, 360), bq.Departure(1, 400), bq.Return(4, 450),
    bq.Forget(7, 540), bq.Crash(9, 620), bq.Departure(10, 620),
]  # fmt: skip


def eventful():
    """Everything that can happen, and legacies that are handed down twice."""
    problem = bq.problems.quadratics(n=12, dim=6, mu=1.0, L=10.0, seed=0)
    graph = bq.graphs.ring_with_chords(12, chords=5, seed=1)
    will = bq.wills.Adaptive(vectors=2)
    return told("everything", problem, graph, departures=EVENTS, will=will, rounds=900)


def random_one(seed):
    """A random schedule."""
    rng = np.random.default_rng(seed)
    n = 14
    problem = bq.problems.quadratics(n=n, dim=2, mu=1.0, L=10.0, seed=seed)
    graph = bq.graphs.ring_with_chords(n, chords=6, seed=seed)
    there, gone, events = set(range(1, n)), set(), [bq.Join(0, 5)]
    for t in range(10, 10 + 20 * 12, 20):
        kind = rng.integers(5)
        if gone and kind == 0:
            node = int(rng.choice(sorted(gone)))
            events.append(bq.Return(node, t))
            gone.remove(node)
            there.add(node)
        elif gone and kind == 1:
            node = int(rng.choice(sorted(gone)))
            events.append(bq.Forget(node, t))
            gone.remove(node)
        elif len(there) > 4:
            node = int(rng.choice(sorted(there)))
            events.append(bq.Departure(node, t) if kind % 2 else bq.Crash(node, t))
            there.remove(node)
            gone.add(node)
    wills = [bq.wills.Adaptive(), bq.wills.Classic(), bq.wills.Forgetful(), bq.wills.Drift()]
    buddies = int(rng.integers(2))
    return told(
        f"seed {seed}", problem, graph, departures=events, will=wills[seed % 4], rounds=300,
        buddies=buddies,
    )  # fmt: skip


def large(n, rounds):
    """A third of many nodes leave."""
    problem = bq.problems.quadratics(n=n, dim=3, mu=1.0, L=10.0, seed=1)
    graph = bq.graphs.ring_with_chords(n, chords=n, seed=3)
    leavers = np.random.default_rng(0).permutation(n)[: n // 3].tolist()
    times = np.linspace(rounds // 40, rounds - rounds // 20, len(leavers)).astype(int).tolist()
    leaving = [bq.Departure(node, t) for node, t in zip(leavers, times, strict=True)]
    return told(f"{n} nodes", problem, graph, departures=leaving, rounds=rounds)[0]
