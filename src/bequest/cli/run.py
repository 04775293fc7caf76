"""``bequest run``: every will with every seed, side by side."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from bequest import extras, files
from bequest.cli import sweep
from bequest.cli.live import watching
from bequest.cli.model import model_name, save_model
from bequest.cli.records import Records
from bequest.cli.results import SHOWN, RunFileResults, print_found
from bequest.cli.serving import seen_by, serving, watched
from bequest.cli.terminal import Meter, Terminal
from bequest.cli.tidy import KINDS, row_of, write_rows
from bequest.documents import document_of, score_of
from bequest.engines import Loop, Ray, one_cluster
from bequest.engines.fingerprint import fingerprint
from bequest.errors import (
    BequestError,
    InvalidMethod,
    InvalidRunFile,
    InvalidWill,
    OptimumUnknown,
)
from bequest.journal import Journal, Origin
from bequest.model.outcome import Status
from bequest.phases import Agreed, newton
from bequest.runfile.iterating import spelled
from bequest.runfile.sweep import variants
from bequest.runfile.tables import TableProblem
from bequest.solver import conclude

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bequest.cli.records import RecordFile
    from bequest.data import Exam
    from bequest.documents import NotRunDocument, RunDocument, ScoreDocument
    from bequest.engines import Engine
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan
    from bequest.model.run import Run
    from bequest.phases import Finish
    from bequest.runfile import Job, RunFile
    from bequest.view.live import LivePage

_FORMAT = 1


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
    view: bool = False,
    model: Path | None = None,
    overwrite: bool = False,
    curves: bool = False,
) -> int:
    """Carry out a run file; return the exit code."""
    planned = [
        (settings, _planned(variant, engine, address)) for settings, variant in variants(path)
    ]
    if output is not None and output.suffix.lower() == ".parquet":
        extras.need("parquet", what="A Parquet file")
    if planned[0][0]:
        asked = {"--log": log, "--record": record, "--model": model, "--view": view or None}
        _refuse_with_sweep(path, asked)
        return _run_sweep(path, planned, as_json=as_json, output=output, curves=curves)
    file = planned[0][1]
    if overwrite and model is None:
        raise InvalidMethod(
            "--overwrite: there is nothing to overwrite.",
            remedy="Add --model with the folder of the models to replace, or leave it out.",
        )
    if model is not None:
        _check_models(file, model, replace_them=overwrite or resume)
    if log is not None and file.engine != "loop":
        raise InvalidMethod(
            f"--log {log}: a log holds what real processes hear, and the {file.engine} engine has "
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
    records = None if record is None else Records(record, len(file), resume=resume)
    if log is not None:
        files.make_folder(log)
        for number in range(1, len(file) + 1):
            place = log / _log_name(number, len(file))
            if os.path.lexists(place):
                files.check_writable(place)
    with serving(asked=view) as page, _filled(model):
        found = _carry_out(file, log, records, model, page, curves=curves)
    document: dict[str, Any] = {"format": _FORMAT, "file": str(path), "rounds": file.rounds}
    if file.silos:
        document["silos"] = list(file.silos)
    if found.nobody_left:
        document["nobody_left"] = [
            {"seed": seed} | score for seed, score in found.nobody_left.items()
        ]
    runs = list(found.runs.values())
    document |= {"wills": found.wills(file), "runs": runs, "not_run": found.not_run}
    if output is not None:
        _write(output, document, [row_of(run, {}) for run in runs])
    if as_json:
        print(as_text(document))
    else:
        print_found(file, found)
        if output is not None:
            Terminal().print(f"\nwritten to {output}")
        if record is not None:
            Terminal().print(f"\non record in {record}")
        if model is not None:
            Terminal().print(f"\nmodels in {model}, for bequest predict")
        if log is not None:
            _print_logs(file, found.runs, log)
    return 1 if all(run["status"] == "diverged" for run in runs) else 0


def _refuse_with_sweep(path: Path, options: Mapping[str, Path | bool | None]) -> None:
    for option, given in options.items():
        if given is not None:
            raise InvalidMethod(
                f"{option if given is True else f'{option} {given}'}: {path} has a [sweep].",
                remedy="Leave it out, or write a file with one of the combinations.",
            )


def _run_sweep(
    path: Path,
    planned: Sequence[tuple[dict[str, Any], RunFile]],
    *,
    as_json: bool,
    output: Path | None,
    curves: bool,
) -> int:
    """Carry out every combination of a sweep; return the exit code."""
    if output is not None:
        files.check_writable(output)
    found = [
        (settings, file, _carry_out(file, None, None, None, None, curves=curves))
        for settings, file in planned
    ]
    document = {"format": _FORMAT, "file": str(path), "sweep": sweep.document_of(found)}
    rows = sweep.rows_of(found)
    if output is not None:
        _write(output, document, rows)
    if as_json:
        print(as_text(document))
    else:
        sweep.print_sweep(found)
        if output is not None:
            Terminal().print(f"\nwritten to {output}")
    return 1 if all(row["status"] == "diverged" for row in rows) else 0


def _write(output: Path, document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Write results: as a table where the name of the file asks for one, else as JSON."""
    if output.suffix.lower() in KINDS:
        write_rows(output, rows)
    else:
        files.write(output, (as_text(document) + "\n").encode())


def _planned(file: RunFile, engine: str | None, address: str | None) -> RunFile:
    """Return the run file, with what the command line says about the engine."""
    if engine is not None:
        file = file.on(engine)
    if file.engine == "ray":
        extras.need("ray", what="The Ray engine")
    if address is None:
        return file
    if file.engine != "ray":
        raise InvalidMethod(
            f"--address {address}: only the ray engine has a cluster, and this is the "
            f"{file.engine} engine.",
            remedy='Add --engine ray, or a table [engine] with kind = "ray" to the file.',
        )
    return file.at(address)


def as_text(document: dict[str, Any]) -> str:
    """Return JSON that any reader accepts."""
    return json.dumps(document, indent=2, allow_nan=False)


def _check_models(file: RunFile, folder: Path, *, replace_them: bool) -> None:
    """Refuse what has no model, and a folder that cannot be written, before anything is run."""
    if not isinstance(file.content.problem, TableProblem):
        raise InvalidMethod(
            f"--model {folder}: only a table has rows that a model could be used on.",
            remedy='Leave it out, or use a [problem] with kind = "table".',
        )
    places = [folder / model_name(number, len(file)) for number in range(1, len(file) + 1)]
    if not replace_them:
        for place in places:
            files.refuse_existing(place, f"--model {folder}")
    for place in places:
        if os.path.lexists(place):
            files.check_writable(place)


@contextmanager
def _filled(folder: Path | None) -> Iterator[None]:
    """Make the folder for models; of a run that failed before there was one, it does not stay."""
    if folder is None:
        yield
        return
    was_there = folder.exists()
    files.make_folder(folder)
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):  # there are models in it
                folder.rmdir()
        raise


def _carry_out(
    file: RunFile,
    log: Path | None,
    records: Records | None,
    models: Path | None,
    page: LivePage | None,
    *,
    curves: bool,
) -> RunFileResults:
    """Carry out every run that can be carried out with its will; there is at least one."""
    found = RunFileResults()
    try:
        with one_cluster(), Meter(len(file) * file.rounds) as meter:
            if records is not None:
                _check_records(file, records)
            for number, job in enumerate(file.jobs(), start=1):
                title = f"run {number} of {len(file)}: {job.label}, seed {job.seed}"
                if isinstance(job.prepared, BequestError):
                    found.leave_out(job, job.prepared)
                    meter.skip(file.rounds)
                    continue
                record = None if records is None else records.at(number)
                if records is not None and isinstance(job.samples, Agreed):
                    records.keep_agreement(job.seed, job.samples)
                place = None if log is None else log / _log_name(number, len(file))
                try:
                    run = _run(file, job, record, title, meter, place, page)
                except InvalidWill as error:
                    found.leave_out(job, error)
                    continue
                finish = _finished(file, job, run, title)
                document = document_of(
                    run,
                    will=job.label,
                    seed=job.seed,
                    exam=job.exam,
                    curves=curves,
                    names=job.names,
                    finish=finish,
                )
                found.runs[number] = document
                if models is not None and run.status not in (Status.DIVERGED, Status.LOST):
                    x = None if finish is None else finish.x
                    save_model(models, number, file, job, run, x=x)
                if job.exam is not None and job.seed not in found.nobody_left:
                    found.nobody_left[job.seed] = _nobody_left(job.exam, run)
    except InvalidRunFile:
        raise
    except BequestError as error:
        # The library does not know the file; the reader has to.
        raise type(error)(f"{file.path}: {error.what}", remedy=error.remedy) from error
    if not found.runs:
        raise _nothing_run(file, found.not_run)
    return found


def _finished(file: RunFile, job: Job, run: Run, title: str) -> Finish | None:
    """Return where Newton steps lead from the end of a run, if they are asked for and can."""
    if file.content.finish == "rounds" or run.status in (Status.DIVERGED, Status.LOST):
        return None
    try:
        return newton(run, engine=job.engine)
    except (OptimumUnknown, InvalidMethod) as error:
        typer.echo(f"{title}: not finished by Newton steps: {error.what}", err=True)
        return None


def _nothing_run(file: RunFile, not_run: Sequence[NotRunDocument]) -> InvalidWill:
    """Return the error that says why none of the wills could be run."""
    reasons: dict[tuple[str, str], str] = {}
    for one in not_run:
        reasons.setdefault((one["why"], one["remedy"]), one["will"])
    if len(reasons) == 1:
        ((why, remedy),) = reasons
        return InvalidWill(f"{file.path}: {why}", remedy=remedy)
    lines = "\n".join(f"  {will}: {why} {remedy}" for (why, remedy), will in reasons.items())
    return InvalidWill(
        f"{file.path}: none of these wills can be run:\n{lines}",
        remedy="Use others, or change what they lack.",
    )


def _check_records(file: RunFile, records: Records) -> None:
    """Refuse records of other runs before anything is run."""
    for number, job in enumerate(file.jobs(), start=1):
        record = records.at(number)
        if record.is_there and not isinstance(job.prepared, BequestError):
            engine = record.kept_by(job.engine)
            if record.find(fingerprint(job.prepared, engine)) is None:
                files.check_writable(record.path)  # a link that leads nowhere


def _run(
    file: RunFile,
    job: Job,
    record: RecordFile | None,
    title: str,
    meter: Meter,
    log: Path | None,
    page: LivePage | None,
) -> Run:
    """Carry out one run and record it, or find it on record."""
    plan, engine = job.plan, job.engine
    if record is not None:
        engine = record.kept_by(engine)
        own = fingerprint(plan, engine)  # before anything is asked that may answer differently
        done = record.find(own)
        if done is not None:
            typer.echo(f"{title}: not run again, it is on record in {record.path}", err=True)
            meter.skip(file.rounds)
            return conclude(plan, done, engine)
    outcome = _carried_out(file, job, plan, engine, title, meter, log, page)
    if record is not None:
        record.keep(own, plan, engine, outcome)
    return conclude(plan, outcome, engine)


def _carried_out(
    file: RunFile,
    job: Job,
    plan: Plan,
    engine: Engine,
    title: str,
    meter: Meter,
    log: Path | None,
    page: LivePage | None,
) -> Outcome:
    """Carry out one run, show how it goes, and write its log if there is a place for it."""
    engine = watched(engine, page, title, job.names)
    if isinstance(engine, Ray):
        with watching(title, nodes=plan.problem.n) as see:
            return replace(engine, watch=seen_by(see, page)).run(plan)
    progress = meter.part(title, file.rounds)
    if log is None:
        return engine.run(plan, progress)
    assert isinstance(engine, Loop)  # noqa: S101 - no other engine is asked for a log
    method = spelled(plan.method)
    origin = Origin(str(file.path.resolve()), file.text, job.label, job.seed, method)
    with Journal(log, origin=origin) as journal:
        return replace(engine, scribe=journal).run(plan, progress)


def _log_name(number: int, count: int) -> str:
    """Return the name of a run's log; names sort in the order of the runs."""
    return f"run-{number:0{len(str(count))}}.jsonl"


def _nobody_left(exam: Exam, run: Run) -> ScoreDocument:
    """Return how the optimum of all the data classifies, if the run has computed it."""
    return score_of(exam, None if run.trajectory.error is None else run.problem.optimum())


def _print_logs(file: RunFile, runs: Mapping[int, RunDocument], log: Path) -> None:
    out = Terminal()
    out.print(f"\nlogs in {log}, for bequest replay:")
    named = [(_log_name(number, len(file)), run) for number, run in runs.items()]
    # A run that was on record was not run again, and has a log only if it had one then.
    told = [(name, run) for name, run in named if (log / name).exists()]
    for name, run in told[:SHOWN]:
        out.print(f"{name}: {run['will']}, seed {run['seed']}")
    if len(told) > SHOWN:
        out.print(f"... and {len(told) - SHOWN} more")
