"""Every way in which a run file can be wrong is told in words, with the key and the remedy."""

import dataclasses
import shutil
import tomllib

import pytest

import bequest as bq
from bequest.errors import BequestError, InvalidGraph, InvalidRunFile, UnknownNode
from bequest.model.events import schedule
from bequest.runfile import load
from bequest.solver import carry_out, pilot_for

EVENTS = "[departures]\nevents = [{node = 1, round = 50}, {node = 2, round = 60}]\n"


def test_momentum_and_shrinking_steps_go_around_a_method(write):
    around = write(rest="[method]\nkind = 'diging'\nstep = 0.1\nmomentum = 0.5\nhalf = 100")
    methods = bq.methods
    rolling = methods.Momentum(methods.DIGing(step=0.1), 0.5)
    assert load(around).content.method.build() == methods.Decaying(rolling, 100)


def test_steps_that_shrink_alone_are_those_of_the_default_method(write):
    (job,) = load(write()).jobs()
    assert type(job.plan.method) is bq.methods.NIDS
    (halved,) = load(write(rest="[method]\nhalf = 100")).jobs()
    assert halved.plan.method == bq.methods.Decaying(job.plan.method, 100)
    (tracked,) = load(write(rest="[method]\nstep = 0.1\nmomentum = 0.5")).jobs()
    tracking = bq.methods.GradientTracking(0.1)
    assert tracked.plan.method == bq.methods.Momentum(tracking, 0.5)


def refused(path):
    with pytest.raises(InvalidRunFile) as caught:
        load(path)
    assert str(path) in caught.value.what
    return caught.value


@pytest.mark.parametrize(
    ("top", "rest", "what", "remedy"),
    [
        ("seedz = [1]", "", "seedz: is not a known key.", "Did you mean seeds?"),
        ("colour = 1", "", "colour: is not a known key.", "Use one of rounds, seeds, start"),
        ("seeds = 3", "", "seeds: is 3, but must be a list", "Write seeds = [3]."),
        ("seeds = []", "", "seeds: has length 0.", "at least 1 entry"),
        ("seeds = [1, -1]", "", "seeds[1]: is -1.", "at least 0"),
        ("seeds = [1, 1]", "", "seeds: names a seed twice.", "distinct"),
        ("seeds = [1, 2]", "", None, None),
        ("start = 'x'", "", 'start: is "x", but must be a number.', "Write a number"),
        ("start = [1.0, true]", "", "start[1]: is true, but must be a number.", "Write a number"),
        ("start = inf", "", "start: is inf, but must be a finite number.", "finite"),
        ("", "[method]\nstep = 0", "method: The step is 0.0.", "Use a positive number"),
        ("", "[method]\nstep = '0.1'", 'method.step: is "0.1"', "Remove the quotes."),
        (
            "",
            "[method]\nkind = 'nids'\nmomentum = 0.5",
            "method: Momentum is given to NIDS, which it can make diverge.",
            'Use kind = "gradient-tracking" or kind = "diging", or the method without momentum.',
        ),
        ("", "[method]\nhalf = 0", "method: half is 0.", "a whole number >= 1"),
        ("", "[method]\nhalf = 1.5", "method.half: is 1.5, but must be a whole number.", "Write a"),
        ("", "[method]\nkind = 'diging'\nmomentum = 1", "method: momentum is 1.0.", "below 1"),
        (
            "",
            "[method]\nmomentum = 0.5\nhalf = 100",
            "method: has momentum, which is not for the default method, NIDS.",
            'Add kind = "gradient-tracking" or kind = "diging", or remove momentum.',
        ),
        ("", "[method]\nstep = 0.1\nmomentum = 0.5\nhalf = 100", None, None),
        ("", "[method]\nsteps = 0.1", "method.steps: is not a known key.", "Did you mean step?"),
        ("", "[departure]\n", "departure: is not a known key.", "Did you mean departures?"),
        (
            "",
            "[departures]\nevents = [{node = 1, round = 5}, {node = 2, rond = 6}]",
            "departures.events[1].rond: is not a known key.",
            "Did you mean round?",
        ),
        (
            "",
            "[departures]\nevents = [{node = 1, round = 5}, {node = 2, round = 0}]",
            "departures.events[1].round: is 0.",
            "at least 1",
        ),
        (
            "",
            "[departures]\nevents = [{node = 1}]",
            "departures.events[0].round: is missing.",
            "Add round = ... to departures.events[0].",
        ),
        (
            "",
            "[departures]\nmost_heterogeneous = [5, 1.5]",
            "departures.most_heterogeneous[1]: is 1.5, but must be a whole number.",
            "Write a whole number",
        ),
        (
            "",
            EVENTS + "most_heterogeneous = [3]",
            "departures: has both most_heterogeneous and events.",
            "Keep the one",
        ),
        ("", "[departures]\nrounds = [5]", "departures.rounds: is not", "top of the file"),
        ("", "[wills]\nkind = 'classic'", "wills: is a table", "[[wills]] with double brackets"),
        ("", "[[method]]\nstep = 0.1", "method: is a list", "[method] with single brackets"),
        ("", "wills = []", "graph.wills: is not a known key.", "top of the file"),
        ("wills = []", "", "wills: has length 0.", "at least 1 entry"),
        ("", "[[wills]]\nkind = 'clasic'", 'wills[0].kind: is "clasic"', 'mean "classic"?'),
        ("", "[[wills]]\nrule = 'oracle'", "wills[0].kind: is missing.", 'Use one of "classic"'),
        (
            "",
            "[[wills]]\nkind = 'adaptive'\nrule = 'orakle'",
            'wills[0].rule: is "orakle", which is not known.',
            'Did you mean "oracle"?',
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\ncap = 0.5",
            "wills[0].cap: is not a known key.",
            "Use one of",
        ),
        (
            "",
            "[[wills]]\nkind = 'point-only'\ncap = -1",
            "wills[0]: PointOnly(cap=-1.0).",
            '"none" for no cap',
        ),
        (
            "",
            "[departures]\nevents = [{node = 1, round = 5, kind = 'crush'}]",
            'departures.events[0].kind: is "crush", which is not known.',
            'Did you mean "crash"?',
        ),
        (
            "",
            "[departures]\nevents = [{node = 1, round = 5, kind = 'crash', neighbours = [0]}]",
            'departures.events[0].neighbours: is of no use with kind = "crash".',
            "join",
        ),
        ("buddies = -1", "", "buddies: is -1.", "at least 0"),
        (
            "checkpoint_every = 'never'",
            "",
            'checkpoint_every: is "never", but must be a whole number.',
            "Write a whole number",
        ),
        ("checkpoint_every = 0", "", "checkpoint_every: is 0.", "at least 1"),
        (
            "",
            "[[wills]]\nkind = 'point-only'\ncap = 'high'",
            'wills[0].cap: is "high", but must be a number.',
            "Write a number",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\nlabel = 3",
            "wills[0].label: is 3, but must be a text",
            "Write a text",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'classic'",
            'wills[1]: is the second one called "classic".',
            "label",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\n[wills.nodes]\n6 = {kind = 'consensus'}",
            "wills[0].nodes.6: names a node that does not exist.",
            "0..5",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\n[wills.nodes]\nfirst = {kind = 'consensus'}",
            'wills[0].nodes.first: names "first", but nodes have names only where a table has',
            "Give the number of the node",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\n[wills.nodes]\n1 = {kind = 'drift', label = 'x'}",
            "wills[0].nodes.1.label: is not a known key.",
            "Use one of kind, rank",
        ),
        (
            "",
            "[[wills]]\nkind = 'classic'\n[wills.nodes]\n1 = 'consensus'",
            'wills[0].nodes.1: is "consensus", but must be a table.',
            "Write a table",
        ),
    ],
)
def test_a_mistake_names_the_key_and_the_remedy(write, top, rest, what, remedy):
    path = write(top=top, rest=rest)
    if what is None:  # the counterpart: this is allowed
        load(path)
        return
    error = refused(path)
    assert what in error.what
    assert remedy in error.remedy


PROBLEM = "[problem]\nkind = 'quadratics'\nn = 4\ndim = 2\nmu = 1\nL = 2\n"


def explicit(objectives):
    problem = f"[problem]\nkind = 'explicit'\nobjectives = [{objectives}]\n"
    return f"rounds = 9\n{problem}[graph]\nkind = 'path'\n"


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        (f"rounds = true\n{PROBLEM}[graph]\nkind = 'ring'", "rounds: is true", "whole number"),
        (f"rounds = 10.0\n{PROBLEM}[graph]\nkind = 'ring'", "rounds: is 10.0", "whole number"),
        (f"rounds = 99999999999\n{PROBLEM}[graph]\nkind = 'ring'", "rounds: is 999", "at most"),
        (f"rounds = 9\n{PROBLEM}", "graph: is missing.", "Add a table [graph]"),
        (f"rounds = 9\n{PROBLEM}[graph]\nkind = 3", "graph.kind: is 3, which is not", "Use one of"),
        (f"rounds = 9\n{PROBLEM}[graph]\nkind = ['ring']", "graph.kind: is a list", 'mean "ring"?'),
        (f"rounds = 9\n{PROBLEM}[graph]\n", "graph.kind: is missing", '"ring_with_chords"'),
        (
            f"rounds = 9\n{PROBLEM}[graph]\nkind = 'ring_with_chord'\nchords = 3",
            'graph.kind: is "ring_with_chord", which is not known.',
            'Did you mean "ring_with_chords"?',
        ),
        (
            f"rounds = 9\n{PROBLEM}[graph]\nkind = 'ring_with_chords'",
            "graph.chords: is missing.",
            "Add chords = ... to graph.",
        ),
        (
            f"rounds = 9\n{PROBLEM}[graph]\nkind = 'edges'\nedges = [[0, 1], [1]]",
            "graph.edges[1]: has length 1.",
            "at least 2 entries",
        ),
        (
            f"rounds = 9\n{PROBLEM}[graph]\nkind = 'edges'\nedges = [[0, 1], [1, 'a']]",
            'graph.edges[1][1]: names "a", but nodes have names only where a table has',
            "number of the node",
        ),
        (
            f"rounds = 9\n{PROBLEM}[graph]\nkind = 'edges'\nedges = [[0, 1]]\nedge = 1",
            "graph.edge: is not a known key.",
            "Did you mean edges?",
        ),
        (
            f"rounds = 9\n{PROBLEM}spectrum = 'lag'\n[graph]\nkind = 'ring'",
            'problem.spectrum: is "lag", which is not known.',
            'Did you mean "log"?',
        ),
        (
            f"rounds = 9\n{PROBLEM}spectrum = [1, 'x']\n[graph]\nkind = 'ring'",
            'problem.spectrum[1]: is "x", but must be a number.',
            "Write a number",
        ),
        (
            "rounds = 9\nproblem = 3\n[graph]\nkind = 'ring'",
            "problem: is 3, but must be a table",
            "",
        ),
        (
            explicit("{A = [[1.0]], c = [1.0]}, {A = [[-1.0]], c = [1.0]}"),
            "problem.objectives[1]: A has the eigenvalue -1",
            "positive semidefinite",
        ),
        (
            explicit("{A = [[1.0, 0.0], [0.0]], c = [1.0, 1.0]}"),
            "problem.objectives[0]: A is not an array of numbers",
            "rectangular",
        ),
        (
            explicit("{A = [[1.0]]}"),
            "problem.objectives[0].c: is missing.",
            "Add c = ... to problem.objectives[0].",
        ),
        (explicit(""), "problem.objectives: has length 0.", "at least 1 entry"),
        (
            "seeds = [1, 2]\n" + explicit("{A = [[1.0]], c = [1.0]}, {A = [[1.0]], c = [3.0]}"),
            "seeds: lists 2 seeds, but nothing here is random.",
            "Use one seed",
        ),
    ],
)
def test_mistakes_in_whole_files(write, text, what, remedy):
    error = refused(write(text))
    assert what in error.what
    assert remedy in error.remedy


def test_several_mistakes_are_told_together(write):
    error = refused(write(f"rounds = 0\n{PROBLEM}[graph]\nkind = 'rink'"))
    assert "has 2 mistakes" in error.what
    assert "rounds: is 0. Use a number that is at least 1." in error.what
    assert 'graph.kind: is "rink", which is not known. Did you mean "ring"?' in error.what


def test_a_key_below_the_wrong_table_is_not_reported_as_missing_too(write):
    error = refused(write(f"{PROBLEM}rounds = 100\n[graph]\nkind = 'ring'"))
    assert error.what.endswith("problem.rounds: is not a known key.")
    assert error.remedy == "It belongs at the top of the file, above the first [problem]."


def test_an_empty_file_misses_what_every_file_needs(write):
    error = refused(write(""))
    for key in ("rounds", "problem", "graph"):
        assert f"{key}: is missing." in error.what


def test_syntax_errors_name_the_line(write):
    assert "line 2" in refused(write("rounds = 10\nproblem = quadratics")).what
    assert "is not TOML" in refused(write("a = " + "[" * 5000)).what


def test_files_that_cannot_be_read(tmp_path):
    assert "does not exist" in refused(tmp_path / "nothing.toml").what
    assert "is a folder" in refused(tmp_path).what
    picture = tmp_path / "picture.toml"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert "is not text" in refused(picture).what
    assert "cannot be read" in refused(picture / "below").what


def test_a_byte_order_mark_is_no_mistake(write):
    path = write()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    load(path)


# --- what a good file becomes -------------------------------------------------------------


def test_jobs_are_what_solve_takes(write):
    path = write(
        top="seeds = [3, 4]\nstart = 2",
        rest=EVENTS + "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'adaptive'\n",
    )
    file = load(path)
    jobs = list(file.jobs())
    assert len(file) == len(jobs) == 4
    assert [(job.label, job.seed) for job in jobs] == [
        ("classic", 3),
        ("adaptive", 3),
        ("classic", 4),
        ("adaptive", 4),
    ]
    plan = jobs[1].plan
    assert plan.problem is jobs[0].plan.problem
    assert plan.start.tolist() == [[2.0, 2.0, 2.0]] * plan.problem.n
    assert {t: changes.departures for t, changes in plan.schedule.items()} == {50: (1,), 60: (2,)}
    run = carry_out(plan, jobs[1].engine)
    assert run.rounds == 200
    assert [record.node for record in run.departures] == [1, 2]


EVERY_KIND = """
[departures]
events = [
  { node = 1, round = 30 },
  { node = 2, round = 50, kind = "crash" },
  { node = 2, round = 60, kind = "forget" },
  { node = 1, round = 70, kind = "return" },
  { node = 5, round = 80, kind = "join", neighbours = [0, 3] },
  { node = 0, round = 90, kind = "departure" },
]
"""


def test_every_kind_of_event_can_be_written_down(write):
    (job,) = load(write(top='buddies = 2\ncheckpoint_every = "none"', rest=EVERY_KIND)).jobs()
    events = [
        bq.Departure(1, 30),
        bq.Crash(2, 50),
        bq.Forget(2, 60),
        bq.Return(1, 70),
        bq.Join(5, 80, (0, 3)),
        bq.Departure(0, 90),
    ]
    assert job.plan.schedule == schedule(events, n=6, rounds=200)
    assert job.plan.known[5] == (0, 3)
    assert (job.plan.buddies, job.plan.checkpoint_every) == (2, None)
    run = carry_out(job.plan, job.engine)
    assert run.departures[1].crashed
    assert [change.kind for change in run.changes] == ["forget", "return", "join"]
    (usual,) = load(write(rest=EVERY_KIND)).jobs()
    assert (usual.plan.buddies, usual.plan.checkpoint_every) == (1, 20)


def test_a_pilot_is_measured_for_those_who_leave_and_for_nobody_else(write):
    point = "[[wills]]\nkind = 'point-only'\n"
    event = "[departures]\nevents = [{{ node = 1, round = 30, kind = '{}' }}]\n"
    (job,) = load(write(rest=event.format("crash") + point)).jobs()
    assert job.plan.pilot is not None
    (job,) = load(write(rest=event.format("join") + point)).jobs()
    assert job.plan.pilot is None


def test_the_shared_pilot_is_the_one_solve_would_have_measured(write):
    wills = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'point-only'\n"
    wills += "[[wills]]\nkind = 'adaptive'\nrule = 'certified'\n"
    classic, point, adaptive = load(write(rest=EVENTS + wills)).jobs()
    assert classic.plan.pilot is None
    assert adaptive.plan.pilot is point.plan.pilot
    unmeasured = dataclasses.replace(adaptive.plan, pilot=None)
    assert repr(pilot_for([unmeasured], unplanned=False)) == repr(adaptive.plan.pilot)


def test_single_nodes_may_have_other_wills(write):
    wills = (
        "[[wills]]\nkind = 'consensus'\n[wills.nodes]\n2 = {kind = 'point-only', cap = 'none'}\n"
    )
    (job,) = load(write(rest=EVENTS + wills)).jobs()
    assert job.plan.wills[1] == bq.wills.Consensus()
    assert job.plan.wills[2] == bq.wills.PointOnly(cap=None)
    assert job.label == "consensus (GT-C); node 2: point only (GT-P), cap=None"


def test_labels_say_what_is_unusual(write):
    wills = "[[wills]]\nkind = 'adaptive'\n[[wills]]\nkind = 'adaptive'\nrule = 'oracle'\n"
    wills += "[[wills]]\nkind = 'adaptive'\nlabel = 'mine'\n"
    labels = [job.label for job in load(write(rest=wills)).jobs()]
    assert labels == ["adaptive", "oracle", "mine"]


def test_without_wills_there_is_one_adaptive_and_without_departures_nobody_leaves(write):
    (job,) = load(write()).jobs()
    assert set(job.plan.wills.values()) == {bq.wills.Adaptive()}
    assert not job.plan.schedule


@pytest.mark.parametrize(
    "graph",
    [
        "kind = 'ring'",
        "kind = 'path'",
        "kind = 'complete'",
        "kind = 'star'",
        "kind = 'ring_with_chords'\nchords = 2",
        "kind = 'grid'\nrows = 2\ncolumns = 2",
        "kind = 'erdos_renyi'\nprobability = 1",
        "kind = 'random_regular'\ndegree = 2",
        "kind = 'edges'\nedges = [[0, 1], [1, 2], [2, 3]]",
    ],
)
def test_every_graph(write, graph):
    (job,) = load(write(f"rounds = 9\n{PROBLEM}[graph]\n{graph}")).jobs()
    assert job.plan.graph.n == 4


@pytest.mark.parametrize(
    "options", ["basis = 'shared'", "basis = 'tilted'", "spectrum = 'log'", "spectrum = [1, 2]"]
)
def test_every_problem_option(write, options):
    (job,) = load(write(f"rounds = 9\n{PROBLEM}{options}\n[graph]\nkind = 'ring'")).jobs()
    assert job.plan.problem.n == 4


def test_what_only_the_library_can_judge_is_judged_by_the_library(write):
    with pytest.raises(UnknownNode):
        list(load(write(rest="[departures]\nevents = [{node = 6, round = 5}]")).jobs())
    with pytest.raises(InvalidGraph):
        list(
            load(write(f"rounds = 9\n{PROBLEM}[graph]\nkind = 'random_regular'\ndegree = 9")).jobs()
        )


def test_impossible_departures_are_refused_before_anything_is_computed(write, monkeypatch):
    monkeypatch.setattr("bequest.solver.calibrate", lambda *_, **_kw: pytest.fail("too late"))
    path = write(rest="[departures]\nevents = [{node = 1, round = 5000}]")
    with pytest.raises(BequestError, match="outside the run"):
        list(load(path).jobs())


# --- examples and documentation -----------------------------------------------------------


def test_every_block_of_the_documentation_is_a_run_file(root, write, tmp_path):
    shutil.copy(root / "examples" / "patients.csv", tmp_path)
    blocks = (root / "docs" / "run-file.md").read_text().split("```toml\n")[1:]
    blocks = [block.split("```")[0] for block in blocks]
    whole = blocks[0].replace("n = 20", "n = 3").replace("chords = 15", "chords = 0")
    whole = whole.replace("[300, 600, 900, 1200]", "[300]").replace("[1, 2, 3]", "[1]")
    tables = {key: f"[{key}]" for key in tomllib.loads(whole)}
    for fragment in blocks[1:]:
        (name,) = tomllib.loads(fragment)
        header = "[[wills]]" if name == "wills" else tables.get(name, f"[{name}]")
        before, _, after = whole.partition(header)
        rest = "" if name == "wills" else after[after.find("\n[") :]
        jobs = list(load(write(f"{before}{fragment}\n{rest}")).jobs())
        assert jobs
    assert list(load(write(blocks[0])).jobs())


def test_the_documentation_names_every_kind(root):
    from bequest.runfile.iterating import METHODS
    from bequest.runfile.schema import GRAPHS, PROBLEMS, WILLS
    from bequest.runfile.tables import PARTITIONS

    text = (root / "docs" / "run-file.md").read_text()
    for kind in [*PROBLEMS, *PARTITIONS, *GRAPHS, *METHODS, *WILLS]:
        assert f'"{kind}"' in text
