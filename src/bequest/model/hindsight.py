"""What an all-knowing judge says about a decision, after it was taken."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import directions
from bequest.core.arrays import norm

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.model.optima import Optima
    from bequest.model.problem import Problem
    from bequest.model.wills import Choice

# Beyond this dimension judging a decision would cost more than the run.
_LARGEST = 500


class Hindsight:
    """How far each branch of a decision moves the optimum, to first order around x*.

    ``counted`` are the nodes whose optimum x* is, from the end of the round ``target`` on.
    """

    def __init__(
        self, problem: Problem, counted: Collection[int], optima: Optima, target: int
    ) -> None:
        self._problem, self._counted = problem, counted
        self._optima, self._target = optima, target

    def displacements(
        self, node: int, branches: Mapping[Choice, Legacy | None]
    ) -> dict[Choice, float]:
        """Return |(sum H - H_i + H~)^-1 (grad q - grad f_i)(x*)| of every branch (None: no q).

        Exact for quadratics: it is the distance between x* and the minimiser of the sum in which
        f_i is replaced by q.
        """
        if not branches or self._problem.dim > _LARGEST or self._optimum is None:
            return {}
        loss = self._problem.objective(node)
        found: dict[Choice, float] = {}
        for choice, legacy in branches.items():
            rest = self._total - loss.hessian(self._optimum)
            push = -loss.gradient(self._optimum)
            if legacy is not None:
                rest, push = rest + legacy.hessian(), push + legacy.gradient(self._optimum)
            found[choice] = norm(directions.pseudo_solve((rest + rest.T) / 2, push))
        return found

    @cached_property
    def _optimum(self) -> Vector | None:
        return self._optima.at(self._target)

    @cached_property
    def _total(self) -> Matrix:
        assert self._optimum is not None  # noqa: S101 - checked by the only caller
        return np.asarray(self._problem.among(self._counted).total_hessian(self._optimum))
