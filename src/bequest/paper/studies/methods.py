"""Beyond the paper: the methods, side by side.

How long each takes when nobody leaves, what the paces that it chooses for itself cost against tuned
ones, where survivors end after departures at equal rounds and at equal bytes, and how little a
return, a crash and a node that vanishes without a word disturb it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import methods
from bequest.core.arrays import norm
from bequest.core.legacy import Legacy
from bequest.model import events, graphs, problems, wills
from bequest.paper.studies import beyond, real, setups
from bequest.paper.studies.study import Case, Findings, Study, seeded
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bequest.core.arrays import Vector
    from bequest.core.methods import Method
    from bequest.model.events import Event
    from bequest.model.graph import Graph
    from bequest.model.run import Run
    from bequest.model.wills import Bequest, Estate, Will

SEEDS = 10
# Paces are tuned on these, and measured on the others.
TUNING = (100, 101)
FACTORS = tuple(2.0 ** (k / 2) for k in range(-5, 6))
# On data, whose losses are far less curved than their bounds say, also these.
LARGER = tuple(2.0 ** (k / 2) for k in range(6, 12))
# The error that a method has to reach, relative to that of the start.
GOAL = 1e-6
# A method may take this many times the rounds of gradient tracking, which may take so many.
PATIENCE, LONGEST = 2, 60_000
# Runs begin with so many rounds, and are begun anew with as many as it should take; those that
# take longer than so many are held against gradient tracking.
_SHORTEST, _LONG = 500, 4000

TRACKING = "gradient tracking"
METHODS: dict[str, Method] = {
    TRACKING: methods.GradientTracking(),
    "DIGing": methods.DIGing(),
    "EXTRA": methods.EXTRA(),
    "exact diffusion": methods.ExactDiffusion(),
    "ADMM": methods.ADMM(),
    "NIDS": methods.NIDS(),
    "NIDS-H": methods.NIDS(metric="hessian"),
}
# It does not get there: how close it comes is measured.
INEXACT = "DGD"
INEXACT_ROUNDS = 2000


def _spread(graph: Graph, seed: int, *, stress: bool = False) -> setups.Setup:
    """Return the quadratics of Sec. 5.1, or of tab:stress at kappa = 100, on a graph."""
    problem = (
        problems.quadratics(n=graph.n, dim=setups.DIM, mu=1.0, L=100.0, seed=seed, basis="shared")
        if stress
        else problems.quadratics(n=graph.n, dim=setups.DIM, mu=1.0, L=10.0, seed=seed)
    )
    return setups.Setup(problem, graph, step=0.2 / problem.L)


# Where nobody leaves: drawn from every seed, and given.
DRAWN: dict[str, Callable[[int], setups.Setup]] = {
    "sec51": setups.section51,
    "stress": lambda seed: setups.stress(100, seed),
    "tilt100": lambda seed: setups.tilted(100, seed),
    "ring20": lambda seed: _spread(graphs.ring(20), seed),
    "ring100": lambda seed: _spread(graphs.ring(100), seed),
    "grid": lambda seed: _spread(graphs.grid(10, 10), seed),
    "grid-stress": lambda seed: _spread(graphs.grid(10, 10), seed, stress=True),
}
GIVEN: dict[str, Callable[[int], setups.Setup]] = {
    "breast-cancer": lambda _: real.setup_of("breast-cancer"),
    "digits": lambda _: real.setup_of("digits"),
}
# Where nodes leave: the departures of ``beyond``.
LEAVING = ("sec51", "stress", "tilt100", "tilt100-late", "d100", "breast-cancer", "digits")
WILLS: dict[str, Will] = {
    "Consensus": wills.Consensus(),
    "Drift(0)": wills.Drift(0),
    "Drift(4)": wills.Drift(4),
    "FullHessian": wills.FullHessian(),
    "Adaptive": wills.Adaptive(),
}
# On data the step that gradient tracking chooses is far too small: the best multiples of it, as
# the part "tuned" finds them. Elsewhere they are 0.7 to 1.
TUNED_STEP = {"breast-cancer": 16.0, "digits": 4.0}
# The whole Hessian is sent up to so many unknowns.
FEW_UNKNOWNS = 15
COMPARED = ("NIDS", "NIDS-H")
ROUNDS, BYTES = "equal rounds", "equal bytes"
# Where nodes return, crash and vanish.
DISTURBED = ("sec51", "stress", "tilt100")
# Errors before a return or a crash, relative to that of the start; and rounds looked at afterwards.
LEVELS = (1e-2, 1e-5, 1e-8)
WATCHED = 20
LATEST = 5000
# The rounds after which a node vanishes that left no checkpoint.
VANISHING = (3, 10, 50, 200)


def measure(*, part: str, setup: str, seed: int = 0, method: str = "") -> Findings:
    """Return the findings of one part of the study."""
    if part == "tuned":
        return Findings({}, tuned(setup, method))
    return Findings({}, _PARTS[part](setup, seed))


# Nobody leaves


def until(setup: setups.Setup, method: Method, *, longest: int, goal: float = GOAL) -> int | None:
    """Return after how many rounds every node is within the goal; None if not within ``longest``.

    >>> until(setups.section51(0), METHODS["NIDS"], longest=500)
    54
    """
    rounds = min(_SHORTEST, longest)
    while True:
        error = _run(setup, method, rounds=rounds).error
        reached = np.flatnonzero(error <= goal * error[0])
        if reached.size:
            return int(reached[0])
        if rounds == longest or not math.isfinite(error[-1]):
            return None
        rounds = min(_enough(error, goal), longest)


def _enough(error: Vector, goal: float) -> int:
    """Return how many rounds it should take, by what the second half of these has done."""
    rounds = error.size - 1
    pace = math.log(max(error[rounds // 2] / error[-1], 1.0)) / (rounds - rounds // 2)
    ahead = math.log(error[-1] / (goal * error[0])) / pace if pace else math.inf
    return rounds + int(min(1.1 * ahead + _SHORTEST / 2, 10 * rounds))


def _run(
    setup: setups.Setup,
    method: Method,
    *,
    rounds: int,
    leaving: Sequence[Event] = (),
    will: Will = wills.Classic(),  # noqa: B008 - immutable
) -> Run:
    return solve(
        setup.problem, setup.graph, departures=leaving, will=will, method=method, rounds=rounds
    )


def speed(name: str, seed: int) -> dict[str, object]:
    """Return what every method needs until it is there, with the pace that it chooses."""
    setup = (DRAWN | GIVEN)[name](seed)
    first = until(setup, METHODS[TRACKING], longest=LONGEST)
    longest = PATIENCE * (first or LONGEST)
    found = {
        label: told(until(setup, method, longest=longest), method)
        for label, method in METHODS.items()
        if label != TRACKING
    }
    inexact = _run(setup, methods.DGD(), rounds=INEXACT_ROUNDS).error
    return {
        "methods": {TRACKING: told(first, METHODS[TRACKING]), **found},
        INEXACT: {"left": float(inexact[-1] / inexact[0]), "rounds": INEXACT_ROUNDS},
        "longest": longest,
    }


def told(rounds: int | None, method: Method) -> dict[str, int | None]:
    """Return what so many rounds cost: vectors per edge and direction, gradients per node."""
    if rounds is None:
        return {"rounds": None, "vectors": None, "gradients": None}
    return {"rounds": rounds, "vectors": rounds * method.vectors, "gradients": rounds + 1}


def tuned(name: str, label: str) -> dict[str, object]:
    """Return what a method needs with the best multiple of the pace that it chooses.

    The multiple is tuned on other seeds than those that are reported; given data have no others.
    """
    build, method, drawn = (DRAWN | GIVEN)[name], METHODS[label], name in DRAWN
    factors = FACTORS if drawn else FACTORS + LARGER
    taken = np.array(
        [_multiples(build(seed), method, factors) for seed in (TUNING if drawn else (0,))]
    )
    column, seeds = int(np.argmin(np.median(taken, axis=0))), range(SEEDS if drawn else 1)
    best, longest = factors[column], PATIENCE * taken[:, column].max()
    if not math.isfinite(longest):  # none of them gets there
        return {"factor": 1.0, "seeds": [told(None, method) for _ in seeds]}
    found = []
    for seed in seeds:
        setup = build(seed)
        found.append(told(until(setup, _paced(setup, method, best), longest=int(longest)), method))
    return {"factor": best, "seeds": found}


def _multiples(
    setup: setups.Setup, method: Method, factors: Sequence[float] = FACTORS
) -> list[float]:
    """Return the rounds with these multiples of the chosen pace; infinite where it takes longer."""
    longest = until(setup, method, longest=_LONG)
    if longest is None:
        first = until(setup, METHODS[TRACKING], longest=LONGEST) or LONGEST
        longest = until(setup, method, longest=PATIENCE * first) or PATIENCE * first
    return [
        until(setup, _paced(setup, method, factor), longest=longest) or math.inf
        for factor in factors
    ]


def _paced(setup: setups.Setup, method: Method, factor: float) -> Method:
    """Return the method with a multiple of the pace that it would choose."""
    pace = factor * _run(setup, method, rounds=0).steps[0].value
    if isinstance(method, methods.NIDS | methods.ADMM):
        return replace(method, coupling=pace)
    return replace(method, step=pace)  # type: ignore[type-var]


# Nodes leave


def exits(name: str, seed: int) -> dict[str, object]:
    """Return where survivors end, for every method with every will, at equal rounds and bytes.

    And what the largest farewell held.

    At equal bytes a method with one vector per edge runs twice the rounds before and between exits.
    """
    regime = (beyond.DRAWN | beyond.GIVEN)[name]
    setup = regime.setup(seed)
    runs: dict[str, tuple[Method, int]] = {
        f"{TRACKING}, the setup's step": (methods.GradientTracking(setup.step), 1),
        TRACKING: (METHODS[TRACKING], 1),
    }
    for label in COMPARED:
        runs |= {f"{label}, {kind}": (METHODS[label], k) for k, kind in ((1, ROUNDS), (2, BYTES))}
    if name in TUNED_STEP:
        tracking = _paced(setup, METHODS[TRACKING], TUNED_STEP[name])
        runs[f"{TRACKING}, tuned step"] = (tracking, 1)
    found: dict[str, dict[str, object]] = {}
    for title, will in WILLS.items():
        if title == "FullHessian" and setup.problem.dim > FEW_UNKNOWNS:
            continue
        found[title] = {}
        for label, (method, times) in runs.items():
            rounds = [times * t for t in regime.rounds]
            leaving = setup.worst_leave(rounds)
            run = _run(setup, method, rounds=rounds[-1], leaving=leaving, will=will)
            found[title][label] = {
                "status": str(run.status),
                "bias": setups.bias(run),
                "vectors": max(one.vectors for one in run.departures),
            }
    return {"wills": found}


# Nodes return, crash, vanish


def bumps(name: str, seed: int) -> dict[str, object]:
    """Return how far errors rise after a return and a crash, and what is left of who vanished."""
    setup = DRAWN[name](seed)
    node = setup.worst_leave([1])[0].node
    return {
        "peaks": {
            label: {f"{level:g}": _peaks(setup, method, node, level) for level in LEVELS}
            for label, method in METHODS.items()
        },
        "vanished": {
            label: {str(t): _vanished(setup, METHODS[label], node, t) for t in VANISHING}
            for label in (TRACKING, *COMPARED)
        },
    }


def _peaks(
    setup: setups.Setup,
    method: Method,
    node: int,
    level: float,
    will: Will = wills.FullHessian(),  # noqa: B008 - immutable
) -> dict[str, float] | None:
    """Return the largest error within 20 rounds of a return and of a crash, over that before.

    The most heterogeneous node crashes when the error has fallen to the level, or returns then
    having left at half that time. Of the whole Hessian, which is left, a quadratic is remembered
    exactly, so that all of the error is on its way to zero. Errors ring, and one that has just
    fallen to a level may be about to rise again: "stay" is the same for a node that stays away.
    """
    at = until(setup, method, longest=LATEST, goal=level)
    if at is None:
        return None
    last = at + WATCHED
    left: list[Event] = [events.Departure(node, max(at // 2, 1))]
    stay = _run(setup, method, rounds=last, leaving=left, will=will).error
    left.append(events.Return(node, at))
    back = _run(setup, method, rounds=last, leaving=left, will=will).error
    crash = _run(setup, method, rounds=last, leaving=[events.Crash(node, at)], will=will).error
    return {
        "return": float(back[at:].max() / stay[at]),
        "stay": float(stay[at:].max() / stay[at]),
        # of the others, whose iterates the crash itself does not change
        "crash": float(crash[at:].max() / crash[at]),
    }


@dataclass(frozen=True)
class _SurplusWitness(wills.Consensus):
    """A consensus legacy; notes the surplus with which the node leaves."""

    surpluses: list[Vector] = field(default_factory=list)

    def decide(self, estate: Estate) -> Bequest:
        """Note it."""
        self.surpluses.append(estate.z - estate.gradient)
        return super().decide(estate)


def _vanished(setup: setups.Setup, method: Method, node: int, t: int) -> dict[str, object]:
    """Return where the others end if a node vanishes without a checkpoint, and if it does not."""
    leaving, witness = [events.Departure(node, t)], _SurplusWitness()
    farewell = _run(setup, method, rounds=t, leaving=leaving, will=witness)
    forgotten = _run(setup, method, rounds=t, leaving=leaving, will=wills.Forgetful())
    recalled = solve(
        setup.problem,
        setup.graph,
        departures=[events.Crash(node, t)],
        method=method,
        rounds=t,
        checkpoint_every=None,
    )
    others = [other for other in range(setup.problem.n) if other != node]
    # what the others lack: minus the surplus of the one that is gone
    slope = Legacy(0.0, -witness.surpluses[-1], 0.0, {node: 1})
    unguarded = setup.problem.among(others).minimiser(slope)
    return {
        "farewell": setups.bias(farewell),
        "forgotten": setups.bias(forgotten),
        "recalled": setups.bias(recalled),
        "trusted": recalled.departures[0].choice == "recall",
        "unguarded": norm(unguarded - setup.problem.optimum()),
    }


_PARTS: dict[str, Callable[[str, int], dict[str, object]]] = {
    "speed": speed,
    "exits": exits,
    "bumps": bumps,
}


def _cases() -> Iterator[Case]:
    # the longest first, so that no core is left with one of them at the end
    for name in sorted(DRAWN | GIVEN, key=lambda name: name != "ring100"):
        for label in METHODS:
            yield Case(
                f"part-tuned_setup-{name}_method-{label.replace(' ', '-')}",
                {"part": "tuned", "setup": name, "method": label},
            )
    for part, names in (("speed", (*DRAWN, *GIVEN)), ("exits", LEAVING), ("bumps", DISTURBED)):
        for name in names:
            if name in GIVEN:
                yield Case(f"part-{part}_setup-{name}", {"part": part, "setup": name})
            else:
                yield from seeded(SEEDS, part=part, setup=name)


STUDY = Study("methods", tuple(_cases()), measure, needs=("data",))
