"""Steps that shrink as the rounds go on: what stochastic gradients need to come to rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bequest.core.arrays import is_whole
from bequest.core.methods.around import Around
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from bequest.core.methods.base import Local


@dataclass(frozen=True)
class Decaying(Around):
    """Another method whose steps are divided by 1 + t/half after t rounds.

    Only how far a node goes against z changes, and every node knows the round: s moves as it did
    before, so that the invariant and the hand-off are those of the method itself.

    Args:
        method: the method.
        half: after how many rounds its steps are half as long.
    """

    half: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.half, least=1):
            raise InvalidMethod(
                f"half is {self.half!r}.",
                remedy="Pass after how many rounds steps are half as long: a whole number >= 1.",
            )

    @property
    def label(self) -> str:  # type: ignore[override]
        """That of the method, and after how many rounds its steps are half as long."""
        return f"{self.method.label}, steps halved by round {self.half}"

    def at(self, local: Local, t: int) -> Local:
        """Return what round t goes by: all of it but the coupling shrinks."""
        part = 1.0 / (1.0 + t / self.half)
        inverse = None if local.inverse is None else local.inverse * part
        return replace(local, pace=local.pace * part, step=local.step * part, inverse=inverse)
