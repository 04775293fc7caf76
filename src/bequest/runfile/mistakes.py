"""What is wrong with a run file, in plain words: where, what, and what to do about it."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bequest.errors import InvalidRunFile
from bequest.runfile.iterating import METHODS
from bequest.runfile.schema import GRAPHS, PROBLEMS, WILLS
from bequest.runfile.tables import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from pydantic import ValidationError

    Keys = tuple[str | int, ...]

_UNKNOWN, _MISSING = "is not a known key.", "is missing."
_KINDS = {
    "problem": list(PROBLEMS),
    "partition": list(PARTITIONS),
    "graph": list(GRAPHS),
    "method": list(METHODS),
    "wills": list(WILLS),
}
# pydantic's names of types that were not found -> what was expected
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": 'a text in "quotes"',
    "bool_type": "true or false",
    "list_type": "a list in [brackets]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS = {
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong; ``keys`` lead to it from the top of the file."""

    keys: Keys
    what: str
    remedy: str

    def __str__(self) -> str:
        where = dotted(self.keys)
        return f"{where}: {self.what}" if where else self.what


def refuse(path: Path, mistakes: Sequence[Mistake]) -> InvalidRunFile:
    """Return the error that lists these mistakes."""
    if len(mistakes) == 1:
        return InvalidRunFile(f"{path}: {mistakes[0]}", remedy=mistakes[0].remedy)
    lines = "\n".join(f"  {mistake} {mistake.remedy}" for mistake in mistakes)
    return InvalidRunFile(
        f"{path} has {len(mistakes)} mistakes:\n{lines}",
        remedy="Correct them; bequest docs run-file describes every key.",
    )


def mistakes_in(
    error: ValidationError, document: dict[str, Any], *, top: Collection[str]
) -> list[Mistake]:
    """Translate what pydantic found in a document whose top level knows the keys ``top``."""
    found = error.errors(include_url=False)
    mistakes = [mistake for entry in found for mistake in _translate(entry, document, top)]
    # A key in the wrong table is not also missing.
    misplaced = {mistake.keys[-1:] for mistake in mistakes if mistake.what == _UNKNOWN}
    return [m for m in mistakes if not (m.what == _MISSING and m.keys in misplaced)]


def dotted(keys: Keys) -> str:
    """Return a path as people write it: ``departures.events[1].round``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _translate(entry: Any, document: Any, top: Collection[str]) -> Iterator[Mistake]:  # noqa: ANN401
    kind, given, context = entry["type"], entry["input"], entry.get("ctx", {})
    keys = _path(entry["loc"], document, missing=kind == "missing")
    if kind == "unknown":
        for key in context["keys"]:
            yield _unknown(keys, key, context["known"], top)
    elif kind == "refused":
        yield Mistake(keys + tuple(context["at"]), context["what"], context["remedy"])
    elif kind == "missing":
        yield Mistake(keys, _MISSING, _how_to_add(keys))
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        known = _KINDS.get(str(keys[-1])) or _KINDS.get(str(keys[0]), [])
        what, near = _MISSING, ""
        if "kind" in given:
            what, near = f"is {_shown(given['kind'])}, which is not known.", given["kind"]
        yield Mistake((*keys, "kind"), what, _suggestion(near, known, quoted=True))
    elif kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        what = f"is {_shown(given)}, which is not known."
        yield Mistake(keys, what, _suggestion(given, known, quoted=True))
    elif kind in _EXPECTED:
        expected = _EXPECTED[kind]
        what = f"is {_shown(given)}, but must be {expected}."
        yield Mistake(keys, what, _how_to_write(keys, expected, given))
    elif kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        what = f"is {_shown(given)}."
        yield Mistake(keys, what, f"Use a number that is {word} {context[name]}.")
    elif kind in _LENGTHS:
        word, name = _LENGTHS[kind]
        what = f"has length {len(given)}."
        plural = "entry" if context[name] == 1 else "entries"
        yield Mistake(keys, what, f"Use {word} {context[name]} {plural}.")
    else:  # pragma: no cover - every type of error that the schema can cause is named above
        yield Mistake(keys, f"{entry['msg']}.", "See bequest docs run-file.")


def _path(location: Keys, document: Any, *, missing: bool) -> Keys:  # noqa: ANN401
    """Return the keys as they stand in the file, without pydantic's names of alternatives.

    Args:
        location: where pydantic says the mistake is.
        document: the file.
        missing: whether the last key is one that is not there, but should be.
    """
    keys: list[str | int] = []
    tagged = False  # whether the table's kind, which comes before its keys, was passed
    for depth, key in enumerate(location):
        if isinstance(document, dict):
            if document.get("kind") == key and not tagged:
                tagged = True
                continue
            if key in document:
                keys.append(key)
                document, tagged = document[key], False
            elif missing and depth == len(location) - 1:
                keys.append(key)
        elif isinstance(document, list) and isinstance(key, int):
            keys.append(key)
            document, tagged = document[key], False
    return tuple(keys)


def _unknown(keys: Keys, key: str, known: Sequence[str], top: Collection[str]) -> Mistake:
    remedy = _suggestion(key, known)
    if keys and key in top and "Did you mean" not in remedy:
        # In TOML, everything below a [table] belongs to it.
        remedy = f"It belongs at the top of the file, above the first [{keys[0]}]."
    return Mistake((*keys, key), _UNKNOWN, remedy)


def _suggestion(given: object, known: Iterable[str], *, quoted: bool = False) -> str:
    names = {f'"{name}"' if quoted else name: name for name in known}
    near = difflib.get_close_matches(str(given), names.values(), n=1, cutoff=0.6)
    if near:
        return f"Did you mean {next(shown for shown, name in names.items() if name == near[0])}?"
    return f"Use one of {', '.join(names)}."


def _how_to_add(keys: Keys) -> str:
    table, key = dotted(keys[:-1]), keys[-1]
    if not table and key in ("problem", "graph"):
        return f'Add a table [{key}] with a kind = "...".'
    return f"Add {key} = ... {f'to {table}' if table else 'at the top of the file'}."


def _how_to_write(keys: Keys, expected: str, given: object) -> str:
    name = keys[-1] if keys and isinstance(keys[-1], str) else ""
    if isinstance(given, dict) and name == "wills":
        return "Write [[wills]] with double brackets: there may be several."
    if isinstance(given, list) and expected == "a table" and name:
        return f"Write [{name}] with single brackets: there is only one."
    if "list" in expected:
        return f"Write {name} = [{_shown(given)}]."
    if isinstance(given, str) and "number" in expected and _is_number(given):
        return "Remove the quotes."
    return f"Write {expected}."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(value: object) -> str:
    """Return a value the way TOML writes it, if it is short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:36]}..."
