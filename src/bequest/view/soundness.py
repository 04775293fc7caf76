"""Whether a document that was read from a file can be drawn: its parts are there, and fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bequest.curves import NAMES
from bequest.documents import ChangeDocument, DepartureDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the page reads of a run, and of what kind that is.
_KEYS: dict[str, type] = {
    "status": str,
    "rounds": int,
    "survivors": list,
    "lost": list,
    "steps": list,
    "departures": list,
    "changes": list,
    "network": dict,
    "method": str,
    "curves": dict,
}


def check(run: object) -> None:
    """Refuse what cannot be drawn.

    Raises:
        TypeError: something is not there, or not what it should be; the text says what.
        ValueError: its parts do not fit; likewise.
    """
    if not isinstance(run, dict):
        raise TypeError("it is no run")
    for name, kind in _KEYS.items():
        if not isinstance(run.get(name), kind):
            raise TypeError(f'it has no "{name}"')
    nodes = _check_network(run["network"])
    _check_curves(run["curves"])
    for record in run["departures"]:
        _check_record(record, DepartureDocument.__required_keys__, nodes)
    for record in run["changes"]:
        _check_record(record, ChangeDocument.__required_keys__, nodes)


def _check_network(network: Mapping[str, Any]) -> int:
    nodes = network.get("nodes")
    if not isinstance(nodes, int) or nodes < 1:
        raise ValueError(f"its network has {str(nodes)[:20]} nodes")
    edges, absent = network.get("edges"), network.get("absent")
    pairs = isinstance(edges, list) and all(
        isinstance(edge, list) and len(edge) == 2 and _are_nodes(edge, nodes) for edge in edges
    )
    if not pairs or not _are_nodes(absent, nodes):
        raise ValueError("its network names a node that is not there")
    names = network.get("names")
    if names is not None:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(names) != nodes:
            raise ValueError("the names of its nodes do not fit")
    return nodes


def _check_curves(curves: Mapping[str, Any]) -> None:
    rounds = curves.get("rounds")
    if not isinstance(rounds, list) or not all(isinstance(t, int) for t in rounds):
        raise ValueError("its curves are over no rounds")
    if not isinstance(curves.get("of"), int) or rounds != sorted(set(rounds)):
        raise ValueError("the rounds of its curves do not ascend")
    for name in NAMES:
        values = curves.get(name)
        if values is None:
            continue
        numbers = isinstance(values, list) and all(
            value is None or isinstance(value, int | float) for value in values
        )
        if not numbers or len(values) != len(rounds):
            raise ValueError(f'its curve "{name}" does not fit its rounds')


def _check_record(record: object, names: frozenset[str], nodes: int) -> None:
    if not isinstance(record, dict) or not names <= record.keys():
        raise ValueError("a record of what happened lacks something")
    who = [record["node"], *(record.get(name) for name in ("heir", "holder", "sponsor"))]
    named = [node for node in who if node is not None]
    lists = [record.get(name, []) for name in ("passed_on", "lost", "neighbours")]
    lists += record.get("bridges", [])
    sound = isinstance(record["round"], int) and all(_are_nodes(one, nodes) for one in lists)
    if not sound or not _are_nodes(named, nodes):
        raise ValueError("a record of what happened names a node that is not there")


def _are_nodes(listed: object, nodes: int) -> bool:
    return isinstance(listed, list) and all(
        isinstance(node, int) and 0 <= node < nodes for node in listed
    )
