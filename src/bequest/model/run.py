"""The frozen result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from bequest.core.arrays import frozen, norm
from bequest.core.legacy import Legacy
from bequest.errors import Diverged, OptimumUnknown
from bequest.model.certify import certify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.certificates import Certificate
    from bequest.core.steps import StepChoice
    from bequest.model.graph import Graph
    from bequest.model.optima import Optima
    from bequest.model.problem import Problem
    from bequest.model.wills import Choice


class Status(StrEnum):
    """How a run ended; a closed set.

    CONVERGED: the survivors agree, and are within 1e-9 of the limit as far as their curvature can
        tell (in regime (C), where it cannot: their gradients sum to nothing).
    UNFINISHED: the rounds were used up before that.
    DIVERGED: the iterates left every bounded region, or were no longer numbers.
    LOST: nobody is left, and nothing is remembered.
    """

    CONVERGED = "converged"
    UNFINISHED = "unfinished"
    DIVERGED = "diverged"
    LOST = "lost"


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """One number per round, from the start (index 0) to the last round.

    Attributes:
        error: max over the nodes alive of |x_j - x*|; None where x* is not known.
        invariant_gap: |sum z - sum grad h(x)|, zero but for rounding (prop:invariant).
        gradient_norm: |sum grad h(x)|, zero at the limit.
        disagreement: max over the nodes alive of |x_j - their mean|.
    """

    error: Vector | None
    invariant_gap: Vector
    gradient_norm: Vector
    disagreement: Vector


@dataclass(frozen=True, slots=True, eq=False)
class DepartureRecord:
    """What happened when a node left, or crashed.

    Attributes:
        node: who left.
        round: after which round.
        will: the will's label.
        choice: which branch it took, as the will calls it; a certificate goes by the legacy.
        why: in words.
        heir: who inherited, or adopted what a crashed node had left with its buddies; None if
            nothing was handed over.
        vectors: how many vectors the farewell carried, or the checkpoint.
        bytes: its payload in bytes.
        bounds: what each branch can cost at most, where the will compared bounds.
        predicted: how far each branch was expected to move the optimum, where the will predicted
            that from what the node could see.
        hindsight: how far each of these branches moves the optimum, to first order; empty where
            x* is not known or nothing was compared. No will has ever seen it.
        x: its iterate when it left; of one that crashed the last that is known.
        legacy: the memory of the node's own loss, if any.
        anchor: where that memory is exact, if there is one.
        passed_on: the original nodes in the inherited quadratic it handed over.
        blur: what compressing the message changed, a quadratic without slope at the anchor; None
            where it went as it was.
        lost: the original nodes nobody remembers from now on.
        exact_handoff: whether the tracking invariant was kept by construction.
        bridges: edges added to keep the network connected.
        crashed: whether it went without a word.
        checkpoint: the round of the checkpoint that was adopted after a crash.
        failed: whether it crashed because its own loss or will failed; ``why`` says how.
    """

    node: int
    round: int
    will: str
    choice: Choice
    why: str
    heir: int | None
    vectors: float
    bytes: int
    bounds: Mapping[Choice, float]
    predicted: Mapping[Choice, float]
    hindsight: Mapping[Choice, float]
    x: Vector
    legacy: Legacy | None
    anchor: Vector | None
    passed_on: tuple[int, ...]
    blur: Legacy | None
    lost: tuple[int, ...]
    exact_handoff: bool
    bridges: tuple[tuple[int, int], ...]
    crashed: bool = False
    checkpoint: int | None = None
    failed: bool = False

    def __str__(self) -> str:
        went = ("failed" if self.failed else "crashed") if self.crashed else "left"
        if not self.crashed:
            to = f"to node {self.heir}" if self.heir is not None else "to nobody"
        elif self.heir is None:
            to = "adopted by nobody"
        elif self.node not in self.lost:
            to = f"its checkpoint of round {self.checkpoint} adopted by node {self.heir}"
        elif self.passed_on:
            to = f"what it had inherited adopted by node {self.heir}, its own loss by none"
        else:
            to = "its own loss remembered by no node"
        return (
            f"node {self.node} {went} after round {self.round}, {to}: {self.choice} ({self.why}); "
            f"{self.vectors:g} vector{'' if self.vectors == 1 else 's'}, {self.bytes} bytes"
        )


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """What happened when a node returned, joined or was forgotten.

    Attributes:
        kind: which of them.
        node: who.
        round: after which round.
        holder: who remembered it until then; None if nobody did.
        sponsor: at whose iterate it began; None for somebody who is forgotten.
        neighbours: whom it talks to from then on.
        exact: whether its memory was taken out exactly; False where it had been compressed
            together with others'.
        why: in words.
    """

    kind: Literal["return", "join", "forget"]
    node: int
    round: int
    holder: int | None
    sponsor: int | None
    neighbours: tuple[int, ...]
    exact: bool
    why: str

    @classmethod
    def of(
        cls,
        kind: Literal["return", "join", "forget"],
        node: int,
        round_: int,
        *,
        holder: int | None,
        sponsor: int | None,
        neighbours: tuple[int, ...],
        exact: bool,
    ) -> ChangeRecord:
        """Return the record of a change, and put it into words."""
        if kind == "forget":
            why = "nobody remembered it" if holder is None else f"node {holder} erased its memory"
        else:
            why = f"it begins at the iterate of node {sponsor}"
        if kind == "return":
            why += ", " + (
                "and nobody remembered it" if holder is None else "who gave its memory back"
            )
        if not exact:
            why += "; as it was compressed together with others, something of it remains"
        return cls(kind, node, round_, holder, sponsor, neighbours, exact, why)

    def __str__(self) -> str:
        went = {"return": "returned", "join": "joined", "forget": "was forgotten"}[self.kind]
        return f"node {self.node} {went} after round {self.round}: {self.why}"


@dataclass(frozen=True, eq=False)
class Run:
    """What came out of ``bequest.solve``; everything in it is read-only.

    Attributes:
        status: how it ended.
        trajectory: one number per round of everything that was measured.
        departures: what happened at each departure and crash, in order.
        changes: what happened when somebody returned, joined or was forgotten, in order.
        survivors: the ids that are left, ascending.
        x: their iterates, one row each, in that order.
        inherited: survivor -> what it inherited; those who inherited nothing are not in it.
        lost: the original nodes that nobody remembers, ascending.
        steps: the step and why, and every time it was lowered.
        targets: what was aimed at; ``optimum`` and ``optima`` read it.
        problem: what was solved.
        graph: on which network.
        pilot: the certificate of the network's error, where a will needed one.
        provenance: versions and settings needed to run it again.
    """

    status: Status
    trajectory: Trajectory
    departures: tuple[DepartureRecord, ...]
    changes: tuple[ChangeRecord, ...]
    survivors: tuple[int, ...]
    x: Matrix
    inherited: Mapping[int, Legacy]
    lost: tuple[int, ...]
    steps: tuple[StepChoice, ...]
    targets: Optima
    problem: Problem
    graph: Graph
    pilot: Pilot | None
    provenance: Mapping[str, str]

    @property
    def error(self) -> Vector:
        """error[t]: distance of the worst node alive after round t to the optimum of ALL the data.

        All the data that counts by then: see ``optima``. ``inf`` from the round on at which a run
        diverged.
        """
        if self.trajectory.error is None:
            raise self.targets.unknown
        return self.trajectory.error

    @property
    def invariant_gap(self) -> Vector:
        """|sum z - sum grad h| per round: zero but for rounding (prop:invariant)."""
        return self.trajectory.invariant_gap

    @property
    def optimum(self) -> Vector:
        """x*: the optimum of ALL the data, leavers included, that counts at the end.

        Computed now if the run did not, whatever that takes.
        """
        return self.optima[max(self.optima)]

    @property
    def optima(self) -> Mapping[int, Vector]:
        """Round -> the optimum aimed at from its end on, beginning with 0.

        It moves when a node joins or is forgotten. Computed like ``optimum``.
        """
        return self.targets.ask()

    @property
    def step(self) -> float:
        """The step in force at the end."""
        return self.steps[-1].value

    @property
    def rounds(self) -> int:
        """How many rounds were asked for."""
        return self.trajectory.invariant_gap.size - 1

    @cached_property
    def limit(self) -> Vector:
        """The surrogate's minimiser, where the survivors go: argmin of their losses and legacies.

        Paper: eq:surrogate.
        """
        if not self.survivors:
            raise OptimumUnknown(
                "Nobody is left, so that nothing is minimised any more.",
                remedy="Keep checkpoints with more buddies, on other hosts.",
            )
        memory = sum(self.inherited.values(), Legacy.zero(self.problem.dim))
        centre = self.x.mean(axis=0) if self.status is not Status.DIVERGED else None
        return frozen(self.problem.among(self.survivors).minimiser(memory, start=centre))

    @property
    def limit_error(self) -> float:
        """Distance of the limit to the optimum of ALL the data, which no round makes up for."""
        return norm(self.limit - self.optimum)

    @cached_property
    def certificate(self) -> Certificate:
        """What the theorems promise for this run, with their premises checked on it."""
        return certify(self)

    def raise_for_status(self) -> Run:
        """Return the run, or raise Diverged if it did."""
        if self.status is Status.DIVERGED:
            raise Diverged(
                f"The run diverged with step {self.step:.3g}.",
                remedy="Use a smaller step, or step=None to have one chosen; "
                "cap the weight of PointOnly wills.",
            )
        return self

    def __repr__(self) -> str:
        changes = f", changes={len(self.changes)}" if self.changes else ""
        end = "" if self.trajectory.error is None else f", error={self.trajectory.error[-1]:.3g}"
        return (
            f"Run({self.status}, rounds={self.rounds}, survivors={len(self.survivors)}, "
            f"departures={len(self.departures)}{changes}{end})"
        )
