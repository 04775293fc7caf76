"""[sweep]: one run file for every combination of values; [[sweep]]: for every point."""

import copy
import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from bequest.errors import InvalidRunFile
from bequest.runfile import RunFile, parsed, read, understood

# The keys that lead to a value, from the outside in.
Keys: TypeAlias = tuple[str, ...]
# More combinations than this are a mistake in a list.
_MOST = 10_000


def variants(path: Path) -> list[tuple[dict[str, Any], RunFile]]:
    """Return the settings of every combination and the run file with them; one without a sweep.

    Raises:
        InvalidRunFile: the file cannot be read or understood with one of the combinations.
    """
    text = read(path)
    document = parsed(text, path)
    if "sweep" not in document:
        return [({}, understood(document, text, path))]
    found = []
    for point in _points(document.pop("sweep"), path):
        settings = {".".join(keys): value for keys, value in point.items()}
        variant = copy.deepcopy(document)
        for keys, value in point.items():
            _put(variant, keys, value, path)
        try:
            found.append((settings, understood(variant, text, path)))
        except InvalidRunFile as error:
            told = ", ".join(f"{name} = {value}" for name, value in settings.items())
            raise InvalidRunFile(
                f"{error.what} (in the combination {told})", remedy=error.remedy
            ) from error
    return found


def first(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a document with the first combination of its sweep; as it is without one.

    Raises:
        InvalidRunFile: its sweep makes no sense.
    """
    if "sweep" not in document:
        return document
    settled = copy.deepcopy({key: part for key, part in document.items() if key != "sweep"})
    for keys, value in _points(document["sweep"], path)[0].items():
        _put(settled, keys, value, path)
    return settled


def _points(sweep: object, path: Path) -> list[dict[Keys, Any]]:
    """Return the values of every combination, by the keys that lead to them."""
    if isinstance(sweep, list):
        points: Iterable[dict[Keys, Any]] = _listed(sweep, path)
        count = len(sweep)
    else:
        lists = dict(_lists(sweep, (), path))
        if not lists:
            raise InvalidRunFile(
                f"{path}: sweep: is empty.", remedy="Add problem.l2 = [0.01, 0.1]."
            )
        count, every = math.prod(map(len, lists.values())), itertools.product(*lists.values())
        points = (dict(zip(lists, values, strict=True)) for values in every)
    if count > _MOST:
        raise InvalidRunFile(
            f"{path}: sweep: has more than {_MOST} combinations.", remedy="Use fewer values."
        )
    return [*points]


def _listed(sweep: list[object], path: Path) -> list[dict[Keys, Any]]:
    """Return the points of [[sweep]], which all say the same keys: each is a row of one table."""
    points = [dict(_values(one, ())) for one in sweep]
    for number, point in enumerate(points):
        if not point or {*point} != {*points[0]}:
            odd = {*point} ^ {*points[0]}
            raise InvalidRunFile(
                f"{path}: sweep[{number}]: "
                + (f"{'.'.join(min(odd))} is not in every entry." if odd else "is empty."),
                remedy="Give every [[sweep]] the same keys.",
            )
    return [{keys: point[keys] for keys in points[0]} for point in points]


def _values(table: object, above: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield the keys that lead to every value of a point."""
    if isinstance(table, dict):
        for key, inside in table.items():
            yield from _values(inside, (*above, key))
    elif above:
        yield above, table


def _lists(
    table: Any,  # noqa: ANN401 - what the file says
    above: Keys,
    path: Path,
) -> Iterator[tuple[Keys, list[Any]]]:
    """Yield the keys that lead to every list of values."""
    if isinstance(table, dict):
        for key, inside in table.items():
            yield from _lists(inside, (*above, key), path)
    elif isinstance(table, list) and table and above:
        yield above, table
    else:
        raise InvalidRunFile(
            f"{path}: {'.'.join(('sweep', *above))}: is no list of values.",
            remedy="Give the values to try in [brackets].",
        )


def _put(document: dict[str, Any], keys: Keys, value: object, path: Path) -> None:
    place: Any = document
    for key in keys[:-1]:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            raise InvalidRunFile(
                f"{path}: sweep.{'.'.join(keys)}: {key} is no table.",
                remedy="Name a key of a table, such as problem.l2.",
            )
    place[keys[-1]] = value
