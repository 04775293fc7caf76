"""A run file with a file per silo, read here or on the hosts; Newton steps at the end of a run."""

import json

import numpy as np
import pytest

import bequest as bq
from bequest.data.tables import Table, joined
from bequest.errors import InvalidData, InvalidRunFile
from bequest.runfile import load

RUN = """
rounds = 60
{top}
[problem]
kind = "table"
label = "ill"
loss = "logistic"
l2 = 0.01
{problem}
[graph]
kind = "complete"
[departures]
events = [{{ node = "oslo", round = 30 }}]
"""
SITES = ("bonn", "oslo", "rome")
NAMED = 'files = { rome = "rome.csv", bonn = "bonn.csv", oslo = "oslo.csv" }'
IGNORE = '\nignore = ["ward"]'
FILES = NAMED + IGNORE


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["site,age,pulse,ward,ill"]
    for row in range(90):
        age, pulse = rng.normal(50, 10), rng.normal(70, 8)
        ill = "yes" if age + rng.normal(0, 5) > 52 else "no"
        site = SITES[min(row % 4, 2)]
        own = f"{age:.1f},{pulse:.1f},{'abc'[row % 3]},{ill}"
        lines.append(f"{site},{own}")
    for site in SITES:
        mine = [line.partition(",")[2] for line in lines if line.startswith((site, "site"))]
        (tmp_path / f"{site}.csv").write_text("\n".join(mine) + "\n")
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def write(folder):
    def writes(problem=FILES, top=""):
        path = folder / "run.toml"
        path.write_text(RUN.format(problem=problem, top=top))
        return path

    return writes


def only(path):
    (job,) = load(path).jobs()
    return job


@pytest.mark.parametrize("files", [FILES, f'files = "*.csv"{IGNORE}'])
def test_files_of_silos_are_the_table_with_a_silo_column(write, files):
    whole = only(write(f'file = "all/people.csv"\nsilo = "site"{IGNORE}'))
    path = write(files)
    file, job = load(path), only(path)
    assert file.silos == job.names == SITES
    assert job.samples.features == whole.samples.features
    for node in range(3):
        mine, theirs = job.plan.problem.objective(node), whole.plan.problem.objective(node)
        np.testing.assert_array_equal(mine.X, theirs.X)
        np.testing.assert_array_equal(mine.y, theirs.y)
    assert job.plan.schedule[30].departures == (1,)


@pytest.mark.parametrize("engine", ["vector", "loop"])
def test_files_that_stay_on_their_hosts_give_the_same_losses(write, engine):
    here = only(write(f'{NAMED}\ncategories = {{ ward = "agree" }}'))
    file = load(write(f'{NAMED}\non_hosts = true\ncategories = {{ ward = "agree" }}')).on(engine)
    (job,) = file.jobs()
    assert job.plan.problem.away == (0, 1, 2)
    assert job.samples.features == here.samples.features
    assert job.exam is None
    x = np.linspace(-1, 1, here.plan.problem.dim)
    for node in range(3):
        mine, theirs = job.plan.problem.objective(node), here.plan.problem.objective(node)
        np.testing.assert_allclose(mine.gradient(x), theirs.gradient(x), atol=1e-12)
    (again,) = file.jobs()
    assert again.samples is job.samples  # silos are asked once


def test_models_of_files_on_hosts_predict(bequest, write, folder):
    path = write(f"{FILES}\non_hosts = true", top='finish = "newton"')
    result = bequest("run", path, "--model", folder / "hosts")
    assert result.exit_code == 0, result.output
    model = bq.load_model(folder / "hosts" / "model.json")
    assert model.silos == {"bonn": "alive", "oslo": "remembered", "rome": "alive"}
    assert set(model.predict(folder / "rome.csv")) == {"no", "yes"}


def test_newton_steps_at_the_end_give_the_limit(bequest, write, folder):
    path = write(top='finish = "newton"')
    text = path.read_text().replace("l2 = 0.01", "l2 = 1e-5\npenalise_bias = false")
    path.write_text(text)
    result = bequest("run", path, "--json", "--model", folder / "models")
    (run,) = json.loads(result.stdout)["runs"]
    assert run["finish"]["x"] == pytest.approx(run["limit"], rel=1e-9)
    assert run["finish"]["numbers"] == 3 * 8 // 2 + 1
    model = bq.load_model(folder / "models" / "model.json")
    assert [*model.coef[0], *model.intercept] == run["finish"]["x"]
    said = bequest("run", path).stdout
    assert f"finish: Newton steps, {run['finish']['sums']} sums of 13 numbers per silo" in said
    assert "finish" not in json.loads(bequest("run", write(), "--json").stdout)["runs"][0]


def test_newton_steps_that_lead_nowhere_are_told_and_the_rounds_count(bequest, write, folder):
    path = write(NAMED, top='finish = "newton"')
    # nobody leaves: a memory of a silo would have a minimiser
    text = path.read_text().replace("l2 = 0.01", "l2 = 0.0").partition("[departures]")[0]
    path.write_text(text)
    for site in SITES:  # one column that tells the classes apart
        rows = [f"{k},{'yes' if k > 4 else 'no'}" for k in range(10)]
        (folder / f"{site}.csv").write_text("age,ill\n" + "\n".join(rows) + "\n")
    result = bequest("run", path, "--json")
    assert result.exit_code == 0, result.output
    assert "not finished by Newton steps" in result.stderr
    assert "finish" not in json.loads(result.stdout)["runs"][0]


def test_a_silo_is_forgotten_where_data_are_on_their_hosts(bequest, write, folder):
    here = write()
    asked = ("--record", folder / "here")
    assert bequest("run", here, *asked).exit_code == 0
    assert bequest("forget", here, "oslo", *asked, "-o", folder / "here-new").exit_code == 0
    path = write(f"{FILES}\non_hosts = true")
    recorded = ("--record", folder / "runs")
    assert bequest("run", path, *recorded, "--model", folder / "models").exit_code == 0
    found = bequest("forget", path, "oslo", *recorded, "-o", folder / "new")
    assert found.exit_code == 0, found.output
    receipt = json.loads((folder / "new" / "receipt.json").read_text())
    assert receipt["exact"] is True
    mine, theirs = (bq.load_model(folder / name / "model.json") for name in ("new", "here-new"))
    assert mine.silos == {"bonn": "alive", "oslo": "forgotten", "rome": "alive"}
    np.testing.assert_allclose(mine.coef, theirs.coef, atol=1e-9)
    # two of the three speak for themselves, and one of these cannot
    kept = (folder / "rome.csv").read_bytes()
    (folder / "rome.csv").unlink()
    found = bequest("forget", path, "oslo", *recorded, "-o", folder / "none")
    assert found.exit_code == 2
    assert "what to do" in found.stderr
    assert not (folder / "none").exists()
    (folder / "rome.csv").write_bytes(kept)
    agreed = folder / "runs" / "agreed-0.json"
    agreed.write_text(agreed.read_text().replace("oslo", "olso"))
    found = bequest("forget", path, "oslo", *recorded, "-o", folder / "none")
    assert (found.exit_code, "agreed-0.json is damaged" in found.stderr) == (2, True)
    agreed.unlink()  # then they agree again
    assert bequest("forget", path, "oslo", *recorded, "-o", folder / "again").exit_code == 0
    same = (folder / name / "model.json" for name in ("new", "again"))
    assert len({one.read_bytes() for one in same}) == 1


def test_a_silo_is_forgotten_whose_file_is_gone(bequest, write, folder):
    """It is what a silo that leaves does first; what others hold of it can be withdrawn."""
    path = write(f"{FILES}\non_hosts = true")
    asked = ("--record", folder / "runs")
    assert bequest("run", path, *asked).exit_code == 0
    assert bequest("forget", path, "oslo", *asked, "-o", folder / "with").exit_code == 0
    (folder / "oslo.csv").unlink()
    found = bequest("forget", path, "oslo", *asked, "-o", folder / "new")
    assert found.exit_code == 0, found.output
    assert "oslo.csv, the file of oslo, is gone: it was not compared" in found.output
    models = (folder / name / "model.json" for name in ("with", "new"))
    assert len({one.read_bytes() for one in models}) == 1
    kept = (folder / "rome.csv").read_text()
    (folder / "rome.csv").write_text(kept.replace("yes", "no", 1))
    found = bequest("forget", path, "oslo", *asked, "-o", folder / "none")
    assert "what differs: the loss of node 2" in found.stderr  # what is there is compared
    (folder / "rome.csv").unlink()
    found = bequest("forget", path, "oslo", *asked, "-o", folder / "none")
    assert found.exit_code == 2
    assert "rome.csv, the file of rome, is not there" in found.stderr
    assert "Put it back: rome is still in the model" in found.stderr
    assert not (folder / "none").exists()


def test_where_files_go_by_a_pattern_the_one_that_is_gone_is_named(bequest, write, folder):
    path = write('files = "*.csv"\nignore = ["ward"]')
    (folder / "oslo.csv").unlink()
    found = bequest("forget", path, "oslo", "--record", folder / "runs", "-o", folder / "new")
    assert 'names "oslo", and no file that "*.csv" matches is called that' in found.stderr
    assert "The silos are bonn, rome, the files that are there." in found.stderr
    path = write(FILES)
    found = bequest("forget", path, "oslo", "--record", folder / "runs", "-o", folder / "new")
    assert "problem.files.oslo" in found.stderr
    assert "oslo.csv does not exist" in found.stderr


def test_what_was_agreed_on_is_kept_for_when_a_silo_has_gone_with_its_file(write, folder):
    path = write(f"{NAMED}\non_hosts = true\ncategories = {{ ward = 'agree' }}")
    job = only(path)
    told = json.loads(json.dumps(job.samples.as_dict()))
    (folder / "oslo.csv").unlink()
    file = load(path)
    file.with_agreement(0, told)
    (again,) = file.jobs()
    assert again.samples.recipe == job.samples.recipe
    assert (again.samples.silos, again.samples.left) == (SITES, ())
    for node in range(3):
        mine, theirs = (one.plan.problem.objective(node) for one in (again, job))
        assert mine.loader == theirs.loader
        assert (mine.dim, mine.curvature) == (theirs.dim, theirs.curvature)
    x = np.ones(again.plan.problem.dim)
    assert again.plan.problem.objective(2).value(x) == job.plan.problem.objective(2).value(x)
    for part in ("recipe", "common", "silos"):
        with pytest.raises(InvalidData, match="not what silos have agreed on"):
            file.with_agreement(0, {name: one for name, one in told.items() if name != part})


@pytest.mark.parametrize(
    ("problem", "what", "remedy"),
    [
        ("", "problem: says neither file nor files", "with a file per silo"),
        (f'{FILES}\nfile = "all/people.csv"', "has both file and files", "Keep the one"),
        (f'{FILES}\nsilo = "site"', "problem.silo: is of no use with files: every file", "Remove"),
        (f"{FILES}\non_hosts = true\ntest_fraction = 0.3", "test_fraction: is of no use", "Remove"),
        (
            'file = "all/people.csv"\nsilo = "site"\non_hosts = true',
            "on_hosts: is of no use",
            "Name",
        ),
        ('files = "*.parquet"', "problem.files: names 0 files", "relative to the run file"),
        ('files = { bonn = "bonn.csv" }', "problem.files: names 1 file.", "at least two"),
        (
            'files = { bonn = "bonn.csv", oslo = 3 }',
            "problem.files.oslo: is 3, but must be",
            "text",
        ),
        ('files = { bonn = "bonn.csv", lyon = "x.csv" }', "problem.files.lyon", "Check the name"),
        ("files = 3", "problem.files: is 3, but must be a table", "a table"),
        (f'{NAMED}\nfeatures = ["agee"]', "problem.files: ", 'Did you mean "age"?'),
    ],
)
def test_files_that_do_not_go_together_with_the_rest_are_told(write, problem, what, remedy):
    with pytest.raises(InvalidRunFile) as caught:
        load(write(problem))
    assert what in caught.value.what
    assert remedy in f"{caught.value.what} {caught.value.remedy}"


@pytest.mark.parametrize(
    ("site", "old", "new", "what"),
    [
        (
            "oslo",
            "age,pulse",
            "agee,pulse",
            r'oslo\.csv has no column "age", which .*bonn\.csv has',
        ),
        ("rome", "ill\n", "ill,extra\n", r"rome\.csv"),
        ("oslo", "pulse,ward", "pulse,wrd", r'has no column "ward"|has no column "wrd"'),
    ],
)
def test_files_with_other_columns_are_told_by_name(write, folder, site, old, new, what):
    path = folder / f"{site}.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InvalidRunFile, match=what):
        load(write())


def test_a_text_among_numbers_is_told_by_file_and_line(write, folder):
    path = folder / "oslo.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *(f"x{line}" for line in lines[1:])]) + "\n")
    with pytest.raises(InvalidRunFile, match=r'oslo\.csv, line 2, column "age": is "x'):
        load(write())


@pytest.mark.parametrize("on_hosts", [False, True])
def test_texts_of_which_nothing_is_said_are_refused(bequest, write, folder, on_hosts):
    said = "\non_hosts = true" if on_hosts else ""
    result = bequest("run", write(NAMED + said), "--model", folder / "models")
    assert result.exit_code == 2
    words = " ".join(result.stderr.split())
    assert '"ward" is text, and nothing says what to do about it' in words
    assert not (folder / "models").exists()
    assert 'Leave it out with ignore = ["ward"]' in words
    assert ("bonn.csv" in words) or ("oslo.csv" in words)
    assert bequest("run", write(FILES + said)).exit_code == 0
    wrong = bequest("run", write(FILES.replace("ward", "wrd") + said))
    assert wrong.exit_code == 2
    # a host does not know what others have: it tells the text that is not mentioned
    assert ('"ward" is text' if on_hosts else 'no column "wrd"') in wrong.stderr


def test_a_column_that_is_empty_everywhere_is_refused_on_hosts_too(bequest, write, folder):
    for site in SITES:
        path = folder / f"{site}.csv"
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f"new,{head}", *(f",{row}" for row in rows)]) + "\n")
    asked = f'{FILES}\non_hosts = true\nimpute = "mean"'
    found = bequest("run", write(asked))
    assert found.exit_code == 2
    assert 'column "new": is empty in every silo' in found.stderr
    assert bequest("run", write(asked.replace('"ward"', '"ward", "new"'))).exit_code == 0
    rome = folder / "rome.csv"  # one value, and the others' cells are missing ones
    rome.write_text(rome.read_text().replace("\n,", "\n7,", 1).replace("\n,", "\n8,", 1))
    (job,) = load(write(asked)).jobs()
    assert {"new", "new is missing"} < set(job.samples.features)


def test_columns_that_are_not_features_may_differ(write, folder):
    path = folder / "rome.csv"
    path.write_text(path.read_text().replace("ward", "station"))
    assert only(write(f'{NAMED}\nfeatures = ["pulse", "age"]')).samples.features == ("pulse", "age")


def test_hosts_tell_what_is_wrong_with_their_files(bequest, write, folder):
    (folder / "oslo.csv").unlink()
    result = bequest("run", write(f"{FILES}\non_hosts = true"))
    assert result.exit_code == 2
    assert "oslo.csv" in result.stderr


def test_files_of_silos_are_read_as_one_table(folder):
    files = {site: folder / f"{site}.csv" for site in SITES}
    table = bq.data.read_silos(files, silo="site")
    assert table.columns["site"].tolist() == sorted(table.columns["site"].tolist())
    assert table.matrix(["pulse", "age"])[0].tolist() == [
        table.columns["pulse"][0],
        table.columns["age"][0],
    ]
    with pytest.raises(InvalidData, match="is no list of columns"):
        table.matrix("age")
    with pytest.raises(InvalidData, match='column "ward": is "'):
        table.matrix(["ward"])
    for none in ({}, ["bonn.csv"]):
        with pytest.raises(InvalidData, match="names no files of silos"):
            bq.data.read_silos(none)
    with pytest.raises(InvalidData, match=r"lyon\.csv does not exist"):
        bq.data.read_silos(files | {"lyon": folder / "lyon.csv"})


def test_tables_of_silos_are_joined_with_their_places():
    one = Table({"x": [1.0, 2.0], "w": ["a", ""], "b": np.zeros((2, 3))}, "one.npz")
    two = Table({"x": ["3.5"], "w": ["b"], "b": np.ones((1, 3)), "more": [1]}, "two.csv", [7])
    with pytest.raises(InvalidData, match=r'one\.npz has no column "more", which two\.csv has'):
        joined({"one": one, "two": two}, silo="site")
    both = joined({"one": one, "two": two}, silo="site", names=["x", "w", "b"])
    assert both.columns["site"].tolist() == ["one", "one", "two"]
    assert both.numbers("x")[:, 0].tolist() == [1.0, 2.0, 3.5]
    assert both.columns["b"].shape == (3, 3)
    assert both.where(1, "x") == 'one.npz, row 2, column "x"'
    assert both.where(2, "x") == 'two.csv, line 7, column "x"'
    assert both.take(np.array([2, 0])).where(0, "w") == 'two.csv, line 7, column "w"'
    flat = Table({"b": [1.0]}, "flat.npz")
    with pytest.raises(InvalidData, match=r"flat\.npz.*a single column, and a block of 3 columns"):
        joined({"one": one, "flat": flat}, silo="site", names=["b"])
    with pytest.raises(InvalidData, match='has a column "x", which is what the names'):
        joined({"one": one, "two": two}, silo="x", names=["x"])
