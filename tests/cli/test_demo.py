"""bequest demo: the tables and the figure."""

import pytest
from threadpoolctl import threadpool_limits

from bequest.demo import digits, figure


@pytest.fixture
def short(monkeypatch):
    """A demo that takes a second: the numbers are those of tests/demo/test_digits.py."""
    monkeypatch.setattr(digits, "ROUNDS", 150)
    monkeypatch.setattr(digits, "SCHEDULES", {"late": (60, 80, 100), "early": (5, 10, 15)})
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "ROUNDS", 150)
        patch.setattr(digits, "SCHEDULES", {"late": (60, 80, 100), "early": (5, 10, 15)})
        with threadpool_limits(1):
            return digits.study(8)  # with a chain: 7 leaves to 3, and 3 leaves later


def columns_of(outcome, schedule="late"):
    runs = {f"{run.will}, 10.4 kB": run.score for run in outcome.under(schedule)}
    return {schedule: {"nobody left": outcome.nobody_left, **runs}}


def test_the_demo_prints_tables_and_draws_a_figure(bequest, tmp_path, short):
    folder = tmp_path / "new" / "folder"
    result = bequest("demo", "--output", folder)
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    # It fits a narrow terminal; only the names of files may be longer than that.
    assert (
        max(len(line) for line in lines if not line.startswith(("written to ", "watch it"))) <= 80
    )
    assert lines[-1] == f"watch it in a browser: {folder / 'digits.html'}"
    rows = {}
    for line in lines:
        rows.setdefault(line.split("  ")[0], []).append(line)
    assert len(rows["nobody left"]) == len(rows["classic"]) == 2
    header = next(line.split() for line in lines if line.startswith("will"))
    assert header == ["will", "sent", "kB", "right", *"0123456789"]
    classic = dict(zip(header, rows["classic"][0].split(), strict=True))
    assert classic["7"] == classic["3"] == classic["8"] == "0"
    assert float(classic["right"]) < 75
    assert classic["sent"] == classic["kB"] == "0"
    for will in list(digits.WILLS)[1:]:
        assert len(rows[will]) == 2
        for row in rows[will]:  # doubles, a header, and what rounding to 100 bytes hides
            sent, kilobytes, *_ = map(float, row.removeprefix(will).split())
            assert 0 <= 1000 * kilobytes - 8 * 650 * sent <= 150
        assert len([line for line in lines if line.startswith(f"{will}: 7 to ")]) == 2
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "<svg" in (folder / "digits.svg").read_text()
    assert '"title":"classic, early"' in (folder / "digits.html").read_text()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["digits.html", "digits.png", "digits.svg"]


def test_a_model_that_is_not_settled_is_said_to_be_so(bequest, tmp_path, short, monkeypatch):
    monkeypatch.setattr(digits, "ROUNDS", 110)
    result = bequest("demo", "--output", tmp_path)
    assert "not settled: classic, late: " in result.stdout


def test_a_folder_that_cannot_be_written_fails_first(bequest, tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "study", lambda *_, **__: pytest.fail("late"))
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        result = bequest("demo", "--output", place)
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr
        assert "what to do: " in result.stderr


def test_a_negative_seed_is_refused(bequest):
    assert bequest("demo", "--seed", "-1").exit_code == 2


def test_ctrl_c_ends_it_in_one_line_and_leaves_no_figure(interrupted, tmp_path):
    interrupted(b"classic, late", "demo", "--output", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


# --- the figure ---------------------------------------------------------------------------


def test_the_same_outcome_gives_the_same_files(outcome, tmp_path):
    contents = []
    for name in ("one", "two"):
        drawn = figure.draw(outcome.runs[1].run, columns_of(outcome), title="title")
        folder = tmp_path / name
        folder.mkdir()
        contents.append([path.read_bytes() for path in figure.save(drawn, folder, "figure")])
    assert contents[0] == contents[1]


def test_the_network_shows_who_left_and_who_remembers_whom(outcome):
    run = outcome.runs[1].run
    assert (run.departures[0].node, run.departures[0].heir) == (7, 3)
    drawn = figure.draw(run, columns_of(outcome), title="title")
    network = drawn.axes[0]
    texts = [text.get_text() for text in network.texts]
    assert set(map(str, range(10))) <= set(texts)
    last_heir = run.departures[1].heir
    assert last_heir in run.survivors
    assert "+3 +7" in texts  # through 3, who left after inheriting
    faded = {text.get_text() for text in network.texts if text.get_color() == "#aaaaaa"}
    assert faded == {"7", "3", "8"}


def test_a_recall_of_zero_is_written_out(outcome):
    drawn = figure.draw(outcome.runs[0].run, columns_of(outcome), title="title")
    classic = drawn.axes[2]
    assert [text.get_text() for text in classic.texts].count("0") == 3


def test_a_will_may_send_more_early_than_late(outcome):
    columns = columns_of(outcome) | {"early": {}}
    for number, (name, score) in enumerate(columns["late"].items()):
        columns["early"][f"{name}, {number} kB"] = score
    drawn = figure.draw(outcome.runs[1].run, columns, title="title")
    captions = [axes.texts[-2].get_text() for axes in drawn.axes[1:]]
    assert captions == [*columns["late"], *columns["early"]]


def test_nothing_is_cut_off_and_captions_do_not_touch(outcome):
    columns = columns_of(outcome) | columns_of(outcome, "early")
    for scores in columns.values():  # as many wills as there may be
        last = list(scores.values())[-1]
        scores.update({f"another will {number}": last for number in range(4)})
    drawn = figure.draw(
        outcome.runs[1].run, columns, title="a title " * 30, subtitle="a subtitle " * 30
    )
    drawn.canvas.draw()
    texts = [*drawn.texts, *(text for axes in drawn.axes[1:] for text in axes.texts)]
    boxes = [text.get_window_extent(drawn.canvas.get_renderer()) for text in texts]
    for index, one in enumerate(boxes):
        assert drawn.bbox.x0 <= one.x0
        assert one.x1 <= drawn.bbox.x1
        assert not any(one.overlaps(other) for other in boxes[index + 1 :])
