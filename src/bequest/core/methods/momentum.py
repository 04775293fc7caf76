"""Momentum: a node goes on in the direction that it has come from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bequest.core.arrays import hold_as_floats, is_number
from bequest.core.methods.around import Around
from bequest.core.methods.base import Local
from bequest.core.methods.primal_dual import PrimalDual
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Tensor as Array
    from bequest.core.methods.base import Conditions, Method, PerNode, Rows
    from bequest.core.steps import StepChoice


@dataclass(frozen=True, slots=True, eq=False)
class _Rolling(Local):
    """What the method goes by, and how x moved in the round before."""

    moved: list[Array] = field(default_factory=list)


@dataclass(frozen=True)
class Momentum(Around):
    """Another method in which every x also moves on by a part of its last movement (heavy ball).

    x+ is what the method makes of it, plus momentum (x - x before). Only x moves differently: s
    gains what it did, so that the invariant and the hand-off are those of the method itself. The
    movement is a node's own; it is not handed over, and every epoch begins without one, so that
    neither leavers nor checkpoints carry it.

    Args:
        method: ``GradientTracking`` or ``DIGing``, or one of your own. Primal-dual methods
            (NIDS, ADMM, EXTRA, exact diffusion) are refused: their s answers to how x moves, and
            heavy balls make that swing up.
        momentum: the part of the last movement, at least 0 and below 1.

    A step that is chosen is 1 - momentum times that of the method, which goes as far in the end.
    """

    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.method, Momentum):
            raise InvalidMethod(
                "Momentum is given to a method that has it.", remedy="Give it once."
            )
        inner: Method = self.method
        while isinstance(inner, Around):
            inner = inner.method
        if isinstance(inner, PrimalDual):
            raise InvalidMethod(
                f"Momentum is given to {self.method.label}, which it can make diverge.",
                remedy="Use GradientTracking() or DIGing(), or the method without momentum.",
            )
        if not is_number(self.momentum) or not 0 <= self.momentum < 1:
            raise InvalidMethod(
                f"momentum is {self.momentum!r}.", remedy="Use a number from 0 to below 1."
            )
        hold_as_floats(self, "momentum")

    @property
    def label(self) -> str:  # type: ignore[override]
        """That of the method, and how much of its movement goes on."""
        return f"{self.method.label}, momentum {self.momentum:g}"

    def advance(
        self,
        x: Rows,
        z: Rows,
        said: tuple[Rows, ...],
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return what the method makes of it, and a part of the last movement."""
        assert isinstance(local, _Rolling)  # noqa: S101 - as localise made it
        there, kept = super().advance(x, z, said, heard, local, out)
        there = there + self.momentum * local.moved.pop() if local.moved else there.copy()
        local.moved.append(there - x)
        return there, kept

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,
        stiffness: PerNode,
        bound: Callable[[], Array | None],
    ) -> Local:
        """Return what the method goes by, at rest."""
        local = super().localise(pace, own_weight=own_weight, stiffness=stiffness, bound=bound)
        return _Rolling(local.pace, local.step, local.inverse, local.coupling)

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return that of the method, as much shorter as momentum makes it longer."""
        return self._shortened(self.method.first_pace(conditions))

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return another pace, likewise."""
        chosen = self.method.next_pace(current / (1.0 - self.momentum), conditions, since)
        return None if chosen is None else self._shortened(chosen)

    def _shortened(self, choice: StepChoice) -> StepChoice:
        part = 1.0 - self.momentum
        return replace(choice, value=choice.value * part, why=f"{part:.3g} of: {choice.why}")

    def own_step(self, pace: float, smoothness: float) -> float:
        """Return about how far a node goes in the end."""
        return self.method.own_step(pace, smoothness) / (1.0 - self.momentum)
