"""What silos agree on by the protocol: sums, names, and tables that only their hosts read."""

import pickle
from functools import partial

import numpy as np
import pytest

import bequest as bq
from bequest import phases
from bequest.core.legacy import Legacy
from bequest.data import Table, names, problem_of, select
from bequest.data.naming import Naming, agree_on_names
from bequest.data.questions import FirstSums, HostAnswer, Placed, SecondSums
from bequest.data.recipe import Category, Number, agree
from bequest.errors import DimensionMismatch, InvalidData, InvalidMethod, OptimumUnknown
from bequest.model.objectives.isotropic import Isotropic, on_its_host
from bequest.phases.sums import for_these, remaining

LEAVING = [
    (),
    (bq.Departure(1, 3), bq.Departure(2, 9)),
    (bq.Crash(1, 3), bq.Departure(2, 9)),
    (bq.Departure(0, 1), bq.Return(0, 6), bq.Crash(3, 8)),
]
ENGINES = [None, bq.engines.Loop(), bq.engines.Loop(hosts=2, as_bytes=True)]


def private():
    """A vector that must not be computed in this process."""
    raise AssertionError("private data were looked at")


def parts_of(n=4, size=300, seed=4):
    """Vectors with entries of all sizes, some zero, some of which cancel."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(n, size)) * 10.0 ** rng.integers(-8, 9, size)
    parts[:, 3] = 0.0
    parts[:, 4] = [1e8, *[-1e8 / (n - 1)] * (n - 1)]
    return parts


# --- sums ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("leaving", LEAVING)
def test_sums_are_exact_even_if_silos_leave(engine, leaving):
    parts = parts_of()
    found = phases.total(parts, graph=bq.graphs.ring(4), engine=engine, departures=leaving)
    assert (np.abs(found - parts.sum(axis=0)) <= 1e-13 * np.abs(parts).max(axis=0)).all()


@pytest.mark.parametrize("leaving", LEAVING)
def test_a_phase_knows_who_is_left_and_who_talks_to_whom(leaving):
    done = phases.phase(parts_of(), graph=bq.graphs.ring(4), departures=leaving)
    assert done.graph.n == len(done.run.survivors)
    # what an epoch of the loop engine has at its end, by its own records
    network = {node: set() for node in done.run.survivors}
    for one, other in done.graph.edges.tolist():
        a, b = done.run.survivors[one], done.run.survivors[other]
        network[a].add(b)
    bridges = {pair for record in done.run.departures for pair in record.bridges}
    old = {tuple(edge) for edge in bq.graphs.ring(4).edges.tolist()} | bridges
    old |= {(c.node, other) for c in done.run.changes for other in c.neighbours}
    kept = {tuple(sorted(edge)) for edge in old if {*edge} <= {*done.run.survivors}}
    assert {(a, b) for a, others in network.items() for b in others} == kept


def test_one_silo_alone_nothing_to_add_and_a_long_way_round():
    assert phases.total([np.array([3.5])], graph=bq.Graph([], n=1)).tolist() == [3.5]
    assert phases.total(np.zeros((4, 0)), graph=bq.graphs.ring(4)).size == 0
    parts = parts_of(n=40, size=5)
    found = phases.total(parts, graph=bq.graphs.path(40))
    assert (np.abs(found - parts.sum(axis=0)) <= 1e-12 * np.abs(parts).max(axis=0)).all()


def test_a_vector_can_be_computed_where_the_data_are():
    parts = parts_of()
    hosts = [on_its_host(partial(np.array, part), part.size) for part in parts]
    found = phases.total([*hosts[:3], parts[3]], graph=bq.graphs.ring(4))
    assert np.array_equal(found, phases.total(parts, graph=bq.graphs.ring(4)))
    kept = on_its_host(private, 3)
    assert pickle.loads(pickle.dumps(kept)).dim == 3  # noqa: S301 - our own bytes
    with pytest.raises(AssertionError, match="private"):
        phases.total([kept, kept], graph=[(0, 1)])


def test_vectors_of_unequal_length_and_silos_that_are_lost_are_told_in_words():
    with pytest.raises(DimensionMismatch, match="2, 3 entries"):
        phases.total([np.ones(2), np.ones(3)], graph=[(0, 1)])
    with pytest.raises(InvalidMethod, match="come to no agreement"):
        phases.total(np.ones((3, 1)), graph=bq.graphs.path(3), method=bq.methods.DGD())
    engine = bq.engines.Loop()
    problem = bq.Problem([Isotropic([float(k)]) for k in range(4)])
    lost = bq.solve(
        problem, bq.graphs.ring(4), departures=[bq.Crash(2, 3)], will=bq.wills.Classic(),
        rounds=60, buddies=0, recall=False, engine=engine, optimum=None,
    )  # fmt: skip
    assert lost.lost == (2,)
    assert remaining(lost).n == 3


def test_an_isotropic_loss_is_the_quadratic_it_says_it_is():
    c, x, v = np.arange(3.0), np.array([2.0, -1.0, 5.0]), np.array([1.0, 0.0, -2.0])
    ours, plain = Isotropic(c), bq.Quadratic(np.eye(3), c)
    assert ours.value(x) == plain.value(x)
    for name in ("gradient", "hessian"):
        np.testing.assert_array_equal(getattr(ours, name)(x), getattr(plain, name)(x))
    np.testing.assert_array_equal(ours.hvp(x, v), plain.hvp(x, v))
    np.testing.assert_array_equal(ours.bound(), plain.bound())
    assert ours.curvature == plain.curvature == bq.Curvature(1.0, 1.0)
    both = bq.Problem([ours, Isotropic(-c), plain])
    assert both.optimum() == pytest.approx(c / 3)
    assert both.among([0]).minimiser(Legacy.zero(3)) == pytest.approx(c)
    assert repr(ours) == "Isotropic(dim=3)"


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES[:2])
@pytest.mark.parametrize("leaving", LEAVING[:2])
def test_the_union_of_names_is_agreed_on_by_sums_of_numbers(engine, leaving):
    rng = np.random.default_rng(1)
    pool = [f"{'é' * (k % 7)}{k * 7919}" for k in range(60)]
    known = [{*rng.choice(pool, 25, replace=False).tolist()} for _ in range(4)]
    asked = []

    def ask(question):
        asked.append(question)
        parts = [question(silo) for silo in known]
        assert all(part.size == question.size for part in parts)
        return phases.total(parts, graph=bq.graphs.ring(4), engine=engine, departures=leaving)

    found = names.union(lambda silo: silo, ask, source="a test")
    assert found == set().union(*known)
    assert len(asked) == 2


def test_names_that_cannot_be_told_apart_at_first_are_asked_for_again():
    known = [{f"n{k}" for k in range(30)}]
    few = names.Cells(lambda silo: silo, rows=9, width=2)
    found, is_all = few.read(few(known[0]))
    assert not is_all
    assert found < known[0]
    asked = []

    def cramped(question):
        if isinstance(question, names.Cells):
            asked.append(question)
            object.__setattr__(question, "rows", 13)
        return question(known[0])

    assert names.union(lambda silo: silo, cramped, source="a test") == known[0]
    assert len(asked) > 1
    assert len(asked[1].known) > 0


def test_too_many_and_too_long_names_and_none_at_all():
    def ask(known):
        return lambda question: question(known)

    table = Table({"ward": ["a"]})
    with pytest.raises(InvalidData, match="121 bytes long"):
        names.union(lambda _: {"x" * 121}, ask(table), source="a test")
    with pytest.raises(InvalidData, match="the silos know 20001 names"):
        names.union(lambda _: map(str, range(20001)), ask(table), source="a test")
    assert names.union(lambda _: (), ask(table), source="a test") == set()
    with pytest.raises(InvalidData, match="could not be told apart"):
        names.union(
            lambda _: {"a"},
            lambda q: q(table) + isinstance(q, names.Cells),  # a one too many everywhere
            source="a test",
        )


def test_a_sum_of_cells_shows_no_name_of_which_there_is_no_whole_number():
    cells = names.Cells(lambda silo: silo, rows=4, width=1)
    half = cells({"abc"}) + 0.3
    assert cells.read(half)[0] == {"abc"}  # rounding is taken off
    mixed = cells({"abc"})
    mixed[1::3] += 1.0  # a checksum that is off by one
    assert cells.read(mixed) == (set(), False)


# --- recipes ------------------------------------------------------------------------------------


def test_questions_are_answered_with_counts_and_sums_and_never_a_row():
    table = Table({"age": [30.0, np.nan, 50.0], "sex": ["f", "", "m"]})
    columns = (Number("age", impute=True), Category("sex", ("f", "m"), impute=True))
    first = FirstSums(columns)
    assert first(table).tolist() == [3, 2, 2, 80]
    assert first.size == 4
    second = SecondSums(columns, (40.0,))
    assert second(table).tolist() == [3, 200]
    assert second.size == 2


def test_a_silo_that_leaves_between_two_phases_is_in_the_means_and_not_in_the_scales():
    tables = [Table({"x": [1.0, 3.0]}), Table({"x": [5.0]}), Table({"x": [7.0, 9.0]})]
    there = [0, 1, 2]

    def ask(question):
        answer = sum(question(tables[k]) for k in there)
        if isinstance(question, FirstSums):
            there.remove(2)
        return answer

    recipe, rows = agree((Number("x"),), ask, standardise=True, bias=True)
    assert (recipe.columns[0].mean, rows) == (5.0, 3.0)
    assert recipe.columns[0].scale == pytest.approx(np.sqrt((16 + 4 + 0) / 3))


# --- tables on their hosts ----------------------------------------------------------------------


def hospital(rows=240, seed=0):
    """Columns with categories and missing values, and which site a row is from."""
    rng = np.random.default_rng(seed)
    age, pulse = rng.normal(60, 12, rows), rng.normal(80, 9, rows)
    sex = rng.choice(["f", "m"], rows)
    ward = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.4, 0.1])
    ill = age / 12 + (sex == "m") + rng.normal(0, 1, rows) > 5.6
    pulse[rng.random(rows) < 0.2] = np.nan
    ward[rng.random(rows) < 0.1] = ""
    site = rng.choice(["bonn", "oslo", "rome"], rows, p=[0.6, 0.3, 0.1])
    columns = {"age": age, "pulse": pulse, "sex": sex, "ward": ward, "site": site}
    return columns | {"ill": np.where(ill, "yes", "no")}


PREPARED = {
    "label": "ill",
    "impute": "mean",
    "categories": {"sex": ["f", "m"], "ward": "agree"},
    "bias": "unpenalised",
}


def written(folder, columns, **changed):
    """Write a file per site, and return them by name."""
    files = {}
    for site in ("bonn", "oslo", "rome"):
        rows = columns["site"] == site
        own = {name: values[rows] for name, values in columns.items() if name != "site"}
        files[site] = folder / f"{site}.npz"
        np.savez(files[site], **own | changed.get(site, {}))
    return files


@pytest.mark.parametrize("engine", ENGINES[:2])
@pytest.mark.parametrize("weigh", ["samples", "silos"])
def test_files_on_hosts_make_the_problem_of_the_pooled_table(tmp_path, engine, weigh):
    columns = hospital()
    samples = select(Table(columns), silo="site", **PREPARED)
    silos = bq.partition.by_column(samples.silo)
    here = problem_of(samples, silos, loss="logistic", l2=0.01, weigh=weigh)
    agreed = phases.on_hosts(
        written(tmp_path, columns), loss="logistic", graph=bq.graphs.path(3), engine=engine,
        l2=0.01, weigh=weigh, **PREPARED,
    )  # fmt: skip
    assert agreed.silos == ("bonn", "oslo", "rome")
    assert agreed.classes == samples.classes == ("no", "yes")
    assert agreed.features == samples.features
    assert agreed.problem.away == (0, 1, 2)
    for node in range(3):
        loss = agreed.problem.objective(node)
        x = np.linspace(-1, 1, here.dim)
        np.testing.assert_allclose(loss.gradient(x), here.objective(node).gradient(x), atol=1e-12)
        assert loss.curvature.b == pytest.approx(here.b[node], rel=1e-8)
    run = bq.solve(agreed.problem, agreed.graph, engine=agreed.engine, rounds=30)
    done = phases.newton(run, engine=agreed.engine)
    assert done.x == pytest.approx(here.optimum(), abs=1e-8)
    model = bq.data.trained(run, agreed, loss="logistic", names=agreed.silos, x=done.x)
    pooled = samples.X @ here.optimum()
    np.testing.assert_allclose(model.decision_function(Table(columns)), pooled, atol=1e-7)


def test_blocks_classes_that_are_numbers_and_declared_features(tmp_path):
    rng = np.random.default_rng(3)
    for name in "ab":
        pixels = rng.normal(size=(20, 4))
        np.savez(tmp_path / f"{name}.npz", pixels=pixels, extra=pixels[:, 0], y=[10, 9] * 10)
    files = {name: tmp_path / f"{name}.npz" for name in "ab"}
    common = {"label": "y", "loss": "softmax", "graph": [(0, 1)], "l2": 0.1}
    agreed = phases.on_hosts(files, **common)
    assert agreed.classes == ("9", "10")
    assert agreed.features == ("extra", *(f"pixels[{k}]" for k in range(4)))
    assert agreed.problem.dim == 12
    some = phases.on_hosts(files, features=["pixels"], classes=[10, 9], **common)
    assert (some.classes, some.problem.dim) == (("10", "9"), 10)
    np.savez(tmp_path / "b.npz", pixels=rng.normal(size=(5, 3)), extra=np.ones(5), y=[9] * 5)
    with pytest.raises(InvalidData, match="3 columns wide in one silo and 4 in another"):
        phases.on_hosts(files, **common)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"categories": {"ill": "agree"}}, "is the label"),
        ({"features": ["age"], "categories": {"sex": "agree"}}, "none of the features"),
        ({"impute": "median"}, "impute is 'median'"),
        ({"impute": None}, r"rome.npz, row \d+, column .*: is (nan|empty)|is (nan|empty)"),
        ({"features": ["agee"], "categories": {}}, 'bonn.npz has no column "agee"'),
        ({"label": "il"}, 'bonn.npz has no column "il"'),
        ({"classes": ["no", "maybe"]}, 'is "yes", which is no class'),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"weigh": "rows"}, "weigh is 'rows'"),
    ],
)
def test_what_does_not_fit_is_told_in_words_and_by_file(tmp_path, options, words):
    given = PREPARED | {"loss": "logistic", "graph": bq.graphs.path(3)} | options
    with pytest.raises(InvalidData, match=words):
        phases.on_hosts(written(tmp_path, hospital()), **given)


def test_no_files_and_files_without_a_feature(tmp_path):
    with pytest.raises(InvalidData, match="no files of silos"):
        phases.on_hosts({}, label="y", loss="huber", graph=[(0, 1)])
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", word=["x", "z"], y=[0.0, 1.0])
    files = {name: tmp_path / f"{name}.npz" for name in "ab"}
    with pytest.raises(InvalidData, match=r'a.npz: "word" is text, and nothing says'):
        phases.on_hosts(files, label="y", loss="huber", graph=[(0, 1)])
    with pytest.raises(InvalidData, match="no column besides the label and what is ignored"):
        phases.on_hosts(files, label="y", loss="huber", graph=[(0, 1)], ignore=["word"])
    with pytest.raises(InvalidData, match='no silo has the column "wrd", which is to be ignored'):
        phases.on_hosts(files, label="y", loss="huber", graph=[(0, 1)], ignore=["word", "wrd"])


def test_a_column_that_one_file_lacks_is_told_by_that_file(tmp_path):
    files = written(tmp_path, hospital())
    own = dict(np.load(files["oslo"]))
    del own["age"]
    np.savez(files["oslo"], **own)
    with pytest.raises(InvalidData, match=r'oslo.npz has no column "age"'):
        phases.on_hosts(files, loss="logistic", graph=bq.graphs.path(3), **PREPARED)


class Losing:
    """The vector engine, on which a silo leaves in one of the phases, unasked."""

    unplanned = True

    def __init__(self, when, node):
        self.when, self.node, self.runs = when, node, 0

    def run(self, plan, progress=None):
        self.runs += 1
        if self.runs != self.when:
            return bq.engines.Vector().run(plan, progress)
        own = bq.solve(
            plan.problem, plan.graph, departures=[bq.Departure(self.node, 5)],
            will=bq.wills.Consensus(), method=plan.method, rounds=plan.rounds, optimum=None,
        )  # fmt: skip
        return own.outcome


@pytest.mark.parametrize("when", [1, 2, 3, 4, 5])
def test_a_silo_that_leaves_in_a_phase_is_in_what_it_had_said(tmp_path, when):
    columns = hospital()
    files = written(tmp_path, columns)
    engine = Losing(when, node=1)
    agreed = phases.on_hosts(
        files, loss="logistic", graph=bq.graphs.path(3), engine=engine, l2=0.01, **PREPARED
    )
    assert (agreed.silos, agreed.left, engine.runs) == (("bonn", "rome"), ("oslo",), 5)
    assert agreed.graph.edges.tolist() == [[0, 1]]  # oslo held the other two together
    age = agreed.recipe.columns[0]
    stays = columns["site"] != "oslo"
    whole = columns["age"] if when >= 3 else columns["age"][stays]
    assert age.mean == pytest.approx(whole.mean(), rel=1e-12)
    spread = columns["age"] if when >= 4 else columns["age"][stays]
    assert age.scale == pytest.approx(np.sqrt(np.mean((spread - age.mean) ** 2)), rel=1e-12)
    assert agreed.problem.n == 2
    assert bq.solve(agreed.problem, agreed.graph, rounds=5).survivors == (0, 1)


def test_an_answer_names_its_file_and_the_engine_keeps_silos_on_their_hosts():
    asked = HostAnswer("/data/bonn.csv", FirstSums(()))
    assert asked.__name__ == 'FirstSums("/data/bonn.csv")'
    pytest.importorskip("ray")
    engine = bq.engines.Ray(placement={0: "alpha", 1: "beta", 2: "gamma"}, name="mine")
    there = for_these(engine, (0, 2))
    assert there.placement == {0: "alpha", 1: "gamma"}
    assert there.name is None
    assert for_these(None, (0, 2)) is None


# --- Newton -------------------------------------------------------------------------------------


def silos(strength=1.0, n=4, seed=0, dim=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, dim)) * 3.0 ** np.arange(dim)
    X[:, -1] = 1.0
    y = (X[:, 0] + rng.normal(0, 1, 160) > 0).astype(float)
    return bq.Problem(
        [
            bq.Logistic(X[k::n], y[k::n], 1 / (160 * strength), divisor=160 / n, unpenalised=[-1])
            for k in range(n)
        ]
    )


@pytest.mark.parametrize("engine", ENGINES[:2])
@pytest.mark.parametrize("leaving", [(), (bq.Departure(1, 10), bq.Departure(2, 20))])
@pytest.mark.parametrize("strength", [1e-3, 1e3])
def test_newton_steps_by_sums_end_at_the_limit(engine, leaving, strength):
    run = bq.solve(
        silos(strength), bq.graphs.ring(4), departures=leaving, will=bq.wills.FullHessian(),
        rounds=40, optimum=None,
    )  # fmt: skip
    done = phases.newton(run, engine=engine)
    assert done.x == pytest.approx(run.limit, rel=1e-9, abs=1e-9)
    assert done.numbers == 5 * 10 // 2 + 1
    assert 1 <= done.sums <= 20


def test_newton_steps_work_where_the_data_stay_on_their_hosts():
    here = silos()
    away = bq.Problem(
        [
            bq.Loaded(partial(here.objective, k), dim=5, curvature=here.objective(k).curvature)
            for k in range(4)
        ]
    )
    leaving = [bq.Departure(3, 10)]
    run = bq.solve(away, bq.graphs.ring(4), departures=leaving, rounds=40)
    with pytest.raises(OptimumUnknown):
        _ = run.limit
    same = bq.solve(here, bq.graphs.ring(4), departures=leaving, rounds=40, method=run.plan.method)
    assert phases.newton(run).x == pytest.approx(same.limit, rel=1e-9)


def test_newton_steps_say_why_they_lead_nowhere():
    apart = np.array([[1.0], [-1.0]])
    separable = bq.Problem([bq.Logistic(apart, [1.0, 0.0])] * 2)
    run = bq.solve(separable, [(0, 1)], rounds=5, optimum=None)
    with pytest.raises(OptimumUnknown):
        phases.newton(run)
    wide = bq.Problem([Isotropic(np.zeros(1501))] * 2)
    with pytest.raises(InvalidMethod, match="1501 unknowns would take 1130254 numbers"):
        phases.newton(bq.solve(wide, [(0, 1)], rounds=1, optimum=None))
    steep = bq.solve(
        silos(), bq.graphs.ring(4), rounds=400, method=bq.GradientTracking(step=1e9), optimum=None
    )
    with pytest.raises(InvalidMethod, match="diverged: there is nothing to finish"):
        phases.newton(steep)
    run = bq.solve(silos(), bq.graphs.ring(4), rounds=5, optimum=None)
    with pytest.raises(InvalidMethod, match="in the middle of a Newton step"):
        phases.newton(run, engine=Losing(1, node=1))


def test_answers_in_a_place_of_their_own_do_not_mix():
    table = Table({"x": [1.0, 2.0]})
    asked = [Placed(FirstSums((Number("x"),)), place, 2) for place in range(2)]
    assert asked[1].size == 6
    assert asked[1](table).tolist() == [0, 0, 0, 2, 2, 3]
    assert (asked[0](table) + asked[1](table)).tolist() == [2, 2, 3] * 2


def test_names_of_columns_classes_and_categories_travel_together():
    table = Table({"x": [1.0, 2.0], "w": ["a b", ""], "y": ["2", "10"]})
    naming = Naming(("w",), True, label="y", others=frozenset({"y", "w"}))
    agreed = agree_on_names(naming, lambda q: q(table), source="a test")
    assert agreed.columns == {"x": 0}
    assert agreed.classes == ("2", "10")
    assert agreed.categories == {"w": ("a b",)}
