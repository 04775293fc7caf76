"""Losses whose data stay on their hosts: who loads them, when, and what is known without them."""

import pickle
import re
from functools import partial

import numpy as np
import pytest

import bequest as bq
from bequest.core import mixing
from bequest.core.legacy import Legacy
from bequest.engines.base import first_pace
from bequest.errors import (
    DimensionMismatch,
    InvalidData,
    InvalidObjective,
    InvalidWill,
    OptimumUnknown,
)
from bequest.model.graph import epoch_edges

STEP = bq.GradientTracking(step=0.02)


class Counting:
    """A loader that counts its calls."""

    def __init__(self, loss):
        self.loss, self.calls = loss, 0

    def __call__(self):
        self.calls += 1
        return self.loss


def private():
    """A loader that must not be called in this process."""
    raise AssertionError("private data were looked at")


def big(samples=5000, dim=4):
    """A loader whose data are made on the spot: it can be pickled, and they need not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, dim))
    return bq.Logistic(X, X[:, 0] > 0, l2=0.1)


def plain(n=6, dim=3, seed=1):
    return bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=10.0, seed=seed)


def loaded(problem, nodes=None, loader=Counting):
    """The same problem with the losses of some nodes, or of all, behind loaders."""
    away = set(range(problem.n) if nodes is None else nodes)
    losses = [problem.objective(i) for i in range(problem.n)]
    return bq.Problem(
        [
            bq.Loaded(loader(f), dim=f.dim, curvature=f.curvature) if i in away else f
            for i, f in enumerate(losses)
        ]
    )


def unread(n=6, dim=3, curvature=(1.0, 10.0)):
    return bq.Problem([bq.Loaded(private, dim=dim, curvature=curvature) for _ in range(n)])


class Captures:
    """An engine that keeps the plan and does nothing."""

    def run(self, plan, progress=None):
        self.plan = plan
        raise KeyboardInterrupt


# --- one loss -----------------------------------------------------------------------------------


def test_it_is_the_loss_that_it_loads_once_when_first_evaluated():
    loss = plain().objective(0)
    loader = Counting(loss)
    f = bq.Loaded(loader, dim=3, curvature=loss.curvature)
    assert (f.dim, f.curvature, f.stack([f]).shape) == (3, loss.curvature, (1, 3))
    assert repr(f)
    assert loader.calls == 0
    x, v = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 3.0])
    assert f.value(x) == loss.value(x)
    assert loader.calls == 1
    np.testing.assert_array_equal(f.gradient(x), loss.gradient(x))
    np.testing.assert_array_equal(f.hvp(x, v), loss.hvp(x, v))
    np.testing.assert_array_equal(f.hessian(x), loss.hessian(x))
    assert f.hessian_work == loss.hessian_work
    assert f.load() is loss
    assert loader.calls == 1


def test_a_wrong_argument_is_refused_before_anything_is_loaded():
    loader = Counting(plain().objective(0))
    f = bq.Loaded(loader, dim=3, curvature=(1.0, 10.0))
    with pytest.raises(DimensionMismatch, match="this Loaded has dim 3"):
        f.gradient([1.0])
    assert loader.calls == 0


def test_a_pickle_holds_the_loader_and_never_the_data():
    f = bq.Loaded(partial(big, 20000), dim=4, curvature=(0.1, 10.0))
    f.gradient(np.ones(4))
    f.hessian(np.ones(4))
    delivery = pickle.dumps(f)
    assert len(delivery) < 500
    again = pickle.loads(delivery)  # noqa: S301 - our own bytes
    assert repr(again) == repr(f)
    assert "_loss" not in vars(again)
    np.testing.assert_array_equal(again.gradient(np.ones(4)), f.gradient(np.ones(4)))
    problem = bq.Problem([f] * 5)
    assert len(pickle.dumps(problem)) < 3000


def test_its_repr_names_the_loader_and_nothing_of_what_it_holds():
    f = bq.Loaded(partial(big, 12345), dim=4, curvature=(0.1, 10.0))
    assert repr(f) == "Loaded(partial, dim=4, Curvature(a=0.1, b=10.0, certified=True))"
    assert repr(bq.Loaded(big, dim=4, curvature=(0.1, 10.0))).startswith("Loaded(big, ")


def test_it_goes_by_the_declared_range_also_once_it_is_loaded():
    f = bq.Loaded(lambda: bq.Quadratic([[2.0]], [0.0]), dim=1, curvature=(1.0, 5.0))
    f.load()
    assert f.curvature == bq.Curvature(1.0, 5.0)
    doubtful = bq.Loaded(private, dim=1, curvature=bq.Curvature(1.0, 5.0, certified=False))
    assert not bq.Problem([doubtful]).certified


# --- declarations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "what", "remedy"),
    [
        ({"curvature": None}, InvalidObjective, "not declared", r"On the host .*loader\(\).curv"),
        ({"curvature": 3.0}, InvalidObjective, "The curvature is 3.0", "On the host"),
        ({"curvature": (2.0, 1.0)}, InvalidObjective, "a <= b", "eigenvalue"),
        ({"dim": 0}, DimensionMismatch, "dim is 0", "whole number"),
        ({"dim": 2.5}, DimensionMismatch, "dim is 2.5", "whole number"),
        ({"loader": "silo3.npz"}, InvalidObjective, 'path "silo3.npz"', "bequest.data.loader"),
        ({"loader": 7}, InvalidObjective, "a int, which cannot be called", "without arguments"),
    ],
)
def test_a_declaration_that_says_too_little_is_refused(options, kind, what, remedy):
    given = {"loader": private, "dim": 2, "curvature": (1.0, 2.0)} | options
    with pytest.raises(kind, match=what) as caught:
        bq.Loaded(given.pop("loader"), **given)
    assert re.search(remedy, caught.value.remedy)


def test_a_missing_curvature_is_refused_with_a_remedy_too():
    with pytest.raises(InvalidObjective, match="not declared"):
        bq.Loaded(private, dim=2)


def test_other_data_than_declared_are_found_out_when_loaded():
    def wrong(dim, curvature, loss=None):
        square = bq.Quadratic(np.diag([1.0, 4.0]), np.zeros(2))
        return bq.Loaded(lambda: square if loss is None else loss, dim=dim, curvature=curvature)

    with pytest.raises(DimensionMismatch, match=r"<lambda> loaded has dim 2, but dim 3 was decl"):
        wrong(3, (1.0, 4.0)).gradient(np.zeros(3))
    too_narrow = [(1.0, 3.9), (1.1, 4.0), (2.0, 3.0), (1.0, 4.0 - 1e-7)]
    for curvature in too_narrow:
        with pytest.raises(InvalidObjective, match=r"in \[1, 4\], but \[.*\] was declared"):
            wrong(2, curvature).value(np.zeros(2))
    for curvature in [(1.0, 4.0), (0.0, 100.0), (1.0 + 1e-12, 4.0 - 1e-12)]:
        wrong(2, curvature).value(np.zeros(2))
    with pytest.raises(InvalidObjective, match="loaded is a dict"):
        wrong(2, (1.0, 4.0), {"X": 1}).load()


def test_what_the_refusal_says_about_the_curvature_can_be_declared():
    rng = np.random.default_rng(3)
    for _ in range(20):
        loss = bq.LeastSquares(rng.standard_normal((9, 4)), rng.standard_normal(9), l2=0.01)
        narrow = bq.Loaded(lambda loss=loss: loss, dim=4, curvature=(0.5, 0.5))
        with pytest.raises(InvalidObjective) as caught:
            narrow.load()
        low, high = re.search(r"in \[(\S+), (\S+)\], but", caught.value.what).groups()
        bq.Loaded(lambda loss=loss: loss, dim=4, curvature=(float(low), float(high))).load()


def test_an_estimated_range_is_held_against_the_declaration_without_its_widening():
    def estimated():
        return bq.Function(lambda x: (x @ x, 2 * x), dim=3)  # estimated as [1.8, 2.2]

    bq.Loaded(estimated, dim=3, curvature=(2.0, 2.0)).load()
    with pytest.raises(InvalidObjective, match="was declared"):
        bq.Loaded(estimated, dim=3, curvature=(1.0, 1.9)).load()


def test_what_a_loader_raises_comes_through_with_its_name():
    def missing():
        raise FileNotFoundError("silo3.npz")

    f = bq.Loaded(missing, dim=2, curvature=(1.0, 2.0))
    for _ in range(2):  # and it is tried again: the file may be there by then
        with pytest.raises(FileNotFoundError, match=r"silo3\.npz") as caught:
            f.gradient(np.zeros(2))
        assert caught.value.__notes__ == ["It was to be loaded by missing."]


# --- what is known without the data -------------------------------------------------------------


def test_nothing_central_looks_at_the_data():
    problem = unread()
    assert (problem.n, problem.dim, problem.mu, problem.L) == (6, 3, 1.0, 10.0)
    assert problem.certified
    assert problem.regime == "SC"
    assert problem.away == tuple(range(6))
    assert repr(problem)
    for ask in (problem.optimum, problem.heterogeneity):
        with pytest.raises(OptimumUnknown, match=r"nodes 0, 1, 2, 3, 4, \.\.\. are on their hosts"):
            ask()
    with pytest.raises(OptimumUnknown, match="node 3 are on its host") as caught:
        problem.among([3]).minimiser(Legacy.zero(3))
    assert "run.trajectory" in caught.value.remedy
    with pytest.raises(OptimumUnknown):
        bq.departures.most_heterogeneous(problem, rounds=[5])
    for ask in (problem.value, problem.gradient):
        with pytest.raises(InvalidObjective, match="on their hosts") as caught:
            ask(np.zeros(3))
        assert f"problem.objective(i).{ask.__name__}(x)" in caught.value.remedy
    assert problem.quadratic_growth() == 6.0
    assert unread(curvature=(0.0, 10.0)).quadratic_growth() == 0.0
    part = problem.among([1, 4])
    assert (part.size, part.away) == (2, (1, 4))
    assert problem.objective(4).curvature == bq.Curvature(1.0, 10.0)


def test_the_mean_curvature_is_bounded_by_what_was_declared():
    assert unread().all_nodes.smallest_mean_curvature(np.zeros(3)) == 1.0
    assert unread(dim=2000).all_nodes.smallest_mean_curvature(np.zeros(2000)) == 1.0
    true = plain()
    least = true.all_nodes.smallest_mean_curvature(np.zeros(3))
    for away in ([0], [0, 3], range(5), range(6)):
        mixed = loaded(true, away, loader=lambda _: private)
        bound = mixed.all_nodes.smallest_mean_curvature(np.zeros(3))
        assert true.mu * 0.999 <= bound <= least * (1 + 1e-12)
    # attained, where those who are away are curved alike in all directions
    same = bq.Quadratic(2 * np.eye(3), np.zeros(3))
    losses = [true.objective(0), same, true.objective(1)]
    mixed = loaded(bq.Problem(losses), [1], loader=lambda _: private)
    exact = bq.Problem(losses).all_nodes.smallest_mean_curvature(np.zeros(3))
    assert mixed.all_nodes.smallest_mean_curvature(np.zeros(3)) == pytest.approx(exact, rel=1e-12)


def test_that_it_has_been_loaded_here_makes_no_difference_to_what_is_known():
    problem = loaded(plain())
    problem.all_nodes.gradients(np.zeros((6, 3)))
    with pytest.raises(OptimumUnknown):
        problem.optimum()
    with pytest.raises(InvalidObjective):
        problem.value(np.zeros(3))


def test_those_who_are_at_hand_have_an_optimum_among_themselves():
    true = plain()
    problem = loaded(true, [2], loader=lambda _: private)
    assert problem.away == (2,)
    here = problem.among([0, 1, 3])
    assert here.away == ()
    zero = Legacy.zero(3)
    np.testing.assert_array_equal(here.minimiser(zero), true.among([0, 1, 3]).minimiser(zero))
    with pytest.raises(OptimumUnknown, match="node 2 are on its host"):
        problem.optimum()


@pytest.mark.parametrize("step", [None, 0.02])
def test_a_plan_is_made_without_the_data(step):
    engine = Captures()
    events = [bq.Departure(3, 10), bq.Crash(4, 20), bq.Return(3, 30), bq.Join(5, 5)]
    with pytest.raises(KeyboardInterrupt):
        bq.solve(
            unread(),
            bq.graphs.complete(6),
            departures=events,
            method=bq.GradientTracking(step=step),
            rounds=50,
            engine=engine,
        )
    plan = engine.plan
    assert plan.optima.known is None
    assert len(pickle.dumps(plan)) < 10000
    nodes, edges = epoch_edges(plan.network())
    assert first_pace(plan, nodes, mixing.metropolis(edges, nodes.size)).value > 0


@pytest.mark.parametrize(
    "will",
    [
        bq.wills.Adaptive(rule="oracle"),
        bq.wills.Adaptive(rule="certified"),
        bq.wills.PointOnly(),
    ],
    ids=repr,
)
def test_a_will_that_needs_the_optimum_or_a_pilot_is_refused_before_anything_is_loaded(will):
    with pytest.raises(InvalidWill, match=r"not known.*The data of nodes"):
        bq.solve(
            unread(),
            bq.graphs.ring(6),
            departures=[bq.Departure(3, 10)],
            will=will,
            rounds=50,
        )
    with pytest.raises(InvalidWill, match="pilot"):
        bq.calibrate(unread(), bq.graphs.ring(6), rounds=10)


# --- runs in this process -----------------------------------------------------------------------

EVENTS = (bq.Departure(3, 60), bq.Crash(1, 90), bq.Return(3, 120))


def both(engine, nodes=None, events=EVENTS, **options):
    true = plain(n=8, seed=5)
    problem = loaded(true, nodes)
    common = {"departures": events, "rounds": 400, "method": STEP, **options}
    graph = bq.graphs.ring_with_chords(8, chords=4, seed=0)
    runs = [bq.solve(p, graph, engine=engine(), **common) for p in (true, problem)]
    return (*runs, problem)


@pytest.mark.parametrize("nodes", [None, [1, 3], [0]], ids=["all", "two", "one"])
@pytest.mark.parametrize("will", [bq.wills.Adaptive(), bq.wills.Consensus()], ids=repr)
def test_real_nodes_with_loaded_losses_do_the_same_bit_for_bit(will, nodes):
    true, run, problem = both(bq.engines.Loop, nodes, will=will)
    assert run.status is true.status
    np.testing.assert_array_equal(run.x, true.x)
    for measured in ("invariant_gap", "gradient_norm", "disagreement"):
        np.testing.assert_array_equal(
            getattr(run.trajectory, measured), getattr(true.trajectory, measured)
        )
    assert [str(r) for r in run.departures] == [str(r) for r in true.departures]
    for node in problem.away:
        assert problem.objective(node)._loader.calls == 1


@pytest.mark.parametrize("nodes", [None, [1, 3]], ids=["all", "two"])
def test_rows_of_arrays_with_loaded_losses_do_the_same(nodes):
    true, run, problem = both(bq.engines.Vector, nodes)
    assert run.status is true.status
    np.testing.assert_allclose(run.x, true.x, rtol=1e-12, atol=1e-12)
    assert [r.choice for r in run.departures] == [r.choice for r in true.departures]
    assert all(problem.objective(node)._loader.calls == 1 for node in problem.away)


@pytest.mark.parametrize("engine", [bq.engines.Loop, bq.engines.Vector])
def test_a_run_says_that_its_optimum_is_not_known(engine):
    _, run, problem = both(engine, [2, 3], rounds=1500)
    assert run.status is bq.Status.CONVERGED
    assert run.trajectory.error is None
    assert run.plan.optima.known is None
    calls = [problem.objective(node)._loader.calls for node in problem.away]
    for ask in ("error", "optimum", "optima", "limit", "certificate"):
        with pytest.raises(OptimumUnknown, match=r"on (their|its) host"):
            getattr(run, ask)
    assert [problem.objective(node)._loader.calls for node in problem.away] == calls
    assert all(record.hindsight == {} for record in run.departures)
    assert "error" not in repr(run)


def test_a_step_is_chosen_by_the_declared_ranges():
    true, run, _ = both(bq.engines.Vector, method=bq.GradientTracking(), events=(), rounds=2000)
    assert run.status is bq.Status.CONVERGED
    # a lower bound of the mean curvature leaves the step safe, if not the same
    assert run.step >= true.step
    np.testing.assert_allclose(run.x, true.x, atol=1e-7)


def test_data_that_are_not_as_declared_fail_where_any_loss_would():
    losses = [plain().objective(i) for i in range(6)]
    losses[2] = bq.Loaded(Counting(losses[2]), dim=3, curvature=(2.0, 3.0))
    problem, graph = bq.Problem(losses), bq.graphs.ring(6)
    why = "Counting loaded has a curvature in"
    with pytest.raises(InvalidObjective, match=why):
        bq.solve(problem, graph, rounds=10)
    # among real nodes it is that node alone which fails, and the run says so
    run = bq.solve(problem, graph, rounds=10, engine=bq.engines.Loop())
    assert [(r.node, r.failed, why in r.why) for r in run.departures] == [(2, True, True)]


# --- a node's own file --------------------------------------------------------------------------

PEOPLE = "ill,age,weight\nno,0.3,1.0\nyes,0.4,-2.5\nyes,-0.5,0.0\n"
X = np.array([[0.3, 1.0], [0.4, -2.5], [-0.5, 0.0]])
WITH_BIAS = np.column_stack([X, np.ones(3)])


def silo(tmp_path, text=PEOPLE):
    path = tmp_path / "silo3.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (
            {"label": "ill", "loss": "logistic", "classes": ["no", "yes"], "l2": 0.1},
            bq.Logistic(WITH_BIAS, [0, 1, 1], l2=0.1),
        ),
        (
            {"label": "ill", "loss": "softmax", "classes": ["maybe", "no", "yes"], "bias": False},
            bq.Softmax(X, [1, 2, 2], classes=3),
        ),
        (
            {"label": "weight", "loss": "least_squares", "divisor": 7, "ignore": ["ill"]},
            bq.LeastSquares(WITH_BIAS[:, [0, 2]], X[:, 1], divisor=7),
        ),
        (
            {"label": "weight", "loss": "huber", "delta": 0.5, "features": ["age"]},
            bq.Huber(WITH_BIAS[:, [0, 2]], X[:, 1], delta=0.5),
        ),
    ],
    ids=lambda part: part.get("loss") if isinstance(part, dict) else "",
)
def test_a_file_of_samples_is_the_loss_of_these_samples(tmp_path, options, same):
    load = bq.data.loader(silo(tmp_path), **options)
    f = bq.Loaded(load, dim=same.dim, curvature=same.curvature)
    x = np.linspace(-1, 1, same.dim)
    assert f.value(x) == same.value(x)
    np.testing.assert_array_equal(f.gradient(x), same.gradient(x))
    assert len(pickle.dumps(f)) < 600
    assert pickle.loads(pickle.dumps(load)) == load  # noqa: S301 - our own bytes


def test_arrays_in_an_npz_are_blocks_of_features_and_numbered_classes(tmp_path):
    np.savez(tmp_path / "silo.npz", X=X, y=[0, 1, 1])
    load = bq.data.loader(
        tmp_path / "silo.npz", label="y", loss="logistic", classes=[0, 1], bias=False
    )
    x = np.array([1.0, 2.0])
    assert load().value(x) == bq.Logistic(X, [0, 1, 1]).value(x)


def test_a_silo_may_lack_a_class_and_order_its_columns_as_it_likes(tmp_path):
    options = {"label": "ill", "loss": "logistic", "classes": ("no", "yes")}
    turned = silo(tmp_path, "weight,ill,age\n2.5,yes,0.3\n")
    load = bq.data.loader(turned, features=["age", "weight"], **options)
    x = np.array([1.0, 2.0, 3.0])
    assert load().value(x) == bq.Logistic([[0.3, 2.5, 1.0]], [1]).value(x)


def test_a_loader_reads_nothing_before_it_is_called(tmp_path):
    load = bq.data.loader("nowhere/silo3.csv", label="y", loss="huber")
    f = bq.Loaded(load, dim=2, curvature=(0.0, 1.0))
    assert repr(f).startswith('Loaded(loader("nowhere/silo3.csv"), dim=2')
    with pytest.raises(InvalidData, match=r"nowhere/silo3\.csv does not exist") as caught:
        f.gradient(np.zeros(2))
    assert caught.value.__notes__


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"loss": "hinge"}, "The loss is 'hinge'"),
        ({"loss": "logistic"}, "these are given: none"),
        ({"loss": "softmax", "classes": ["a"]}, "these are given: a"),
        ({"loss": "softmax", "classes": ["a", "b", "a"]}, "these are given: a, b, a"),
        ({"loss": "logistic", "classes": ["a", "b", "c"]}, "two classes apart, and there are 3"),
        ({"loss": "huber", "classes": ["a", "b"]}, "predicts a number"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(options, what):
    with pytest.raises(InvalidData, match=what) as caught:
        bq.data.loader("silo3.csv", label="ill", **options)
    assert caught.value.remedy


def test_a_file_that_does_not_fit_is_refused_by_line(tmp_path):
    path = silo(tmp_path, PEOPLE + "perhaps,1,2\n")
    load = bq.data.loader(path, label="ill", loss="logistic", classes=["no", "yes"])
    with pytest.raises(InvalidData, match='line 5, column "ill": is "perhaps"') as caught:
        load()
    assert "no, yes" in caught.value.remedy


def test_a_leaver_finds_its_own_minimiser_where_its_data_are():
    """Without a prediction to go by, a memory is exact at the iterate and at the own minimiser."""
    rng = np.random.default_rng(3)
    losses = [
        bq.Softmax(rng.standard_normal((30, 3)) + k, rng.integers(3, size=30), 3, 0.05)
        for k in range(4)
    ]
    away = [bq.Loaded(Counting(one), dim=9, curvature=one.curvature) for one in losses]
    here, there = (
        bq.solve(
            bq.Problem(some), bq.graphs.complete(4), departures=[bq.Departure(3, 4)], rounds=30,
            method=bq.NIDS(), optimum=None,
        )
        for some in (losses, away)
    )  # fmt: skip
    assert "own minimiser" in here.departures[0].why
    assert here.departures[0].why == there.departures[0].why
    assert here.x.tobytes() == there.x.tobytes()


def test_a_loader_refuses_texts_of_which_nothing_is_said(tmp_path):
    path = tmp_path / "silo3.csv"
    path.write_text("name,age,y\nAnn,30,1.5\nBob,40,2.5\n")
    with pytest.raises(InvalidData, match='"name" is text, and nothing says what to do about it'):
        bq.data.loader(path, label="y", loss="huber")()
    assert bq.data.loader(path, label="y", loss="huber", ignore=["name"])().dim == 2
    assert bq.data.loader(path, label="y", loss="huber", features=["age"])().dim == 2
