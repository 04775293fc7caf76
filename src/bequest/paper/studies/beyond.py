"""Beyond the paper: how far from the optimum of all nodes each will ends, by message size.

The wills of the paper, those that are not in it, and the baseline that needs no farewell at all
(``paper.admm``), on the same departures of the same problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bequest.core.arrays import norm
from bequest.model import wills
from bequest.model.run import Run
from bequest.model.wills import Will
from bequest.paper import admm
from bequest.paper.studies import real, setups
from bequest.paper.studies.study import Case, Findings, Study, seeded

WILLS: dict[str, Will] = {
    "classic": wills.Classic(),
    "forgetful": wills.Forgetful(),
    "GT-C": wills.Consensus(),
    "GT-M": wills.LocalTrack(),
    "Legacy-GT": wills.Adaptive(rule="oracle"),
    "observed": wills.Adaptive(),
    "Drift(0)": wills.Drift(0),
    "Drift(1)": wills.Drift(1),
    "Drift(2)": wills.Drift(2),
    "Drift(4)": wills.Drift(4),
    "Drift(8)": wills.Drift(8),
    "Drift(4), secant": wills.Drift(4, hessian="secant"),
    "FullHessian": wills.FullHessian(),
}


@dataclass(frozen=True, slots=True)
class _Regime:
    """A setup, how many leave, and when: the first one, and the gap to the next."""

    setup: Callable[[int], setups.Setup]
    k: int
    t1: int
    gap: int = setups.GAP

    @property
    def rounds(self) -> list[int]:
        return [self.t1 + self.gap * m for m in range(self.k)]


# drawn anew from every seed
DRAWN = {
    "sec51": _Regime(setups.section51, 4, 50, gap=100),
    "stress": _Regime(lambda seed: setups.stress(100, seed), 12, 50),
    "tilt30": _Regime(lambda seed: setups.tilted(30, seed), 8, 50),
    "tilt100": _Regime(lambda seed: setups.tilted(100, seed), 12, 50),
    "tilt100-late": _Regime(lambda seed: setups.tilted(100, seed), 12, 800),
    "d100": _Regime(lambda seed: setups.many_unknowns("tilted", seed), 8, 50),
    "d100-shared": _Regime(lambda seed: setups.many_unknowns("shared", seed), 8, 50),
}
# data, split and network are given, so there is one case of each
GIVEN = {
    "breast-cancer": _Regime(lambda _: real.setup_of("breast-cancer"), 3, 100),
    "digits": _Regime(lambda _: real.setup_of("digits"), 3, 1000),
}


def measure(*, setup: str, seed: int = 0) -> Findings:
    """Return where the survivors end under every will, and the size of its farewells."""
    regime = (DRAWN | GIVEN)[setup]
    given, rounds = regime.setup(seed), regime.rounds
    leaving = given.worst_leave(rounds)
    methods = {
        name: _told(given.run(will, leaving, rounds=rounds[-1]))
        for name, will in WILLS.items()
        if not isinstance(will, wills.Drift) or will.rank < given.problem.dim
    }
    frozen = admm.run(given.problem, given.graph, leaving, rounds=rounds[-1])
    return Findings(
        {},
        {
            "methods": methods,
            "ADMM": {
                "bias": norm(frozen.limit - given.problem.optimum()),
                "prox solves": frozen.prox_solves,
                "vectors per edge and round": frozen.vectors,
            },
            "departures": rounds,
            "nodes": given.problem.n,
            "dim": given.problem.dim,
        },
    )


def _told(run: Run) -> dict[str, object]:
    return {
        "status": str(run.status),
        "bias": setups.bias(run),
        **setups.largest(run),
        "illegal": setups.illegal(run),
        "choices": setups.choices(run),
    }


def seeds_of(name: str) -> int:
    """Return the number of seeds: twice the paper's where errors spread over decades."""
    return setups.SEEDS if name.startswith("d100") else 2 * setups.SEEDS


STUDY = Study(
    "beyond",
    (
        *(case for name in DRAWN for case in seeded(seeds_of(name), setup=name)),
        *(Case(name, {"setup": name}) for name in GIVEN),
    ),
    measure,
    needs=("data",),
)
