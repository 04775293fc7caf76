"""The figure of errors against rounds, on the paper's Sec. 5.1."""

import numpy as np
import pytest

import bequest as bq
from bequest.experiments import section51
from bequest.report import figures


@pytest.fixture(scope="module")
def study():
    return section51.runs(seed=7)


def test_the_seed_matters(study):
    other = section51.runs(seed=3)
    name = section51.BASELINE
    assert other[name].error[-1] != study[name].error[-1]


def test_the_study_is_that_of_the_paper(study):
    assert list(study) == list(section51.WILLS)
    for run in study.values():
        assert (run.problem.n, run.problem.dim, run.rounds, run.step) == (20, 10, 2600, 0.02)
        assert len(run.graph.edges) == 35
    assert [record.round for record in study["classic"].departures] == [300, 600, 900, 1200]
    assert study["point only, no cap"].status is bq.Status.DIVERGED


def test_the_same_runs_give_the_same_files(study, tmp_path):
    contents = []
    for name in ("one", "two"):
        figure = figures.trajectories(study, title="title")
        folder = tmp_path / name
        folder.mkdir()
        contents.append([path.read_bytes() for path in figures.save(figure, folder, "figure")])
    assert contents[0] == contents[1]


def test_labels_do_not_touch(study):
    figure = figures.trajectories(study, title="title")
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [text for text in axes.texts if text.get_text() in study]
    for label in labels:
        label.arrowprops = label.arrow_patch = None  # a leader line may pass between the others
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) == len(study) - 1  # the diverged one says so
    for i, one in enumerate(boxes):
        assert one.x1 <= figure.bbox.x1
        for other in boxes[i + 1 :]:
            assert not one.overlaps(other)


def test_a_long_title_is_made_to_fit(study):
    figure = figures.trajectories(study, title="a title " * 30, subtitle="a subtitle " * 30)
    for text in figure.texts:
        assert text.get_window_extent(figure.canvas.get_renderer()).x1 <= figure.bbox.x1


def test_two_wills_that_decide_alike_are_both_visible(study):
    (axes,) = figures.trajectories(study, title="title").axes
    styles = {line.get_label(): line.get_linestyle() for line in axes.lines}
    assert styles["consensus (GT-C)"] == "-"
    assert styles["adaptive (Legacy-GT)"] != "-"


def test_an_error_of_exactly_zero_can_be_drawn(tmp_path):
    problem = bq.Problem([bq.Quadratic([[1.0]], [0.0]), bq.Quadratic([[2.0]], [0.0])])
    run = bq.solve(problem, [(0, 1)], rounds=5)
    assert not run.error.any()
    figure = figures.trajectories({"at rest": run}, title="title")
    figures.save(figure, tmp_path, "figure")
    low, high = figure.axes[0].get_ylim()
    assert 0 < low < 1e-16 < high


def test_a_figure_of_nothing_but_divergence_can_be_drawn(tmp_path):
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=2.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.ring(4),
        rounds=2000,
        will=bq.wills.Classic(),
        method=bq.GradientTracking(step=50.0),
    )
    assert not np.isfinite(run.error[-1])
    figures.save(figures.trajectories({"too fast": run}, title="title"), tmp_path, "figure")


def test_more_lines_than_colours(study, tmp_path):
    run = study["classic"]
    many = {f"run {index}": run for index in range(12)}
    figures.save(figures.trajectories(many, title="title"), tmp_path, "figure")
