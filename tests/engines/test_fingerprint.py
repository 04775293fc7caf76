"""Fingerprints: whatever determines a result is noticed, named, and nothing else is."""

import dataclasses
import math
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

import bequest as bq
from bequest.engines import fingerprint as room
from bequest.engines.fingerprint import differences, fingerprint
from bequest.model.content import digest
from bequest.model.plan import Plan
from bequest.solver import prepare

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 3)), np.arange(40) % 2
RULES = {"limit": 1.0}


class Own(bq.wills.Will):
    """A will of the user's own."""

    label = "own"

    def __init__(self, eta=None):
        self.eta = eta

    def decide(self, estate):
        legacy = estate.anchored_at(estate.x, self.eta)
        return bq.Bequest("consensus", "as always", legacy, estate.x)


class Other(Own):
    def decide(self, estate):
        return bq.Bequest("none", "never")


def losses(x=X, y=Y, l2=0.1, divisor=None, delta=0.5, classes=2, c=0.0):
    """One of each kind."""
    centre = np.array([c, 0.0, 0.0])

    def squares(v):
        return float((v - centre) @ (v - centre)), 2 * (v - centre)

    return [
        bq.Logistic(x[:10], y[:10], l2, divisor=divisor),
        bq.LeastSquares(x[10:20], y[10:20], l2, divisor=divisor),
        bq.Huber(x[20:30], y[20:30], delta, l2, divisor=divisor),
        bq.Quadratic(np.diag([1.0, 2.0, 3.0]), centre),
        bq.Function(squares, dim=3, curvature=(2.0, 2.0)),
    ]


def asked(**changes):
    """A plan, and what is to be different in it."""
    own = changes.pop("losses", {})
    whole = {
        "problem": bq.Problem(losses(**own)),
        "graph": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
        "departures": [bq.Departure(1, 20), bq.Crash(2, 30), bq.Return(1, 40)],
        "will": bq.wills.Drift(rank=1),
        "rounds": 60,
        "method": bq.GradientTracking(step=0.01),
        "pilot": bq.Pilot(radius=1.0, theta=0.1, zeta=1.0, spread=1.0, floor=1e-12),
        "start": np.zeros(3),
        "buddies": 1,
        "checkpoint_every": 20,
    }
    return prepare(**(whole | changes))


def told(changed, engine=None):
    """What differs from the plan as it was, in words."""
    engine = engine or bq.engines.Vector()
    return differences(fingerprint(asked(), bq.engines.Vector()), fingerprint(changed, engine))


def touched(array, place, by=1e-12):
    new = np.array(array, dtype=float)
    new[place] += by
    return new


def flipped(array, place):
    new = np.array(array)
    new[place] = 1 - new[place]
    return new


def one_ulp(x):
    new = np.zeros(3)
    new[1] = np.nextafter(0.0, 1.0)
    return new


LINEAR = ", ".join(f"the loss of node {node}" for node in range(3))
CHANGES = {
    "a feature": ({"losses": {"x": touched(X, (3, 1))}}, "the loss of node 0"),
    "another's": ({"losses": {"x": touched(X, (25, 0))}}, "the loss of node 2"),
    "a label": ({"losses": {"y": flipped(Y, 12)}}, "the loss of node 1"),
    "l2": ({"losses": {"l2": 0.1 + 1e-15}}, LINEAR),
    "divisor": ({"losses": {"divisor": 11.0}}, LINEAR),
    "delta": ({"losses": {"delta": 0.6}}, "the loss of node 2"),
    "what a closure holds": ({"losses": {"c": 1e-9}}, "the loss of node 3, the loss of node 4"),
    "an edge more": (
        {"graph": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)]},
        "the graph",
    ),
    "another edge": (
        {"graph": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 1)]},
        "the graph, the neighbours of nodes that arrive",
    ),
    "a round": (
        {"departures": [bq.Departure(1, 21), bq.Crash(2, 30), bq.Return(1, 40)]},
        "the schedule",
    ),
    "who": (
        {"departures": [bq.Departure(3, 20), bq.Crash(2, 30), bq.Return(3, 40)]},
        "the schedule, the neighbours of nodes that arrive",
    ),
    "how": (
        {"departures": [bq.Departure(1, 20), bq.Departure(2, 30), bq.Return(1, 40)]},
        "the schedule",
    ),
    "a will's number": ({"will": bq.wills.Drift(rank=2)}, "the wills"),
    "a will's way": ({"will": bq.wills.Drift(rank=1, hessian="secant")}, "the wills"),
    "another will": ({"will": bq.wills.Consensus()}, "the wills"),
    "one node's will": (
        {"will": {None: bq.wills.Drift(rank=1), 2: bq.wills.Consensus()}},
        "the wills",
    ),
    "rounds": ({"rounds": 61}, "the number of rounds (60 there, 61 here)"),
    "a step": (
        {"method": bq.GradientTracking(step=0.02)},
        "the method (gradient tracking (step=0.01) there, gradient tracking (step=0.02) here)",
    ),
    "a chosen step": (
        {"method": bq.GradientTracking()},
        "the method (gradient tracking (step=0.01) there, gradient tracking (step=None) here)",
    ),
    "the pilot": (
        {"pilot": bq.Pilot(radius=1.0, theta=0.1, zeta=1.0, spread=1.0, floor=1e-11)},
        "the pilot",
    ),
    "the start": ({"start": one_ulp(np.zeros(3))}, "the start"),
    "buddies": ({"buddies": 2}, "the number of buddies (1 there, 2 here)"),
    "no recall": ({"recall": False}, "recall (True there, False here)"),
    "checkpoints": ({"checkpoint_every": 21}, "checkpoint_every (20 there, 21 here)"),
    "no checkpoints": ({"checkpoint_every": None}, "checkpoint_every (20 there, None here)"),
    "no optimum": ({"optimum": None}, "the optimum"),
    "an optimum": ({"optimum": np.ones(3)}, "the optimum"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed_and_named(name):
    changes, words = CHANGES[name]
    assert told(asked(**changes)) == words


def test_every_field_of_a_plan_is_looked_at():
    """A field that is added to a plan is added to the fingerprint, or said here to follow."""
    follow = {"counted"}  # from the schedule
    looked_at = set()

    class Spy:
        def __getattr__(self, name):
            looked_at.add(name)
            return getattr(asked(), name)

    fingerprint(Spy(), bq.engines.Vector())
    assert looked_at | follow >= {field.name for field in dataclasses.fields(Plan)}


def test_the_same_content_made_anew_is_the_same():
    assert told(asked()) == ""
    rows = [X[:10].tolist(), np.asfortranarray(X)[10:20], X[20:30].astype(">f8")]
    again = losses()
    again[0] = bq.Logistic(rows[0], list(Y[:10]), 0.1)
    again[1] = bq.LeastSquares(rows[1], Y[10:20].astype(float), 0.1)
    again[2] = bq.Huber(rows[2], Y[20:30], 0.5, 0.1)
    edges = [(0, 4), (4, 3), (2, 3), (2, 1), (1, 0), (0, 1)]
    wills = {node: bq.wills.Drift(rank=1) for node in range(5)}
    changed = asked(problem=bq.Problem(again), graph=edges, will=wills, start=None)
    assert told(changed) == ""


@pytest.mark.parametrize(
    "start", [-0.0 * np.ones(3), [0, 0, 0], np.zeros((5, 3)), np.zeros(3, dtype=np.float32)]
)
def test_a_start_in_other_words_is_the_same_start(start):
    plan = asked(start=start)
    assert told(plan) == ""
    assert not np.signbit(plan.start).any()


def sparse(build):
    """A plan with one sparse loss, and a function of the user's own that holds the same matrix."""
    rows = build(np.where(np.abs(X[:10]) < 0.5, 0.0, X[:10]))

    def squares(v):
        return float((rows @ v) @ (rows @ v)), 2 * (rows.T @ (rows @ v))

    first = bq.Logistic(rows, Y[:10], 0.1)
    other = bq.Function(squares, dim=3, curvature=(0.0, 99.0))
    return asked(problem=bq.Problem([first, other, *losses()[2:]]))


def with_zeros(dense):
    """Every entry, the zeros too; and the columns backwards."""
    m, d = dense.shape
    columns = np.tile(np.arange(d - 1, -1, -1), m)
    return csr_array((dense[:, ::-1].ravel(), columns, np.arange(m + 1) * d), shape=(m, d))


def twice(dense):
    """Halves that have to be added."""
    row, column = np.nonzero(dense)
    half = dense[row, column] / 2
    places = np.append(row, row), np.append(column, column)
    return coo_array((np.append(half, half), places), shape=dense.shape)


def wide(dense):
    whole = csr_array(dense)
    whole.indices, whole.indptr = whole.indices.astype(np.int64), whole.indptr.astype(np.int64)
    return whole


@pytest.mark.parametrize("build", [csc_array, csr_matrix, with_zeros, twice, wide])
def test_a_sparse_matrix_in_other_words_is_the_same_matrix(build):
    there = fingerprint(sparse(csr_array), bq.engines.Vector())
    here = fingerprint(sparse(build), bq.engines.Vector())
    assert there["the loss of node 0"] == here["the loss of node 0"]
    assert differences(there, here) in ("", "the loss of node 1")  # its answers may round anew
    assert digest(csr_array(X)) == digest(build(X))


def test_an_entry_of_a_sparse_matrix_is_noticed():
    def touch(dense):
        return csr_array(touched(dense, (2, 1), 1e-9))

    there = fingerprint(sparse(csr_array), bq.engines.Vector())
    here = fingerprint(sparse(touch), bq.engines.Vector())
    assert differences(there, here) == "the loss of node 0, the loss of node 1"


def test_what_was_computed_meanwhile_makes_no_difference():
    plan = asked()
    before = fingerprint(plan, bq.engines.Vector())
    plan.problem.optimum()
    for node in range(5):
        loss = plan.problem.objective(node)
        loss.gradient(np.ones(3)), loss.hessian(np.ones(3)), loss.curvature
    bq.engines.Vector().run(plan)
    assert fingerprint(plan, bq.engines.Vector()) == before


def test_what_a_function_has_learnt_from_its_answers_makes_no_difference():
    def plan(loss):
        return asked(problem=bq.Problem([loss, *losses()[1:]]))

    there, here = (
        bq.Function(lambda v: (float(v @ v), 2 * v), dim=3, curvature=(2.0, 2.0), check=False)
        for _ in range(2)
    )
    for _ in range(20):
        here.value(np.ones(3)), here.precision, here.hvp(np.ones(3), np.ones(3))
    found = [fingerprint(plan(loss), bq.engines.Vector()) for loss in (there, there, here)]
    assert found[0] == found[1] == found[2]


def test_engines_differ_by_what_changes_results():
    plan, Ray, Loop = asked(), bq.engines.Ray, bq.engines.Loop
    there = fingerprint(plan, Ray(nodes_per_host=2))
    for same in (
        Ray("10.0.0.1:1", nodes_per_host=2),
        Ray(nodes_per_host=2, name="a", patience=5.0, grace=1.0, startup=1.0, resume=True),
    ):
        assert differences(there, fingerprint(plan, same)) == ""
    for other in (Ray(nodes_per_host=3), Ray(placement=dict.fromkeys(range(5), "a")), Loop()):
        assert "the engine" in differences(there, fingerprint(plan, other))
    there = fingerprint(plan, Loop(hosts=2))
    for other in (Loop(hosts=1), Loop(hosts=2, weather=bq.engines.Weather(seed=4))):
        assert "the engine" in differences(there, fingerprint(plan, other))

    class Mine:
        """An engine that does not say what it is."""

    one, two = (fingerprint(plan, Mine()) for _ in range(2))
    assert differences(one, two) == ""
    assert "the engine" in differences(there, one)


@pytest.mark.parametrize("package", ["bequest", "python", "numpy", "scipy", "networkx"])
def test_versions_are_compared(package, monkeypatch):
    there = fingerprint(asked(), bq.engines.Vector())
    here = {**room.versions(), package: "99.1"}
    monkeypatch.setattr(room, "versions", lambda: here)
    found = told(asked())
    assert found == ""  # of two plans of one version
    found = differences(there, fingerprint(asked(), bq.engines.Vector()))
    assert found.startswith(f"the version of {package} (")
    assert found.endswith("there, 99.1 here)")


# --- what users write themselves -----------------------------------------------------------


def test_wills_of_the_users_own_are_known_by_what_they_do():
    there = fingerprint(asked(will=Own()), bq.engines.Vector())
    assert differences(there, fingerprint(asked(will=Own()), bq.engines.Vector())) == ""
    for other in (Own(0.5), Other()):
        changed = fingerprint(asked(will=other), bq.engines.Vector())
        assert differences(there, changed) == "the wills"


def squares_within(limit, x):
    r = x * RULES["limit"] * limit
    return float(r @ x) / 2, r


def fingerprint_of(callable_):
    f = bq.Function(callable_, dim=2, curvature=(0.0, 9.0))
    plan = prepare(bq.Problem([f, bq.Quadratic(np.eye(2), np.zeros(2))]), [(0, 1)], rounds=5)
    return fingerprint(plan, bq.engines.Vector())


def test_a_function_is_known_by_its_code_what_it_holds_and_what_it_answers(monkeypatch):
    there = fingerprint_of(partial(squares_within, 1.0))
    loss = "the loss of node 0"
    assert differences(there, fingerprint_of(partial(squares_within, 1.0))) == ""
    assert differences(there, fingerprint_of(partial(squares_within, 1.5))) == loss
    assert differences(there, fingerprint_of(lambda x: squares_within(1.0, x))) == loss
    monkeypatch.setitem(RULES, "limit", 2.0)  # a global of its module
    assert differences(there, fingerprint_of(partial(squares_within, 1.0))) == loss


class Model:
    """Holds data where no digest can look: a loss is then known by its answers."""

    __slots__ = ("_answer",)

    def __init__(self, scale):
        self._answer = memoryview(np.array([scale])).cast("B").cast("d")

    def __reduce__(self):
        raise TypeError("not to be pickled")

    def __getstate__(self):
        raise TypeError("not to be looked into")

    def __call__(self, x):
        return self._answer[0] * float(x @ x) / 2, self._answer[0] * x


def test_a_function_that_hides_its_data_is_known_by_its_answers():
    there = fingerprint_of(Model(1.0))
    assert differences(there, fingerprint_of(Model(1.0))) == ""
    assert differences(there, fingerprint_of(Model(1.0 + 1e-12))) == "the loss of node 0"


def bends_beyond(k, x):
    beyond = np.maximum(0.0, np.abs(x) - k) * np.sign(x)
    return float(x @ x + beyond @ beyond) / 2, x + beyond


class Hidden(Model):
    def __call__(self, x):
        return bends_beyond(self._answer[0], x)


@pytest.mark.parametrize("place", [3.0, 300.0])
def test_a_function_is_asked_far_out_too(place):
    there = fingerprint_of(Hidden(place))
    assert differences(there, fingerprint_of(Hidden(place))) == ""
    assert differences(there, fingerprint_of(Hidden(place + 0.1))) == "the loss of node 0"


def within_a_table(x):
    if np.abs(x).max() > 5:
        raise KeyError("not in the table")
    return float(x @ x) / 2, x


def test_a_function_may_fail_far_out():
    f = bq.Function(within_a_table, dim=2, curvature=(1.0, 1.0), check=False)
    plan = prepare(bq.Problem([f, f]), [(0, 1)], rounds=5)
    there = fingerprint(plan, bq.engines.Vector())
    assert differences(there, fingerprint(plan, bq.engines.Vector())) == ""
    grains = list(f._grains)
    assert f.answer(np.full(2, 1 / 3))[0] == pytest.approx(1 / 9)
    assert f._grains == grains  # what it answers far out says nothing of its precision


def imports_when_called(x):
    import test_fingerprint

    scale = test_fingerprint.RULES["limit"]
    return scale * float(x @ x) / 2, scale * x


def reads_the_environment(x):
    scale = float(os.environ.get("BEQUEST_TEST_SCALE", "1"))
    return scale * float(x @ x) / 2, scale * x


def looks_up_a_name(x):
    scale = globals()["RUL" + "ES"]["limit"]
    return scale * float(x @ x) / 2, scale * x


@pytest.mark.parametrize("loss", [imports_when_called, reads_the_environment, looks_up_a_name])
def test_a_function_is_known_by_its_answers_where_its_code_does_not_show_them(loss, monkeypatch):
    monkeypatch.setitem(sys.modules, "test_fingerprint", sys.modules[__name__])
    there = fingerprint_of(loss)
    assert differences(there, fingerprint_of(loss)) == ""
    monkeypatch.setitem(RULES, "limit", 3.0)
    monkeypatch.setenv("BEQUEST_TEST_SCALE", "3")
    assert differences(there, fingerprint_of(loss)) == "the loss of node 0"


def test_a_stochastic_function_is_not_known_by_its_answers():
    def noisy(seed):
        draws = iter(np.random.default_rng(seed).standard_normal(1000))
        return lambda x: (float(x @ x) / 2, x + 1e-9 * next(draws))

    class Noisy(Model):
        def __init__(self, seed):
            self._answer = noisy(seed)

        def __call__(self, x):
            return self._answer(x)

    f = [bq.Function(Noisy(seed), dim=2, curvature=(1.0, 1.0), check=False) for seed in (1, 2)]
    one, two = (
        fingerprint(prepare(bq.Problem([g]), bq.Graph([], n=1), rounds=2), bq.engines.Vector())
        for g in f
    )
    assert differences(one, two) == ""


def loaded(load, path, b=2.0):
    away = bq.Loaded(partial(load, path), dim=2, curvature=(1.0, b))
    return prepare(bq.Problem([away]), bq.Graph([], n=1), rounds=2)


def test_data_on_the_hosts_of_a_cluster_are_not_loaded():
    def load(path):
        pytest.fail("only the host may look at it")

    there = fingerprint(loaded(load, "a.csv"), bq.engines.Ray())
    assert differences(there, fingerprint(loaded(load, "a.csv"), bq.engines.Ray())) == ""
    for other in (loaded(load, "b.csv"), loaded(load, "a.csv", b=3.0)):
        assert differences(there, fingerprint(other, bq.engines.Ray())) == "the loss of node 0"


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_data_that_are_loaded_here_are_looked_into(tmp_path, engine):
    def load(path):
        return bq.Quadratic(np.diag(np.load(path)), np.zeros(2))

    path = tmp_path / "data.npy"
    np.save(path, [1.0, 2.0])
    there = fingerprint(loaded(load, path), engine)
    assert differences(there, fingerprint(loaded(load, path), engine)) == ""
    np.save(path, [1.0, 2.0 - 1e-9])
    assert differences(there, fingerprint(loaded(load, path), engine)) == "the loss of node 0"
    path.unlink()  # a run would say so
    assert differences(there, fingerprint(loaded(load, path), engine)) == "the loss of node 0"


def test_a_run_does_not_change_because_another_will_needs_more_of_the_pilot():
    def plan(spread, will):
        pilot = bq.Pilot(radius=1.0, theta=0.1, zeta=1.0, spread=spread, floor=0.0)
        return asked(will=will, pilot=pilot)

    certified = bq.wills.Adaptive(rule="certified")
    spread = bq.wills.Adaptive(rule="certified", drop="sensitivity")
    for will, noticed in ((certified, ""), (spread, "the pilot")):
        there, here = (fingerprint(plan(s, will), bq.engines.Vector()) for s in (math.nan, 14.0))
        assert differences(there, here) == noticed


def test_another_process_finds_the_same():
    program = (
        "import test_fingerprint as t, bequest as bq, json\n"
        "from bequest.engines.fingerprint import fingerprint\n"
        "own = [fingerprint(t.asked(will=w), bq.engines.Vector()) for w in (t.Own(), None)[:1]]\n"
        "own.append(t.fingerprint_of(t.partial(t.squares_within, 1.0)))\n"
        "print(json.dumps(own))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = {"PYTHONPATH": str(room.__file__).rsplit("/bequest/", 1)[0], "PATH": ""}
        environment["PYTHONHASHSEED"] = seed
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=__file__.rsplit("/", 1)[0],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_many_nodes_share_parts():
    problem = bq.problems.quadratics(n=2500, dim=2, mu=1.0, L=2.0, seed=0)
    plan = prepare(problem, bq.graphs.ring(2500), rounds=1)
    own = fingerprint(plan, bq.engines.Vector())
    assert len(own) < 1020
    moved = [problem.objective(node) for node in range(2500)]
    moved[1000] = bq.Quadratic(moved[1000].A, moved[1000].c + 1e-9)
    other = prepare(bq.Problem(moved), bq.graphs.ring(2500), rounds=1)
    assert differences(own, fingerprint(other, bq.engines.Vector())) == (
        "the losses of nodes 999 to 1001"
    )


def test_a_long_list_is_cut_short():
    there = fingerprint(asked(), bq.engines.Vector())
    moved = [bq.Quadratic(np.eye(3), np.ones(3)) for _ in range(5)]
    found = differences(there, fingerprint(asked(problem=bq.Problem(moved)), bq.engines.Vector()))
    assert found == "the loss of node 0, the loss of node 1, the loss of node 2 (and 2 more)"
    fewer = asked(problem=bq.Problem(moved[:4]), graph=bq.graphs.ring(4))
    found = differences(there, fingerprint(fewer, bq.engines.Vector()))
    assert "the number of nodes (5 there, 4 here)" in found
    assert "the loss of" not in found
