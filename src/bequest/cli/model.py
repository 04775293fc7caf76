"""``bequest predict`` and ``bequest model``: models that runs have written."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import typer

from bequest import files
from bequest.cli.terminal import Terminal
from bequest.data import load_model, read_table, trained
from bequest.model.silo_names import on_one_line
from bequest.runfile.tables import TableProblem

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.core.arrays import Vector
    from bequest.data import TrainedModel
    from bequest.model.run import Run
    from bequest.runfile import Job, RunFile

# Coefficients that are shown of a model, the largest first.
_SHOWN = 20


def predict_rows(
    model_path: Path, table_path: Path, *, proba: bool, output: Path | None, overwrite: bool
) -> None:
    """Write a line of CSV per row of a table: the class or the number that is predicted for it."""
    model = load_model(model_path)
    if output is not None:
        if not overwrite:
            files.refuse_existing(output, f"-o {output}")
        files.check_writable(output)
    table = read_table(table_path)
    extra = [name for name in table.columns if name not in model.recipe.needs]
    if extra:
        shown = ", ".join(extra[:12]) + (", ..." if len(extra) > 12 else "")
        typer.echo(f"{table_path}: these columns are not used: {shown}", err=True)
    head, rows = ["prediction"], [[value] for value in model.predict(table).tolist()]
    if proba:
        head += [f"probability of {name}" for name in model.classes]
        for row, shares in zip(rows, model.predict_proba(table).tolist(), strict=True):
            row += [repr(share) for share in shares]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([head, *rows])
    if output is None:
        print(text.getvalue(), end="")
    else:
        files.write(output, text.getvalue().encode())


def show_model(path: Path, *, as_json: bool) -> None:
    """Print what is in a model, and which silos are."""
    model = load_model(path)
    if as_json:
        print(json.dumps(_document(model), indent=2, allow_nan=False))
        return
    out = Terminal()
    what = f"classes {', '.join(model.classes)}" if model.classes else "a number"
    out.print(f"{path}: {model.loss}, {len(model.features)} features, predicts {what}")
    out.print(f"needs the columns {', '.join(model.recipe.needs)}")
    about = model.about
    if "status" in about:
        out.print(f"from a run that is {about['status']} after {about['rounds']} rounds")
        out.print(f"fingerprint {about['fingerprint']}")
    out.print("\nsilos")
    for name, fate in model.silos.items():
        out.print(f"  {on_one_line(name)}: {fate}")
    out.print("\nlargest coefficients")
    rows = model.classes if model.coef.shape[0] > 1 else ("",)
    named = [
        (abs(value), feature, row, value)
        for row, values in zip(rows, model.coef.tolist(), strict=True)
        for feature, value in zip(model.features, values, strict=True)
    ]
    for _, feature, row, value in sorted(named, reverse=True)[:_SHOWN]:
        out.print(f"  {feature}{f' ({row})' if row else ''}: {value:.6g}")
    for label, bound in (about.get("certificate") or {}).items():
        kept = {True: "holds", False: "does not hold", None: "no promise"}[bound["holds"]]
        out.print(f"\ncertificate {label}: {bound['claim']}: {kept}")


def export_model(path: Path, *, output: Path, overwrite: bool) -> None:
    """Write a model as ONNX."""
    model = load_model(path)
    if not overwrite:
        files.refuse_existing(output, f"-o {output}")
    model.to_onnx(output)
    Terminal().print(f"written to {output}")


def _document(model: TrainedModel) -> dict[str, Any]:
    return {
        "loss": model.loss,
        "classes": list(model.classes),
        "features": list(model.features),
        "needs": list(model.recipe.needs),
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        "silos": dict(model.silos),
        "about": dict(model.about),
    }


def model_name(number: int, count: int) -> str:
    """Return the name of a run's model; names sort in the order of the runs."""
    return "model.json" if count == 1 else f"model-{number:0{len(str(count))}}.json"


def save_model(
    folder: Path, number: int, file: RunFile, job: Job, run: Run, *, x: Vector | None = None
) -> None:
    """Write the model of one run of a table, at the mean of the survivors or at x."""
    model_of(file, job, run, x=x).save(folder / model_name(number, len(file)))


def model_of(file: RunFile, job: Job, run: Run, *, x: Vector | None = None) -> TrainedModel:
    """Return the model of one run of a table, at the mean of the survivors or at x."""
    problem = file.content.problem
    assert isinstance(problem, TableProblem)  # noqa: S101 - no other is asked for a model
    assert job.samples is not None  # noqa: S101
    about = {"will": job.label, "seed": job.seed, "label": problem.label}
    return trained(run, job.samples, loss=problem.loss, names=file.silos, about=about, x=x)
