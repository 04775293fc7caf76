"""Phases on bad days, and bugs on purpose in what silos agree on: the checks find them."""

from dataclasses import replace

import numpy as np
import pytest
from simulation import chaos, mutants
from simulation.books import Violation

import bequest as bq
from bequest import phases
from bequest.core.legacy import Legacy
from bequest.data import Table, loading, names, problem_of, questions, select
from bequest.data.recipe import Number, agree
from bequest.errors import BequestError
from bequest.model.objectives.isotropic import Isotropic
from bequest.model.optima import Optima
from bequest.phases import newton, sums
from bequest.phases.newton import _Local

# --- bad days -----------------------------------------------------------------------------------


def phase_on(seed):
    """A day of chaos on which silos add up vectors; None if its silos do something else."""
    day = chaos.day(seed)
    if day.kind != "isotropic":
        return None
    vectors = 10.0 ** np.arange(-4, 5, 4) * np.random.default_rng(seed).normal(
        size=(day.plan.problem.n, 3)
    )
    problem = bq.Problem([Isotropic(vector) for vector in vectors])
    plan = replace(
        day.plan,
        problem=problem,
        start=np.zeros(vectors.shape),
        optima=Optima(problem, day.plan.counted, None),
    )
    return replace(day, plan=plan)


def test_bad_days_of_phases_lose_no_silo_that_had_spoken():
    days = [day for seed in range(400, 460) if (day := phase_on(seed)) is not None]
    assert len(days) > 15
    departed = 0
    for day in days:
        simulation = chaos.Simulation(day)
        simulation.run()  # the checker looks at every event, and at the end at the limit
        departed += len(simulation.execution.outcome().departures)
    assert departed > 15


def test_a_leaver_that_is_counted_twice_is_found_on_days_of_phases(monkeypatch):
    mutants.MUTANTS["farewell applied twice"](monkeypatch)
    assert any(is_violated(seed) for seed in range(400, 460))


def is_violated(seed):
    day = phase_on(seed)
    try:
        if day is not None:
            chaos.Simulation(day).run()
    except Violation:
        return True
    return False


# --- bugs in what silos agree on ----------------------------------------------------------------

BUGS = {}


def bug(apply):
    """Register ``apply(monkeypatch)`` under its name, in words."""
    BUGS[apply.__name__.replace("_", " ")] = apply
    return apply


@bug
def the_sum_of_a_leaver_is_counted_twice(patch):
    mutants.MUTANTS["farewell applied twice"](patch)


@bug
def a_leaver_is_forgotten(patch):
    patch.setattr(sums, "Consensus", bq.wills.Forgetful)


@bug
def survivors_count_for_all(patch):
    original = sums.phase

    def fewer(parts, **options):
        done = original(parts, **options)
        share = len(done.run.survivors) / len(parts)
        return replace(done, total=done.total * share)

    patch.setattr(sums, "phase", fewer)


@bug
def rounds_are_too_few(patch):
    patch.setattr(sums, "rehearsed", lambda _graph, events, _method: len(events) + 12)


@bug
def a_count_is_taken_for_a_sum(patch):
    original = questions.FirstSums.__call__

    def counts(self, table):
        answer = original(self, table)
        sums_of = sum(isinstance(one, Number) for one in self.columns)
        answer[-sums_of:] = answer[1 : 1 + sums_of]
        return answer

    patch.setattr(questions.FirstSums, "__call__", counts)


@bug
def missing_cells_are_counted(patch):
    original = questions.FirstSums.__call__

    def all_rows(self, table):
        answer = original(self, table)
        answer[1 : 1 + len(self.columns)] = table.rows
        return answer

    patch.setattr(questions.FirstSums, "__call__", all_rows)


@bug
def squares_are_taken_about_the_silos_own_mean(patch):
    original = questions.SecondSums.__call__

    def own(self, table):
        numbers = [column for column in self.columns if isinstance(column, Number)]
        means = tuple(float(np.nanmean(column.raw(table))) for column in numbers)
        return original(replace(self, means=means), table)

    patch.setattr(questions.SecondSums, "__call__", own)


@bug
def a_recipe_is_applied_before_it_is_agreed_on(patch):
    original = loading.Loader.loss_of

    def early(self, table):
        columns = tuple(
            replace(column, **{"mean": 0.0, "scale": 1.0} if isinstance(column, Number) else {})
            for column in self.recipe.columns
        )
        own = agree(columns, lambda question: question(table), standardise=True, bias=True)
        return original(replace(self, recipe=own.recipe), table)

    patch.setattr(loading.Loader, "loss_of", early)


@bug
def every_silo_has_its_own_divisor(patch):
    original = loading.Loader.loss_of
    patch.setattr(
        loading.Loader,
        "loss_of",
        lambda self, table: original(replace(self, divisor=None), table),
    )


@bug
def names_that_several_silos_know_are_not_read(patch):
    original = names.Cells.read

    def once(self, total):
        cells = np.rint(total).reshape(-1, 2 + self.width)
        cells[cells[:, 0] > 1] = 0.0
        return original(self, cells.ravel())

    patch.setattr(names.Cells, "read", once)


@bug
def newton_steps_leave_legacies_out(patch):
    original = _Local.__call__
    patch.setattr(
        _Local,
        "__call__",
        lambda self: original(replace(self, memory=Legacy.zero(self.x.size))),
    )


def made(rows=60, seed=2):
    rng = np.random.default_rng(seed)
    pulse = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(80, 9, rows))
    return Table(
        {
            "age": rng.normal(60, 12, rows) + np.arange(rows) / 3,
            "pulse": pulse,
            "ward": rng.choice(["a", "b", "c"], rows),
            "ill": rng.choice(["no", "yes"], rows),
            "site": np.repeat(["bonn", "oslo", "rome"], [30, 20, 10]),
        }
    )


OPTIONS = {"label": "ill", "impute": "mean", "categories": {"ward": "agree"}}


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """The files of silos, and the problem of the pooled table."""
    folder, table = tmp_path_factory.mktemp("silos"), made()
    files = {}
    for site in ("bonn", "oslo", "rome"):
        own = table.take(np.flatnonzero(table.columns["site"] == site))
        files[site] = folder / f"{site}.npz"
        np.savez(files[site], **{n: v for n, v in own.columns.items() if n != "site"})
    samples = select(table, silo="site", **OPTIONS)
    parts = bq.partition.by_column(samples.silo)
    return files, problem_of(samples, parts, loss="logistic", l2=0.1), samples.features


def what_is_wrong(files, problem, features):
    """Let silos add up while two leave, agree on a problem and finish it; say what is wrong."""
    vectors = np.random.default_rng(5).normal(size=(4, 6)) * 10.0 ** np.arange(-9, 9, 3)
    leaving = [bq.Departure(1, 3), bq.Crash(2, 6)]
    try:
        total = sums.total(
            vectors, graph=bq.graphs.ring(4), engine=bq.engines.Loop(), departures=leaving
        )
        if (np.abs(total - vectors.sum(axis=0)) > 1e-12 * np.abs(vectors).max(axis=0)).any():
            return "a sum is wrong"
        graph = bq.graphs.path(3)
        agreed = phases.on_hosts(files, loss="logistic", graph=graph, l2=0.1, **OPTIONS)
        if agreed.features != features:
            return f"the features are {agreed.features}"
        x = np.linspace(-1, 1, problem.dim)
        for node in range(3):
            mine, theirs = agreed.problem.objective(node), problem.objective(node)
            if not np.allclose(mine.gradient(x), theirs.gradient(x), atol=1e-10):
                return f"the loss of silo {node} is another one"
        run = bq.solve(problem, graph, departures=[bq.Departure(1, 9)], rounds=20, optimum=None)
        if not np.allclose(newton(run).x, run.limit, atol=1e-8):
            return "Newton steps end elsewhere"
    except BequestError as error:
        return error.what
    return None


def test_without_a_bug_nothing_is_wrong(pooled):
    assert what_is_wrong(*pooled) is None


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_in_what_silos_agree_on_is_found(pooled, name, monkeypatch):
    BUGS[name](monkeypatch)
    assert what_is_wrong(*pooled) is not None
