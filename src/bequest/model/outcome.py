"""What an engine reports: how a run ended, what was measured, and which nodes came and went."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from bequest.model.silo_names import called

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.model.hindsight import Hindsight
    from bequest.model.wills import Bequest, Choice


class Status(StrEnum):
    """How a run ended; a closed set.

    CONVERGED: the survivors agree, and are within 1e-9 of the limit as far as their curvature can
        tell. In regime (C), where it cannot: their gradients cancel in every coordinate. Losses
        coarser than float64 have a larger tolerance.
    UNFINISHED: the rounds were used up before that.
    DIVERGED: the iterates left every bounded region, or were no longer numbers.
    LOST: no node is left, and nothing is remembered.
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
        node: the node that left.
        round: after which round.
        will: the will's title.
        choice: which branch it took, as the will calls it; a certificate goes by the legacy.
        why: in words.
        heir: the node that inherited, or that adopted what a crashed node had left with its
            buddies, or that holds what all others know of it (``choice`` is "recall"); None if
            nothing was handed over, or nothing was left.
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
        lost: the original nodes that no node remembers from now on.
        bridges: edges added to keep the network connected.
        crashed: whether it went without a word.
        checkpoint: after a crash, the round of the checkpoint that its buddy had, also if that
            held no memory of it.
        failed: whether it crashed because its own loss or will failed; ``why`` says how.
        exact_handoff: whether the hand-off keeps the tracking invariant; only an ablation's does
            not.
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
    bridges: tuple[tuple[int, int], ...]
    crashed: bool = False
    checkpoint: int | None = None
    failed: bool = False
    exact_handoff: bool = True

    @classmethod
    def of_farewell(
        cls,
        node: int,
        round_: int,
        bequest: Bequest,
        hindsight: Hindsight,
        *,
        will: str,
        heir: int | None,
        sent: tuple[float, int],
        x: Vector,
        passed_on: tuple[int, ...],
        blur: Legacy | None,
        lost: tuple[int, ...],
        bridges: tuple[tuple[int, int], ...],
    ) -> DepartureRecord:
        """Return the record of a departure in good order; ``sent`` is (vectors, bytes)."""
        return cls(
            node=node,
            round=round_,
            will=will,
            **_decided(node, bequest, hindsight),
            heir=heir,
            vectors=sent[0],
            bytes=sent[1],
            x=x,
            legacy=bequest.legacy,
            passed_on=passed_on,
            blur=blur,
            lost=lost,
            bridges=bridges,
        )

    @classmethod
    def of_crash(
        cls,
        node: int,
        round_: int,
        bequest: Bequest,
        hindsight: Hindsight,
        *,
        will: str,
        adopter: int | None,
        own: Legacy,
        inherited: Legacy,
        x: Vector,
        lost: tuple[int, ...],
        bridges: tuple[tuple[int, int], ...],
        checkpoint: int | None,
        failure: str | None = None,
    ) -> DepartureRecord:
        """Return the record of a crash.

        ``own`` is the memory of the node's own loss in the checkpoint, ``inherited`` what the node
        had inherited; zero where there is none. ``failure`` is why the node could not go on.
        """
        decided = _decided(node, bequest, hindsight)
        if failure is not None:
            decided["why"] = failure
        return cls(
            node=node,
            round=round_,
            will=will,
            **decided,
            heir=None if own.is_zero and inherited.is_zero else adopter,
            vectors=own.vectors + inherited.vectors,
            bytes=own.nbytes + inherited.nbytes,
            x=x,
            legacy=None if own.is_zero else own,
            passed_on=tuple(inherited.lineage),
            blur=None,
            lost=lost,
            bridges=bridges,
            crashed=True,
            checkpoint=checkpoint,
            failed=failure is not None,
        )

    def with_names(self, names: tuple[str, ...]) -> NamedDeparture:
        """Return the same of nodes that have names."""
        told = {field.name: getattr(self, field.name) for field in fields(DepartureRecord)}
        return NamedDeparture(**told, names=names)

    def _called(self, node: int) -> str:
        return called(node, ())

    def __str__(self) -> str:
        went = ("failed" if self.failed else "crashed") if self.crashed else "left"
        heir = None if self.heir is None else self._called(self.heir)
        if not self.crashed:
            to = f"to {heir}" if heir is not None else "to no node"
        elif heir is None:
            to = "adopted by no node"
        elif self.choice == "recall":
            to = f"its slope remembered by {heir}"
        elif self.node not in self.lost:
            to = f"its checkpoint of round {self.checkpoint} adopted by {heir}"
        else:
            to = f"what it had inherited adopted by {heir}, its own loss by none"
        return (
            f"{self._called(self.node)} {went} after round {self.round}, {to}: "
            f"{self.choice} ({self.why}); "
            f"{self.vectors:g} vector{'' if self.vectors == 1 else 's'}, {self.bytes} bytes"
        )


@dataclass(frozen=True, slots=True, eq=False)
class NamedDeparture(DepartureRecord):
    """What happened when a silo left that has a name; ``names`` are those of all nodes."""

    names: tuple[str, ...] = ()

    @property
    def silo(self) -> str:
        """What the node that left is called."""
        return self.names[self.node]

    @property
    def heir_silo(self) -> str | None:
        """What its heir is called; None if there is none."""
        return None if self.heir is None else self.names[self.heir]

    def _called(self, node: int) -> str:
        return called(node, self.names)


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """What happened when a node returned, joined or was forgotten.

    Attributes:
        kind: which of them.
        node: the node.
        round: after which round.
        holder: the node that remembered it until then; None if no node did.
        sponsor: the node at whose iterate it began; None for a node that is forgotten.
        neighbours: the nodes it talks to from then on.
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
        why = _why(kind, holder, sponsor, (), exact=exact)
        return cls(kind, node, round_, holder, sponsor, neighbours, exact, why)

    def with_names(self, names: tuple[str, ...]) -> NamedChange:
        """Return the same of nodes that have names."""
        told = {field.name: getattr(self, field.name) for field in fields(ChangeRecord)}
        told["why"] = _why(self.kind, self.holder, self.sponsor, names, exact=self.exact)
        return NamedChange(**told, names=names)

    def _called(self, node: int) -> str:
        return called(node, ())

    def __str__(self) -> str:
        went = {"return": "returned", "join": "joined", "forget": "was forgotten"}[self.kind]
        return f"{self._called(self.node)} {went} after round {self.round}: {self.why}"


@dataclass(frozen=True, slots=True)
class NamedChange(ChangeRecord):
    """What happened when a silo that has a name returned, joined or was forgotten."""

    names: tuple[str, ...] = ()

    @property
    def silo(self) -> str:
        """What the node is called."""
        return self.names[self.node]

    def _called(self, node: int) -> str:
        return called(node, self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What an engine reports; see the properties of ``Run`` for each field."""

    status: Status
    trajectory: Trajectory
    departures: tuple[DepartureRecord, ...]
    changes: tuple[ChangeRecord, ...]
    survivors: tuple[int, ...]
    x: Matrix
    inherited: Mapping[int, Legacy]
    lost: tuple[int, ...]
    steps: tuple[StepChoice, ...]


def _why(
    kind: Literal["return", "join", "forget"],
    holder: int | None,
    sponsor: int | None,
    names: tuple[str, ...],
    *,
    exact: bool,
) -> str:
    """Return a change in words."""
    if kind == "forget":
        why = "no node remembered it"
        if holder is not None:
            why = f"{called(holder, names)} erased its memory"
    else:
        at = "no node" if sponsor is None else called(sponsor, names)
        why = f"it begins at the iterate of {at}"
    if kind == "return":
        why += ", " + (
            "and no node remembered it" if holder is None else "which gave its memory back"
        )
    if not exact:
        why += "; as it was compressed together with others, something of it remains"
    return why


def _decided(node: int, bequest: Bequest, hindsight: Hindsight) -> dict[str, Any]:
    """Return the fields of a departure's record that say what was decided, and how well."""
    return {
        "choice": bequest.choice,
        "why": bequest.why,
        "bounds": dict(bequest.bounds),
        "predicted": dict(bequest.predicted),
        "hindsight": hindsight.displacements(node, bequest.branches),
        "anchor": bequest.anchor,
    }
