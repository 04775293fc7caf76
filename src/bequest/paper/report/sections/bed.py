"""The runs on the hostile bed: how much worse than a yardstick each of them is."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from bequest.paper.report.measures import Sample, fixed, number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from bequest.core.arrays import Matrix, Vector
    from bequest.paper.store import Result

    # one per instance: a name, a number, or whether something is true
    Labels: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

# a way and a will
Key = tuple[str, str]

PLAIN = "gradient tracking"
FORGETFUL, CONSENSUS, BETTER = "forgetful", "GT-C", "better of both"
# what everything is held against: always with gradient tracking, and the same for all methods
YARDSTICKS = (BETTER, FORGETFUL, CONSENSUS)
# below this part of the way from the start to the optimum, an error is rounding
FLOOR = 1e-9
# an error is worse if it is more than this many times as large
WORSE = (1.2, 2.0, 10.0)


@dataclass(frozen=True, slots=True)
class WorseShares:
    """How much worse than a yardstick a will is: the shares beyond ``WORSE``, and the worst."""

    shares: tuple[float, ...]
    worst: float


@dataclass(frozen=True, slots=True)
class Bed:
    """Instances, and how every will did on each of them.

    Attributes:
        runs: way and will of every column.
        errors: a row per instance and a column per run, at least ``FLOOR``, as parts of the
            distance from the start to the optimum; infinite where a run diverged.
        vectors: the size of the largest farewell, likewise.
        illegal: how many legacies were curved as their losses cannot be, likewise.
        stage: per instance, the error when the first node left, over that at the start.
        dim: per instance, the number of unknowns.
        leavers: per instance, how many left.
        family: per instance, the kind of losses.
        quadratic: per instance, whether all losses are quadratics.
        seed: per instance, what it was drawn from.
    """

    runs: tuple[Key, ...]
    errors: Matrix
    vectors: Matrix
    illegal: Matrix
    stage: Vector
    dim: Vector
    leavers: Vector
    family: Labels
    quadratic: Labels
    seed: Labels

    @classmethod
    def of(cls, results: Sequence[Result]) -> Bed:
        """Return the instances of all results together."""

        def joined(name: str) -> Matrix:
            return np.concatenate([result.arrays[name] for result in results])

        told = [one for result in results for one in result.facts["instances"]]
        runs = tuple((str(way), str(will)) for way, will in results[0].facts["runs"])
        errors = joined("bias") / joined("scale")[:, None]
        return cls(
            runs,
            np.maximum(np.where(np.isfinite(errors), errors, np.inf), FLOOR),
            joined("vectors"),
            joined("illegal"),
            joined("stage"),
            np.array([one["dim"] for one in told], dtype=float),
            np.array([len(one["exits"]) for one in told], dtype=float),
            np.array([one["family"] for one in told]),
            np.array([one["quadratic"] for one in told], dtype=bool),
            np.array([one["seed"] for one in told], dtype=int),
        )

    def __len__(self) -> int:
        return len(self.seed)

    @property
    def ways(self) -> tuple[str, ...]:
        """The methods, each at equal rounds or bytes."""
        return tuple(dict.fromkeys(way for way, _ in self.runs))

    def wills(self, way: str) -> tuple[str, ...]:
        """The wills that were run with a method."""
        return tuple(will for other, will in self.runs if other == way)

    def only(self, which: Labels) -> Bed:
        """Return the instances of which this is true."""
        kept = (getattr(self, field.name)[which] for field in fields(self) if field.name != "runs")
        return Bed(self.runs, *kept)

    def error(self, key: Key) -> Vector:
        """Return a run's errors."""
        return self.errors[:, self.runs.index(key)]

    def size(self, key: Key) -> Sample:
        """Return the sizes of a run's farewells."""
        return Sample.of(self.vectors[:, self.runs.index(key)].tolist())

    def yardstick(self, name: str) -> Vector:
        """Return the errors that others are held against."""
        forgetful, consensus = (self.error((PLAIN, will)) for will in (FORGETFUL, CONSENSUS))
        if name == BETTER:
            return np.minimum(forgetful, consensus)
        return {FORGETFUL: forgetful, CONSENSUS: consensus}[name]

    def factors(self, key: Key, over: str) -> Sample:
        """Return how many times as far off as the yardstick a run ends, per instance."""
        against = self.yardstick(over)
        usable = np.isfinite(against)
        ratios = np.divide(self.error(key), against, out=np.zeros(len(self)), where=usable)
        return Sample.of(ratios.tolist())

    def tally(self, key: Key, over: str) -> WorseShares:
        """Return how often, and how much, a run is worse than the yardstick."""
        factors = self.factors(key, over)
        shares = tuple(sum(f > worse for f in factors.values) / factors.n for worse in WORSE)
        return WorseShares(shares, factors.worst)

    def mean(self, key: Key, over: str = CONSENSUS) -> float:
        """Return the geometric mean over the yardstick; infinite if a run diverged."""
        factors = self.factors(key, over)
        if factors.diverged:
            return math.inf
        return math.exp(sum(math.log(f) for f in factors.values if f > 0) / factors.n)

    def worst_seed(self, key: Key, over: str) -> int:
        """Return the seed of the instance on which a run is worst."""
        return int(self.seed[np.argmax(self.factors(key, over).values)])


def percent(share: float) -> str:
    """Write a share."""
    return f"{fixed(100 * share, 1)}%"


def shares(tally: WorseShares) -> str:
    """Write the shares beyond ``WORSE``."""
    return " / ".join(fixed(100 * share, 1) for share in tally.shares) + "%"


def times(factor: float) -> str:
    """Write how many times as far off."""
    return number(factor) if factor < float("inf") else "diverged"
