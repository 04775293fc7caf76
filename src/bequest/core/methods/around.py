"""A method around another one: all that it does not change is the other one's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.core.methods.base import Method, check_method

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Tensor as Array
    from bequest.core.methods.base import Conditions, Local, PerNode, Rows
    from bequest.core.steps import StepChoice


@dataclass(frozen=True)
class Around(Method):
    """Another method, as it is.

    Args:
        method: the other one.
    """

    method: Method

    def __post_init__(self) -> None:
        check_method(self.method)

    @property
    def vectors(self) -> int:  # type: ignore[override]
        """As many as the method sends."""
        return self.method.vectors

    @property
    def hears_differences(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.hears_differences

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.is_exact

    @property
    def wants_matrix(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.wants_matrix

    @property
    def given(self) -> float | None:
        """Its pace."""
        return self.method.given

    def at(self, local: Local, t: int) -> Local:
        """Return what round t goes by."""
        return self.method.at(local, t)

    def message(self, x: Rows, z: Rows, local: Local, out: Rows | None = None) -> tuple[Rows, ...]:
        """Return what the method says."""
        return self.method.message(x, z, local, out)

    def advance(
        self,
        x: Rows,
        z: Rows,
        said: tuple[Rows, ...],
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return what the method makes of it."""
        return self.method.advance(x, z, said, heard, local, out)

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return its first pace."""
        return self.method.first_pace(conditions)

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return its next pace."""
        return self.method.next_pace(current, conditions, since)

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,
        stiffness: PerNode,
        bound: Callable[[], Array | None],
    ) -> Local:
        """Return what its rounds go by."""
        return self.method.localise(pace, own_weight=own_weight, stiffness=stiffness, bound=bound)

    def own_step(self, pace: float, smoothness: float) -> float:
        """Return that of the method."""
        return self.method.own_step(pace, smoothness)
