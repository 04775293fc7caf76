"""``bequest forget``: a silo is taken out of the model of a recorded run, with a receipt."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bequest import files
from bequest.cli.model import model_of
from bequest.cli.records import agreement_in, record_at
from bequest.cli.terminal import Terminal
from bequest.data.recipe import Number
from bequest.engines import one_cluster
from bequest.engines.fingerprint import fingerprint
from bequest.errors import (
    InvalidData,
    InvalidMethod,
    InvalidResult,
    NotThere,
    StillHere,
    UnknownNode,
)
from bequest.model.content import digest
from bequest.model.silo_names import on_one_line
from bequest.model.withdrawal import withdraw
from bequest.phases import newton
from bequest.runfile import load
from bequest.runfile.tables import TableProblem
from bequest.solver import conclude

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.data.trained import TrainedModel
    from bequest.engines import Engine
    from bequest.model.run import Run
    from bequest.model.withdrawal import Forgetting
    from bequest.runfile import Job, RunFile

_FORMAT, _VERSION = "bequest receipt", 1


def forget_silo(
    path: Path,
    silo: str,
    *,
    record: Path,
    number: int | None,
    output: Path,
    overwrite: bool = False,
) -> None:
    """Write the model of a recorded run without a silo, and the receipt of that."""
    file = load(path)
    if not isinstance(file.content.problem, TableProblem):
        raise InvalidMethod(
            f"{path}: only a table has a model.", remedy='Use a [problem] with kind = "table".'
        )
    node = _node(file, silo)
    if not overwrite:
        for place in _places(output):
            files.refuse_existing(place, f"-o {output}")
    with one_cluster():
        _forget(file, node, silo, record=record, number=number, output=output)


def _forget(
    file: RunFile, node: int, silo: str, *, record: Path, number: int | None, output: Path
) -> None:
    chosen, job = _job(file, number, record)
    engine = job.engine
    kept = record_at(record, chosen, len(file))
    gone_files = _missing(file, engine)
    own = fingerprint(job.plan, kept.kept_by(engine))
    found = kept.find(own, unseen=[file.silos.index(name) for name in gone_files])
    if found is None:
        raise InvalidResult(
            f"{record} has no record of run {chosen}.",
            remedy=f"Write it first: bequest run {file.path} --record {record}.",
        )
    run = conclude(job.plan, found, engine)
    for name, path in gone_files.items():
        if file.silos.index(name) in run.survivors:
            raise InvalidData(
                f"{path}, the file of {name}, is not there.",
                remedy=f"Put it back: {name} is still in the model, and without {silo} that is "
                "computed from the files of those in it.",
            )
    gone = _withdrawn(run, node, silo, engine)
    files.make_folder(output)
    places = _places(output)
    model = model_of(file, job, run, x=gone.x)
    # what was promised about the run was promised with the silo in it
    about = {**model.about, "certificate": None, "forgotten": {"silo": silo, "exact": gone.exact}}
    model = replace(model, silos={**model.silos, silo: "forgotten"}, about=about)
    model.save(places[0])
    problem = file.content.problem
    assert isinstance(problem, TableProblem)  # noqa: S101 - no other has a model
    remains = _agreed(model, problem)
    left = _left(model)
    receipt = {
        "format": _FORMAT,
        "version": _VERSION,
        "silo": silo,
        "node": node,
        "run": {"file": str(file.path), "will": job.label, "seed": job.seed, "rounds": run.rounds},
        "fingerprint": model.about["fingerprint"],
        "holder": gone.holder,
        "holder_silo": None if gone.holder is None else [*model.silos][gone.holder],
        "withdrawn": None if gone.withdrawn is None else digest(gone.withdrawn),
        "exact": gone.exact,
        "why": gone.why,
        "left": left,
        "remains": remains,
        "moved": gone.moved,
        "model": hashlib.sha256(places[0].read_bytes()).hexdigest(),
    }
    files.write(places[1], (json.dumps(receipt, indent=1) + "\n").encode())
    out = Terminal()
    # a name may look like the number of another node
    which = f"silo {silo} (node {node})" if silo.isdecimal() else on_one_line(silo)
    out.print(f"{which}: {gone.why}; the model has moved by {gone.moved:.3g}")
    for name, path in gone_files.items():
        out.print(f"{path}, the file of {name}, is gone: it was not compared with the record")
    if gone.withdrawn is not None:
        out.print(f"its memory was withdrawn {'exactly' if gone.exact else 'NOT exactly'}")
        out.print(f"what is left is {left}")
    if remains:
        out.print(f"agreed on with it, and still in the model: {', '.join(remains)}")
        out.print("to be rid of that, run a file without it")
    out.print(f"written to {places[0]}, {places[1]}")


def _missing(file: RunFile, engine: Engine) -> dict[str, Path]:
    """Return the silos whose files would be read here, and are not there any more."""
    problem = file.content.problem
    if not isinstance(problem, TableProblem) or getattr(engine, "loads_elsewhere", False):
        return {}
    return {name: path for name, path in problem.hosted.items() if not path.exists()}


def _agreed(model: TrainedModel, problem: TableProblem) -> list[str]:
    """Return what the silo had a say in before the rounds, which no withdrawal changes."""
    shifted = [c.spelled for c in model.recipe.columns if isinstance(c, Number) and c.is_shifted]
    named = [name for name, values in problem.categories.items() if values == "agree"]
    return [f"mean and scale of {name}" for name in shifted] + [f"categories of {n}" for n in named]


def _left(model: TrainedModel) -> str:
    """Return in words what the new model is the optimum of: of other memories, as good as these."""
    alive, kept = (
        ", ".join(on_one_line(name) for name, fate in model.silos.items() if fate == wanted)
        for wanted in ("alive", "remembered")
    )
    if not kept:
        return f"the optimum of the rows of {alive}"
    return (
        f"the optimum of the rows of {alive}, and of what is remembered of {kept}: as near to the "
        "optimum of all their rows as these memories are good"
    )


def _node(file: RunFile, silo: str) -> int:
    """Return which node a silo is, by its name; numbers are names where silos have none."""
    names = file.silos or tuple(str(node) for node in range(file.content.problem.n))
    if silo in names:
        return names.index(silo)
    known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    meant = ""
    if silo in map(str, range(len(names))):
        meant = f'Silos go by their names: node {silo} is "{names[int(silo)]}". '
    raise UnknownNode(f'There is no silo "{silo}".', remedy=f"{meant}The silos are {known}.")


def _places(output: Path) -> tuple[Path, Path]:
    return output / "model.json", output / "receipt.json"


def _withdrawn(run: Run, node: int, silo: str, engine: Engine) -> Forgetting:
    """Take a silo out of a run; what is wrong with that is told by its name.

    Where data are on their hosts, the survivors add up what the minimiser takes.
    """

    def by_sums(inherited: Mapping[int, Legacy]) -> Vector:
        return newton(run, engine=engine, inherited=inherited).x

    try:
        return withdraw(run, node, minimiser=by_sums if run.problem.away else None)
    except (StillHere, NotThere) as error:
        what = error.what.replace(f"Node {node}", silo)
        raise type(error)(what, remedy=error.remedy) from error


def _job(file: RunFile, number: int | None, record: Path) -> tuple[int, Job]:
    """Return the run to take it out of: the only one, or the one that was named."""
    if number is None and len(file) > 1:
        raise InvalidMethod(
            f"{file.path} has {len(file)} runs.", remedy="Add --run with the number of one of them."
        )
    for seed in file.seeds:
        agreed = agreement_in(record, seed)
        if agreed is not None:
            file.with_agreement(seed, agreed)
    for place, job in enumerate(file.jobs(), start=1):
        if place == (number or 1):
            return place, job
    raise InvalidMethod(
        f"--run {number}: {file.path} has {len(file)} runs.", remedy="They count from 1."
    )
