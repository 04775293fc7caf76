"""The target of a run: x* of the nodes whose losses count, computed when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from bequest.core.arrays import frozen, refuse_masked
from bequest.core.legacy import Legacy
from bequest.errors import DimensionMismatch, InvalidMethod, NotFinite, OptimumUnknown
from bequest.model.ensemble import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Vector
    from bequest.model.problem import Problem

    # what a user can say about x*
    Wanted: TypeAlias = Literal["auto", "always"] | ArrayLike | None

# What x* may cost without being asked for: a tenth of the run's own arithmetic, or this many
# multiplications (about a second) if that is more.
_FRACTION = 0.1
_AFFORDABLE = 1e10


class Optima:
    """The optima that a run aims at: x* of the nodes whose losses count, from round to round.

    They move when a node joins or is forgotten. A run only measures distances to them, so they
    are computed when they are first asked for, and only if they are cheap.

    Args:
        problem: all losses.
        counted: round -> the nodes whose losses make up the target from its end on; 0 is the start.
        wanted: ``"auto"`` computes them where losses have formulas and the arithmetic takes a
            small part of the run's; ``"always"`` at any cost; None does not compute them; a
            vector is x* itself.
        rounds: how long the run is.

    Raises:
        DimensionMismatch, NotFinite: the vector is no point of this problem.
        InvalidMethod: a single vector is given, but the target moves; or something else is.
    """

    def __init__(
        self,
        problem: Problem,
        counted: Mapping[int, frozenset[int]],
        wanted: Wanted = "auto",
        *,
        rounds: int = 0,
    ) -> None:
        self._problem, self._counted = problem, dict(counted)
        self._known: dict[int, Vector] | OptimumUnknown | None = None
        self.given: Vector | None = None
        self.how = wanted if isinstance(wanted, str) or wanted is None else "given"
        self._work: float | None = None
        if isinstance(wanted, str):
            if wanted not in ("auto", "always"):
                raise InvalidMethod(
                    f"optimum is {wanted!r}.", remedy='Use "auto", "always", None, or a vector.'
                )
            if wanted == "auto":
                share = _FRACTION * rounds * problem.all_nodes.gradient_work
                self._work = max(share, _AFFORDABLE)
        elif wanted is None:
            self._known = OptimumUnknown("x* was not computed: optimum=None.", remedy=COMPUTE)
        else:
            self.given = _point(wanted, problem.dim)
            if len(self._counted) > 1:
                moved = min(t for t in self._counted if t)
                raise InvalidMethod(
                    f"optimum is one vector, but the target moves after round {moved}: a node "
                    "joins, or is forgotten.",
                    remedy='Use optimum="auto", "always", or None.',
                )
            self._known = {0: self.given}

    def at(self, t: int) -> Vector | None:
        """Return x* as it is after round t and what happens at its end; None if not known."""
        known = self.known
        return None if known is None else known[max(since for since in known if since <= t)]

    @property
    def known(self) -> Mapping[int, Vector] | None:
        """Round -> x* from its end on; None if one of them is not known."""
        if self._known is None:
            try:
                self._known = self._computed(self._work)
            except OptimumUnknown as error:
                self._known = error
        return None if isinstance(self._known, OptimumUnknown) else self._known

    @property
    def unknown(self) -> OptimumUnknown:
        """Why they are not known."""
        assert self.known is None  # noqa: S101 - asked only then
        assert isinstance(self._known, OptimumUnknown)  # noqa: S101 - likewise
        return OptimumUnknown(self._known.what, remedy=self._known.remedy)

    def ask(self) -> Mapping[int, Vector]:
        """Return round -> x* from its end on, at any cost.

        Raises:
            OptimumUnknown: there is none, it cannot be found, or data are on their hosts.
        """
        known = self.known
        return self._computed(None) if known is None else known

    def demand(self) -> None:
        """Compute them now, at any cost, for a will that needs them.

        Raises:
            OptimumUnknown: as for ``ask``; or they are not wanted.
        """
        if self._known is None:
            self._known = dict(self._computed(None))
        if isinstance(self._known, OptimumUnknown):
            raise self.unknown

    def _computed(self, work: float | None) -> dict[int, Vector]:
        problem, found = self._problem, {}
        for t, nodes in self._counted.items():
            try:
                found[t] = (
                    problem.optimum(work=work)
                    if len(nodes) == problem.n
                    else frozen(problem.among(nodes).minimiser(Legacy.zero(problem.dim), work=work))
                )
            except OptimumUnknown as error:
                if len(self._counted) == 1:
                    raise
                what = f"Of the nodes that count after round {t}: {error.what}"
                raise OptimumUnknown(what, remedy=error.remedy) from error
        return found


def _point(given: ArrayLike, dim: int) -> Vector:
    remedy = f'Pass a vector of length {dim}, "auto", "always", or None.'
    refuse_masked(given, "optimum")
    try:
        if np.iscomplexobj(given):
            raise TypeError("complex numbers")
        point = frozen(given)
    except (TypeError, ValueError) as error:
        raise DimensionMismatch("optimum is not a vector of numbers.", remedy=remedy) from error
    if point.shape != (dim,):
        raise DimensionMismatch(f"optimum has shape {point.shape}.", remedy=remedy)
    if not np.isfinite(point).all():
        raise NotFinite("optimum holds NaN or infinite entries.", remedy="Use finite numbers.")
    return point
