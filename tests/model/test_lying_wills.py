"""No certificate takes a will's word for anything: premises are read off what was sent.

The oracle below knows the losses as matrices and vectors and computes everything by dense algebra
from the legacies that were sent, without a line of the package's.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.model.wills import Bequest

N, DIM = 16, 3
LEAVERS = (2, 7, 11)
ROUNDS = (4, 9, 30)
COMPLETE = bq.graphs.complete(N)


def quadratics(seed, kappa=1.4):
    """Hessians with that condition number each; k beta = 0.04, so that thm:main can apply."""
    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(N):
        basis = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
        A = (basis * np.linspace(1.0, kappa, DIM)) @ basis.T
        losses.append(bq.Quadratic((A + A.T) / 2, 5 * rng.standard_normal(DIM)))
    return losses


@dataclass(frozen=True)
class Told(bq.wills.Will):
    """Decides whatever it is told to."""

    how: Callable
    label = "consensus (GT-C)"  # a lie in most cases

    @property
    def needs_oracle(self):
        return True

    def decide(self, estate):
        return self.how(estate)


def run_with(how, losses, *, leavers=LEAVERS, graph=COMPLETE, problem=bq.Problem, engine=None):
    return bq.solve(
        problem(losses),
        graph,
        departures=[bq.Departure(v, t) for v, t in zip(leavers, ROUNDS, strict=True)],
        will=Told(how),
        rounds=60,
        engine=engine,
    )


# --- the oracle ---------------------------------------------------------------------------------


class Oracle:
    """What is true of a run of quadratics A, c, by dense algebra."""

    def __init__(self, run, losses):
        self.run, self.losses = run, losses
        total = sum(f.A for f in losses)
        self.optimum = np.linalg.solve(total, sum(f.A @ f.c for f in losses))
        gone = {record.node: record.legacy for record in run.departures}
        left = [f for node, f in enumerate(losses) if node not in gone]
        H, h = sum(f.A for f in left), sum(f.A @ f.c for f in left)
        for q in gone.values():
            if q is not None:
                H, h = H + dense(q), h - q.p
        self.limit = np.linalg.solve(H, h)
        self.bias = np.linalg.norm(self.limit - self.optimum)
        self.strength = np.linalg.eigvalsh(H)[0]

    def slope(self, node, x):
        return self.losses[node].A @ (x - self.losses[node].c)

    def is_the_papers(self, record):
        """Isotropic, at the midpoint of the spectrum, with the loss's slope at the named anchor."""
        if record.legacy is None:
            return False
        anchor = record.x if record.anchor is None else record.anchor
        ends = np.linalg.eigvalsh(self.losses[record.node].A)[[0, -1]]
        even = np.abs(dense(record.legacy) - ends.mean() * np.eye(DIM)).max() <= 1e-9
        there = dense(record.legacy) @ anchor + record.legacy.p
        return even and np.abs(there - self.slope(record.node, anchor)).max() <= 1e-9

    def is_point_only(self, record):
        """Isotropic, and without a slope where the leaver was."""
        if record.legacy is None:
            return False
        H = dense(record.legacy)
        even = np.abs(H - H[0, 0] * np.eye(DIM)).max() <= 1e-9
        return even and np.abs(H @ record.x + record.legacy.p).max() <= 1e-9

    @property
    def residual(self):
        """What all legacies together are off by at x*, which moves the limit."""
        parts = []
        for record in self.run.departures:
            slope = -self.slope(record.node, self.optimum)
            if record.legacy is not None:
                slope = slope + dense(record.legacy) @ self.optimum + record.legacy.p
            parts.append(np.linalg.norm(slope))
        return sum(parts)


def dense(q):
    return q.eta * np.eye(DIM) + (q.factor * q.weights) @ q.factor.T


# --- honest wills, and lies of every kind -------------------------------------------------------


def bequest(estate, choice="consensus", *, at=None, eta=None, factor=None, **more):
    anchor = estate.x if at is None else at
    return Bequest(choice, "trust me", estate.anchored_at(anchor, eta, factor), anchor, **more)


def curvature(estate):
    return estate.objective.curvature


def hessian_factor(estate):
    """The whole Hessian above its smallest eigenvalue."""
    values, basis = np.linalg.eigh(estate.objective.hessian(estate.x))
    return basis * np.sqrt(np.maximum(values - curvature(estate).a, 0.0))


def shifted(estate, by):
    return dataclasses.replace(
        bequest(estate),
        legacy=dataclasses.replace(
            estate.anchored_at(estate.x), p=estate.anchored_at(estate.x).p + by
        ),
    )


def slope_of_elsewhere(estate):
    u = estate.local_track
    slope = estate.objective.gradient(u)
    legacy = Legacy.anchored(
        estate.node, anchor=estate.x, value=0.0, gradient=slope, eta=curvature(estate).midpoint
    )
    return Bequest("local", "trust me", legacy, estate.x)


def point(estate, choice, eta=2.0):
    legacy = Legacy.anchored(estate.node, anchor=estate.x, value=0, gradient=0 * estate.x, eta=eta)
    return Bequest(choice, "trust me", legacy, estate.x)


def in_disguise(estate):
    """Isotropic, written as a factor with weights of both signs."""
    middle, eye = curvature(estate).midpoint, np.eye(DIM)
    honest = estate.anchored_at(estate.x)
    legacy = Legacy(3.0, honest.p, honest.c, {estate.node: 1}, eye, np.full(DIM, middle - 3.0))
    return Bequest("full", "trust me", legacy, estate.x)


LIES = {
    "the smallest curvature": lambda e: bequest(e, eta=curvature(e).a),
    "the largest curvature": lambda e: bequest(e, eta=curvature(e).b),
    "almost the midpoint": lambda e: bequest(e, eta=curvature(e).midpoint * (1 + 1e-7)),
    "no curvature": lambda e: bequest(e, eta=0.0),
    "a curvature below zero": lambda e: bequest(e, eta=-0.1),
    "much too much curvature": lambda e: bequest(e, eta=50.0),
    "the whole Hessian": lambda e: bequest(e, eta=curvature(e).a, factor=hessian_factor(e)),
    "one direction more": lambda e: bequest(e, factor=0.3 * np.eye(DIM)[:, :1]),
    "one direction more, hardly": lambda e: bequest(e, factor=1e-4 * np.eye(DIM)[:, :1]),
    "made elsewhere, said to be here": lambda e: dataclasses.replace(
        bequest(e, at=e.local_track), anchor=e.x
    ),
    "made here, said to be elsewhere": lambda e: dataclasses.replace(
        bequest(e), choice="local", anchor=e.local_track
    ),
    "made here, said to be at the optimum": lambda e: dataclasses.replace(
        bequest(e), anchor=e.setting.optimum
    ),
    "a slope that is off": lambda e: shifted(e, 0.5),
    "a slope that is hardly off": lambda e: shifted(e, 1e-7),
    "a slope of elsewhere": slope_of_elsewhere,
    "a point called consensus": lambda e: point(e, "consensus"),
    "a point called local": lambda e: point(e, "local", eta=curvature(e).midpoint),
    "nothing called consensus": lambda _: Bequest("consensus", "trust me"),
    "nothing called point": lambda _: Bequest("point", "trust me"),
    "the smallest curvature called a point": lambda e: bequest(e, "point", eta=curvature(e).a),
    "the smallest curvature called nothing": lambda e: bequest(e, "none", eta=curvature(e).a),
    "a bequest without an anchor": lambda e: dataclasses.replace(
        bequest(e, eta=curvature(e).a), anchor=None
    ),
}
TRUTHS = {
    "consensus": bequest,
    "local": lambda e: bequest(e, "local", at=e.local_track),
    "called a point": lambda e: bequest(e, "point"),
    "called nothing": lambda e: bequest(e, "none"),
    "called drift, at the optimum": lambda e: bequest(e, "drift", at=e.setting.optimum),
    "in disguise": in_disguise,
    "at the iterate, without saying so": lambda e: dataclasses.replace(bequest(e), anchor=None),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [*LIES, *TRUTHS])
def test_thm_main_applies_to_what_was_sent_whatever_it_is_called(name, seed):
    losses = quadratics(seed)
    run = run_with({**LIES, **TRUTHS}[name], losses)
    oracle = Oracle(run, losses)
    true = all(oracle.is_the_papers(record) for record in run.departures)
    assert true is (name in TRUTHS)
    main = run.certificate["thm:main"]
    assert main.applies is true, str(main)
    assert main.holds is (True if true else None)
    assert ("gradient-anchored" in main.verdict) is not true
    assert main.measured == pytest.approx(oracle.bias, abs=1e-10)
    # and nothing that the theory says of such legacies is said of others
    assert ("thm:lower" in {bound.label for bound in run.certificate}) is true
    assert run.certificate.holds, str(run.certificate)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [*LIES, *TRUTHS])
def test_the_tight_bound_charges_what_was_sent_whatever_it_is_called(name, seed):
    losses = quadratics(seed, kappa=9.0)
    run = run_with({**LIES, **TRUTHS}[name], losses)
    oracle, tight = Oracle(run, losses), run.certificate["tight"]
    assert tight.measured == pytest.approx(oracle.bias, abs=1e-10)
    assert tight.holds is True, str(tight)
    # not by luck: it is above what the legacies are truly off by, each by itself
    assert tight.promised >= oracle.residual / oracle.strength * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
@pytest.mark.parametrize("name", LIES)
def test_one_liar_in_a_chain_of_honest_heirs_is_enough(name, engine):
    losses, leavers = quadratics(5), (2, 1, 0)

    def how(estate):
        return LIES[name](estate) if estate.node == leavers[1] else bequest(estate)

    run = run_with(how, losses, leavers=leavers, graph=bq.graphs.path(N), engine=engine)
    assert run.departures[1].passed_on == (2,)  # the liar was an heir
    assert run.certificate["thm:main"].holds is None
    assert run.certificate["tight"].holds is True
    assert run.certificate["tight"].measured == pytest.approx(Oracle(run, losses).bias, abs=1e-10)


def test_what_compressing_a_message_changes_is_charged_whatever_the_will_says():
    """The dense truth is what the heir holds: of three whole Hessians, one number."""

    def how(estate):
        return bequest(estate, eta=curvature(estate).a, factor=hessian_factor(estate), rank=0)

    losses, leavers = quadratics(8), (2, 1, 0)
    run = run_with(how, losses, leavers=leavers, graph=bq.graphs.path(N))
    assert all(record.blur is not None for record in run.departures)
    (held,) = run.inherited.values()
    assert held.rank == 0
    left = [losses[node] for node in run.survivors]
    limit = np.linalg.solve(
        sum(f.A for f in left) + dense(held), sum(f.A @ f.c for f in left) - held.p
    )
    optimum = np.linalg.solve(sum(f.A for f in losses), sum(f.A @ f.c for f in losses))
    tight = run.certificate["tight"]
    assert tight.measured == pytest.approx(np.linalg.norm(limit - optimum), abs=1e-10)
    assert tight.holds is True
    assert run.certificate["thm:main"].holds is None


# --- point-only legacies ------------------------------------------------------------------------

POINTS = {
    "a point": lambda e: point(e, "point"),
    "a point called drift": lambda e: point(e, "drift"),
    "a point elsewhere": lambda e: dataclasses.replace(
        bequest(e, "point"),
        legacy=Legacy.anchored(e.node, anchor=e.local_track, value=0, gradient=0 * e.x, eta=2.0),
        anchor=e.local_track,
    ),
    "a slope called a point": lambda e: bequest(e, "point", eta=2.0),
    "an uneven pull called a point": lambda e: dataclasses.replace(
        point(e, "point"),
        legacy=Legacy.anchored(
            e.node,
            anchor=e.x,
            value=0,
            gradient=0 * e.x,
            eta=1.0,
            factor=np.eye(DIM)[:, :1],
        ),
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_prop_pointonly_applies_to_pulls_toward_an_iterate_only(name):
    losses = quadratics(3)
    run = run_with(POINTS[name], losses)
    oracle = Oracle(run, losses)
    true = all(oracle.is_point_only(record) for record in run.departures)
    assert true is (name in ("a point", "a point called drift"))
    capped = {bound.label: bound for bound in run.certificate}.get("prop:pointonly (capped)")
    assert (capped is not None and capped.applies and capped.holds) is true
    assert run.certificate.holds, str(run.certificate)


# --- the three-way rule -------------------------------------------------------------------------


def rule(estate):
    """The oracle's rule, honestly."""
    return bq.wills.Adaptive(rule="oracle").decide(estate)


def with_bounds(change):
    def how(estate):
        honest = rule(estate)
        return dataclasses.replace(honest, bounds=change(dict(honest.bounds), honest.choice))

    return how


COSTS = {
    "too small": lambda said, took: said | {took: said[took] / 10},
    "too large": lambda said, took: {branch: 10 * cost for branch, cost in said.items()},
    "not of what was taken": lambda said, took: {b: c for b, c in said.items() if b != took},
    "not the smallest": lambda said, took: said | {b: said[took] / 2 for b in said if b != took},
    "none": lambda said, took: {},
    "not a number": lambda said, took: said | {took: float("nan")},
}


def test_cor_selective_holds_for_the_rule_itself():
    run = run_with(rule, quadratics(4))
    assert run.certificate["cor:selective"].holds is True


@pytest.mark.parametrize("name", COSTS)
def test_cor_selective_does_not_believe_what_a_will_says_that_a_branch_costs(name):
    losses = quadratics(4)
    run = run_with(
        lambda e: with_bounds(COSTS[name])(e) if e.node == LEAVERS[0] else rule(e), losses
    )
    selective = run.certificate["cor:selective"]
    assert selective.holds is None
    assert "compared its branches" in selective.verdict
    assert run.certificate["thm:main"].holds is True


@pytest.mark.parametrize("name", LIES)
def test_nor_which_branch_it_took(name):
    def how(estate):
        return dataclasses.replace(LIES[name](estate), bounds=rule(estate).bounds)

    run = run_with(how, quadratics(4))
    selective = run.certificate["cor:selective"]
    # nothing is a branch of the rule, but only where it is the cheapest one
    assert selective.holds is None, str(selective)


def test_a_pilot_that_is_too_sure_covers_nothing():
    losses = quadratics(6)
    run = bq.solve(
        bq.Problem(losses),
        bq.graphs.complete(N),
        departures=[bq.Departure(v, t) for v, t in zip(LEAVERS, ROUNDS, strict=True)],
        will=bq.wills.Adaptive(rule="certified"),
        pilot=bq.Pilot(radius=1e-9, theta=0.5, zeta=1e-9),
        rounds=60,
    )
    selective = run.certificate["cor:selective"]
    assert selective.holds is None
    assert "the pilot's certificate covers" in selective.verdict


# --- the convex regime --------------------------------------------------------------------------


def flat_losses(seed):
    """Least squares with fewer samples than unknowns, which share their minimisers."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(DIM)
    rows = [rng.standard_normal((1, DIM)) for _ in range(N)]
    for X in rows:
        X[0, -1] = 0.0  # no node sees the last coordinate: the minimisers form a line
    return [bq.LeastSquares(X, X @ truth) for X in rows]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("honest", bequest),
        ("honest, called drift", lambda e: bequest(e, "drift")),
        ("a quarter of L", lambda e: bequest(e, eta=curvature(e).b / 4)),
        ("all of L", lambda e: bequest(e, eta=curvature(e).b)),
        ("elsewhere", lambda e: bequest(e, at=e.x + 1.0)),
        (
            "elsewhere, said to be here",
            lambda e: dataclasses.replace(bequest(e, at=e.x + 1.0), anchor=e.x),
        ),
        ("off", lambda e: shifted(e, 0.5)),
    ],
)
def test_thm_cvx_applies_to_midpoints_anchored_at_iterates_only(name, how, seed):
    run = run_with(how, flat_losses(seed))
    bounds = {bound.label: bound for bound in run.certificate}
    cvx = [bound for label, bound in bounds.items() if label.startswith(("thm:cvx", "prop:certC"))]
    if name.startswith("honest"):
        assert len(cvx) == 5
        assert all(bound.holds is True for bound in cvx), str(run.certificate)
    else:
        assert all(bound.holds is None for bound in cvx)


# --- what is remembered, and x* -----------------------------------------------------------------


def holding(run, inherited):
    """The run, if its survivors had inherited this."""
    outcome = dataclasses.replace(run.outcome, inherited=inherited)
    return dataclasses.replace(run, outcome=outcome)


def test_a_memory_that_is_not_what_was_sent_promises_nothing():
    run = run_with(bequest, quadratics(1))
    heir = min(run.inherited)
    held = run.inherited[heir]
    for other in (
        held + Legacy(0.0, np.full(DIM, 1e-6), 0.0),
        held + Legacy(1e-6, np.zeros(DIM), 0.0),
        dataclasses.replace(held, lineage=dict.fromkeys([*held.lineage, 0], 1), p=2 * held.p),
    ):
        forged = holding(run, {**run.inherited, heir: other})
        assert all(bound.holds is None for bound in forged.certificate)
        assert "what is remembered is what was sent" in forged.certificate["tight"].verdict
    constant = held + Legacy(0.0, np.zeros(DIM), 5.0)  # moves nothing
    same = holding(run, {**run.inherited, heir: constant})
    assert same.certificate["thm:main"].holds is True


class Mistaken(bq.Problem):
    """A problem that is wrong about its optimum."""

    def optimum(self, **options):
        return super().optimum(**options) + 1e-3


def test_an_optimum_that_is_none_promises_nothing():
    run = run_with(bequest, quadratics(1), problem=Mistaken)
    assert all(bound.holds is None for bound in run.certificate)
    assert "the gradients cancel at x*" in run.certificate["tight"].verdict


def test_a_legacy_cannot_be_held_against_a_loss_whose_data_are_on_their_host():
    losses = quadratics(1)
    away = [
        bq.Loaded(lambda f=f: f, dim=DIM, curvature=f.curvature) if node in LEAVERS else f
        for node, f in enumerate(losses)
    ]

    class Known(bq.Problem):
        def optimum(self, **options):
            return bq.Problem(losses).optimum(**options)

    known = bq.solve(
        Known(away),
        bq.graphs.complete(N),
        departures=[bq.Departure(v, t) for v, t in zip(LEAVERS, ROUNDS, strict=True)],
        will=bq.wills.Consensus(),
        rounds=60,
    )
    with pytest.raises(bq.errors.OptimumUnknown, match="on their hosts"):
        _ = known.certificate
