"""Steps that shrink as the rounds go on: what stochastic gradients need to come to rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bequest.core.arrays import is_whole
from bequest.core.methods.base import Method, check_method
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Tensor as Array
    from bequest.core.methods.base import Conditions, Local, PerNode, Rows
    from bequest.core.steps import StepChoice


@dataclass(frozen=True)
class Decaying(Method):
    """Another method whose steps are divided by 1 + t/half after t rounds.

    Only how far a node goes against z changes, and every node knows the round: s moves as it did
    before, so that the invariant and the hand-off are those of the method itself.

    Args:
        method: the method.
        half: after how many rounds its steps are half as long.
    """

    method: Method
    half: int

    def __post_init__(self) -> None:
        check_method(self.method)
        if not is_whole(self.half, least=1):
            raise InvalidMethod(
                f"half is {self.half!r}.",
                remedy="Pass after how many rounds steps are half as long: a whole number >= 1.",
            )

    @property
    def label(self) -> str:  # type: ignore[override]
        """That of the method, and after how many rounds its steps are half as long."""
        return f"{self.method.label}, steps halved by round {self.half}"

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
        """The pace of the first rounds."""
        return self.method.given

    def at(self, local: Local, t: int) -> Local:
        """Return what round t goes by: all of it but the coupling shrinks."""
        part = 1.0 / (1.0 + t / self.half)
        inverse = None if local.inverse is None else local.inverse * part
        return replace(local, pace=local.pace * part, step=local.step * part, inverse=inverse)

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
        """Return the pace of the first rounds."""
        return self.method.first_pace(conditions)

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return another pace of the first rounds, to be divided like the one before."""
        return self.method.next_pace(current, conditions, since)

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,
        stiffness: PerNode,
        bound: Callable[[], Array | None],
    ) -> Local:
        """Return what the first rounds would go by."""
        return self.method.localise(pace, own_weight=own_weight, stiffness=stiffness, bound=bound)

    def own_step(self, pace: float, smoothness: float) -> float:
        """Return that of the first rounds."""
        return self.method.own_step(pace, smoothness)
