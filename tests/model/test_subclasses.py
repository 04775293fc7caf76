"""What is derived from ours does what it says, or is refused: it is never silently ignored."""

from dataclasses import dataclass

import numpy as np
import pytest

import bequest as bq
from bequest import errors
from bequest.model.objectives.linear import LinearModel
from bequest.model.objectives.quadratic import QuadraticStack

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 2)), np.array([0, 1, 1, 0, 1, 0])
TEMPLATES = {
    bq.Quadratic: (np.eye(2), np.zeros(2)),
    bq.Logistic: (X, Y, 0.1),
    bq.LeastSquares: (X, Y, 0.1),
    bq.Huber: (X, Y, 1.0, 0.1),
    bq.Softmax: (X[:, :1], Y, 2, 0.1),
}
REPLACEMENTS = {
    "value": lambda self, x: 7.0,
    "gradient": lambda self, x: np.ones(2),
    "hvp": lambda self, x, v: v,
    "hessian": lambda self, x: np.eye(2),
}


def derived(kind, name, replacement):
    return type("Mine", (kind,), {name: replacement})(*TEMPLATES[kind])


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("kind", TEMPLATES, ids=lambda kind: kind.__name__)
def test_a_loss_that_replaces_what_its_stack_computes_is_refused(kind, name):
    loss = derived(kind, name, REPLACEMENTS[name])
    says = f"Objective 1 is a Mine with a {name} of its own.*Function"
    with pytest.raises(errors.InvalidObjective, match=says):
        bq.Problem([kind(*TEMPLATES[kind]), loss])
    away = bq.Loaded(lambda: loss, dim=2, curvature=(0.0, 100.0))
    with pytest.raises(errors.InvalidObjective, match=f"loaded is a Mine with a {name} of its own"):
        away.gradient(np.zeros(2))


def test_so_is_one_whose_gradient_was_replaced_in_place():
    loss = bq.Logistic(X, Y, 0.1)
    loss.gradient = lambda x: np.zeros(2)
    with pytest.raises(errors.InvalidObjective, match="a Logistic with a gradient of its own"):
        bq.Problem([loss])


def test_so_is_a_quadratic_that_is_curved_otherwise_than_its_matrix():
    loss = derived(bq.Quadratic, "curvature", property(lambda self: bq.Curvature(0.5, 9.0)))
    with pytest.raises(errors.InvalidObjective, match="a Mine with a curvature of its own"):
        bq.Problem([loss])


def test_so_is_a_function_with_another_gradient():
    class Mine(bq.Function):
        def gradient(self, x):
            return 2 * super().gradient(x)

    loss = Mine(lambda x: (x @ x / 2, x), dim=2, curvature=(1.0, 1.0))
    with pytest.raises(errors.InvalidObjective, match="a Mine with a gradient of its own"):
        bq.Problem([loss])


class Labelled(bq.Quadratic):
    """Changes nothing that is computed."""

    def __init__(self, A, c, name):
        super().__init__(A, c)
        self.name = name


class Wavy(LinearModel):
    """mean (t^2 + cos t) / 2: a prediction's loss, its slope, its bend and the range of that."""

    lowest, highest = 0.5, 1.5

    def losses(self, prediction, y):
        return (prediction - y) ** 2 / 2 + np.cos(prediction - y) / 2

    def slopes(self, prediction, y):
        return prediction - y - np.sin(prediction - y) / 2

    def bends(self, prediction, y):
        return 1 - np.cos(prediction - y) / 2


class Shifted(bq.Quadratic):
    """A quadratic that is pulled aside, with a stack that knows it."""

    def gradient(self, x):
        return super().gradient(x)

    def stack(self, members):
        return QuadraticStack(
            np.stack([m.A for m in members]), np.stack([m.c + 1.0 for m in members])
        )


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
def test_what_is_derived_the_right_way_is_what_runs(engine):
    def limit(losses):
        run = bq.solve(
            bq.Problem(losses), bq.graphs.complete(len(losses)), rounds=300, engine=engine
        )
        return run.x.mean(axis=0)

    centres = [np.array([1.0, 2.0]), np.array([3.0, -4.0])]
    assert limit([Labelled(np.eye(2), c, "me") for c in centres]) == pytest.approx([2.0, -1.0])
    wavy = [Wavy(X, Y), Wavy(X + 1, Y)]
    slopes = sum(loss.gradient(limit(wavy)) for loss in wavy)
    assert slopes == pytest.approx([0.0, 0.0], abs=1e-4)


def test_a_class_with_a_stack_of_its_own_may_replace_what_it_likes():
    problem = bq.Problem([Shifted(np.eye(2), np.zeros(2)), Shifted(np.eye(2), np.zeros(2))])
    assert problem.optimum() == pytest.approx([1.0, 1.0])


def test_least_squares_with_other_formulas_are_no_quadratics():
    class Robust(bq.LeastSquares):
        def slopes(self, prediction, y):
            return np.tanh(prediction - y)

    class Named(bq.LeastSquares):
        name = "mine"

    assert Named(X, Y).constant_hessian
    assert not Robust(X, Y).constant_hessian
    assert not bq.Problem([Robust(X, Y, 0.1)])._groups[0][1].constant_hessian


# --- methods, problems, graphs, events ----------------------------------------------------------

PROBLEM = bq.Problem([bq.Quadratic(np.eye(2), np.zeros(2))] * 3)
RING = bq.graphs.ring(3)


@dataclass(frozen=True)
class Halved(bq.GradientTracking):
    """Goes half as far as it is told."""

    def message(self, x, z, local, out=None):
        return x - local.pace / 2 * z, z


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
def test_what_is_derived_from_a_method_runs_as_it_says(engine):
    options = {"rounds": 7, "engine": engine}
    mine = bq.solve(PROBLEM, RING, method=Halved(0.2), **options)
    half = bq.solve(PROBLEM, RING, method=bq.GradientTracking(0.1), **options)
    np.testing.assert_allclose(mine.x, half.x, rtol=1e-13)


@dataclass(frozen=True)
class Mine(bq.methods.Method):
    """A sound method, until something in it is replaced."""

    share: float = 0.4
    given = 0.1

    def message(self, x, z, local, out=None):
        return (x - local.pace * z,)

    def advance(self, x, z, said, heard, local, out=None):
        flow = self.share / local.pace * heard[0]
        return said[0] - local.pace * flow, z + flow


def leaky(self, x, z, said, heard, local, out=None):
    there, kept = Mine.advance(self, x, z, said, heard, local)
    return there, kept + 1e-3 * x


def careless(self, x, z, said, heard, local, out=None):
    x -= local.pace * z
    return x, z


FAULTS = {
    "two for one": ({"message": lambda self, x, z, local, out=None: (x, z)}, "returns 2 arrays"),
    "bare": ({"message": lambda self, x, z, local, out=None: x}, "returns ndarray"),
    "short": ({"message": lambda self, x, z, local, out=None: (x[:1],)}, "another shape than x"),
    "leaky": ({"advance": leaky}, "sums to .* and not to zero"),
    "careless": ({"advance": careless}, "overwrites x or z"),
    "x alone": ({"advance": lambda self, x, z, said, heard, local, out=None: x}, "ValueError"),
    "raising": ({"advance": lambda self, *rest: 1 / 0}, "ZeroDivisionError"),
    "flat": (
        {"advance": lambda self, x, z, said, heard, local, out=None: (x[0], z[0])},
        "advance returns arrays of another shape",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_method_of_ones_own_that_cannot_be_one_is_refused_before_the_run(name):
    assert bq.solve(PROBLEM, RING, method=Mine(), rounds=3).status != "diverged"
    parts, words = FAULTS[name]
    method = type("Faulty", (Mine,), parts)()
    with pytest.raises(errors.InvalidMethod, match=rf"Faulty.*{words}"):
        bq.solve(PROBLEM, RING, method=method, rounds=3)


def test_a_method_that_says_it_is_not_exact_need_not_conserve_anything():
    method = type("Leaky", (Mine,), {"advance": leaky, "is_exact": False})()
    run = bq.solve(PROBLEM, RING, method=method, rounds=3)
    assert "which Leaky does not" in str(run.certificate)


@pytest.mark.parametrize("method", [bq.GradientTracking, 0.1, "nids", object()])
def test_what_is_no_method_is_refused(method):
    for call in (bq.solve, bq.calibrate):
        with pytest.raises(errors.InvalidMethod, match="The method is"):
            call(PROBLEM, RING, method=method, rounds=3)


@pytest.mark.parametrize("name", ["value", "gradient"])
def test_a_problem_that_replaces_what_no_node_asks_for_is_refused(name):
    kind = type("Mine", (bq.Problem,), {name: lambda self, x: np.zeros(2)})
    problem = kind([PROBLEM.objective(0)] * 3)
    with pytest.raises(errors.InvalidObjective, match=f"a Mine with a {name} of its own"):
        bq.solve(problem, RING, rounds=3)


def test_a_graph_with_weights_of_its_own_is_refused():
    class Mine(bq.Graph):
        def weights(self):
            return np.full((3, 3), 1 / 3)

    with pytest.raises(errors.InvalidGraph, match=r"a Mine with weights of its own.*Metropolis"):
        bq.solve(PROBLEM, Mine([(0, 1), (1, 2)]), rounds=3)
    plain = type("Named", (bq.Graph,), {})([(0, 1), (1, 2)])
    assert plain.spectral_gap > 0  # cached in the graph from now on, and no override
    assert bq.solve(PROBLEM, plain, rounds=3).rounds == 3


@pytest.mark.parametrize("kind", [bq.Departure, bq.Crash, bq.Join], ids=lambda k: k.__name__)
def test_an_event_of_ones_own_is_refused(kind):
    event = type("Mine", (kind,), {})(0, 2)
    with pytest.raises(errors.InvalidEvent, match=r"Mine\(node=0, round=2.*is not an event"):
        bq.solve(PROBLEM, RING, departures=[event], rounds=3)


def test_a_pilot_of_ones_own_is_asked():
    class Mine(bq.Pilot):
        def error(self, t):
            return 0.25

    run = bq.solve(
        PROBLEM,
        RING,
        departures=[bq.Departure(0, 2)],
        will=bq.wills.PointOnly(cap=None),
        pilot=Mine(radius=1.0, theta=0.5, zeta=1.0),
        start=[1.0, 0.0],
        method=bq.GradientTracking(step=0.1),
        rounds=3,
    )
    record = run.departures[0]
    assert record.legacy.eta == pytest.approx(np.linalg.norm(record.x) / 0.25)


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
@pytest.mark.parametrize("value", [float("nan"), 0.0, -1.0, float("inf"), None, "fast"])
def test_a_pace_that_is_none_is_refused_whenever_it_is_chosen(engine, value):
    choice = bq.methods.StepChoice(value, 0, "a guess")
    bad = type("Bad", (Mine,), {"given": None, "first_pace": lambda self, conditions: choice})()
    with pytest.raises(errors.InvalidMethod, match=r"Bad chooses .* as its pace"):
        bq.solve(PROBLEM, RING, method=bad, rounds=3, engine=engine)
    parts = {
        "given": None,
        "first_pace": lambda self, conditions: bq.methods.StepChoice(0.1, 0, "fine"),
        "next_pace": lambda self, current, conditions, since: 0.1 if value is None else choice,
    }
    later = type("Later", (Mine,), parts)()
    with pytest.raises(errors.InvalidMethod, match=r"Later chooses .* as its pace"):
        bq.solve(
            PROBLEM, RING, method=later, departures=[bq.Departure(1, 2)], rounds=5, engine=engine
        )


@pytest.mark.parametrize("coupling", [10**400, np.complex128(1 + 1j), True, "1", [1.0]])
def test_a_coupling_that_is_no_number_is_refused(coupling):
    with pytest.raises(errors.InvalidMethod, match="The coupling is"):
        bq.NIDS(coupling=coupling)
    with pytest.raises(errors.InvalidMethod, match="The metric is"):
        bq.NIDS(metric=np.array(["scalar"]))
