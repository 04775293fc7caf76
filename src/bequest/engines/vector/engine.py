"""All nodes as rows of arrays: the engine for studies, and the fastest one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypedDict, Unpack

import numpy as np

from bequest.core import mixing, rounds
from bequest.core.arrays import frozen
from bequest.core.methods import Conditions
from bequest.core.methods.base import checked
from bequest.engines.base import first_pace
from bequest.engines.metrics import Metrics
from bequest.engines.news import News
from bequest.engines.vector.membership import Membership
from bequest.engines.vector.row_by_row import RowGradients, hear
from bequest.model.graph import epoch_edges
from bequest.model.outcome import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.core.arrays import Indices, Matrix, Tensor
    from bequest.core.legacy import Legacy
    from bequest.core.methods import Local, Method
    from bequest.core.rounds import Gradient, Hear
    from bequest.core.topology import Network
    from bequest.engines.base import Progress
    from bequest.engines.news import Line
    from bequest.engines.vector.row_by_row import Sampling
    from bequest.model.plan import Plan

    class _Rules(TypedDict):
        """What rounds go by."""

        method: Method
        local: Local
        hear: Hear
        gradient: Gradient


# Rounds are kept in a window of about this many numbers per array and measured together: large
# enough to make measuring cheap on small networks, small enough to stay in the cache.
_WINDOW = 2**16
_WINDOW_ROUNDS = 256


class Vector:
    """The vector engine.

    Args:
        watch: hears what is new of a run while it goes on (``engines.news``).

    Attributes:
        membership: what carries out departures and arrivals; an ablation replaces it.
    """

    without_effect: ClassVar[frozenset[str]] = frozenset({"_watch"})
    membership: ClassVar[type[Membership]] = Membership

    def __init__(self, *, watch: Callable[[Line], None] | None = None) -> None:
        self._watch = watch

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        # Overflow is not an accident here: it is measured, and ends the run as DIVERGED.
        with np.errstate(over="ignore", invalid="ignore"):
            news = None if self._watch is None else News(plan, self._watch)
            return _VectorExecution(plan, progress, self.membership(plan), news).run()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Epoch:
    """A stretch of rounds with one membership: rows, weights, and what each row minimises."""

    def __init__(self, plan: Plan, network: Network, legacies: Mapping[int, Legacy]) -> None:
        self.nodes, edges = epoch_edges(network)
        self.weights = mixing.metropolis(edges, self.nodes.size)
        self._losses = plan.problem.among(self.nodes)
        self.is_stochastic = plan.problem.is_stochastic
        heirs = sorted(legacies)
        self._rows: Indices = np.searchsorted(self.nodes, heirs)
        self._eta = np.array([[legacies[heir].eta] for heir in heirs])
        self._p = np.array([legacies[heir].p for heir in heirs])
        sketched = [heir for heir in heirs if legacies[heir].rank]
        self._sketched: Indices = np.searchsorted(self.nodes, sketched)
        self._factors, self._weights = _stacked([legacies[heir] for heir in sketched])
        self._sampled = [
            (int(row), legacies[heir])
            for row, heir in zip(self._rows, heirs, strict=True)
            if legacies[heir].samples
        ]
        self._inherits = bool(heirs)
        self._legacies, self._start = legacies, (plan.modulus, plan.shared_floor)
        low, high = plan.problem.a[self.nodes].copy(), plan.problem.b[self.nodes].copy()
        low[self._rows] += [legacies[heir].curvature[0] for heir in heirs]
        high[self._rows] += [legacies[heir].curvature[1] for heir in heirs]
        self.strength, self.stiffness = low, high

    @cached_property
    def bounds(self) -> Tensor:
        """Return, per row, a matrix above the Hessian of what it minimises."""
        own = np.array(self._losses.bounds())
        for row, heir in zip(self._rows, sorted(self._legacies), strict=True):
            own[row] += self._legacies[heir].bound()
        return own

    def hear(self, method: Method, coupling: float) -> Hear:
        """Return what makes what nodes hear of what they say, throughout the epoch."""
        if self.is_stochastic:
            return hear(self.weights, coupling, differences=method.hears_differences)
        if method.hears_differences:
            return rounds.differences(mixing.mixer(mixing.laplacian(self.weights) * coupling))
        return rounds.averages(mixing.mixer(self.weights))

    def conditions(self, *, floors: bool) -> Conditions:
        """Return what a pace may be chosen by; ``floors`` says that it goes by matrices."""
        floor = self.stiffness
        if floors:
            floor = np.asarray(np.linalg.eigvalsh(self.bounds)[:, 0], dtype=float)
        return Conditions.of(
            self.nodes, self.strength, self.stiffness, floor, self.weights, *self._start
        )

    def local(self, method: Method, pace: float) -> Local:
        """Return what the rounds of all rows go by."""
        local = method.localise(
            pace,
            own_weight=self.weights.diagonal()[:, None],
            stiffness=self.stiffness[:, None],
            bound=lambda: self.bounds,
        )
        return local.spread((self.nodes.size, self._losses.dim))

    def gradients(self, sampling: Sampling | None, t: int) -> Gradient:
        """Return what writes the gradients that the rounds after t use."""
        if sampling is None:
            return self.gradient
        return RowGradients(sampling, self.nodes, self._legacies, t)

    def gradient(self, X: Matrix, out: Matrix) -> None:
        """Write grad h_j(x_j): the own loss and what was inherited."""
        self._losses.write_gradients(X, out)
        if not self._inherits:
            return
        rows = self._rows
        more = X.take(rows, 0)  # quicker than X[rows]
        more *= self._eta
        more += self._p
        more += out.take(rows, 0)
        out[rows] = more
        if self._sketched.size:
            along = np.vecmat(X[self._sketched], self._factors)
            out[self._sketched] += np.matvec(self._factors, self._weights * along)
        for row, legacy in self._sampled:
            out[row] += legacy.sample_gradient(X[row])


def _stacked(legacies: list[Legacy]) -> tuple[Tensor, Matrix]:
    """Return the factors and weights of several legacies, padded to the largest rank."""
    rank = max((legacy.rank for legacy in legacies), default=0)
    dim = legacies[0].dim if legacies else 0
    factors, weights = np.zeros((len(legacies), dim, rank)), np.zeros((len(legacies), rank))
    for k, legacy in enumerate(legacies):
        factors[k, :, : legacy.rank], weights[k, : legacy.rank] = legacy.factor, legacy.weights
    return factors, weights


class _Window:
    """Many rounds, each into a slot of its own: they are measured in one array operation."""

    def __init__(
        self, state: tuple[Matrix, Matrix, Matrix], length: int, **rules: Unpack[_Rules]
    ) -> None:
        self._slots: Tensor = np.empty((3, length + 1, *state[0].shape))
        self._slots[:, 0], self._rules = state, rules

    def advance(self, t: int, count: int) -> Tensor:
        """Return x, z and g after rounds t+1..t+count; they hold until the next call."""
        X, Z, G = slots = self._slots
        rounds.advance(X, Z, G, rounds=count, after=t, **self._rules)
        done = slots[:, 1 : count + 1]
        slots[:, 0] = slots[:, count]
        return done


class _LongRows:
    """The same for rows so long that a window holds one round."""

    def __init__(
        self, state: tuple[Matrix, Matrix, Matrix], length: int, **rules: Unpack[_Rules]
    ) -> None:
        _ = length
        self._strides = rounds.Strides(state, **rules)

    def advance(self, t: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return x, z and g after round t+1; they hold until the next call."""
        _ = count
        x, z, g = self._strides.advance(t + 1)
        return x[None], z[None], g[None]


class _VectorExecution:
    """One run under way."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress | None,
        membership: Membership,
        news: News | None = None,
    ) -> None:
        self.plan, self.progress, self.news = plan, progress, news
        self.members = membership
        self.metrics = Metrics(plan)
        self.epoch = _Epoch(plan, self.members.network, self.members.legacies)
        self.steps = [first_pace(plan, self.epoch.nodes, self.epoch.weights)]
        if (sampling := self.members.sampling) is None:
            self.epoch.gradient(self.members.X, self.members.G)
        else:
            for row, node in enumerate(self.epoch.nodes.tolist()):
                self.members.G[row] = sampling.enter(node, self.members.X[row], 0)
        self.members.Z = self.members.G.copy()
        self.members.welcome(0, pace=self.steps[-1].value)

    def run(self) -> Outcome:
        t, alive = 0, self._measure_now(0)
        for stop in sorted({*self.plan.schedule, self.plan.rounds}):
            alive = alive and self._advance(t, stop)
            if alive and stop in self.plan.schedule:
                self._membership_change(stop)
                alive = self._measure_now(stop)
            t = stop
        outcome = self._outcome(alive)
        if self.news is not None:
            self._report(t)
            self.news.end(outcome.status)
        return outcome

    def _report(self, t: int) -> None:
        """Tell what is new, up to a round that has been measured."""
        if self.news is not None:
            members = self.members
            self.news.advance(t, self.metrics, members.records, members.changes)

    def _outcome(self, alive: bool) -> Outcome:  # noqa: FBT001
        members = self.members
        inherited = sum(legacy.curvature[0] for legacy in members.legacies.values())
        settled = alive and self.metrics.settled(
            strength=float(self.plan.problem.a[members.nodes].sum()) + inherited,
            stiffness=float(self.epoch.stiffness.sum()),
            size=float(np.abs(members.X).max()),
            precision=self.plan.problem.among(members.nodes).precision,
        )
        status = Status.CONVERGED if settled else Status.UNFINISHED if alive else Status.DIVERGED
        return Outcome(
            status=status,
            trajectory=self.metrics.trajectory(),
            departures=tuple(members.records),
            changes=tuple(members.changes),
            survivors=tuple(members.nodes.tolist()),
            x=frozen(members.X),
            inherited=members.legacies,
            lost=tuple(sorted(members.lost)),
            steps=tuple(self.steps),
        )

    def _advance(self, t: int, stop: int) -> bool:
        """Run rounds t+1..stop; return whether the iterates stayed within bounds."""
        if t == stop:
            return True
        members = self.members
        length = max(1, min(_WINDOW // members.X.size, _WINDOW_ROUNDS, stop - t))
        pace, method = self.steps[-1].value, self.plan.method
        local = self.epoch.local(method, pace)
        window = (_LongRows if length == 1 else _Window)(
            (members.X, members.Z, members.G),
            length,
            method=method,
            local=local,
            hear=self.epoch.hear(method, local.coupling),
            gradient=self.epoch.gradients(members.sampling, t),
        )
        due = members.checkpoints_due(t, stop)
        members.histories.open(t, stop, members.nodes, members.X, members.Z, pace, due)
        while t < stop:
            count = min(length, stop - t)
            X, Z, G = window.advance(t, count)
            escaped = self.metrics.measure(t + 1, X, Z, G, target=members.target)
            if escaped is not None:
                members.X = X[escaped].copy()
                return False
            members.histories.note(t + 1, X, Z)
            members.keep_checkpoints(t + 1, X, Z, pace=pace)
            t += count
            if self.progress is not None:
                self.progress(t)
            # A round after which nodes come and go is measured once more, when they have.
            self._report(t - 1 if t in self.plan.schedule else t)
        members.X, members.Z, members.G = X[-1].copy(), Z[-1].copy(), G[-1].copy()
        return True

    def _measure_now(self, t: int) -> bool:
        X, Z, G = self.members.X[None], self.members.Z[None], self.members.G[None]
        return self.metrics.measure(t, X, Z, G, target=self.members.target) is None

    def _membership_change(self, t: int) -> None:
        """Carry out the changes at the end of round t, and begin a new epoch."""
        members, pace = self.members, self.steps[-1].value
        members.change(t, pace=pace)
        members.welcome(t, pace=pace)
        self.epoch = _Epoch(self.plan, members.network, members.legacies)
        # The heirs' gradients were updated along with their trackers, and are not evaluated anew:
        # a stochastic loss would give another answer, and the invariant would be broken for good.
        self._change_pace(t)

    def _change_pace(self, t: int) -> None:
        """Choose the pace anew for the nodes that are there now, unless it was given."""
        method = self.plan.method
        if method.given is not None:
            return
        conditions = self.epoch.conditions(floors=method.wants_matrix)
        chosen = method.next_pace(self.steps[-1].value, conditions, t)
        if chosen is not None:
            self.steps.append(checked(method, chosen))
