"""Some nodes' losses, evaluated together, and the minimiser of their sum."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import directions, minimise
from bequest.core.legacy import Legacy
from bequest.errors import OptimumUnknown
from bequest.model.objectives.base import Objective
from bequest.model.objectives.loaded import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.model.objectives.base import Stack

# Up to this dimension Newton steps factor the Hessian; beyond, conjugate gradients.
_DENSE_DIM = 1500
# Less than this part of the largest component of a gradient is rounding.
_NO_PART = 1e-8
# How many Newton steps a minimiser usually takes: of a quadratic, which is refined, and otherwise.
_REFINEMENTS, _USUAL_STEPS = 3, 10
# Where Hessians are differences of gradients: more steps than these only follow their noise.
_MOST_BY_DIFFERENCES = 60
# What a node may spend on the minimiser of its own loss, once: tens of milliseconds.
_AFFORDABLE = 1e9
COMPUTE = (
    'Pass optimum="always" to have it computed at any cost, or go by run.trajectory; '
    "run.limit_error computes it now."
)


class Ensemble:
    """Some nodes' losses, evaluated together; row j of every argument belongs to the j-th one.

    ``away`` are the nodes among them whose data are on their hosts.
    """

    def __init__(
        self, dim: int, groups: list[tuple[Indices, Stack]], away: tuple[int, ...] = ()
    ) -> None:
        self.dim, self.away = dim, away
        self.size = sum(rows.size for rows, _ in groups)
        self._groups = groups
        # One family in its own order, the usual case, needs no gathering of rows.
        self._whole = groups[0][1] if len(groups) == 1 else None

    def write_gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_j(x_j) into row j of ``out``."""
        if self._whole is not None:
            self._whole.gradients(X, out)
            return
        for rows, stack in self._groups:
            part = np.empty((rows.size, self.dim))
            stack.gradients(X[rows], part)
            out[rows] = part

    def gradients(self, X: Matrix) -> Matrix:
        """Return grad f_j(x_j), one row each."""
        out = np.empty((self.size, self.dim))
        self.write_gradients(np.ascontiguousarray(X), out)
        return out

    def values(self, X: Matrix) -> Vector:
        """Return f_j(x_j) for every node."""
        out = np.empty(self.size)
        for rows, stack in self._groups:
            out[rows] = stack.values(X[rows])
        return out

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products H_j(x_j) v_j."""
        out = np.empty((self.size, self.dim))
        for rows, stack in self._groups:
            out[rows] = stack.products(np.ascontiguousarray(X[rows]), np.ascontiguousarray(V[rows]))
        return out

    def bounds(self) -> Tensor:
        """Return, per node, a matrix that no Hessian of its loss exceeds."""
        out = np.empty((self.size, self.dim, self.dim))
        for rows, stack in self._groups:
            out[rows] = stack.bounds()
        return out

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the Hessian of the sum at x."""
        total: Matrix = np.sum([stack.total_hessian(x) for _, stack in self._groups], axis=0)
        return total

    @property
    def precision(self) -> float:
        """The relative rounding of values and gradients, the coarsest among the nodes."""
        return max(stack.precision for _, stack in self._groups)

    @property
    def blur(self) -> float:
        """How far off ``total_hessian`` is, as a part of its largest entry."""
        return max(stack.blur for _, stack in self._groups)

    @property
    def gradient_work(self) -> float:
        """About how many multiplications the gradients of all nodes take."""
        return sum(stack.gradient_work for _, stack in self._groups)

    def smallest_mean_curvature(self, x: Vector, *, gradients: float = np.inf) -> float:
        """Return the smallest eigenvalue of the mean Hessian at x; 0 if it is too large to form.

        A loss counts with the lower end of its declared curvature, so that the result is a lower
        bound, if its data are on its host; or if it has no formula for its Hessian, and differences
        would take more than ``gradients`` gradients of it.
        """
        dear = 2 * self.dim > gradients
        here: list[Stack] = []
        elsewhere: list[Stack] = []
        for _, stack in self._groups:
            isotropic = np.array_equal(*stack.curvatures())  # its range is all there is to know
            asked = stack.at_hand and not isotropic and not (dear and np.isinf(stack.hessian_work))
            (here if asked else elsewhere).append(stack)
        declared = sum((float(stack.curvatures()[0].sum()) for stack in elsewhere), 0.0)
        if not here or self.dim > _DENSE_DIM:
            return max(declared / self.size, 0.0)
        hessian = np.sum([stack.total_hessian(x) for stack in here], axis=0)
        if not np.isfinite(hessian).all():
            return 0.0  # the run itself will tell
        return max((float(np.linalg.eigvalsh(hessian)[0]) + declared) / self.size, 0.0)

    def smallest_mean_bound(self, starts: Matrix) -> float:
        """Return the smallest eigenvalue of the mean of ``bounds``, of directions that matter.

        In the others no node's gradient has a part where they start, nor does any start differ: a
        model that is the same in such directions, as a softmax is when all classes gain alike,
        never moves along them.
        """
        away = starts - starts.mean(axis=0)
        gradients = self.gradients(np.tile(starts.mean(axis=0), (self.size, 1)))
        mean = self.bounds().mean(axis=0)
        if not (np.isfinite(mean).all() and np.isfinite(gradients).all()):
            return 0.0  # the run itself will tell
        values, basis = np.linalg.eigh(mean)
        parts = [np.abs(rows @ basis).max(axis=0) for rows in (gradients, away) if rows.any()]
        matters = [part > _NO_PART * part.max() for part in parts]
        some = np.any(matters, axis=0) if matters else np.ones(self.dim, dtype=bool)
        return max(float(values[some][0]), 0.0)

    def minimiser(
        self, legacy: Legacy, start: Vector | None = None, *, work: float | None = None
    ) -> Vector:
        """Return argmin of sum f_j + legacy, to 1e-12 of its length where its condition allows.

        No coordinate of the gradient is more than rounding beside the terms it is the sum of,
        at any scale of the features.

        Args:
            legacy: a quadratic that counts, too.
            start: where to begin to look for it; the origin by default.
            work: about how many multiplications it may take; by default as many as it needs.

        Raises:
            OptimumUnknown: there is none, it was not found to that accuracy, it takes more work, or
                it takes data that are on their hosts.
        """
        if legacy.samples:
            return self._with(legacy).minimiser(replace(legacy, samples=()), start, work=work)
        if self.away:
            raise OptimumUnknown(
                on_hosts(self.away),
                remedy="Go by what is measured without them, such as the disagreement and the "
                "gradients of run.trajectory.",
            )

        if any(float(stack.curvatures()[0].min()) < 0 for _, stack in self._groups):
            raise OptimumUnknown(
                "Some losses are not convex: their sum has no minimiser that could be told from a "
                "mere valley.",
                remedy="Go by what is measured, such as run.trajectory and the accuracy of "
                "run.model.",
            )
        formulas = all(np.isfinite(stack.hessian_work) for _, stack in self._groups)
        most = minimise.MAX_STEPS if formulas else _MOST_BY_DIFFERENCES
        steps = most if work is None else self._steps_within(work)

        def everywhere(x: Vector) -> Matrix:
            return np.broadcast_to(x, (self.size, self.dim))

        def value(x: Vector) -> float:
            return float(self.values(everywhere(x)).sum()) + legacy.value(x)

        def gradient(x: Vector) -> Vector:
            total: Vector = self.gradients(everywhere(x)).sum(axis=0) + legacy.gradient(x)
            return total

        def magnitude(x: Vector, scale: Vector) -> Vector:
            bent = np.abs(legacy.weights) * (np.abs(legacy.factor.T) @ np.abs(x))
            inherited = abs(legacy.eta) * np.abs(x) + np.abs(legacy.factor) @ bent
            own = np.sum([stack.terms(x, scale) for _, stack in self._groups], axis=0)
            total: Vector = own + inherited + np.abs(legacy.p)
            return total

        def hessian(x: Vector) -> Matrix:
            return self.total_hessian(x) + legacy.hessian()

        def majoriser(x: Vector) -> Matrix:
            roofs = [stack.total_majoriser(x) for stack in stacks]
            return np.asarray(np.sum(roofs, axis=0) + legacy.hessian())

        def roots(x: Vector) -> Iterator[Matrix] | None:
            parts = [stack.roots(x) for stack in stacks]
            if (legacy.weights < 0).any() or any(part is None for part in parts):
                return None
            inherited = np.vstack(
                [
                    np.sqrt(legacy.eta) * np.eye(self.dim),
                    (legacy.factor * np.sqrt(legacy.weights)).T,
                ]
            )
            return chain(*(part for part in parts if part is not None), [inherited])

        def product(x: Vector, v: Vector) -> Vector:
            bent: Vector = self.products(everywhere(x), everywhere(v)).sum(axis=0)
            return bent + legacy.product(v)

        stacks = [stack for _, stack in self._groups]
        least = sum(float(stack.curvatures()[0].sum()) for stack in stacks) + legacy.curvature[0]
        # strongly convex, or quadratic in pieces, but for rounding
        tilted = legacy.p.any() or legacy.curvature != (0.0, 0.0)
        exists = least > 0 or (not tilted and all(stack.attains for stack in stacks))
        ceiling = np.sum([stack.ceiling() for stack in stacks], axis=0)
        ceiling += legacy.eta + legacy.factor**2 @ legacy.weights
        descent, detour = directions.product_descent(product, ceiling), None
        if self.dim <= _DENSE_DIM:
            descent = directions.dense_descent(hessian, ceiling, blur=self.blur, roots=roots)
            detour = directions.dense_descent(majoriser, ceiling)
        origin = np.zeros(self.dim) if start is None else start
        with np.errstate(over="ignore", invalid="ignore"):
            if all(stack.constant_hessian for stack in stacks):
                return minimise.quadratic(
                    value, gradient, descent, origin, magnitude, exists=exists
                )
            return minimise.newton(
                value,
                gradient,
                descent,
                origin,
                magnitude,
                detour=detour,
                exists=exists,
                steps=steps,
                precision=self.precision,
            )

    def _with(self, legacy: Legacy) -> Ensemble:
        """Return these losses and those of points that a memory has drawn.

        Raises:
            OptimumUnknown: some of them are not there, or only taken out of others.
        """
        parts = [part.loss for part in legacy.samples if part.sign > 0]
        if len(parts) < len(legacy.samples) or not all(isinstance(p, Objective) for p in parts):
            raise OptimumUnknown(
                "What the survivors minimise holds samples that cannot be evaluated here.",
                remedy="Go by what is measured, such as run.trajectory.",
            )
        stacks = [p.alone for p in parts if isinstance(p, Objective)]
        added = [(np.array([self.size + k]), stack) for k, stack in enumerate(stacks)]
        return Ensemble(self.dim, [*self._groups, *added], self.away)

    def _steps_within(self, work: float) -> int:
        """Return how many Newton steps take about that much work.

        Raises:
            OptimumUnknown: too few of them to find a minimiser.
        """
        each = sum(stack.hessian_work for _, stack in self._groups)
        if not np.isfinite(each):
            raise OptimumUnknown(
                "x* was not computed: losses without formulas would have to be asked for many "
                "gradients.",
                remedy=COMPUTE,
            )
        if self.dim <= _DENSE_DIM:
            each += self.dim**3 / 3
        else:  # conjugate gradients: a product, as dear as two gradients, per unknown
            each = 2 * self.dim * self.gradient_work
        constant = all(stack.constant_hessian for _, stack in self._groups)
        if (_REFINEMENTS if constant else _USUAL_STEPS) * each > work:
            raise OptimumUnknown(
                "x* was not computed: with this many unknowns and samples it would take a good "
                "part of the time of the run.",
                remedy=COMPUTE,
            )
        return int(work / each)


def own_minimiser(
    objective: Objective, at: Vector | None = None, pull: float = 0.0
) -> Vector | None:
    """Return the minimiser of one loss, or None if there is none or it takes too much work.

    Of the loss and pull/2 |x - at|^2, where that is given. Only the decision of a will asks, on the
    host of the loss, which is loaded there.
    """
    loss = objective.load() if isinstance(objective, Loaded) else objective
    alone = Ensemble(loss.dim, [(np.array([0]), loss.stack([loss]))])
    held = Legacy.zero(loss.dim) if at is None else Legacy(pull, -pull * at, 0.0)
    try:
        return alone.minimiser(held, at, work=_AFFORDABLE)
    except OptimumUnknown:
        return None


def on_hosts(nodes: tuple[int, ...]) -> str:
    """Return where these nodes' data are, in words."""
    if len(nodes) == 1:
        return f"The data of node {nodes[0]} are on its host."
    named = ", ".join(map(str, nodes[:5])) + (", ..." if len(nodes) > 5 else "")
    return f"The data of nodes {named} are on their hosts."
