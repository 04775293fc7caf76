"""[sweep]: one run file for every combination of values."""

import copy
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bequest.errors import InvalidRunFile
from bequest.runfile import RunFile, parsed, read, understood

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
    sweep = document.pop("sweep")
    lists = dict(_lists(sweep, (), path))
    if not lists:
        raise InvalidRunFile(f"{path}: sweep: is empty.", remedy="Add problem.l2 = [0.01, 0.1].")
    if math.prod(map(len, lists.values())) > _MOST:
        raise InvalidRunFile(
            f"{path}: sweep: has more than {_MOST} combinations.", remedy="Use fewer values."
        )
    found = []
    for values in itertools.product(*lists.values()):
        settings = {".".join(keys): value for keys, value in zip(lists, values, strict=True)}
        variant = copy.deepcopy(document)
        for keys, value in zip(lists, values, strict=True):
            _put(variant, keys, value, path)
        try:
            found.append((settings, understood(variant, text, path)))
        except InvalidRunFile as error:
            told = ", ".join(f"{name} = {value}" for name, value in settings.items())
            raise InvalidRunFile(
                f"{error.what} (in the combination {told})", remedy=error.remedy
            ) from error
    return found


def _lists(
    table: Any,  # noqa: ANN401 - what the file says
    above: tuple[str, ...],
    path: Path,
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
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


def _put(document: dict[str, Any], keys: tuple[str, ...], value: object, path: Path) -> None:
    place: Any = document
    for key in keys[:-1]:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            raise InvalidRunFile(
                f"{path}: sweep.{'.'.join(keys)}: {key} is no table.",
                remedy="Name a key of a table, such as problem.l2.",
            )
    place[keys[-1]] = value
