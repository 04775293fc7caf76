"""All nodes as rows of arrays: the engine for studies, and the fastest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing, steps, topology, tracking
from bequest.core.arrays import frozen
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.core.steps import StepChoice
from bequest.engines.base import Outcome
from bequest.engines.diary import Diary
from bequest.engines.gauges import Gauges
from bequest.model.graph import epoch_edges
from bequest.model.hindsight import Hindsight
from bequest.model.run import DepartureRecord, Status
from bequest.model.wills import Estate, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Indices, Matrix, Tensor
    from bequest.engines.base import Plan, Progress
    from bequest.model.wills import Bequest

# Rounds are kept in a window of about this many numbers per array and measured together: large
# enough to make measuring cheap on small networks, small enough to stay in the cache.
_WINDOW = 2**16
_WINDOW_ROUNDS = 256


class Vector:
    """The vector engine."""

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        # Overflow is not an accident here: it is measured, and ends the run as DIVERGED.
        with np.errstate(over="ignore", invalid="ignore"):
            return _Execution(plan, progress).run()

    def __repr__(self) -> str:
        return "Vector()"


class _Epoch:
    """A stretch of rounds with one membership: rows, weights, and what each row minimises."""

    def __init__(
        self, plan: Plan, network: topology.Network, legacies: Mapping[int, Legacy]
    ) -> None:
        self.nodes, edges = epoch_edges(network)
        self.weights = mixing.metropolis(edges, self.nodes.size)
        self.mix = mixing.mixer(self.weights)
        self._losses = plan.problem.among(self.nodes)
        heirs = sorted(legacies)
        self._rows: Indices = np.searchsorted(self.nodes, heirs)
        self._eta = np.array([[legacies[heir].eta] for heir in heirs])
        self._p = np.array([legacies[heir].p for heir in heirs])
        sketched = [heir for heir in heirs if legacies[heir].rank]
        self._sketched: Indices = np.searchsorted(self.nodes, sketched)
        self._factors, self._weights = _stacked([legacies[heir] for heir in sketched])
        stiffness = plan.problem.b[self.nodes].copy()
        stiffness[self._rows] += [legacies[heir].curvature[1] for heir in heirs]
        self.stiffness = stiffness

    def gradient(self, X: Matrix, out: Matrix) -> None:
        """Write grad h_j(x_j): the own loss and what was inherited."""
        self._losses.write_gradients(X, out)
        if self._rows.size:
            out[self._rows] += self._eta * X[self._rows] + self._p
        if self._sketched.size:
            along = np.vecmat(X[self._sketched], self._factors)
            out[self._sketched] += np.matvec(self._factors, self._weights * along)

    def mean_curvature(self, x: np.ndarray) -> float:
        """Return the smallest eigenvalue of the mean Hessian of the own losses."""
        return self._losses.smallest_mean_curvature(x)


def _stacked(legacies: list[Legacy]) -> tuple[Tensor, Matrix]:
    """Return the factors and weights of several legacies, padded to the largest rank."""
    rank = max((legacy.rank for legacy in legacies), default=0)
    dim = legacies[0].dim if legacies else 0
    factors, weights = np.zeros((len(legacies), dim, rank)), np.zeros((len(legacies), rank))
    for k, legacy in enumerate(legacies):
        factors[k, :, : legacy.rank], weights[k, : legacy.rank] = legacy.factor, legacy.weights
    return factors, weights


class _Execution:
    """One run under way."""

    def __init__(self, plan: Plan, progress: Progress | None) -> None:
        self.plan, self.progress = plan, progress
        self.network = plan.graph.network()
        self.legacies: dict[int, Legacy] = {}
        self.lost: set[int] = set()
        self.records: list[DepartureRecord] = []
        self.gauges = Gauges(plan.rounds, plan.optimum, plan.start)
        self.epoch = _Epoch(plan, self.network, self.legacies)
        self.diary = Diary(plan)
        self.hindsight = Hindsight(plan.problem, plan.optimum)
        self.steps = [self._first_step()]
        self.X = np.array(plan.start)
        self.G = np.empty_like(self.X)
        self.epoch.gradient(self.X, self.G)
        self.Z = self.G.copy()

    def run(self) -> Outcome:
        t, alive = 0, self._measure_now(0)
        for stop in sorted({*self.plan.schedule, self.plan.rounds}):
            alive = alive and self._advance(t, stop)
            if alive and stop in self.plan.schedule:
                self._membership_change(stop)
                alive = self._measure_now(stop)
            t = stop
        return self._outcome(alive)

    def _outcome(self, alive: bool) -> Outcome:  # noqa: FBT001
        inherited = sum(legacy.curvature[0] for legacy in self.legacies.values())
        settled = alive and self.gauges.settled(
            strength=float(self.plan.problem.a[self.epoch.nodes].sum()) + inherited,
            stiffness=float(self.epoch.stiffness.sum()),
            size=float(np.abs(self.X).max()),
        )
        status = Status.CONVERGED if settled else Status.UNFINISHED if alive else Status.DIVERGED
        return Outcome(
            status=status,
            trajectory=self.gauges.trajectory(),
            departures=tuple(self.records),
            survivors=tuple(self.epoch.nodes.tolist()),
            x=frozen(self.X),
            inherited=self.legacies,
            lost=tuple(sorted(self.lost)),
            steps=tuple(self.steps),
        )

    # --- rounds ---------------------------------------------------------------------------

    def _advance(self, t: int, stop: int) -> bool:
        """Run rounds t+1..stop; return whether the iterates stayed within bounds."""
        if t == stop:
            return True
        length = max(1, min(_WINDOW // self.X.size, _WINDOW_ROUNDS, stop - t))
        X, Z, G = np.empty((3, length + 1, *self.X.shape))
        X[0], Z[0], G[0] = self.X, self.Z, self.G
        step = self.steps[-1].value
        self.diary.open(t, stop, self.epoch.nodes, self.X, self.Z, step)
        while t < stop:
            count = min(length, stop - t)
            tracking.advance(
                X, Z, G, rounds=count, step=step, mix=self.epoch.mix, gradient=self.epoch.gradient
            )
            done = slice(1, count + 1)
            escaped = self.gauges.measure(t + 1, X[done], Z[done], G[done])
            if escaped is not None:
                self.X = X[escaped + 1].copy()
                return False
            self.diary.note(t + 1, X[done], Z[done])
            if length == 1:
                X, Z, G = X[::-1], Z[::-1], G[::-1]  # large arrays change places uncopied
            else:
                X[0], Z[0], G[0] = X[count], Z[count], G[count]
            t += count
            if self.progress is not None:
                self.progress(t)
        self.X, self.Z, self.G = X[0].copy(), Z[0].copy(), G[0].copy()
        return True

    def _measure_now(self, t: int) -> bool:
        return self.gauges.measure(t, self.X[None], self.Z[None], self.G[None]) is None

    # --- membership -----------------------------------------------------------------------

    def _membership_change(self, t: int) -> None:
        """Let everybody go who leaves at the end of round t, one after the other."""
        rows = {int(node): row for row, node in enumerate(self.epoch.nodes)}
        leaving = self.plan.schedule[t]
        trackers = self.Z.copy()  # before anybody hands anything over
        for node in leaving:
            self.records.append(self._leave(node, t, leaving, rows, trackers[rows[node]]))
        staying = [row for node, row in rows.items() if node in self.network]
        self.X, self.Z, self.G = self.X[staying], self.Z[staying], self.G[staying]
        self.epoch = _Epoch(self.plan, self.network, self.legacies)
        # The heirs' gradients were updated along with their trackers; evaluating them anew keeps
        # both sides of the invariant on the same rounding.
        self.epoch.gradient(self.X, self.G)
        self._lower_step(t)

    def _leave(
        self, node: int, t: int, leaving: tuple[int, ...], rows: Mapping[int, int], z: Matrix
    ) -> DepartureRecord:
        plan, row = self.plan, rows[node]
        will = plan.wills[node]
        recent, carried = self.diary.of(node) if will.needs_history else (None, None)
        estate = Estate(
            node=node,
            round=t,
            remaining=len(self.network) - 1,
            objective=plan.problem.objective(node),
            x=frozen(self.X[row]),
            z=frozen(z),
            start=frozen(plan.start[node]),
            setting=Setting(
                n=plan.problem.n,
                mu=plan.problem.mu,
                kappa=plan.problem.kappa,
                step=self.steps[-1].value,
                pilot=plan.pilot if will.needs_pilot else None,
                optimum=plan.optimum if will.needs_oracle else None,
            ),
            recent=recent,
            carried=carried,
            by_gradients=will.by_gradients,
        )
        bequest = will.decide(estate)
        heir = topology.choose_heir(self.network, node, leaving=leaving, load=self._load)
        bridges = topology.remove(self.network, node, hub=heir)
        inherited = self.legacies.pop(node, Legacy.zero(plan.problem.dim))
        # The paper's no-legacy branch, printed or classic, takes the inherited along.
        forgets_all = bequest.legacy is None and bequest.handoff != "exact"
        lost = {node} if bequest.legacy is None else set()
        if forgets_all:
            lost |= set(inherited.lineage)
            inherited = Legacy.zero(plan.problem.dim)
        self.lost |= lost
        whole = bequest.compose(inherited, estate.x)
        vectors, size = self._hand_over(node, heir, t, whole, bequest, rows)
        return DepartureRecord(
            node=node,
            round=t,
            will=will.title,
            choice=bequest.choice,
            why=bequest.why,
            heir=None if bequest.handoff == "restart" else heir,
            vectors=vectors,
            bytes=size,
            bounds=dict(bequest.bounds),
            predicted=dict(bequest.predicted),
            hindsight=self.hindsight.displacements(node, bequest.branches),
            x=estate.x,
            legacy=bequest.legacy,
            anchor=bequest.anchor,
            passed_on=tuple(inherited.lineage),
            blur=_blur(bequest, inherited, whole),
            lost=tuple(sorted(lost)),
            exact_handoff=bequest.handoff != "printed",
            bridges=tuple(bridges),
        )

    def _load(self, node: int) -> int:
        return len(self.legacies[node].lineage) if node in self.legacies else 0

    def _hand_over(
        self,
        node: int,
        heir: int,
        t: int,
        legacy: Legacy,
        bequest: Bequest,
        rows: Mapping[int, int],
    ) -> tuple[float, int]:
        """Carry out a bequest; return the vectors and bytes that travelled."""
        i, a = rows[node], rows[heir]
        if bequest.handoff == "restart":
            present = [rows[other] for other in self.network]
            self.Z[present] = self.G[present]
            return 0.0, 0
        farewell = Farewell(node, t, legacy, tracking.surplus(self.Z[i], self.G[i]))
        vectors, size = farewell.vectors, farewell.nbytes
        if bequest.handoff == "printed" and bequest.anchor is not None:
            self.Z[a] = tracking.receive_as_printed(
                self.X[a], self.Z[a], legacy, self.Z[i], bequest.anchor
            )
            vectors, size = (
                vectors + 1,
                size + self.X[a].nbytes,
            )  # (y, g, z) instead of (p, surplus)
        else:
            self.Z[a] = tracking.receive(self.X[a], self.Z[a], legacy, farewell.surplus)
        if not legacy.is_zero:
            self.G[a] += legacy.gradient(self.X[a])
            self.legacies[heir] = self.legacies.get(heir, Legacy.zero(legacy.dim)) + legacy
        return vectors, size

    # --- the step -------------------------------------------------------------------------

    def _first_step(self) -> StepChoice:
        if self.plan.step is not None:
            return StepChoice(self.plan.step, 0, "as given")
        stiffest = float(self.epoch.stiffness.max())
        smallest = mixing.smallest_eigenvalue(self.epoch.weights)
        gap = mixing.spectral_gap(self.epoch.weights, rough=True)
        safe = steps.safe_step(smoothness=stiffest, smallest_eigenvalue=smallest)
        modulus = self.epoch.mean_curvature(self.plan.start.mean(axis=0))
        balanced = steps.balanced_step(smoothness=stiffest, modulus=modulus, gap=gap)
        if safe <= balanced:
            return StepChoice(
                safe, 0, f"half of what is stable at smoothness {stiffest:.4g} on this graph"
            )
        return StepChoice(
            balanced,
            0,
            f"balances the descent of the mean (curvature {modulus:.4g}) and the mixing of the "
            f"graph (gap {gap:.3g}); stable up to {2 * safe:.3g}",
        )

    def _lower_step(self, t: int) -> None:
        """Lower a chosen step for everybody if what the heirs now carry makes it unsafe."""
        if self.plan.step is not None:
            return
        stiffest = float(self.epoch.stiffness.max())
        smallest = mixing.smallest_eigenvalue(self.epoch.weights)
        safe = steps.safe_step(smoothness=stiffest, smallest_eigenvalue=smallest)
        if safe < self.steps[-1].value:
            heir = int(self.epoch.nodes[int(np.argmax(self.epoch.stiffness))])
            why = f"node {heir} now carries smoothness {stiffest:.4g}"
            self.steps.append(StepChoice(safe, t, why))


def _blur(bequest: Bequest, inherited: Legacy, whole: Legacy) -> Legacy | None:
    """Return what compressing the message changed: zero at the anchor, and None if nothing."""
    lossless = inherited if bequest.legacy is None else bequest.legacy + inherited
    return None if whole.rank == lossless.rank else whole - lossless
