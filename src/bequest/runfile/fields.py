"""What every section of a run file is made of."""

import difflib
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

# Larger numbers are slips of the keyboard, and would end in a lack of memory.
Count = Annotated[int, Field(ge=1, le=10**9)]
Numbers = Annotated[list[float], Field(min_length=1)]
# Names of silos that are shown where another one was given.
_SHOWN = 12


def refusal(what: str, remedy: str, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Return an error in the library's own words, at a key inside the table that raises it."""
    return PydanticCustomError("refused", "refused", {"what": what, "remedy": remedy, "at": at})


def numbered(given: object, info: ValidationInfo) -> object:
    """Return which node a silo is, where a node is given by the silo's name.

    A text of digits, which is how TOML writes the keys of a table, is the silo of that name, and a
    number only where no silo is called by one. A number is refused where a silo is called like it
    and is another node: either may be meant.
    """
    silos = (info.context or {}).get("silos")
    if isinstance(given, int) and not isinstance(given, bool):
        refuse_namesake(given, silos or ())
        return given
    if not isinstance(given, str):
        return given
    if silos and given in silos:
        return silos.index(given)
    if given.isdecimal() and not any(name.isdecimal() for name in silos or ()):
        return given
    if silos is None:
        return 0  # the problem itself is wrong, and that is said already
    if not silos:
        raise refusal(
            f'names "{given}", but nodes have names only where a table has a silo column or files.',
            "Give the number of the node.",
        )
    pattern = (info.context or {}).get("pattern")
    near = difflib.get_close_matches(given, silos, n=1)
    known = ", ".join(silos[:_SHOWN]) + (", ..." if len(silos) > _SHOWN else "")
    raise refusal(
        f'names "{given}", and no file that "{pattern}" matches is called that.'
        if pattern
        else f'names "{given}", which is no silo.',
        (f'Did you mean "{near[0]}"? ' if near else "")
        + f"The silos are {known}{', the files that are there' if pattern else ''}.",
    )


def refuse_namesake(number: int, silos: Sequence[str]) -> None:
    """Refuse the number of a node where a silo is called like it and is another node."""
    called = {
        name: node
        for node, name in enumerate(silos)
        if name.isdecimal() and (name.lstrip("0") or "0") == str(number)
    }
    if not called or number in called.values():
        return
    name, node = next(iter(called.items()))
    if 0 <= number < len(silos):
        raise refusal(
            f'may be silo "{name}", which is node {node}, or node {number}, which is silo '
            f'"{silos[number]}".',
            f'Write "{name}" in quotes for the one, or "{silos[number]}" for the other.',
        )
    raise refusal(
        f'is {number}, but nodes are numbered 0..{len(silos) - 1}; silo "{name}" is node {node}.',
        f'Write "{name}" in quotes.',
    )


Node = Annotated[int, Field(ge=0, le=10**9), BeforeValidator(numbered)]


def list_or_single(value: object) -> str:
    """Tell ``[1, 2]`` from ``1``, so that a mistake is reported for the one that was meant."""
    return "list" if isinstance(value, list) else "single"


class Section(BaseModel):
    """A TOML table in which every key is known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:  # noqa: ANN401 - any TOML value
        """Complain about unknown keys first: a misspelt key also looks like a missing one."""
        known = list(cls.model_fields)
        if isinstance(data, dict) and (unknown := [key for key in data if key not in known]):
            raise PydanticCustomError("unknown", "unknown", {"keys": unknown, "known": known})
        return data
