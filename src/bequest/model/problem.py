"""The losses of all nodes together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import directions, minimise
from bequest.core.arrays import frozen, refuse_masked
from bequest.core.legacy import Legacy
from bequest.errors import DimensionMismatch, InvalidObjective, OptimumUnknown
from bequest.model.objectives.base import Objective, Stack, check_formulas

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Vector

# Up to this dimension Newton steps factor the Hessian; beyond, conjugate gradients.
_DENSE_DIM = 1500
# How many Newton steps a minimiser usually takes: of a quadratic, which is refined, and otherwise.
_REFINEMENTS, _USUAL_STEPS = 3, 10
# Where Hessians are differences of gradients: more steps than these only follow their noise.
_MOST_BY_DIFFERENCES = 60
COMPUTE = 'Pass optimum="always" to have it computed at any cost, or go by run.trajectory.'


class Problem:
    """Minimise sum f_i(x) over nodes 0..n-1, node i holding ``objectives[i]``.

    Losses of one family are evaluated in one array operation; mixed ones family by family.

    ``away`` are the nodes whose data are on their hosts (``Loaded``). If there are any, what needs
    all data in one place, such as the optimum, is refused, even if they happen to be loaded here.

    Paper: eq:problem.

    >>> from bequest.model.objectives import Quadratic
    >>> problem = Problem([Quadratic([[1.0]], [0.0]), Quadratic([[3.0]], [4.0])])
    >>> problem.optimum(), problem.heterogeneity()
    (array([3.]), array([3., 3.]))
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        members = list(objectives)
        if not members:
            raise InvalidObjective(
                "A problem without objectives has no nodes.", remedy="Pass at least one objective."
            )
        for node, member in enumerate(members):
            if not isinstance(member, Objective):
                raise InvalidObjective(
                    f"Objective {node} is a {type(member).__name__}.",
                    remedy="Pass Quadratic, Logistic, ..., or wrap a callable in Function.",
                )
            check_formulas(member, f"Objective {node}")
        dims = {member.dim for member in members}
        if len(dims) > 1:
            odd = next(i for i, m in enumerate(members) if m.dim != members[0].dim)
            raise DimensionMismatch(
                f"Objective 0 has dim {members[0].dim}, objective {odd} dim {members[odd].dim}.",
                remedy="All nodes must optimise over the same unknowns.",
            )
        families: dict[object, list[int]] = {}
        for node, member in enumerate(members):
            families.setdefault(member.family, []).append(node)
        self._set(
            [
                (np.array(nodes), members[nodes[0]].stack([members[i] for i in nodes]))
                for nodes in families.values()
            ]
        )

    @classmethod
    def stacked(cls, stack: Stack) -> Problem:
        """Return the problem whose node i holds member i of one stack, without unstacking it."""
        problem = cls.__new__(cls)
        problem._set([(np.arange(stack.shape[0]), stack)])
        return problem

    def _set(self, groups: list[tuple[Indices, Stack]]) -> None:
        self._groups = groups
        self._optimum: Vector | OptimumUnknown | None = None  # or why there is none; None: not yet
        self.n = sum(nodes.size for nodes, _ in groups)
        self.dim = groups[0][1].shape[1]
        a, b, certified = np.empty(self.n), np.empty(self.n), np.ones(self.n, dtype=bool)
        for nodes, stack in groups:
            a[nodes], b[nodes] = stack.curvatures()
            certified[nodes] = stack.certified
        self.a, self.b = frozen(a), frozen(b)
        self.away = _away(groups)
        self.certified = bool(certified.all())

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Problem(n={self.n}, dim={self.dim}, mu={self.mu:.4g}, L={self.L:.4g})"

    @property
    def mu(self) -> float:
        """Min a_i: the strong convexity every node has; 0 in the convex regime (C)."""
        return float(self.a.min())

    @property
    def L(self) -> float:  # noqa: N802 - the paper's letter
        """Max b_i: the smoothness every node has."""
        return float(self.b.max())

    @property
    def kappa(self) -> float:
        """L/mu; infinite in the convex regime (C)."""
        return self.L / self.mu if self.mu > 0 else float("inf")

    @property
    def regime(self) -> str:
        """``"SC"`` where every loss is strongly convex, ``"C"`` otherwise (as:fun)."""
        return "SC" if self.mu > 0 else "C"

    @cached_property
    def _places(self) -> tuple[Indices, Indices]:
        group, row = np.empty(self.n, dtype=int), np.empty(self.n, dtype=int)
        for index, (nodes, _) in enumerate(self._groups):
            group[nodes], row[nodes] = index, np.arange(nodes.size)
        return group, row

    def objective(self, node: int) -> Objective:
        """Return the loss of one node."""
        group, row = self._places
        return self._groups[int(group[node])][1].member(int(row[node]))

    def content(self) -> object:
        """Return what tells this problem from any other: its losses."""
        return [self.objective(node) for node in range(self.n)]

    @property
    def stacks(self) -> list[tuple[list[int], Stack]]:
        """The nodes of each family, and their losses as they are computed with."""
        return [(nodes.tolist(), stack) for nodes, stack in self._groups]

    @cached_property
    def all_nodes(self) -> Ensemble:
        """All nodes, as one ensemble."""
        return Ensemble(self.dim, self._groups, self.away)

    def among(self, nodes: Iterable[int]) -> Ensemble:
        """Return these nodes, in ascending order, as one ensemble."""
        chosen = np.unique(np.fromiter(nodes, dtype=int))
        if chosen.size == self.n:
            return self.all_nodes
        position = np.full(self.n, -1)
        position[chosen] = np.arange(chosen.size)
        groups = []
        for members, stack in self._groups:
            rows = np.flatnonzero(position[members] >= 0)
            if rows.size == members.size:
                groups.append((position[members], stack))
            elif rows.size:
                groups.append((position[members[rows]], stack.take(rows)))
        return Ensemble(self.dim, groups, tuple(i for i in self.away if position[i] >= 0))

    def value(self, x: ArrayLike) -> float:
        """Return sum f_i(x)."""
        self._refuse_if_away("value")
        return float(self.all_nodes.values(self._everywhere(x)).sum())

    def gradient(self, x: ArrayLike) -> Vector:
        """Return the gradient of sum f_i at x."""
        self._refuse_if_away("gradient")
        total: Vector = self.all_nodes.gradients(self._everywhere(x)).sum(axis=0)
        return total

    def _refuse_if_away(self, what: str) -> None:
        if self.away:
            raise InvalidObjective(
                f"{_on_hosts(self.away)} The {what} of the sum takes those of all nodes.",
                remedy=f"Ask every node on its host: problem.objective(i).{what}(x).",
            )

    def _everywhere(self, x: ArrayLike) -> Matrix:
        refuse_masked(x, "x")
        point = np.asarray(x, dtype=float)
        if point.shape != (self.dim,):
            raise DimensionMismatch(
                f"x has shape {point.shape}, but this problem has dim {self.dim}.",
                remedy=f"Pass a vector of length {self.dim}.",
            )
        return np.broadcast_to(point, (self.n, self.dim))

    def optimum(self, *, work: float | None = None) -> Vector:
        """Return x* = argmin of the full sum, to 1e-12; raises OptimumUnknown if there is none.

        It is not known either where data are on their hosts.

        Where minimisers form a set (regime (C)), the one closest to the origin for quadratics,
        and one close to it otherwise.

        Args:
            work: about how many multiplications it may take; by default as many as it needs. It
                takes none where x* was computed before.
        """
        if self._optimum is None:
            try:
                self._optimum = frozen(self.all_nodes.minimiser(Legacy.zero(self.dim), work=work))
            except OptimumUnknown as error:
                if work is not None:
                    raise  # more of it may find x*
                self._optimum = error  # looking for it in vain is as dear as finding it
        if isinstance(self._optimum, OptimumUnknown):
            raise OptimumUnknown(self._optimum.what, remedy=self._optimum.remedy)
        return self._optimum

    def quadratic_growth(self) -> float:
        """Return nu with F(x) - F* >= nu/2 dist(x, X*)^2, or 0 where none is known.

        The sum of the a_i in regime (SC); in regime (C) the smallest eigenvalue above zero where
        the Hessian is constant.

        Paper: prop:certC.
        """
        if float(self.a.sum()) > 0:
            return float(self.a.sum())
        if not all(stack.constant_hessian for _, stack in self._groups):
            return 0.0
        eigenvalues = np.linalg.eigvalsh(self.all_nodes.total_hessian(np.zeros(self.dim)))
        positive = eigenvalues[eigenvalues > eigenvalues[-1] * self.dim * 1e-14]
        return float(positive[0]) if positive.size else 0.0

    def heterogeneity(self, optimum: ArrayLike | None = None) -> Vector:
        """Return |grad f_i(x*)| per node: how hard each one pulls away from the optimum.

        ``optimum`` is x*; it is computed if it is not given.

        Paper: zeta_i of as:fun.
        """
        at = self.optimum() if optimum is None else optimum
        pulls = self.all_nodes.gradients(self._everywhere(at))
        return np.asarray(np.linalg.norm(pulls, axis=1), dtype=float)


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
            asked = stack.at_hand and not (dear and np.isinf(stack.hessian_work))
            (here if asked else elsewhere).append(stack)
        declared = sum((float(stack.curvatures()[0].sum()) for stack in elsewhere), 0.0)
        if not here or self.dim > _DENSE_DIM:
            return declared / self.size
        hessian = np.sum([stack.total_hessian(x) for stack in here], axis=0)
        if not np.isfinite(hessian).all():
            return 0.0  # the run itself will tell
        return max((float(np.linalg.eigvalsh(hessian)[0]) + declared) / self.size, 0.0)

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
        if self.away:
            raise OptimumUnknown(
                _on_hosts(self.away),
                remedy="Go by what is measured without them, such as the disagreement and the "
                "gradients of run.trajectory.",
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
            descent = directions.dense_descent(hessian, ceiling, blur=self.blur)
            detour = directions.dense_descent(majoriser, ceiling)
        origin = np.zeros(self.dim) if start is None else start
        with np.errstate(over="ignore", invalid="ignore"):
            if all(stack.constant_hessian for stack in stacks):
                return minimise.quadratic(gradient, descent, origin, magnitude, exists=exists)
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


def _away(groups: list[tuple[Indices, Stack]]) -> tuple[int, ...]:
    return tuple(sorted(int(i) for nodes, stack in groups if not stack.at_hand for i in nodes))


def _on_hosts(nodes: tuple[int, ...]) -> str:
    """Return where these nodes' data are, in words."""
    if len(nodes) == 1:
        return f"The data of node {nodes[0]} are on its host."
    named = ", ".join(map(str, nodes[:5])) + (", ..." if len(nodes) > 5 else "")
    return f"The data of nodes {named} are on their hosts."
