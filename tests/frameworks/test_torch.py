"""Models of torch: the numbers of our own losses, every engine, and words for what is wrong."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from insisting import check_quadratics, insisting
from rehearsal import Rehearsal
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import bequest as bq
import bequest.torch
from bequest.engines import Loop, records
from bequest.engines.fingerprint import fingerprint
from bequest.errors import DimensionMismatch, InvalidObjective, NotFinite, OptimumUnknown
from bequest.journal import Journal, read
from bequest.model.objectives import SampleKey
from bequest.replay import Replay as Rerun

Silo = bequest.torch.Silo
GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)
LEAVING = [bq.Departure(2, 6), bq.Departure(4, 12)]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def data(i, m=24, features=5, classes=3, dtype=torch.float64):
    rng = np.random.default_rng([i, 3])
    X = rng.standard_normal((m, features)) + 0.4 * i
    y = np.digitize(X @ np.linspace(1, -1, features), [-1, 1])
    return torch.tensor(X, dtype=dtype), torch.tensor(y)


def mlp(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def problem(batch=4, dtype=torch.float32, **options):
    model = mlp(dtype)
    silos = [
        Silo(model, cross_entropy, data(i, dtype=dtype), l2=1e-3, batch=batch, **options)
        for i in range(6)
    ]
    return bq.Problem(silos)


def solved(losses, engine=None, **options):
    asked = {
        "departures": LEAVING,
        "rounds": 30,
        "method": bq.GradientTracking(step=0.1),
        "will": bq.wills.Replay(rank=2),
        "start": getattr(losses.objective(0), "start", None),
    } | options
    return bq.solve(losses, GRAPH, engine=engine, **asked)


# --- numbers -----------------------------------------------------------------------------------


def linear(classes):
    return nn.Linear(5, classes, bias=False).double()


def test_it_is_our_softmax():
    X, y = data(1)
    ours = bq.Softmax(X.numpy(), y.numpy(), 3, 0.1)
    theirs = Silo(linear(3), cross_entropy, (X, y), l2=0.1)
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((2, 15))
    assert theirs.value(x) == pytest.approx(ours.value(x), abs=1e-12)
    np.testing.assert_allclose(theirs.gradient(x), ours.gradient(x), atol=1e-12)
    np.testing.assert_allclose(theirs.hvp(x, v), ours.hvp(x, v), atol=1e-12)
    # of a linear model Gauss-Newton is the Hessian
    np.testing.assert_allclose(theirs.convexified.hvp(x, v), ours.hvp(x, v), atol=1e-12)
    np.testing.assert_allclose(theirs.hessian(x), ours.hessian(x), atol=1e-12)
    key = SampleKey(0, 1, 0, 5)
    mine = bq.Minibatches(ours, 6).gradient(x, key)
    batched = Silo(linear(3), cross_entropy, (X, y), l2=0.1, batch=6).gradient(x, key)
    np.testing.assert_allclose(batched, mine, atol=1e-12)


def test_it_is_our_logistic():
    X, y = data(2)
    signs = (y > 0).double()
    ours = bq.Logistic(X.numpy(), signs.numpy(), 0.1)
    theirs = Silo(linear(1), logistic, (X, signs), l2=0.1)
    x = np.random.default_rng(0).standard_normal(5)
    assert theirs.value(x) == pytest.approx(ours.value(x), abs=1e-12)
    np.testing.assert_allclose(theirs.gradient(x), ours.gradient(x), atol=1e-12)


@pytest.mark.parametrize("will", [bq.wills.Replay(rank=2), bq.wills.Replay(centroids=6)])
def test_a_whole_run_is_that_of_our_softmax(will):
    ours = bq.Problem([bq.Softmax(*(t.numpy() for t in data(i)), 3, 0.1) for i in range(6)])
    theirs = bq.Problem(
        [Silo(linear(3), cross_entropy, data(i), l2=0.1, curvature=(0.1, 5)) for i in range(6)]
    )
    runs = [solved(p, will=will, start=np.zeros(15)) for p in (theirs, ours)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-10)


def logistic(out, target):
    return nn.functional.binary_cross_entropy_with_logits(out[:, 0], target)


@pytest.mark.parametrize(
    "will",
    # Targets of this loss are numbers to torch, not classes: moments would be others.
    [bq.wills.Consensus(), bq.wills.Trust(), bq.wills.Replay(centroids=24)],
    ids=lambda will: will.title,
)
@pytest.mark.parametrize("batch", [None, 6])
def test_a_whole_run_is_that_of_our_logistic(will, batch):
    ours, theirs = [], []
    for i in range(6):
        X, y = data(i)
        signs = (y > 0).double()
        loss = bq.Logistic(X.numpy(), signs.numpy(), 0.1)
        ours.append(loss if batch is None else bq.Minibatches(loss, batch))
        known = {"curvature": loss.curvature, "batch": batch}
        theirs.append(Silo(linear(1), logistic, (X, signs), l2=0.1, **known))
    runs = [solved(bq.Problem(losses), will=will, start=np.zeros(5)) for losses in (theirs, ours)]
    for one in runs:
        assert len(one.departures) == 2
        assert all(record.choice != "none" for record in one.departures)
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-10)


# --- runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("full_every", [None, 5])
def test_the_same_minibatch_run_bit_for_bit_on_every_engine(full_every):
    losses = problem(full_every=full_every)
    rows = solved(losses)
    assert rows.invariant_gap.max() < 1e-12
    for engine in (Loop(), Loop(as_bytes=True), Rehearsal(hosts=6)):
        np.testing.assert_array_equal(solved(losses, engine).x, rows.x)


def test_a_log_repeats_it(tmp_path):
    losses, path = problem(), tmp_path / "log"
    with Journal(path) as scribe:
        first = solved(losses, Loop(scribe=scribe))
    np.testing.assert_array_equal(solved(losses, Rerun(read(path))).x, first.x)


def test_a_record_belongs_to_the_data():
    losses, others = problem(), problem(seed=1)
    plans = [solved(one, rounds=1, departures=[]).plan for one in (losses, problem(), others)]
    engine = Loop()
    one, same, other = (fingerprint(plan, engine) for plan in plans)
    assert one == same
    assert one != other
    assert records is not None


QUADRATICS = [
    bq.wills.Consensus(),
    bq.wills.LocalTrack(),
    bq.wills.Drift(),
    bq.wills.Drift(2),
    bq.wills.Budget(4),
    bq.wills.FullHessian(),
    bq.wills.Trust(),
    bq.wills.Adaptive(),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("will", QUADRATICS, ids=lambda will: will.title)
def test_every_quadratic_of_a_network_is_handed_over_alike(will, dtype):
    losses, will = problem(dtype=dtype), insisting(will)
    rows = solved(losses, will=will)
    check_quadratics(rows, losses, step=0.1)
    nodes = solved(losses, Loop(as_bytes=True), will=will)
    np.testing.assert_array_equal(nodes.x, rows.x)
    assert [one.why for one in nodes.departures] == [one.why for one in rows.departures]


@pytest.mark.parametrize(
    ("will", "choice"),
    [
        (bq.wills.Forgetful(), "none"),
        (bq.wills.Consensus(), "none"),  # so early no quadratic is trusted
        (bq.wills.Adaptive(statistics=True), "replay"),
    ],
    ids=lambda given: getattr(given, "title", given),
)
def test_what_is_no_quadratic_of_a_network(will, choice):
    losses = problem()
    rows = solved(losses, will=will)
    assert [record.choice for record in rows.departures] == [choice] * len(LEAVING)
    assert rows.invariant_gap.max() < 1e-13
    np.testing.assert_array_equal(solved(losses, Loop(as_bytes=True), will=will).x, rows.x)


def test_a_network_that_has_settled_leaves_its_quadratic_unasked():
    losses, late = problem(batch=None), [bq.Departure(2, 700)]
    options = {"departures": late, "rounds": 705, "method": bq.GradientTracking(step=0.3)}
    for will in (bq.wills.Trust(), bq.wills.Consensus()):
        run = solved(losses, will=will, **options)
        check_quadratics(run, losses, step=0.3)


def test_return_and_crash_of_a_network():
    events = [bq.Departure(2, 6), bq.Crash(4, 15), bq.Return(2, 20)]
    losses = problem()
    one = solved(losses, departures=events)
    other = solved(losses, Loop(as_bytes=True), departures=events)
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-6)
    assert one.invariant_gap.max() < 1e-12


def test_the_model_comes_back_as_a_state_dict():
    run = solved(problem())
    model = mlp()
    model.load_state_dict(run.model)
    flat = torch.cat([p.reshape(-1) for p in model.parameters()]).detach().numpy()
    np.testing.assert_allclose(flat, run.x.mean(axis=0), atol=1e-6)


def test_the_module_of_the_user_is_left_alone():
    model = mlp()
    before = {name: part.clone() for name, part in model.state_dict().items()}
    model.train()
    silo = Silo(model, cross_entropy, data(0, dtype=torch.float32))
    silo.gradient(np.ones(silo.dim))
    assert model.training
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())


def test_a_silo_can_be_pickled():
    silo = problem().objective(3)
    silo.gradient(np.zeros(silo.dim))
    again = pickle.loads(pickle.dumps(silo))  # noqa: S301
    x = np.linspace(-1, 1, silo.dim)
    np.testing.assert_array_equal(
        again.gradient(x, SampleKey(0, 1, 0, 2)), silo.gradient(x, SampleKey(0, 1, 0, 2))
    )


def test_trackers_stay_exact_though_the_model_is_float32():
    run = solved(problem(dtype=torch.float32), rounds=300)
    assert run.invariant_gap.max() < 1e-12


def test_loaders_and_datasets():
    X, y = data(0, dtype=torch.float32)
    dataset = torch.utils.data.TensorDataset(X, y)
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, shuffle=True)
    plain = Silo(mlp(), cross_entropy, (X, y), batch=5)
    x = np.zeros(plain.dim)
    for given in (loader, dataset):
        silo = Silo(mlp(), cross_entropy, given, batch=None if given is loader else 5)
        assert silo.batch == 5
        np.testing.assert_array_equal(silo.gradient(x), plain.gradient(x))
        np.testing.assert_array_equal(
            silo.gradient(x, SampleKey(0, 0, 0, 1)), plain.gradient(x, SampleKey(0, 0, 0, 1))
        )


def test_a_regression_replays_joint_moments():
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
    silos = []
    for i in range(6):
        X, _ = data(i, dtype=torch.float32)
        silos.append(Silo(model, mse_loss, (X, X[:, :1] * 0.5), l2=1e-3, batch=4))
    run = solved(bq.Problem(silos))
    assert run.departures[0].choice == "replay"
    assert np.isfinite(run.x).all()


# --- what is not convex steps aside ------------------------------------------------------------


def test_what_needs_convexity_says_so():
    run = solved(problem())
    assert run.problem.regime == "N"
    with pytest.raises(OptimumUnknown, match="not convex"):
        _ = run.certificate
    with pytest.raises(OptimumUnknown, match="not convex"):
        _ = run.limit
    with pytest.raises(OptimumUnknown, match="not convex"):
        run.problem.optimum()


def test_gauss_newton_is_never_negative():
    silo = problem(dtype=torch.float64).objective(0)
    assert silo.curvature.a < 0
    rng = np.random.default_rng(0)
    x = rng.standard_normal(silo.dim)
    assert np.linalg.eigvalsh(silo.hessian(x))[0] < -1e-6
    assert np.linalg.eigvalsh(silo.convexified.hessian(x))[0] >= silo.l2 - 1e-9


def test_trust_goes_by_the_curvature_on_its_way():
    """Twice: as the Gauss-Newton matrix has it, and at most half of one over the step."""
    losses, seen = problem(dtype=torch.float64, batch=None), []

    class Watched(bq.wills.Trust):
        insists = True

        def decide(self, estate):
            seen.append(estate)
            return super().decide(estate)

    run = solved(losses, will=Watched(), departures=[bq.Departure(2, 40)], rounds=42)
    (record,), (estate,) = run.departures, seen
    s, _ = estate.recent.movement(32)
    # all of the matrix, a product per column
    bent = losses.objective(2).convexified.hessian(estate.x) @ s
    expected = np.linalg.norm(bent) / np.linalg.norm(s)
    assert expected < 0.5 / 0.1
    assert record.legacy.eta == pytest.approx(expected, rel=1e-9)
    assert record.vectors == 2.0
    longer = replace(estate, setting=replace(estate.setting, step=10 / expected))
    assert bq.wills.Trust().decide(longer).legacy.eta == pytest.approx(expected / 20, rel=1e-9)


def test_a_model_with_a_long_name_is_replayed_too():
    """Its name is cut, and what is told of its samples fits into a message."""
    kind = type("Perceptron" * 12, (nn.Sequential,), {})
    module = kind(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    losses = bq.Problem(
        [Silo(module, cross_entropy, data(i, dtype=torch.float32), batch=4) for i in range(6)]
    )
    assert len(losses.objective(0).architecture) == 64
    run = solved(losses, Loop(as_bytes=True))
    assert [record.choice for record in run.departures] == ["replay", "replay"]
    np.testing.assert_array_equal(run.x, solved(losses).x)


# --- words -------------------------------------------------------------------------------------


def pair(dtype=torch.float32):
    return data(0, dtype=dtype)


def _summing(out, target):
    return cross_entropy(out, target, reduction="sum")


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    def forward(self, x):
        return self.inner(x)


class Buffered(nn.Linear):
    def __init__(self):
        super().__init__(5, 3)
        self.register_buffer("seen", torch.zeros(1))


def _dropping():
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def _nan():
    X, y = pair()
    X[3, 2] = float("nan")
    return X, y


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Silo(mlp(), _summing, pair()), InvalidObjective, "sums over samples"),
        (lambda: Silo(mlp().to("meta"), cross_entropy, pair()), InvalidObjective, "are on cpu, m"),
        (lambda: Silo(Normed(), cross_entropy, pair()), InvalidObjective, "inner.1 .BatchNorm1d"),
        (lambda: Silo(Buffered(), cross_entropy, pair()), InvalidObjective, "parameters: seen"),
        (lambda: Silo(_dropping(), cross_entropy, pair()), InvalidObjective, "training mode"),
        (lambda: Silo(mlp(), cross_entropy, iter([pair()])), InvalidObjective, "read once"),
        (lambda: Silo(mlp(), cross_entropy, [1, 2, 3]), InvalidObjective, "The data are a list"),
        (lambda: Silo(mlp, cross_entropy, pair()), InvalidObjective, "The model is a function"),
        (lambda: Silo(mlp(), "ce", pair()), InvalidObjective, "The loss is a str"),
        (lambda: Silo(mlp(), cross_entropy, _nan()), NotFinite, "nan in sample 3"),
        (
            lambda: Silo(mlp(), cross_entropy, (pair()[0], pair()[1][:5])),
            DimensionMismatch,
            "targets of shape",
        ),
        (
            lambda: bq.Problem(
                [
                    Silo(mlp(), cross_entropy, pair()),
                    Silo(
                        nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)),
                        cross_entropy,
                        pair(),
                    ),
                ]
            ),
            InvalidObjective,
            "one architecture",
        ),
        (
            lambda: bq.Problem(
                [Silo(mlp(), cross_entropy, pair()), Silo(linear(3), cross_entropy, data(0))]
            ),
            DimensionMismatch,
            "Objective 0 has dim",
        ),
    ],
)
def test_bad_input_is_refused_in_words(make, kind, words):
    with pytest.raises(kind, match=words) as caught:
        make()
    assert caught.value.remedy


def test_frozen_parameters_are_refused_by_name():
    model = mlp()
    model[0].weight.requires_grad_(False)
    with pytest.raises(InvalidObjective, match=r"0\.weight is frozen"):
        bequest.torch.Silo(model, cross_entropy, data(0, dtype=torch.float32))


@pytest.mark.parametrize("row", [0, 7, 23])
def test_an_entry_that_is_no_number_is_found_in_any_sample(row):
    inputs, targets = data(0, dtype=torch.float32)
    inputs[row, 1] = torch.nan
    with pytest.raises(NotFinite, match=f"nan in sample {row}"):
        bequest.torch.Silo(mlp(), cross_entropy, (inputs, targets))


def test_a_run_begins_where_the_first_model_does():
    """Zeros would never train."""
    losses = problem()
    run = bq.solve(losses, bq.graphs.ring(losses.n), rounds=0)
    np.testing.assert_array_equal(run.x[1], losses.objective(0).start)


@pytest.mark.parametrize(("statistics", "choice"), [(True, "replay"), (False, "none")])
def test_the_default_will_trusts_no_quadratic_of_a_network_that_has_hardly_begun(
    statistics, choice
):
    losses = problem()
    will = bq.wills.Adaptive(statistics=statistics)
    options = {"departures": [bq.Departure(1, 3)], "method": bq.GradientTracking(1e-3)}
    run = bq.solve(losses, bq.graphs.ring(losses.n), rounds=5, will=will, **options)
    assert run.departures[0].choice == choice


def test_dropout_that_is_off_is_no_harm():
    silo = Silo(_dropping().eval(), cross_entropy, pair())
    x = np.ones(silo.dim)
    np.testing.assert_array_equal(silo.gradient(x), silo.gradient(x))


def test_a_gradient_that_is_no_number_ends_the_run_in_words():
    def exploding(out, target):
        found = cross_entropy(out, target)
        return found + 0 * torch.sqrt(30.0 - out.abs().max())

    silos = [Silo(mlp(), exploding, data(i, dtype=torch.float32), batch=4) for i in range(6)]
    losses = bq.Problem(silos)
    run = solved(losses, method=bq.GradientTracking(step=50.0), departures=[])
    assert run.status == "diverged"
    with pytest.raises(bq.errors.Diverged):
        run.raise_for_status()


def test_losses_that_are_no_models_have_no_model():
    losses = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=10.0, seed=7)
    run = bq.solve(losses, GRAPH, rounds=3)
    with pytest.raises(InvalidObjective, match="no model"):
        _ = run.model
