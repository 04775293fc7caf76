"""The losses of all nodes together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen, refuse_masked
from bequest.core.legacy import Legacy
from bequest.errors import DimensionMismatch, InvalidObjective, OptimumUnknown
from bequest.model.ensemble import Ensemble, on_hosts
from bequest.model.objectives.base import Objective, Stack, check_formulas
from bequest.model.objectives.network import Network
from bequest.model.objectives.samples import batches
from bequest.model.silo_names import checked_names, on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Vector


class Problem:
    """Minimise sum f_i(x) over nodes 0..n-1, node i holding ``objectives[i]``.

    Losses of one family are evaluated in one array operation; mixed ones family by family.

    ``away`` are the nodes whose data are on their hosts (``Loaded``). If there are any, what needs
    all data in one place, such as the optimum, is refused, even if they happen to be loaded here.

    ``names`` are what the nodes are called, one per node, if they are called anything: events and
    wills may then say who is meant by name, and records do. By default they are those of the silos
    (``bequest.torch.Silo(..., name="oslo")``), if these have some.

    Paper: eq:problem.

    >>> from bequest.model.objectives import Quadratic
    >>> problem = Problem([Quadratic([[1.0]], [0.0]), Quadratic([[3.0]], [4.0])])
    >>> problem.optimum(), problem.heterogeneity()
    (array([3.]), array([3., 3.]))
    """

    def __init__(self, objectives: Sequence[Objective], *, names: Sequence[str] = ()) -> None:
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
        names = checked_names(names, len(members)) or checked_names(
            _own_names(members), len(members)
        )
        dims = {member.dim for member in members}
        if len(dims) > 1:
            odd = next(i for i, m in enumerate(members) if m.dim != members[0].dim)
            raise DimensionMismatch(
                f"Objective {_told(0, names)} has dim {members[0].dim}, objective "
                f"{_told(odd, names)} dim {members[odd].dim}.",
                remedy="All nodes must optimise over the same unknowns.",
            )
        _check_models(members, names)
        families: dict[object, list[int]] = {}
        for node, member in enumerate(members):
            families.setdefault(member.family, []).append(node)
        self._set(
            [
                (np.array(nodes), members[nodes[0]].stack([members[i] for i in nodes]))
                for family in families.values()
                for batch in batches([members[i] for i in family])
                for nodes in [[family[place] for place in batch]]
            ],
            names,
        )

    @classmethod
    def stacked(cls, stack: Stack) -> Problem:
        """Return the problem whose node i holds member i of one stack, without unstacking it."""
        problem = cls.__new__(cls)
        problem._set([(np.arange(stack.shape[0]), stack)])
        return problem

    def _set(self, groups: list[tuple[Indices, Stack]], names: Sequence[str] = ()) -> None:
        self._groups = groups
        self._optimum: Vector | OptimumUnknown | None = None  # or why there is none; None: not yet
        self.n = sum(nodes.size for nodes, _ in groups)
        self.names = checked_names(names, self.n)
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
    def is_stochastic(self) -> bool:
        """Whether the rounds of some node take a few of its samples each."""
        return any(stack.is_stochastic for _, stack in self._groups)

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
        """``"SC"`` where every loss is strongly convex, ``"C"`` where all are convex (as:fun).

        ``"N"`` where one is not.
        """
        return "SC" if self.mu > 0 else "C" if self.mu == 0 else "N"

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
                f"{on_hosts(self.away)} The {what} of the sum takes those of all nodes.",
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


def _own_names(members: list[Objective]) -> tuple[str, ...]:
    """Return the names that the losses came with, or none."""
    found = [member.name if isinstance(member, Network) else None for member in members]
    names = tuple(name for name in found if name is not None)
    if names and len(names) < len(found):
        raise InvalidObjective(
            f"Objective {found.index(None)} has no name, but another is called "
            f"{on_one_line(names[0])}.",
            remedy="Give all silos a name or none, or pass Problem(names=...).",
        )
    return names


def _told(node: int, names: Sequence[str]) -> str:
    return on_one_line(names[node]) if names else str(node)


def _check_models(members: list[Objective], names: Sequence[str]) -> None:
    """Refuse models of several architectures: their parameters would not mean the same."""
    models = {i: m.architecture for i, m in enumerate(members) if isinstance(m, Network)}
    odd = [i for i in models if models[i] != models[min(models)]]
    if odd:
        raise InvalidObjective(
            f"The models of nodes {_told(min(models), names)} and {_told(odd[0], names)} differ: "
            f"{models[min(models)]} and {models[odd[0]]}.",
            remedy="Give all nodes one architecture (the same layers, shapes and loss); parameters "
            "may begin anywhere.",
        )
    forms = {i: m.sample_form for i, m in enumerate(members) if isinstance(m, Network)}
    odd = [i for i in forms if forms[i] != forms[min(forms)]]
    if odd:
        raise InvalidObjective(
            f"The samples of nodes {_told(min(forms), names)} and {_told(odd[0], names)} differ: "
            f"{forms[min(forms)]}, and {forms[odd[0]]}.",
            remedy="Give the samples of all nodes one shape and one type, for instance by padding.",
        )


def _away(groups: list[tuple[Indices, Stack]]) -> tuple[int, ...]:
    return tuple(sorted(int(i) for nodes, stack in groups if not stack.at_hand for i in nodes))
