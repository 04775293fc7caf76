"""The package's objects in the words of the reference."""

from __future__ import annotations

import reference

import bequest as bq

KINDS = {
    bq.Departure: "departure",
    bq.Crash: "crash",
    bq.Return: "return",
    bq.Join: "join",
    bq.Forget: "forget",
}


def spec(will: bq.wills.Will) -> dict:
    """A will that the reference can decide by itself."""
    kinds = {
        bq.wills.Classic: "classic",
        bq.wills.Forgetful: "forgetful",
        bq.wills.Consensus: "consensus",
        bq.wills.LocalTrack: "local-track",
        bq.wills.PointOnly: "point-only",
        bq.wills.Adaptive: "adaptive",
    }
    options = {name: getattr(will, name) for name in ("cap", "rule", "drop") if hasattr(will, name)}
    return {"kind": kinds[type(will)], **options}


def quad(legacy: bq.Legacy) -> reference.Quad:
    return reference.Quad(
        legacy.hessian(), legacy.p, legacy.c, frozenset(legacy.lineage), legacy.blended
    )


def as_decided(record: bq.DepartureRecord) -> dict:
    """A decision of the engine's own, for the reference to carry out node by node."""
    if record.crashed and record.checkpoint is None:
        return {"kind": "unasked"}
    if record.legacy is None:  # a crash of a node whom no node remembers
        return {"kind": "forgetful"}
    return {
        "kind": "given",
        "choice": record.choice,
        "quad": quad(record.legacy),
        "anchor": record.anchor,
        "blur": None if record.blur is None else quad(record.blur),
    }


def method(run: bq.Run) -> dict:
    """How the nodes iterate, and the paces that were given or chosen."""
    one = run.plan.method
    paces = [(step.since, step.value) for step in run.steps]
    return {
        "method": one.label,
        "metric": getattr(one, "metric", "scalar"),
        "paces": paces if one.given is None else paces[0][1],
    }


def event(one: bq.departures.Event) -> reference.Event:
    return reference.Event(KINDS[type(one)], one.node, one.round, getattr(one, "neighbours", None))
