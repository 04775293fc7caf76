"""The quadratic memory of the departed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Legacy:
    r"""A quadratic in canonical form, q(x) = eta/2 |x|^2 + p'x + c, and whom it remembers.

    Legacies add and subtract exactly, so a node holds ONE inherited quadratic, never a list,
    and an heir that leaves passes on what it inherited without loss.

    Attributes:
        eta: curvature; the Hessian is eta times the identity.
        p: linear term. It is all the vectors a legacy costs, and it reveals neither the anchor
            nor the gradient alone (p = g - eta y).
        c: constant, so that values (and not only gradients) are remembered.
        lineage: original node -> its share; 1 for everybody inside. Shares add and cancel
            like the quadratics do, so that sums and differences stay traceable.

    Paper: eq:legacy, prop:compose.
    Deviates: the paper keeps (y, g, eta) per legacy; the canonical form is equivalent, closed
    under addition, and one vector smaller.

    >>> q = Legacy.anchored(7, anchor=[1.0, 0.0], value=3.0, gradient=[2.0, 2.0], eta=4.0)
    >>> q.value([1.0, 0.0]), q.gradient([1.0, 0.0])
    (3.0, array([2., 2.]))
    >>> (q - q).is_zero, dict((q + Legacy.zero(2)).lineage)
    (True, {7: 1})
    """

    eta: float
    p: Vector
    c: float
    lineage: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", frozen(self.p))
        inside = {node: share for node, share in sorted(self.lineage.items()) if share}
        object.__setattr__(self, "lineage", inside)

    @classmethod
    def zero(cls, dim: int) -> Legacy:
        """Return the neutral element: the memory of nobody."""
        return cls(0.0, np.zeros(dim), 0.0)

    @classmethod
    def anchored(
        cls, node: int, *, anchor: ArrayLike, value: float, gradient: ArrayLike, eta: float
    ) -> Legacy:
        """Return value + gradient'(x - anchor) + eta/2 |x - anchor|^2, in canonical form.

        Paper: eq:legacy.
        """
        y, g = np.asarray(anchor, dtype=float), np.asarray(gradient, dtype=float)
        constant = value - float(g @ y) + eta / 2 * float(y @ y)
        return cls(float(eta), g - eta * y, constant, {node: 1})

    def value(self, x: ArrayLike) -> float:
        """Return q(x)."""
        point = np.asarray(x, dtype=float)
        return float(self.eta / 2 * (point @ point) + self.p @ point + self.c)

    def gradient(self, x: ArrayLike) -> Vector:
        """Return the gradient eta x + p."""
        return np.asarray(self.eta * np.asarray(x, dtype=float) + self.p)

    @property
    def dim(self) -> int:
        """Dimension of the space it lives on."""
        return int(self.p.size)

    @property
    def is_zero(self) -> bool:
        """Whether this is the memory of nobody: no curvature, no slope, no constant, no lineage."""
        return self.eta == 0 and self.c == 0 and not self.p.any() and not self.lineage

    def __add__(self, other: Legacy) -> Legacy:
        lineage = dict(self.lineage)
        for node, share in other.lineage.items():
            lineage[node] = lineage.get(node, 0) + share
        return Legacy(self.eta + other.eta, self.p + other.p, self.c + other.c, lineage)

    def __neg__(self) -> Legacy:
        return Legacy(-self.eta, -self.p, -self.c, {n: -s for n, s in self.lineage.items()})

    def __sub__(self, other: Legacy) -> Legacy:
        return self + -other

    def __repr__(self) -> str:
        inside = ", ".join(map(str, self.lineage)) or "nobody"
        return f"Legacy(of {inside}; eta={self.eta:.4g}, |p|={np.linalg.norm(self.p):.4g})"
