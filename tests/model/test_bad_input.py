"""Whatever is wrong is refused by name, with a remedy, before anything is computed."""

import networkx
import numpy as np
import pytest

import bequest as bq
from bequest import errors

nan, inf = float("nan"), float("inf")
N = 4


class Untouched:
    """An engine and losses that notice if anything computes with them."""

    def __init__(self, dim=2):
        self.calls = 0

        def value_and_grad(x):
            self.calls += 1
            return x @ x / 2, x

        self.problem = bq.Problem(
            [bq.Function(value_and_grad, dim=dim, curvature=(1, 1), check=False) for _ in range(N)]
        )

    def run(self, plan, progress=None):
        raise AssertionError("the engine was started")


def solve(**changes):
    """Solve with one thing wrong, and see that nothing was computed before it was noticed."""
    untouched = Untouched()
    wish = {
        "problem": untouched.problem,
        "graph": bq.graphs.ring(N),
        "rounds": 10,
        "engine": untouched,
        "will": bq.wills.Consensus(),
    }
    try:
        bq.solve(**wish | changes)
    finally:
        assert untouched.calls == 0


def leaving(*events):
    return lambda: solve(departures=[bq.Departure(*event) for event in events])


def unsolvable():
    """Losses that are separable and have no penalty: their sum has no minimiser."""
    losses = [bq.Logistic([[1.0], [-1.0]], [1, 0]) for _ in range(N)]
    return bq.Problem(losses)


X, Y, A, C = np.ones((3, 2)), np.array([0.0, 1.0, 1.0]), np.eye(2), np.zeros(2)


def poisoned(array, value):
    wrong = np.array(array, dtype=float)
    wrong[(-1,) * wrong.ndim] = value
    return wrong


# what happens -> how, which error, and what its message must name
GRAPHS = {
    "two parts": (
        lambda: bq.Graph([(0, 1), (2, 3)]),
        errors.DisconnectedGraph,
        r"\{0, 1\}; \{2, 3\}",
    ),
    "a lonely node": (lambda: bq.Graph([(0, 1)], n=3), errors.DisconnectedGraph, r"\{2\}"),
    "no node talks": (lambda: bq.Graph([], n=2), errors.DisconnectedGraph, "2 parts"),
    "disconnected in solve": (
        lambda: solve(graph=[(0, 1), (1, 2)]),
        errors.DisconnectedGraph,
        r"\{3\}",
    ),
    "disconnected networkx": (
        lambda: bq.Graph(networkx.empty_graph(3)),
        errors.DisconnectedGraph,
        "3 parts",
    ),
    "self-loop": (lambda: bq.Graph([(0, 1), (1, 1)]), errors.InvalidGraph, "Node 1 .* itself"),
    "networkx self-loop": (
        lambda: bq.Graph(networkx.Graph([(0, 1), (0, 0)])),
        errors.InvalidGraph,
        "Node 0 .* itself",
    ),
    "node out of range": (lambda: bq.Graph([(0, 1), (1, 7)], n=3), errors.InvalidGraph, "node 7"),
    "negative node": (lambda: bq.Graph([(0, 1), (1, -1)]), errors.InvalidGraph, "node numbers"),
    "half a node": (lambda: bq.Graph([(0, 1), (1, 1.5)]), errors.InvalidGraph, "node numbers"),
    "a node that is no number": (
        lambda: bq.Graph([(0, 1), (1, nan)]),
        errors.InvalidGraph,
        "node numbers",
    ),
    "an infinite node": (lambda: bq.Graph([(0, 1), (1, inf)]), errors.InvalidGraph, "node numbers"),
    "named nodes": (lambda: bq.Graph([("a", "b")]), errors.InvalidGraph, "node numbers"),
    "three ends": (lambda: bq.Graph([(0, 1, 2)]), errors.InvalidGraph, "pairs"),
    "not edges": (lambda: bq.Graph(5), errors.InvalidGraph, "pairs"),
    "no nodes": (lambda: bq.Graph([], n=0), errors.InvalidGraph, "n is 0|0 nodes|no nodes"),
    "too small for the problem": (
        lambda: solve(graph=bq.graphs.ring(3)),
        errors.InvalidGraph,
        "3 nodes.* 4",
    ),
    "too large for the problem": (
        lambda: solve(graph=bq.graphs.ring(5)),
        errors.InvalidGraph,
        "5 nodes.* 4",
    ),
    "edges beyond the problem": (
        lambda: solve(graph=[(0, 1), (1, 2), (2, 3), (3, 4)]),
        errors.InvalidGraph,
        "node 4",
    ),
    "networkx of the wrong size": (
        lambda: solve(graph=networkx.cycle_graph(5)),
        errors.InvalidGraph,
        "5 nodes.* 4",
    ),
    "networkx with labels": (
        lambda: bq.Graph(networkx.Graph([("ada", "bob")])),
        errors.InvalidGraph,
        "ada",
    ),
    "networkx from one": (
        lambda: bq.Graph(networkx.Graph([(1, 2), (2, 3)])),
        errors.InvalidGraph,
        r"\[1, 2, 3\]",
    ),
    "directed networkx": (
        lambda: bq.Graph(networkx.DiGraph([(0, 1)])),
        errors.InvalidGraph,
        "directed",
    ),
}
EVENTS = {
    "unknown node": (leaving((9, 1)), errors.UnknownNode, "node=9"),
    "first node beyond": (leaving((N, 1)), errors.UnknownNode, f"node={N}"),
    "negative node": (leaving((-1, 1)), errors.UnknownNode, "node=-1"),
    "leaves twice": (leaving((1, 3), (1, 5)), errors.LeavesTwice, "node 1 .* round 3"),
    "leaves twice at once": (leaving((1, 3), (1, 3)), errors.LeavesTwice, "node 1 "),
    "every node leaves": (leaving(*((k, 2) for k in range(N))), errors.EverybodyLeaves, f"All {N}"),
    "every node leaves in turn": (
        leaving(*((k, 1 + k) for k in range(N))),
        errors.EverybodyLeaves,
        f"All {N}",
    ),
    "before the first round": (leaving((1, 0)), errors.OutsideTheRun, "round=0"),
    "long before": (leaving((1, -3)), errors.OutsideTheRun, "round=-3"),
    "after the last round": (leaving((1, 11)), errors.OutsideTheRun, "round=11"),
    "no rounds at all": (
        lambda: solve(rounds=0, departures=[bq.Departure(0, 1)]),
        errors.OutsideTheRun,
        "round=1",
    ),
    "half a node": (leaving((1.5, 3)), errors.InvalidEvent, "node=1.5"),
    "a whole number that is none": (leaving((1.0, 3)), errors.InvalidEvent, "node=1.0"),
    "a named node": (leaving(("ada", 3)), errors.InvalidEvent, "ada"),
    "no node": (leaving((None, 3)), errors.InvalidEvent, "None"),
    "true": (leaving((True, 3)), errors.InvalidEvent, "True"),
    "half a round": (leaving((1, 2.5)), errors.InvalidEvent, "round=2.5"),
    "a pair": (lambda: solve(departures=[(1, 3)]), errors.InvalidEvent, r"\(1, 3\)"),
    "a number": (lambda: solve(departures=[1]), errors.InvalidEvent, "1 is not an event"),
}
OBJECTIVES = {
    **{
        f"{value} in {name}": (make, errors.NotFinite, rf"{name} holds {value}")
        for value in (nan, inf, -inf)
        for name, make in {
            "A": lambda value=value: bq.Quadratic(poisoned(A, value), C),
            "c": lambda value=value: bq.Quadratic(A, poisoned(C, value)),
            "X": lambda value=value: bq.Logistic(poisoned(X, value), Y),
            "y": lambda value=value: bq.LeastSquares(X, poisoned(Y, value)),
        }.items()
    },
    "nan among the features of Softmax": (
        lambda: bq.Softmax(poisoned(X, nan), Y, classes=2),
        errors.NotFinite,
        r"\(2, 1\)",
    ),
    "nan among the labels of Softmax": (
        lambda: bq.Softmax(X, poisoned(Y, nan), classes=2),
        errors.NotFinite,
        "y holds nan",
    ),
    "nan among the labels of Logistic": (
        lambda: bq.Logistic(X, poisoned(Y, nan)),
        errors.NotFinite,
        "y holds nan",
    ),
    "nan among the targets of Huber": (
        lambda: bq.Huber(X, poisoned(Y, nan)),
        errors.NotFinite,
        "y holds nan",
    ),
    "three labels": (lambda: bq.Logistic(X, [0, 1, 2]), errors.InvalidLabels, "2.0"),
    "mixed conventions": (lambda: bq.Logistic(X, [-1, 0, 1]), errors.InvalidLabels, "-1.0, 0.0"),
    "labels between": (lambda: bq.Logistic(X, [0, 0.5, 1]), errors.InvalidLabels, "0.5"),
    "a class too many": (
        lambda: bq.Softmax(X, [0, 1, 3], classes=3),
        errors.InvalidLabels,
        "Label 3 .sample 2.*0..2",
    ),
    "a negative class": (
        lambda: bq.Softmax(X, [-1, 0, 1], classes=2),
        errors.InvalidLabels,
        "Label -1 .sample 0",
    ),
    "half a class": (
        lambda: bq.Softmax(X, [0, 0.5, 1], classes=2),
        errors.InvalidLabels,
        "Label 0.5 .sample 1",
    ),
    "one class": (
        lambda: bq.Softmax(X, [0, 0, 0], classes=1),
        errors.InvalidObjective,
        "classes is 1",
    ),
    "half a number of classes": (
        lambda: bq.Softmax(X, Y, classes=2.5),
        errors.InvalidObjective,
        "classes is 2.5",
    ),
    "nan classes": (
        lambda: bq.Softmax(X, Y, classes=nan),
        errors.InvalidObjective,
        "classes is nan",
    ),
    "A not square": (
        lambda: bq.Quadratic(np.ones((2, 3)), np.zeros(2)),
        errors.DimensionMismatch,
        "2x3",
    ),
    "A and c": (
        lambda: bq.Quadratic(A, np.zeros(3)),
        errors.DimensionMismatch,
        "2x2 and c has 3",
    ),
    "A a vector": (
        lambda: bq.Quadratic([1.0, 2.0], C),
        errors.DimensionMismatch,
        r"A has shape \(2,\)",
    ),
    "c a number": (lambda: bq.Quadratic(A, 0.0), errors.DimensionMismatch, r"c has shape \(\)"),
    "no samples": (
        lambda: bq.LeastSquares(np.ones((0, 2)), []),
        errors.DimensionMismatch,
        r"X has shape \(0, 2\)",
    ),
    "X and y": (
        lambda: bq.LeastSquares(X, np.zeros(4)),
        errors.DimensionMismatch,
        "X has 3 rows, y has 4",
    ),
    "y a column": (
        lambda: bq.LeastSquares(X, np.zeros((3, 1))),
        errors.DimensionMismatch,
        r"y has shape \(3, 1\)",
    ),
    "ragged": (lambda: bq.LeastSquares([[1.0], [1.0, 2.0]], [0, 1]), errors.InvalidObjective, "X "),
    "words": (lambda: bq.LeastSquares([["a", "b"]], [0]), errors.InvalidObjective, "X "),
    "objectives of different dimension": (
        lambda: bq.Problem([bq.Quadratic(A, C), bq.Quadratic(np.eye(3), np.zeros(3))]),
        errors.DimensionMismatch,
        "dim 2, objective 1 .*dim 3",
    ),
    "not symmetric": (
        lambda: bq.Quadratic([[1.0, 0.5], [0.0, 1.0]], C),
        errors.NotSymmetric,
        "differ by 0.5",
    ),
    "indefinite": (
        lambda: bq.Quadratic([[1.0, 0.0], [0.0, -2.0]], C),
        errors.NotConvex,
        "eigenvalue -2",
    ),
    "slightly indefinite": (
        lambda: bq.Quadratic(np.diag([1.0, -1e-9]), C),
        errors.NotConvex,
        "eigenvalue -1e-09",
    ),
    "negative curvature": (
        lambda: bq.Function(lambda x: (-x @ x / 2, -x), dim=1),
        errors.NotConvex,
        "eigenvalue -1",
    ),
    "reversed curvature": (
        lambda: bq.Curvature(2.0, 1.0),
        errors.InvalidObjective,
        "a=2.0, b=1.0",
    ),
    **{
        f"{name} with l2 = {l2}": (make, errors.InvalidObjective, f"l2 is {l2}")
        for l2 in (-1.0, nan, inf)
        for name, make in {
            "Logistic": lambda l2=l2: bq.Logistic(X, Y, l2=l2),
            "Softmax": lambda l2=l2: bq.Softmax(X, Y, classes=2, l2=l2),
            "LeastSquares": lambda l2=l2: bq.LeastSquares(X, Y, l2=l2),
            "Huber": lambda l2=l2: bq.Huber(X, Y, l2=l2),
        }.items()
    },
    **{
        f"delta = {delta}": (
            lambda delta=delta: bq.Huber(X, Y, delta=delta),
            errors.InvalidObjective,
            f"delta is {delta}",
        )
        for delta in (0.0, -1.0, nan, inf)
    },
}
RUNS = {
    **{
        f"step {step}": (
            lambda step=step: bq.GradientTracking(step=step),
            errors.InvalidMethod,
            f"step is {step}",
        )
        for step in (0, 0.0, -0.1, nan, inf, -inf)
    },
    **{
        f"{rounds} rounds": (
            lambda rounds=rounds: solve(rounds=rounds),
            errors.InvalidMethod,
            f"rounds is {rounds}",
        )
        for rounds in (-1, 2.5, True, nan, inf)
    },
    "rounds in words": (lambda: solve(rounds="ten"), errors.InvalidMethod, "rounds is ten"),
    "start with nan": (lambda: solve(start=[0.0, nan]), errors.NotFinite, "start"),
    "start with inf": (lambda: solve(start=[inf, 0.0]), errors.NotFinite, "start"),
    "start too long": (
        lambda: solve(start=np.zeros(3)),
        errors.DimensionMismatch,
        r"start has shape \(3,\)",
    ),
    "start a number": (lambda: solve(start=1.0), errors.DimensionMismatch, r"start has shape \(\)"),
    "start for too few": (
        lambda: solve(start=np.zeros((3, 2))),
        errors.DimensionMismatch,
        r"start has shape \(3, 2\)",
    ),
    "start transposed": (
        lambda: solve(start=np.zeros((2, N))),
        errors.DimensionMismatch,
        r"start has shape \(2, 4\)",
    ),
    "start ragged": (lambda: solve(start=[[0.0], [0.0, 1.0]]), errors.DimensionMismatch, "start"),
}
WILLS = {
    "a word": (
        lambda: solve(will="classic", departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "classic",
    ),
    "a word when nobody leaves": (lambda: solve(will="classic"), errors.InvalidWill, "classic"),
    "a class": (
        lambda: solve(will=bq.wills.Classic, departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "Classic",
    ),
    "nothing": (
        lambda: solve(will=None, departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "None",
    ),
    "a word in a mapping": (
        lambda: solve(will={1: "classic"}, departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "classic",
    ),
    "missing and no default": (
        lambda: solve(will={2: bq.wills.Classic()}, departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "Node 1 ",
    ),
    "an empty mapping": (
        lambda: solve(will={}, departures=[bq.Departure(1, 3)]),
        errors.InvalidWill,
        "Node 1 ",
    ),
    "rule": (lambda: bq.wills.Adaptive(rule="wise"), errors.InvalidWill, "rule='wise'"),
    "drop": (lambda: bq.wills.Adaptive(drop="mic"), errors.InvalidWill, "drop='mic'"),
    "rank without a drift branch": (
        lambda: bq.wills.Adaptive(rule="certified", vectors=4),
        errors.InvalidWill,
        "vectors=4.0, which it does not use",
    ),
    "rank of the oracle": (
        lambda: bq.wills.Adaptive(rule="oracle", vectors=3),
        errors.InvalidWill,
        "vectors=3.0, which it does not use",
    ),
    "drop without a bound": (
        lambda: bq.wills.Adaptive(drop="sensitivity"),
        errors.InvalidWill,
        "drop='sensitivity', which it does not use",
    ),
    **{
        f"cap {cap}": (
            lambda cap=cap: bq.wills.PointOnly(cap=cap),
            errors.InvalidWill,
            f"cap={cap}",
        )
        for cap in (0, -1.0, nan, inf)
    },
    "an oracle without an optimum": (
        lambda: solve(
            problem=unsolvable(),
            will=bq.wills.Adaptive(rule="oracle"),
            departures=[bq.Departure(1, 3)],
        ),
        errors.InvalidWill,
        "node 1 .*optimum",
    ),
    "a pilot that diverges": (
        lambda: solve(
            problem=bq.Problem([bq.Quadratic(A, C + k) for k in range(N)]),
            will=bq.wills.Adaptive(rule="certified"),
            departures=[bq.Departure(1, 300)],
            method=bq.GradientTracking(step=20.0),
            rounds=400,
        ),
        errors.InvalidMethod,
        "pilot.* diverged with step 20",
    ),
    "a pilot without an optimum": (
        lambda: solve(
            problem=unsolvable(), will=bq.wills.PointOnly(), departures=[bq.Departure(1, 3)]
        ),
        errors.InvalidWill,
        "optimum",
    ),
}
# Easy to write by mistake; an AttributeError from deep inside would name neither place nor remedy.
HOLE = np.ma.masked_array(np.array([1.0, 2.0]), mask=[False, True])
HOLES = np.ma.masked_array(np.eye(2), mask=[[False, False], [True, False]])
LABELS = np.ma.masked_array(np.array([0, 1, 1]), mask=[False, False, True])
# What is missing and what names it -> who notices.
MASKED = {
    "A": (lambda: bq.Quadratic(HOLES, C), errors.NotFinite, r"A is masked at index \(1, 0\)"),
    "rows of A": (lambda: bq.Quadratic(list(HOLES), C), errors.NotFinite, r"A .*\(1, 0\)"),
    "c": (lambda: bq.Quadratic(A, HOLE), errors.NotFinite, "c is masked at index 1"),
    "X": (lambda: bq.Logistic(HOLES, Y[:2]), errors.NotFinite, "X is masked"),
    "y": (lambda: bq.Logistic(X, LABELS), errors.NotFinite, "y is masked at index 2"),
    "y of Softmax": (lambda: bq.Softmax(X, LABELS, classes=2), errors.NotFinite, "y is masked"),
    "y of LeastSquares": (lambda: bq.LeastSquares(X, LABELS), errors.NotFinite, "y is masked"),
    "y of Huber": (lambda: bq.Huber(X, LABELS), errors.NotFinite, "y is masked"),
    "x": (lambda: bq.Quadratic(A, C).value(HOLE), errors.NotFinite, "x is masked"),
    "v": (lambda: bq.Quadratic(A, C).hvp(C, HOLE), errors.NotFinite, "v is masked"),
    "x of a problem": (
        lambda: bq.Problem([bq.Quadratic(A, C)]).gradient(HOLE),
        errors.NotFinite,
        "x is masked",
    ),
    "gradient": (
        lambda: bq.Function(lambda x: (0.0, HOLE), dim=2, curvature=(1, 1)),
        errors.NotFinite,
        "gradient is masked",
    ),
    "hvp": (
        lambda: bq.Function(BOWL, dim=2, curvature=(2, 2), hvp=lambda x, v: HOLE).hvp(C, C),
        errors.NotFinite,
        "hvp is masked",
    ),
    "start": (lambda: solve(start=HOLE), errors.NotFinite, "start is masked at index 1"),
    "spectrum": (
        lambda: bq.problems.quadratics(2, 2, 1.0, 2.0, 0, spectrum=HOLE),
        errors.NotFinite,
        "spectrum is masked",
    ),
    "edges": (
        lambda: bq.Graph(np.ma.masked_array([[0, 1]], mask=[[0, 1]])),
        errors.InvalidGraph,
        "edges is masked",
    ),
    "anchor": (
        lambda: bq.Legacy.anchored(0, anchor=HOLE, value=0.0, gradient=C, eta=1.0),
        errors.NotFinite,
        "masked",
    ),
    "labels to split": (
        lambda: bq.partition.by_label(LABELS, n=2),
        errors.InvalidData,
        "y is masked at index 2",
    ),
    "silos": (lambda: bq.partition.by_column(LABELS), errors.InvalidData, "silo column is masked"),
    "features to sort by": (
        lambda: bq.partition.first_component(HOLES),
        errors.InvalidData,
        "X is masked",
    ),
}
SLIPS = {
    "a step instead of a method": (lambda: solve(method=0.1), errors.InvalidMethod, "0.1"),
    "one event instead of several": (
        lambda: solve(departures=bq.Departure(1, 3)),
        errors.InvalidEvent,
        "Departure",
    ),
    "losses instead of a problem": (
        lambda: solve(problem=[bq.Quadratic(A, C)] * N),
        errors.InvalidInput,
        "list",
    ),
}
ALL = {
    f"{group}: {name}": case
    for group, cases in {
        "graph": GRAPHS,
        "event": EVENTS,
        "objective": OBJECTIVES,
        "run": RUNS,
        "will": WILLS,
        "masked": MASKED,
        "slip": SLIPS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", ALL)
def test_what_is_wrong_is_refused_by_name_and_with_a_remedy(name):
    attempt, kind, culprit = ALL[name]
    with pytest.raises(errors.BequestError, match=culprit) as caught:
        attempt()
    if kind is errors.InvalidInput:  # which branch of it is open
        assert isinstance(caught.value, kind)
    else:
        assert caught.type is kind
    assert isinstance(caught.value, ValueError)
    assert len(caught.value.remedy) > 5
    assert caught.value.what in str(caught.value)


def test_what_is_right_is_not_refused():
    """The wishes above fail for what is wrong in them, not for what they share."""
    problem = bq.Problem([bq.Quadratic(A, C + k) for k in range(N)])
    run = bq.solve(
        problem,
        bq.graphs.ring(N),
        rounds=10,
        departures=[bq.Departure(np.int64(1), np.int64(10)), bq.Departure(2, 1)],
        will={1: bq.wills.Classic(), None: bq.wills.Consensus()},
        start=np.ones((N, 2)),
        method=bq.GradientTracking(step=0.1),
    )
    assert run.survivors == (0, 3)
    assert [record.will for record in run.departures] == ["consensus (GT-C)", "classic"]


def test_an_asymmetry_of_rounding_size_is_accepted():
    noisy = np.array([[1.0, 0.5], [0.5 * (1 + 1e-14), 1.0]])
    assert bq.Quadratic(noisy, C).curvature.a == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: bq.solve(PAIR, [(0, 1)], departures=None, rounds=3), errors.InvalidEvent),
        (
            lambda: bq.solve(PAIR, [(0, 1)], engine=bq.engines.Vector, rounds=3),
            errors.InvalidMethod,
        ),
        (lambda: bq.solve(PAIR, [(0, 1)], pilot=3, rounds=3), errors.InvalidWill),
        (lambda: bq.GradientTracking(step="a"), errors.InvalidMethod),
        (lambda: bq.Function(lambda x: float(x @ x), dim=2), errors.InvalidObjective),
        (lambda: bq.Function(BOWL, dim=2, curvature=3), errors.InvalidObjective),
        (lambda: bq.Function(BOWL, dim=2, curvature=(1, 2, 3)), errors.InvalidObjective),
        (lambda: bq.Function(BOWL, dim=2, curvature=(1.0, 1.5)), errors.InvalidObjective),
        (lambda: bq.Function(BOWL, dim=2, curvature=(3.0, 4.0)), errors.InvalidObjective),
        (lambda: bq.LeastSquares([[1.0]], [1.0], l2="a"), errors.InvalidObjective),
        (lambda: bq.Quadratic([[1.0 + 1j]], [0.0]), errors.InvalidObjective),
        (lambda: bq.Graph([(0, 1)], n=2.5), errors.InvalidGraph),
        (lambda: bq.graphs.ring_with_chords(9, 1.5, seed=0), errors.InvalidGraph),
        (lambda: bq.graphs.ring(True), errors.InvalidGraph),
        (
            lambda: bq.solve(
                PAIR,
                [(0, 1)],
                departures=bq.departures.most_heterogeneous(PAIR, rounds=[2.9]),
                rounds=5,
            ),
            errors.InvalidEvent,
        ),
        (
            lambda: bq.solve(
                PAIR,
                [(0, 1)],
                departures=[bq.Departure(0, 2)],
                will=bq.wills.Adaptive(rule="certified", drop="sensitivity"),
                pilot=bq.Pilot(radius=1.0, theta=0.1, zeta=1.0),
                rounds=5,
            ),
            errors.InvalidWill,
        ),
    ],
)
def test_further_slips_are_refused_by_name(act, error):
    with pytest.raises(error) as caught:
        act()
    assert caught.value.remedy


PAIR = bq.Problem([bq.Quadratic([[1.0]], [0.0]), bq.Quadratic([[2.0]], [1.0])])


def BOWL(x):  # noqa: N802
    return float(x @ x), 2 * x


def test_a_masked_array_without_a_masked_entry_is_an_array():
    plain = bq.Logistic(X, Y, l2=0.1)
    masked = bq.Logistic(np.ma.masked_array(X), np.ma.masked_array(Y, mask=False), l2=0.1)
    assert masked.gradient(np.ma.masked_array(np.ones(2))).tolist() == (
        plain.gradient(np.ones(2)).tolist()
    )


BEYOND = 10**400  # a whole number that no float is


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: bq.Quadratic([["1", "0"], ["0", "1"]], C), "text"),
        (lambda: bq.LeastSquares(X, np.array(["1_0", "2", "3"])), "text"),
        (lambda: bq.LeastSquares(X, np.array(["2020", "2021", "2022"], dtype="M8[Y]")), "dates"),
        (lambda: bq.LeastSquares(X, np.arange(3).astype("m8[s]")), "durations"),
        (lambda: bq.Quadratic([[BEYOND, 0], [0, 1]], C), "too large"),
        (lambda: bq.LeastSquares(X, Y, l2=BEYOND), "l2 is 1000"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, hvp=3), "hvp is 3"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, seed=-1), "seed is -1"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, seed=None), "seed is None"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, curvature=(None, 1)), "None, 1"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, curvature=("a", 1)), "'a', 1"),
        (lambda: bq.Function(lambda x: (x @ x, 2 * x), dim=2, curvature=(1, BEYOND)), "curvature"),
    ],
)
def test_what_only_looks_like_numbers_is_refused(wrong, words):
    with pytest.raises(errors.InvalidObjective, match=words):
        wrong()


@pytest.mark.parametrize("cap", ["1", True, [1.0], 1j, nan, inf, 0, -1.0])
def test_a_cap_that_is_no_positive_number_is_refused(cap):
    with pytest.raises(errors.InvalidWill, match="PointOnly"):
        bq.wills.PointOnly(cap=cap)
