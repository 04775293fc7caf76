"""[problem] kind = "table": a user's own data in a run file."""

import ast
import json
import re

import numpy as np
import pytest

import bequest as bq
from bequest.errors import InvalidRunFile
from bequest.runfile import load

RUN = """
rounds = 60
{top}
[problem]
kind = "table"
file = "people.csv"
label = "ill"
{problem}
[graph]
kind = "complete"
{rest}
"""
NAMED = 'loss = "logistic"\nl2 = 0.1\nsilo = "town"\n'
LOGISTIC = NAMED + 'ignore = ["name"]\n'
WILLS = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'adaptive'\n"
LEAVES = "[departures]\nevents = [{node = 1, round = 30}]\n"


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["town,name,age,weight,ill,stage"]
    for row in range(90):
        age, weight = rng.normal(50, 10), rng.normal(70, 8)
        ill = "yes" if age + rng.normal(0, 5) > 52 else "no"
        town = ("Bonn", "Oslo", "Rome")[row % 3]
        lines.append(f"{town},p{row},{age:.1f},{weight:.1f},{ill},{row % 4}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def run_file(tmp_path, people):
    def write(problem=LOGISTIC, *, top="", rest=""):
        path = tmp_path / "run.toml"
        path.write_text(RUN.format(problem=problem, top=top, rest=rest))
        return path

    return write


def problem_of(path):
    (job, *_) = load(path).jobs()
    return job.plan.problem


# --- what a good file becomes -------------------------------------------------------------


def test_a_silo_column_gives_one_node_per_value(run_file):
    file = load(run_file())
    (job,) = file.jobs()
    problem = job.plan.problem
    assert (problem.n, problem.dim) == (3, 4)  # age, weight, stage and the bias
    assert file.silos == ("Bonn", "Oslo", "Rome")
    loss = problem.objective(0)
    assert type(loss) is bq.Logistic
    assert (loss.l2, loss.y.size, loss.divisor) == (0.1, 30, 30)
    assert job.exam.on == "training"


@pytest.mark.parametrize(
    ("partition", "n"),
    [
        ("kind = 'by_label'\nn = 2", 2),
        ("kind = 'dirichlet'\nn = 4\nalpha = 0.5", 4),
        ("kind = 'sorted_chunks'\nn = 5", 5),
        ("kind = 'sorted_chunks'\nn = 3\nby = ['town', 'age']", 3),
        ("kind = 'iid'\nn = 6", 6),
    ],
)
def test_every_partition(run_file, partition, n):
    others = '"name"]' if "town" in partition else '"name", "town"]'  # texts to sort by are named
    text = f'loss = "softmax"\nl2 = 0.1\ntest_fraction = 0.2\nignore = [{others}\n'
    text += f"[problem.partition]\n{partition}\n"
    problem = problem_of(run_file(text))
    assert problem.n == n
    assert sum(problem.objective(node).y.size for node in range(n)) == 72


def test_chunks_by_a_column_are_that_column(run_file):
    text = LOGISTIC.replace('silo = "town"', "standardise = false\nbias = false")
    text = text.replace('["name"]', '["name", "town"]')
    text += "[problem.partition]\nkind = 'sorted_chunks'\nn = 3\nby = ['age']\n"
    problem = problem_of(run_file(text))
    ages = [problem.objective(node).X[:, 0] for node in range(3)]
    assert ages[0].max() <= ages[1].min() <= ages[1].max() <= ages[2].min()


@pytest.mark.parametrize("loss", ["least_squares", "huber"])
def test_numbers_can_be_predicted_too(run_file, loss):
    delta = "delta = 0.5\n" if loss == "huber" else ""
    text = f'loss = "{loss}"\nfeatures = ["age"]\nsilo = "town"\n{delta}'
    path = run_file(text)
    path.write_text(path.read_text().replace('"ill"', '"weight"'))
    (job,) = load(path).jobs()
    assert job.exam is None
    assert job.plan.problem.dim == 2
    if loss == "huber":
        assert job.plan.problem.objective(0).delta == 0.5


def test_seeds_feed_the_test_split(run_file):
    text = LOGISTIC + "test_fraction = 0.3\n"
    one, two = load(run_file(text, top="seeds = [1, 2]")).jobs()
    assert one.exam.on == "test"
    assert one.exam.y.size == 27
    assert not np.array_equal(one.exam.X, two.exam.X)


# --- bequest run --------------------------------------------------------------------------


def test_run_reports_test_accuracy(bequest, run_file):
    path = run_file(LOGISTIC + "test_fraction = 0.3\n", rest=LEAVES + WILLS)
    result = bequest("run", path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    header = next(line.split() for line in lines if line.startswith("will"))
    assert header[:4] == ["will", "status", "accuracy", "error"]
    nobody = next(line for line in lines if line.startswith("nobody left  "))
    assert nobody.strip().endswith("%")
    assert "accuracy: share of the test samples that" in result.stdout
    assert "nodes: 0 Bonn, 1 Oslo, 2 Rome" in result.stdout


def test_json_has_recalls(bequest, run_file):
    path = run_file(
        LOGISTIC + "test_fraction = 0.3\n", top="seeds = [1, 2, 3]", rest=LEAVES + WILLS
    )
    document = json.loads(bequest("run", path, "--json").stdout)
    assert document["silos"] == ["Bonn", "Oslo", "Rome"]
    assert [entry["seed"] for entry in document["nobody_left"]] == [1, 2, 3]
    assert set(document["nobody_left"][0]["recall"]) == {"no", "yes"}
    scores = [run["score"] for run in document["runs"] if run["will"] == "classic"]
    assert all(score["on"] == "test" for score in scores)
    accuracies = sorted(score["accuracy"] for score in scores)
    assert document["wills"][0]["accuracy"] == accuracies[1]
    assert document["wills"][0]["worst_accuracy"] == accuracies[0]
    assert 0.6 < accuracies[0] <= 1
    text = bequest("run", path).stdout
    assert "median (and worst) of 3 seeds" in text
    assert f"{accuracies[1]:.1%} ({accuracies[0]:.1%})" in text


def test_without_a_test_fraction_it_is_training_accuracy(bequest, run_file):
    path = run_file()
    assert "training samples (which the models were trained on) that" in bequest("run", path).stdout
    document = json.loads(bequest("run", path, "--json").stdout)
    assert document["runs"][0]["score"]["on"] == "training"


def test_other_problems_have_no_accuracy(bequest, write, run_file):
    assert "accuracy" not in bequest("run", write()).stdout
    text = 'loss = "least_squares"\nsilo = "town"\nl2 = 0.1\nfeatures = ["age"]\n'
    path = run_file(text)
    path.write_text(path.read_text().replace('"ill"', '"weight"'))
    result = bequest("run", path)
    assert result.exit_code == 0
    assert "accuracy" not in result.stdout
    assert "score" not in json.loads(bequest("run", path, "--json").stdout)["runs"][0]


def test_a_diverged_run_and_an_unknown_optimum_have_no_accuracy(bequest, run_file, people):
    diverging = "[method]\nstep = 1e6\n[[wills]]\nkind = 'classic'\n"
    path = run_file(LOGISTIC, rest=diverging)
    document = json.loads(bequest("run", path, "--json").stdout)
    assert document["runs"][0]["score"]["accuracy"] is None
    assert document["runs"][0]["score"]["recall"] == {"no": None, "yes": None}
    people.write_text("age,town,ill\n1,a,no\n2,b,no\n3,a,yes\n4,b,yes\n")  # separable, no penalty
    path = run_file('loss = "logistic"\nsilo = "town"\n', rest="[[wills]]\nkind = 'classic'\n")
    result = bequest("run", path)
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if line.startswith("nobody left  "))
    assert "unknown" in row


def test_the_example_remembers_what_only_the_leaver_had(bequest, root):
    result = bequest("run", root / "examples" / "table.toml", "--json")
    assert result.exit_code == 0
    classic, adaptive = (run["score"] for run in json.loads(result.stdout)["runs"])
    assert classic["recall"]["asthma"] < 0.1
    assert adaptive["recall"]["asthma"] > 0.8
    assert adaptive["accuracy"] > classic["accuracy"] + 0.05


def test_the_example_table_is_what_its_script_makes(root, tmp_path, monkeypatch, capsys):
    import runpy

    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(root / "examples" / "patients.py"))
    made = (tmp_path / "patients.csv").read_text()
    assert made == (root / "examples" / "patients.csv").read_text()
    assert len(made) < 30_000


# --- mistakes -----------------------------------------------------------------------------

PARTITION = 'loss = "softmax"\n[problem.partition]\n'


@pytest.mark.parametrize(
    ("problem", "what", "remedy"),
    [
        ('loss = "logistic"\n', "problem: says neither silo nor partition.", "silo = "),
        (
            LOGISTIC + "[problem.partition]\nkind = 'iid'\nn = 3\n",
            "problem: has both silo and partition.",
            "Keep the one",
        ),
        ('loss = "logit"\nsilo = "town"', 'problem.loss: is "logit"', 'Did you mean "logistic"?'),
        (
            'loss = "logistic"\nsilo = "twn"',
            'people.csv has no column "twn".',
            'Did you mean "town"?',
        ),
        (NAMED + 'features = ["age", "agee"]', "problem.features[1]: ", 'Did you mean "age"?'),
        (
            NAMED + 'features = ["name"]',
            'people.csv, line 2, column "name": is "p0", which is not a number.',
            "leave it out",
        ),
        (
            NAMED,
            'people.csv: "name" is text, and nothing says what to do about it.',
            'Leave it out with ignore = ["name"], ',
        ),
        (
            NAMED + 'features = ["name"]',
            'is "p0", which is not a number.',
            'categories = { name = "agree" } in a run file, categories={"name": "agree"} in Python',
        ),
        (
            NAMED + 'ignore = ["nam"]',
            'problem.ignore[0]: ',
            'Did you mean "name"?',
        ),
        (NAMED + 'ignore = ["name", "ill"]', "is to be ignored, but is the label", "Say one"),
        (
            LOGISTIC + 'features = ["age"]',
            'features are named, and "name" is to be ignored',
            "nothing but the features",
        ),
        (LOGISTIC + "features = []", "problem.features: has length 0.", "at least 1 entry"),
        (LOGISTIC + "bias = 1", "problem.bias: is 1, but must be true or false.", "true or false"),
        (LOGISTIC + "test_fraction = 1.5", "problem.test_fraction: is 1.5.", "below 1"),
        (LOGISTIC + "delta = 0.5", "problem.delta: is of no use with loss", "huber"),
        (LOGISTIC + "standardize = true", "problem.standardize: is not", "mean standardise?"),
        (
            'loss = "huber"\nsilo = "town"\ntest_fraction = 0.3\nfeatures = ["age"]',
            "problem.test_fraction: is of no use",
            "Remove it.",
        ),
        (
            'loss = "huber"\n[problem.partition]\nkind = "by_label"\nn = 2',
            'problem.partition.kind: is "by_label", but loss = "huber" has no classes.',
            '"iid"',
        ),
        (PARTITION + "n = 3", "problem.partition.kind: is missing.", '"by_label"'),
        (PARTITION + "kind = 'dirichlett'\nn = 3", "problem.partition.kind: is", '"dirichlet"?'),
        (PARTITION + "kind = 'dirichlet'\nn = 3", "problem.partition.alpha: is missing.", "alpha"),
        (PARTITION + "kind = 'iid'\nn = 1", "problem.partition.n: is 1.", "at least 2"),
        (
            PARTITION + "kind = 'sorted_chunks'\nn = 2\nby = ['agee']",
            'problem.partition.by[0]: ',
            'Did you mean "age"?',
        ),
    ],
)  # fmt: skip
def test_mistakes_name_the_key_and_the_remedy(run_file, problem, what, remedy):
    path = run_file(problem)
    with pytest.raises(InvalidRunFile) as caught:
        load(path)
    assert str(path) in caught.value.what
    assert what in caught.value.what
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("name", ["name", "blood group", 'a "quoted" name', "Größe"])
def test_the_remedy_for_a_column_of_text_can_be_pasted(run_file, people, name):
    quoted = name.replace('"', '""')
    text = re.sub(r",p(\d)\d*,", r",p\1,", people.read_text())  # few of them are different
    people.write_text(text.replace(",name,", f',"{quoted}",'))
    with pytest.raises(InvalidRunFile) as refused:
        load(run_file(NAMED))
    remedy = refused.value.remedy
    ignore, categories = re.search(
        r"(ignore = .*), name the.*: (categories = .*) in a r", remedy
    ).groups()
    assert len(load(run_file(f"{NAMED}{ignore}\n"))) == 1
    file = load(run_file(f"{NAMED}{categories}\n"))
    assert file.content.problem.categories == {name: "agree"}
    (python,) = re.findall(r"categories=(\{.*\}) in Python", remedy)
    assert ast.literal_eval(python) == {name: "agree"}


@pytest.mark.parametrize("cell", ["", "nan"])
def test_the_remedy_for_a_missing_number_can_be_pasted(run_file, people, cell):
    heads, first, *rows = people.read_text().splitlines()
    town, who, _, *others = first.split(",")
    people.write_text("\n".join([heads, ",".join([town, who, cell, *others]), *rows]) + "\n")
    with pytest.raises(InvalidRunFile) as refused:
        load(run_file())
    (impute,) = re.findall(r'impute = "mean"', refused.value.remedy)
    assert load(run_file(f"{LOGISTIC}{impute}\n")).content.problem.impute == "mean"


def test_a_file_that_is_not_there(run_file, people):
    path = run_file()
    people.unlink()
    with pytest.raises(InvalidRunFile, match=r"problem\.file: .*people\.csv does not exist"):
        load(path)


def test_a_logistic_loss_is_for_two_classes(run_file):
    path = run_file()
    path.write_text(path.read_text().replace('label = "ill"', 'label = "stage"'))
    path.write_text(path.read_text().replace('["name"]', '["name", "ill"]'))
    with pytest.raises(InvalidRunFile, match="has 4") as caught:
        load(path)
    assert "problem.loss: " in caught.value.what
    assert "softmax" in caught.value.remedy


def test_wills_of_silos_that_do_not_exist(run_file):
    rest = "[[wills]]\nkind = 'classic'\n[wills.nodes]\n3 = {kind = 'consensus'}\n"
    with pytest.raises(InvalidRunFile, match=r"wills\[0\]\.nodes\.3"):
        load(run_file(rest=rest))


def test_seeds_without_anything_random(run_file):
    with pytest.raises(InvalidRunFile, match="nothing here is random"):
        load(run_file(top="seeds = [1, 2]"))


def test_more_silos_than_samples_is_told_with_the_file(bequest, run_file):
    path = run_file(
        "loss = 'softmax'\nignore = ['name', 'town']\n[problem.partition]\nkind = 'iid'\nn = 91\n"
    )
    result = bequest("run", path)
    assert result.exit_code == 2
    assert f"error: {path}: 90 samples cannot fill 91 silos." in result.stderr


def test_a_leaver_may_hand_over_what_its_samples_look_like(bequest, run_file):
    replay = "[[wills]]\nkind = 'replay'\ncentroids = 6\n"
    path = run_file(LOGISTIC, rest=LEAVES + replay)
    document = json.loads(bequest("run", path, "--json").stdout)
    assert [record["choice"] for record in document["runs"][0]["departures"]] == ["replay"]
    forbidden = run_file(LOGISTIC, top="statistics = false", rest=LEAVES + replay)
    result = bequest("run", forbidden)
    assert result.exit_code != 0
    assert "hands over statistics of its samples, and statistics is False" in " ".join(
        result.output.split()
    )


# --- silos by their names -----------------------------------------------------------------


BY_NAME = """[departures]
events = [
  {node = "Rome", round = 20},
  {node = "Oslo", round = 30, kind = "crash"},
  {node = "Rome", round = 40, kind = "return"},
]
[[wills]]
kind = "adaptive"
[wills.nodes]
Rome = {kind = "consensus"}
1 = {kind = "classic"}
"""


def test_silos_are_named_in_events_wills_edges_and_placements(run_file):
    path = run_file(rest=BY_NAME)
    graph = 'kind = "edges"\nedges = [["Bonn", "Oslo"], ["Oslo", 2], ["Rome", "Bonn"]]'
    path.write_text(path.read_text().replace('kind = "complete"', graph))
    file = load(path)
    (job,) = file.jobs()
    assert [*job.plan.schedule] == [20, 30, 40]
    assert job.plan.schedule[20].departures == (2,)
    assert job.plan.schedule[30].crashes == (1,)
    assert {node: will.title for node, will in job.plan.wills.items()} == {
        0: "adaptive",
        1: "classic",
        2: "consensus (GT-C)",
    }
    assert file.wills == ["adaptive; Rome: consensus (GT-C); Oslo: classic"]
    assert job.plan.graph.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    pytest.importorskip("ray")
    placed = '[engine]\nkind = "ray"\n[engine.placement]\nBonn = "a"\nOslo = "b"\nRome = "b"\n'
    file = load(run_file(rest=placed))
    assert file.content.engine.placement == {0: "a", 1: "b", 2: "b"}


def test_a_silo_joins_by_name_with_neighbours_by_name(run_file):
    rest = (
        '[departures]\nevents = [{node = "Rome", round = 9, kind = "join", neighbours = ["Bonn"]}]'
    )
    (job,) = load(run_file(rest=rest)).jobs()
    assert job.plan.absent == {2}
    assert job.plan.known[2] == (0,)


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ('{node = "Roma", round = 9}', 'names "Roma", which is no silo', 'Did you mean "Rome"?'),
        ('{node = "Lyon", round = 9}', 'names "Lyon"', "The silos are Bonn, Oslo, Rome."),
        ("{node = 1.5, round = 9}", "is 1.5, but must be a whole number", "whole number"),
        ('{node = "1", round = 9}', 'is "1", but must be a whole number', "Remove the quotes"),
        ("{node = 7, round = 9}", "names a node that does not exist", "0..2"),
    ],
)
def test_names_that_are_no_silos_are_told_with_those_that_are(
    bequest, run_file, text, what, remedy
):
    result = bequest("run", run_file(rest=f"[departures]\nevents = [{text}]\n"))
    assert result.exit_code == 2
    assert what in result.stderr
    assert remedy in result.stderr


@pytest.fixture
def numbered(tmp_path, run_file, people):
    """Write a run file of a table whose towns are called by these numbers."""

    def write(names, *, rest=""):
        text = people.read_text()
        for town, name in zip(("Bonn", "Oslo", "Rome"), names, strict=True):
            text = text.replace(town, name)
        people.write_text(text)
        return run_file(rest=rest)

    return write


def leaves(node):
    return f"[departures]\nevents = [{{node = {node}, round = 30}}]\n"


@pytest.mark.parametrize(
    ("names", "given", "node"),
    [
        (("1", "2", "3"), '"2"', 1),  # the silo of that name, not node 2
        (("1", "2", "3"), "0", 0),  # no silo is called 0
        (("0", "1", "2"), "2", 2),  # both are the same
        (("101", "102", "103"), '"103"', 2),
        (("101", "102", "103"), "2", 2),
    ],
)
def test_a_silo_called_by_a_number_is_meant_in_quotes(numbered, names, given, node):
    file = load(numbered(names, rest=leaves(given)))
    assert file.silos == names
    (event,) = file.content.departures.events
    assert event.node == node


@pytest.mark.parametrize(
    ("names", "given", "what", "remedy"),
    [
        (
            ("1", "2", "3"),
            "2",
            'may be silo "2", which is node 1, or node 2, which is silo "3"',
            'Write "2" in quotes for the one, or "3" for the other',
        ),
        (
            ("101", "102", "103"),
            "103",
            'is 103, but nodes are numbered 0..2; silo "103" is node 2',
            'Write "103" in quotes',
        ),
        (("101", "102", "103"), '"104"', 'names "104", which is no silo', "Did you mean"),
        (("101", "102", "103"), '"2"', 'names "2", which is no silo', "101, 102, 103"),
        (
            ("Bonn", "Oslo", "Rome"),
            '"2"',
            'is "2", but must be a whole number',
            "Remove the quotes",
        ),
    ],
)
def test_a_number_that_may_be_a_node_or_a_silo_is_refused(numbered, names, given, what, remedy):
    with pytest.raises(InvalidRunFile) as refused:
        load(numbered(names, rest=leaves(given)))
    assert f"departures.events[0].node: {what}" in refused.value.what
    assert remedy in refused.value.remedy


def test_keys_and_edges_name_silos_that_are_called_by_numbers(numbered):
    ray = "[engine]\nkind = 'ray'\n[engine.placement]\n1 = 'a'\n2 = 'a'\n3 = 'b'\n"
    will = "[[wills]]\nkind = 'classic'\n[wills.nodes]\n3 = {kind = 'forgetful'}\n"
    path = numbered(("1", "2", "3"), rest=ray + will)
    path.write_text(
        path.read_text().replace('"complete"', '"edges"\nedges = [["1", "2"], ["2", "3"]]')
    )
    file = load(path)
    assert file.content.engine.placement == {0: "a", 1: "a", 2: "b"}
    assert file.wills == ["classic; 3: forgetful"]
    assert file.content.graph.edges == [[0, 1], [1, 2]]
    path.write_text(path.read_text().replace('["2", "3"]', "[2, 3]"))
    with pytest.raises(InvalidRunFile, match=r'may be silo "2", which is node 1, or node 2'):
        load(path)


def test_a_silo_called_007_is_not_node_7(tmp_path, people):
    whole = people.read_text().splitlines()
    for number in range(3):
        rows = [whole[0], *whole[1 + number :: 3]]
        (tmp_path / f"00{number + 1}.csv").write_text("\n".join(rows) + "\n")
    path = tmp_path / "run.toml"
    text = RUN.format(problem=LOGISTIC, top="", rest=leaves(2))
    text = text.replace('file = "people.csv"', 'files = "00*.csv"').replace('silo = "town"', "")
    path.write_text(text.replace('["name"]', '["name", "town"]'))
    with pytest.raises(InvalidRunFile, match='may be silo "002", which is node 1, or node 2'):
        load(path)
    path.write_text(path.read_text().replace("node = 2", 'node = "002"'))
    assert load(path).content.departures.events[0].node == 1


def test_reports_and_results_name_silos(bequest, run_file):
    path = run_file(rest=BY_NAME)
    said = bequest("run", path).stdout
    assert "Oslo crashed after round 30: no node remembers Oslo" in said
    assert "Rome returned after round 40" in said
    assert "nodes: 0 Bonn, 1 Oslo, 2 Rome" in said
    (run,) = json.loads(bequest("run", path, "--json").stdout)["runs"]
    assert run["network"]["names"] == ["Bonn", "Oslo", "Rome"]
    assert [record["silo"] for record in run["departures"]] == ["Rome", "Oslo"]
    assert [change["silo"] for change in run["changes"]] == ["Rome"]


def test_the_log_of_named_silos_is_replayed_and_shown_with_names(bequest, run_file, tmp_path):
    from bequest.view.reading import read

    path = run_file(rest=BY_NAME)
    result = bequest("run", path, "--engine", "loop", "--log", tmp_path / "logs")
    assert result.exit_code == 0, result.output
    log = tmp_path / "logs" / "run-1.jsonl"
    assert bequest("replay", log).exit_code == 0
    (shown,) = read(log)
    assert shown.document["network"]["names"] == ["Bonn", "Oslo", "Rome"]


@pytest.mark.parametrize("per_silo", [False, True])
def test_a_category_that_only_test_rows_have_ends_no_seed(
    bequest, run_file, people, tmp_path, per_silo
):
    """One row of 90 is of its own category, and one lacks it: some seeds keep these for testing."""
    heads, *rows = people.read_text().splitlines()
    ward = ["ab"[row % 2] for row in range(90)]
    ward[4], ward[8] = "rare", ""
    heads, rows = f"{heads},ward", [f"{row},{w}" for row, w in zip(rows, ward, strict=True)]
    people.write_text("\n".join([heads, *rows]) + "\n")
    for town in ("Bonn", "Oslo", "Rome"):
        mine = [row for row in rows if row.startswith(town)]
        (tmp_path / f"{town}.csv").write_text("\n".join([heads, *mine]) + "\n")
    text = LOGISTIC + 'test_fraction = 0.5\nimpute = "mean"\ncategories = { ward = "agree" }\n'
    path = run_file(text, top="seeds = [0, 1, 2, 3]")
    if per_silo:
        text = path.read_text().replace('file = "people.csv"', 'files = "[BOR]*.csv"')
        path.write_text(text.replace('silo = "town"', "").replace('["name"]', '["name", "town"]'))
    held_out = set()  # which of the two only test rows have, with some seed
    for job in load(path).jobs():
        features = job.samples.recipe.features
        assert features[-4:] == ("ward=a", "ward=b", "ward=rare", "ward=(missing)")
        held_out.update(np.flatnonzero(job.samples.exam.X[:, -3:-1].any(axis=0)).tolist())
    assert held_out == {0, 1}
    found = bequest("run", path, "--json")
    assert found.exit_code == 0, found.output
    assert len(json.loads(found.stdout)["runs"]) == 4


def test_a_large_table_is_let_go_and_read_again_if_it_is_needed(run_file, monkeypatch):
    from bequest.runfile import tables

    small = [job.plan.problem for job in load(run_file()).jobs()]
    monkeypatch.setattr(tables, "_LARGE", 0)
    read, seen = tables.data.read_table, []
    monkeypatch.setattr(tables.data, "read_table", lambda path: (seen.append(path), read(path))[1])
    partition = "test_fraction = 0.3\n[problem.partition]\nkind = 'iid'\nn = 3\n"
    file = load(run_file(LOGISTIC))
    assert file.content.problem._kept is not None
    (job,) = file.jobs()
    assert file.content.problem._kept is None
    assert job.samples.X.shape == (0, 4)
    assert np.array_equal(job.plan.problem.objective(1).X, small[0].objective(1).X)
    text = LOGISTIC.replace('silo = "town"\n', "").replace('["name"]', '["name", "town"]')
    seen.clear()
    one, two = load(run_file(text + partition, top="seeds = [1, 2]")).jobs()
    assert len(seen) == 2  # once for each seed
    assert one.exam.y.size == two.exam.y.size == 27
