"""Runs as documents: plain data that JSON can carry, and that tables are made of.

A number that is infinite or unknown is None; the status and the reasons say which it is.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar, cast

from bequest.curves import FEW, CurvesDocument, curves_of
from bequest.errors import OptimumUnknown
from bequest.model.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bequest.core.arrays import Vector
    from bequest.core.bounds import Pilot
    from bequest.data import Exam
    from bequest.model.outcome import ChangeRecord, DepartureRecord, Outcome
    from bequest.model.plan import Scene
    from bequest.model.run import Run
    from bequest.phases import Finish


# The status of a run that could not be carried out with its will.
NOT_RUN = "not run"
# a count of vectors or of bytes
Size = TypeVar("Size", int, float)
Document = TypeVar("Document", "DepartureDocument", "ChangeDocument")


class _Named(TypedDict, total=False):
    """``silo`` is what the node is called, where nodes are silos with names."""

    silo: str


class DepartureDocument(_Named):
    """One departure; the names are those of ``bequest.DepartureRecord``."""

    node: int
    round: int
    will: str
    choice: str
    why: str
    heir: int | None
    vectors: float
    bytes: int
    bounds: dict[str, float | None]
    predicted: dict[str, float | None]
    hindsight: dict[str, float | None]
    passed_on: list[int]
    lost: list[int]
    bridges: list[list[int]]
    crashed: bool
    failed: bool
    checkpoint: int | None


class ChangeDocument(_Named):
    """A node returned, joined or was forgotten; as in ``bequest.ChangeRecord``."""

    kind: str
    node: int
    round: int
    holder: int | None
    sponsor: int | None
    neighbours: list[int]
    exact: bool
    why: str


class StepDocument(TypedDict):
    """A step, the round after which it is in force, and why."""

    value: float | None
    since: int
    why: str


class NetworkDocument(TypedDict):
    """Who talks to whom if all nodes are there, and who is not there at the start.

    ``names`` are those of the nodes, where they have some.
    """

    nodes: int
    edges: list[list[int]]
    absent: list[int]
    names: NotRequired[list[str]]


class ScoreDocument(TypedDict):
    """How a model classifies: on which samples, how many right, and how many right per class."""

    on: str
    accuracy: float | None
    recall: dict[str, float | None]


class FinishDocument(TypedDict):
    """Where Newton steps have led from the end of a run, and how many sums of how many numbers."""

    x: list[float]
    sums: int
    numbers: int


class OutcomeDocument(TypedDict):
    """What an engine reported, and on which network.

    ``error`` is the distance of the worst survivor to the optimum of all the data at the end.
    """

    status: str
    rounds: int
    error: float | None
    invariant_gap: float | None
    survivors: list[int]
    lost: list[int]
    steps: list[StepDocument]
    departures: list[DepartureDocument]
    changes: list[ChangeDocument]
    network: NetworkDocument
    method: str
    curves: CurvesDocument


class RunDocument(OutcomeDocument):
    """One run.

    ``limit_error`` is the distance of the point the survivors approach to the optimum; a run that
    diverged has neither this nor ``error``, nor a certificate. ``score`` is that of the mean of
    their models, or of where Newton steps have led from it, if the problem is to classify.
    """

    will: str
    seed: int
    limit_error: float | None
    score: NotRequired[ScoreDocument]
    finish: NotRequired[FinishDocument]
    limit: list[float | None] | None
    optimum: list[float | None] | None
    pilot: dict[str, float | None] | None
    certificate: dict[str, dict[str, object]] | None
    provenance: dict[str, str]


class NotRunDocument(TypedDict):
    """A run that could not be carried out with its will, why, and what to do about it."""

    will: str
    seed: int
    why: str
    remedy: str


class WillDocument(TypedDict):
    """All runs with one will: the median and the worst over the seeds.

    ``statuses`` counts how they ended, and those that were ``"not run"``. ``vectors`` and
    ``bytes`` are the smallest and the largest farewell; None if no node left.
    """

    will: str
    statuses: dict[str, int]
    error: float | None
    worst_error: float | None
    limit_error: float | None
    worst_limit_error: float | None
    worst_invariant_gap: float | None
    accuracy: NotRequired[float | None]
    worst_accuracy: NotRequired[float | None]
    vectors: list[float] | None
    bytes: list[int] | None


def document_of(
    run: Run,
    *,
    will: str,
    seed: int,
    exam: Exam | None = None,
    curves: bool = False,
    names: Sequence[str] = (),
    finish: Finish | None = None,
) -> RunDocument:
    """Return a run as plain data, graded if there is an exam; ``names`` are those of the nodes.

    ``finish`` is where Newton steps have led from its end, if they were asked for.

    Its curves are thinned for a picture, unless all ``curves`` are wanted.
    """
    optimum = None if run.trajectory.error is None else run.optimum
    limit = _limit(run)
    offset = None if optimum is None or limit is None else run.limit_error
    gone = run.status in (Status.DIVERGED, Status.LOST)
    model = None if gone else run.x.mean(axis=0)
    scored: dict[str, object] = {}
    if finish is not None:
        model = finish.x
        scored["finish"] = {
            "x": finish.x.tolist(), "sums": finish.sums, "numbers": finish.numbers
        }  # fmt: skip
    if exam is not None:
        scored["score"] = score_of(exam, model)
    document = {
        "will": will,
        "seed": seed,
        **outcome_document(run.outcome, run.plan.scene, most=None if curves else FEW, names=names),
        "limit_error": None if offset is None else _number(offset),
        "limit": _numbers(limit),
        "optimum": _numbers(optimum),
        "pilot": _pilot(run.pilot),
        "certificate": None if offset is None else run.certificate.as_dict(),
        "provenance": dict(run.provenance),
    }
    return cast("RunDocument", document | scored)


def outcome_document(
    outcome: Outcome,
    scene: Scene,
    *,
    last: int | None = None,
    most: int | None = FEW,
    names: Sequence[str] = (),
) -> OutcomeDocument:
    """Return what an engine reported as plain data.

    Args:
        outcome: that.
        scene: where it took place.
        last: the last round that was measured, if the run is not at its end.
        most: how many rounds of its curves are kept, but for a few; None for all, in full.
        names: those of the nodes, where they have some.
    """
    measured, at = outcome.trajectory, -1 if last is None else last
    happened = {one.round for one in outcome.departures} | {one.round for one in outcome.changes}
    document: OutcomeDocument = {
        "status": str(outcome.status),
        "rounds": measured.gradient_norm.size - 1,
        "error": None if measured.error is None else _number(measured.error[at]),
        "invariant_gap": _number(
            measured.invariant_gap[: None if last is None else last + 1].max()
        ),
        "survivors": list(outcome.survivors),
        "lost": list(outcome.lost),
        "steps": [
            {"value": _number(step.value), "since": step.since, "why": step.why}
            for step in outcome.steps
        ],
        "departures": [departure_document(record) for record in outcome.departures],
        "changes": [change_document(record) for record in outcome.changes],
        "network": network_document(scene),
        "method": scene.method,
        "curves": curves_of(measured, last=last, most=most, also=happened),
    }
    if names:
        document["network"]["names"] = list(names)
        for record in (*document["departures"], *document["changes"]):
            record["silo"] = names[record["node"]]
    return document


def network_document(scene: Scene) -> NetworkDocument:
    """Return a network as plain data."""
    return {
        "nodes": scene.nodes,
        "edges": [list(edge) for edge in scene.edges],
        "absent": list(scene.absent),
    }


def departure_document(record: DepartureRecord) -> DepartureDocument:
    """Return a departure as plain data."""
    return _document(record, DepartureDocument)


def change_document(record: ChangeRecord) -> ChangeDocument:
    """Return a return, a join or a forgetting as plain data."""
    return _document(record, ChangeDocument)


def score_of(exam: Exam, model: Vector | None) -> ScoreDocument:
    """Return the score of a model; all of it is unknown if there is no model."""
    if model is None:
        return {"on": exam.on, "accuracy": None, "recall": dict.fromkeys(exam.classes)}
    score = exam.score(model)
    return {"on": exam.on, "accuracy": score.accuracy, "recall": dict(score.recall)}


def by_will(
    wills: Iterable[str], runs: Sequence[RunDocument], not_run: Sequence[NotRunDocument] = ()
) -> list[WillDocument]:
    """Return one document per will, in this order."""
    return [
        _together(
            will,
            [run for run in runs if run["will"] == will],
            sum(one["will"] == will for one in not_run),
        )
        for will in wills
    ]


def _together(will: str, runs: Sequence[RunDocument], not_run: int) -> WillDocument:
    unknown: list[float | None] = [None] * not_run
    error, worst_error = _median_and_worst([run["error"] for run in runs] + unknown)
    limit_error, worst_limit_error = _median_and_worst(
        [run["limit_error"] for run in runs] + unknown
    )
    gaps = [run["invariant_gap"] for run in runs] + unknown
    statuses = Counter(run["status"] for run in runs)
    if not_run:
        statuses[NOT_RUN] = not_run
    farewells = [record for run in runs for record in run["departures"]]
    document: WillDocument = {
        "will": will,
        "statuses": dict(statuses),
        "error": error,
        "worst_error": worst_error,
        "limit_error": limit_error,
        "worst_limit_error": worst_limit_error,
        "worst_invariant_gap": _median_and_worst(gaps)[1],
        "vectors": _ends([record["vectors"] for record in farewells]),
        "bytes": _ends([record["bytes"] for record in farewells]),
    }
    scores = [run["score"]["accuracy"] for run in runs if "score" in run]
    if scores:
        scores += unknown
        document["accuracy"], document["worst_accuracy"] = median_and_least(scores)
    return document


def median_and_least(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return both, for numbers of which more is better; unknown is worse than any of them."""
    median, worst = _median_and_worst([None if value is None else -value for value in values])
    return (None if median is None else -median), (None if worst is None else -worst)


def _median_and_worst(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return both, counting what is infinite or unknown as worse than any number."""
    counted = [math.inf if value is None else value for value in values]
    return _number(statistics.median(counted)), _number(max(counted))


def _ends(values: Sequence[Size]) -> list[Size] | None:
    return [min(values), max(values)] if values else None


def _limit(run: Run) -> Vector | None:
    """Return the limit of the survivors; None if it is unknown or does not exist."""
    if run.status is Status.DIVERGED:
        return None
    try:
        return run.limit
    except OptimumUnknown:
        return None


def _pilot(pilot: Pilot | None) -> dict[str, float | None] | None:
    if pilot is None:
        return None
    names = ("radius", "theta", "zeta", "spread")
    return {name: _number(getattr(pilot, name)) for name in names}


def _document(record: DepartureRecord | ChangeRecord, kind: type[Document]) -> Document:
    """Return a record as a document of that kind, whose names are those of the record."""
    names = (name for name in kind.__annotations__ if hasattr(record, name))
    return cast("Document", {name: _plain(getattr(record, name)) for name in names})


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    match value:
        case tuple():
            return [_plain(part) for part in value]
        case Mapping():
            return {name: _number(part) for name, part in value.items()}
    return value


def _numbers(vector: Vector | None) -> list[float | None] | None:
    return None if vector is None else [_number(value) for value in vector]


def _number(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
