"""``bequest run``: every will with every seed, side by side."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from bequest import extras, files
from bequest.cli.live import watching
from bequest.cli.records import Records
from bequest.cli.terminal import Meter, Terminal, table
from bequest.engines import Loop, Ray, one_cluster
from bequest.engines.fingerprint import fingerprint
from bequest.errors import BequestError, InvalidMethod, InvalidRunFile, InvalidWill
from bequest.journal import Journal, Origin
from bequest.report.documents import (
    NOT_RUN,
    by_will,
    document_of,
    median_and_least,
    score_of,
)
from bequest.runfile import load
from bequest.solver import conclude, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bequest.cli.records import Record
    from bequest.data import Exam
    from bequest.engines import Engine
    from bequest.engines.base import Outcome, Plan
    from bequest.model.run import Run
    from bequest.report.documents import (
        ChangeDocument,
        DepartureDocument,
        NotRunDocument,
        RunDocument,
        ScoreDocument,
        StepDocument,
        WillDocument,
    )
    from bequest.runfile import Job, RunFile

_FORMAT = 1
# More departures than this are a table nobody reads; --json has them all.
_SHOWN = 60


def run_file(
    path: Path,
    *,
    as_json: bool,
    output: Path | None,
    engine: str | None = None,
    address: str | None = None,
    log: Path | None = None,
    record: Path | None = None,
    resume: bool = False,
) -> int:
    """Carry out a run file; return the exit code."""
    plan = _planned(path, engine, address)
    if log is not None and plan.engine != "loop":
        raise InvalidMethod(
            f"--log {log}: a log holds what real processes hear, and the {plan.engine} engine has "
            "none.",
            remedy='Add --engine loop, or a table [engine] with kind = "loop" to the file.',
        )
    if resume and record is None:
        raise InvalidMethod(
            "--resume: nothing says where the runs are that are done.",
            remedy="Add --record with the folder that they were recorded in.",
        )
    if output is not None:
        files.check_writable(output)
    records = None if record is None else Records(record, len(plan), resume=resume)
    if log is not None:
        files.make_folder(log)
    found = _carry_out(plan, log, records)
    document: dict[str, Any] = {"format": _FORMAT, "file": str(path), "rounds": plan.rounds}
    if plan.silos:
        document["silos"] = list(plan.silos)
    if found.nobody_left:
        document["nobody_left"] = [
            {"seed": seed} | score for seed, score in found.nobody_left.items()
        ]
    runs = list(found.runs.values())
    document |= {"wills": found.wills(plan), "runs": runs, "not_run": found.not_run}
    if output is not None:
        files.write(output, (as_text(document) + "\n").encode())
    if as_json:
        print(as_text(document))
    else:
        _print(plan, found)
        if output is not None:
            Terminal().print(f"\nwritten to {output}")
        if record is not None:
            Terminal().print(f"\non record in {record}")
        if log is not None:
            _print_logs(plan, found.runs, log)
    return 1 if all(run["status"] == "diverged" for run in runs) else 0


def _planned(path: Path, engine: str | None, address: str | None) -> RunFile:
    """Return the run file, with what the command line says about the engine."""
    plan = load(path)
    if engine is not None:
        plan = plan.on(engine)
    if plan.engine == "ray":
        extras.need("ray", what="The Ray engine")
    if address is None:
        return plan
    if plan.engine != "ray":
        raise InvalidMethod(
            f"--address {address}: only the ray engine has a cluster, and this is the "
            f"{plan.engine} engine.",
            remedy='Add --engine ray, or a table [engine] with kind = "ray" to the file.',
        )
    return plan.at(address)


def as_text(document: dict[str, Any]) -> str:
    """Return JSON that any reader accepts."""
    return json.dumps(document, indent=2, allow_nan=False)


@dataclass(frozen=True, slots=True)
class _Found:
    """What came out.

    Attributes:
        runs: number -> what was run.
        not_run: what could not be run with its will, though others could.
        nobody_left: seed -> how the optimum of all the data classifies.
    """

    runs: dict[int, RunDocument] = field(default_factory=dict)
    not_run: list[NotRunDocument] = field(default_factory=list)
    nobody_left: dict[int, ScoreDocument] = field(default_factory=dict)

    def wills(self, plan: RunFile) -> list[WillDocument]:
        """Return one document per will, in the order of the file."""
        return by_will(plan.wills, list(self.runs.values()), self.not_run)

    def leave_out(self, job: Job, error: BequestError) -> None:
        """Note that it could not be run."""
        told: NotRunDocument = {
            "will": job.label,
            "seed": job.seed,
            "why": error.what,
            "remedy": error.remedy,
        }
        self.not_run.append(told)


def _carry_out(plan: RunFile, log: Path | None, records: Records | None) -> _Found:
    """Carry out every run that can be carried out with its will; there is at least one."""
    found = _Found()
    try:
        if records is not None:
            _check_records(plan, records)
        with one_cluster(), Meter(len(plan) * plan.rounds) as meter:
            for number, job in enumerate(plan.jobs(), start=1):
                title = f"run {number} of {len(plan)}: {job.label}, seed {job.seed}"
                if job.impossible is not None:
                    found.leave_out(job, job.impossible)
                    meter.skip(plan.rounds)
                    continue
                record = None if records is None else records.at(number)
                place = None if log is None else log / _log_name(number, len(plan))
                try:
                    run = _run(plan, job, record, title, meter, place)
                except InvalidWill as error:
                    found.leave_out(job, error)
                    continue
                document = document_of(run, will=job.label, seed=job.seed, exam=job.exam)
                found.runs[number] = document
                if job.exam is not None and job.seed not in found.nobody_left:
                    found.nobody_left[job.seed] = _nobody_left(job.exam, run)
    except InvalidRunFile:
        raise
    except BequestError as error:
        # The library does not know where its arguments came from; the reader has to.
        raise type(error)(f"{plan.path}: {error.what}", remedy=error.remedy) from error
    if not found.runs:
        raise _nothing_run(plan, found.not_run)
    return found


def _nothing_run(plan: RunFile, not_run: Sequence[NotRunDocument]) -> InvalidWill:
    """Return the error that says why none of the wills could be run."""
    reasons: dict[tuple[str, str], str] = {}
    for one in not_run:
        reasons.setdefault((one["why"], one["remedy"]), one["will"])
    if len(reasons) == 1:
        ((why, remedy),) = reasons
        return InvalidWill(f"{plan.path}: {why}", remedy=remedy)
    lines = "\n".join(f"  {will}: {why} {remedy}" for (why, remedy), will in reasons.items())
    return InvalidWill(
        f"{plan.path}: none of these wills can be run:\n{lines}",
        remedy="Use others, or change what they lack.",
    )


def _check_records(file: RunFile, records: Records) -> None:
    """Refuse records of other runs before anything is run, and recorded beside them."""
    for number, job in enumerate(file.jobs(), start=1):
        record = records.at(number)
        if record.is_there and job.impossible is None:
            engine = record.kept_by(job.engine)
            record.find(fingerprint(prepare(**job.arguments), engine))


def _run(
    file: RunFile, job: Job, record: Record | None, title: str, meter: Meter, log: Path | None
) -> Run:
    """Carry out one run, or find it on record; write it down where it is to be."""
    plan, engine = prepare(**job.arguments), job.engine
    if record is not None:
        engine = record.kept_by(engine)
        own = fingerprint(plan, engine)  # before anything is asked that may answer differently
        done = record.find(own)
        if done is not None:
            typer.echo(f"{title}: not run again, it is on record in {record.path}", err=True)
            meter.skip(file.rounds)
            return conclude(plan, done, engine)
    outcome = _carried_out(file, job, plan, engine, title, meter, log)
    if record is not None:
        record.keep(own, engine, outcome)
    return conclude(plan, outcome, engine)


def _carried_out(
    file: RunFile,
    job: Job,
    plan: Plan,
    engine: Engine,
    title: str,
    meter: Meter,
    log: Path | None,
) -> Outcome:
    """Carry out one run, show how it goes, and write its log if there is a place for it."""
    if isinstance(engine, Ray):
        with watching(title, nodes=plan.problem.n) as see:
            return replace(engine, watch=see).run(plan)
    progress = meter.part(title, file.rounds)
    if log is None:
        return engine.run(plan, progress)
    assert isinstance(engine, Loop)  # noqa: S101 - no other engine is asked for a log
    origin = Origin(str(file.path.resolve()), file.text, job.label, job.seed)
    with Journal(log, origin=origin) as journal:
        return replace(engine, scribe=journal).run(plan, progress)


def _log_name(number: int, count: int) -> str:
    """Return the name of a run's log; sorted by name they are in the order of the runs."""
    return f"run-{number:0{len(str(count))}}.jsonl"


def _nobody_left(exam: Exam, run: Run) -> ScoreDocument:
    """Return how the optimum of all the data classifies, if the run has computed it."""
    return score_of(exam, None if run.trajectory.error is None else run.problem.optimum())


def _print(plan: RunFile, found: _Found) -> None:
    out = Terminal()
    runs, nobody_left = list(found.runs.values()), list(found.nobody_left.values())
    seeds, wills = len(plan.seeds), found.wills(plan)
    out.print(
        f"{plan.path}: {_plural(len(wills), 'will')}, {_plural(seeds, 'seed')}, "
        f"{_plural(plan.rounds, 'round')} each\n"
    )
    out.print(_comparison(wills, nobody_left, several=seeds > 1))
    for line in _left_out(found.not_run, several=seeds > 1):
        out.print(f"\n{line}")
    out.print(f"\n{_legend(seeds)}")
    if nobody_left:
        out.print(_about_accuracy(nobody_left[0], seeds))
    if plan.silos:
        names = ", ".join(f"{node} {name}" for node, name in enumerate(plan.silos))
        out.print(f"nodes: {names}")
    if seeds == 1:
        out.print()
        _print_departures(out, runs)
        _print_changes(out, runs)
    out.print()
    for line in _steps(runs):
        out.print(line)


def _print_logs(plan: RunFile, runs: Mapping[int, RunDocument], log: Path) -> None:
    out = Terminal()
    out.print(f"\nlogs in {log}, for bequest replay:")
    named = [(_log_name(number, len(plan)), run) for number, run in runs.items()]
    # A run that was on record was not run again, and has a log only if it had one then.
    told = [(name, run) for name, run in named if (log / name).exists()]
    for name, run in told[:_SHOWN]:
        out.print(f"{name}: {run['will']}, seed {run['seed']}")
    if len(told) > _SHOWN:
        out.print(f"... and {len(told) - _SHOWN} more")


def _comparison(
    wills: Sequence[WillDocument], nobody_left: Sequence[ScoreDocument], *, several: bool
) -> Any:  # noqa: ANN401 - rich's
    worst = ["worst"] if several else []
    graded = ["accuracy"] if nobody_left else []
    headers = ["will", "status", *graded, "error", *worst, "limit", "gap", "vectors", "bytes"]
    rows = []
    if nobody_left:
        best = median_and_least([score["accuracy"] for score in nobody_left])
        rows.append(["nobody left", "", _accuracy(*best, several=several)])
        rows[0] += [""] * (len(headers) - len(rows[0]))
    for will in wills:
        if set(will["statuses"]) == {NOT_RUN}:
            rows.append([will["will"], NOT_RUN, *["-"] * (len(headers) - 2)])
            continue
        missing = "inf" if "diverged" in will["statuses"] else "unknown"
        rows.append(
            [
                will["will"],
                _statuses(will["statuses"]),
                *(
                    [_accuracy(will["accuracy"], will["worst_accuracy"], several=several)]
                    if nobody_left
                    else []
                ),
                number(will["error"], missing),
                *([number(will["worst_error"], missing)] if several else []),
                number(will["worst_limit_error" if several else "limit_error"], "unknown"),
                number(will["worst_invariant_gap"], missing, digits=2),
                span(will["vectors"]),
                span(will["bytes"]),
            ]
        )
    return table(headers, rows, text=(0, 1))


def _left_out(not_run: Sequence[NotRunDocument], *, several: bool) -> list[str]:
    """Return what could not be run, and why, a line per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in not_run:
        name = f"{one['will']}, seed {one['seed']}" if several else one["will"]
        reasons.setdefault((one["why"], one["remedy"]), []).append(name)
    return [
        f"{NOT_RUN}: {' / '.join(names)}: {why} {remedy}"
        for (why, remedy), names in reasons.items()
    ]


def _legend(seeds: int) -> str:
    error, statistics, limit = "error", "", ""
    if seeds > 1:
        error, statistics = "error, worst", f"; median and worst of {seeds} seeds"
        limit = "; worst seed"
    return (
        f"{error}: distance of the worst survivor to the optimum of all the data, at the end"
        f"{statistics}\n"
        f"limit: distance of the point they are heading for to the same optimum{limit}\n"
        "gap: largest |sum z - sum grad h| of any round, rounding if all is well\n"
        "vectors, bytes: what one farewell carries"
    )


def _accuracy(median: float | None, worst: float | None, *, several: bool) -> str:
    """Return "91.2%", with the worst of several seeds in brackets."""
    shown = ["unknown" if value is None else f"{value:.1%}" for value in (median, worst)]
    return f"{shown[0]} ({shown[1]})" if several else shown[0]


def _about_accuracy(score: ScoreDocument, seeds: int) -> str:
    seen = "" if score["on"] == "test" else ", which the models were trained on"
    statistics = f"; median (and worst) of {seeds} seeds" if seeds > 1 else ""
    return (
        f"accuracy: share of the {score['on']} samples{seen} that the mean of the survivors' "
        f"models classifies right{statistics}\n"
        "nobody left: the optimum of all the data"
    )


def _print_departures(out: Terminal, runs: Sequence[RunDocument]) -> None:
    rows = [
        [
            run["will"] if index == 0 else "",
            str(record["round"]),
            str(record["node"]),
            _heir(record),
            record["choice"],
            f"{record['vectors']:g}",
            str(record["bytes"]),
        ]
        for run in runs
        for index, record in enumerate(run["departures"])
    ]
    if not rows:
        out.print("nobody left")
        return
    headers = ["will", "round", "node", "heir", "choice", "vectors", "bytes"]
    out.print(table(headers, rows[:_SHOWN], text=(0, 4)))
    if len(rows) > _SHOWN:
        out.print(f"... and {len(rows) - _SHOWN} more; --json shows them all")


def _heir(record: DepartureDocument) -> str:
    """Return the node that got something of it, or "nobody"."""
    nothing = record["crashed"] and record["node"] in record["lost"] and not record["passed_on"]
    return "nobody" if record["heir"] is None or nothing else str(record["heir"])


def _print_changes(out: Terminal, runs: Sequence[RunDocument]) -> None:
    """Say in words who crashed, returned, joined or was forgotten, under which wills."""
    stories: dict[tuple[int, str], list[str]] = {}
    for run in runs:
        told = [(one["round"], _crash(one)) for one in run["departures"] if one["crashed"]]
        told += [(one["round"], _change(one)) for one in run["changes"]]
        for dated in told:
            stories.setdefault(dated, []).append(run["will"])
    if stories:
        out.print()
    for (_, story), names in sorted(stories.items(), key=lambda one: one[0][0])[:_SHOWN]:
        out.print(story if len(names) == len(runs) else f"{story} ({' / '.join(names)})")


def _crash(record: DepartureDocument) -> str:
    """Return what became of a crashed node and of whom it remembered, and why if it says so."""
    parts = []
    if record["lost"]:
        parts.append(f"nobody remembers {', '.join(map(str, record['lost']))}")
    if record["node"] not in record["lost"]:
        parts.append(
            f"node {record['heir']} adopted its checkpoint of round {record['checkpoint']}"
        )
    elif record["passed_on"]:
        parts.append(f"node {record['heir']} adopted what it had inherited")
    went = f"failed ({record['why']})" if record["failed"] else "crashed"
    return f"node {record['node']} {went} after round {record['round']}: {'; '.join(parts)}"


def _change(change: ChangeDocument) -> str:
    went = {"return": "returned", "join": "joined", "forget": "was forgotten"}[change["kind"]]
    return f"node {change['node']} {went} after round {change['round']}: {change['why']}"


def _steps(runs: Sequence[RunDocument]) -> list[str]:
    """Return how the steps came about: word for word for one seed, in short for several."""
    stories: dict[str, list[str]] = {}
    for run in runs:
        story = "; ".join(_step(step) for step in run["steps"])
        stories.setdefault(story, []).append(run["will"])
    if len(stories) == 1:
        return [f"step: {next(iter(stories))}"]
    if len({run["seed"] for run in runs}) == 1:
        return [f"step of {' / '.join(names)}: {story}" for story, names in stories.items()]
    values = [step["value"] or 0.0 for run in runs for step in run["steps"]]
    return [f"step: {min(values):.3g} to {max(values):.3g}, chosen per seed; --json says why"]


def _step(step: StepDocument) -> str:
    since = f" after round {step['since']}" if step["since"] else ""
    return f"{number(step['value'])}{since} ({step['why']})"


def _statuses(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{status} {count}" for status, count in sorted(counts.items()))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def number(value: float | None, missing: str = "-", *, digits: int = 3) -> str:
    """Return a number in short, or what its absence means."""
    return missing if value is None else f"{value:.{digits}g}"


def span(ends: list[float] | list[int] | None) -> str:
    """Return "2", or "1-2" where it varies; "-" where there is nothing."""
    if ends is None:
        return "-"
    least, most = (f"{end:g}" if isinstance(end, float) else str(end) for end in ends)
    return least if least == most else f"{least}-{most}"
