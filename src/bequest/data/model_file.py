"""A model as a file, and what is wrong with a file that is none.

JSON: the name of the format, its version, the content, and a SHA-256 of that. What is read is
believed only if all of them are right, and only if the parts of the content fit each other: a model
that was loaded predicts. Never pickle: a file may have come from anywhere.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bequest import files
from bequest.data.losses import Loss
from bequest.data.recipe import Category, Number, Recipe
from bequest.data.trained import ClassType, Fate, TrainedModel, classes_of
from bequest.errors import InvalidResult

if TYPE_CHECKING:
    from pathlib import Path

# Version 1 did not say of what type the classes are: they are text. Version 2 had no words for what
# only pipelines of scikit-learn say about columns.
FORMAT, VERSION, READ = "bequest model", 3, (1, 2, 3)

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _NumberEntry(_Entry):
    kind: Literal["number"]
    name: _Text
    part: Annotated[int, Field(ge=0)] | None
    mean: _Finite
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    impute: bool
    indicator: bool
    fill: _Finite | None = None


class _CategoryEntry(_Entry):
    kind: Literal["category"]
    name: _Text
    values: list[_Text]
    impute: bool
    indicator: bool
    fill: str = ""
    silent: list[_Text] = []
    lenient: bool = False


class _RecipeEntry(_Entry):
    columns: list[Annotated[_NumberEntry | _CategoryEntry, Field(discriminator="kind")]]
    bias: bool


class _ModelEntry(_Entry):
    loss: Loss
    coef: Annotated[list[list[_Finite]], Field(min_length=1)]
    intercept: list[_Finite]
    classes: list[_Text]
    class_type: ClassType = "text"
    features: list[_Text]
    recipe: _RecipeEntry
    silos: dict[str, Fate]
    about: dict[str, Any]


def write_model(path: Path, model: TrainedModel) -> None:
    """Write a model to a file, as a whole or not at all.

    Raises:
        InvalidResult: it could not be read again, since it holds NaN or its parts do not fit.
        CannotWrite: it cannot be written there.
    """
    content = {
        "loss": model.loss,
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        "classes": list(model.classes),
        "class_type": model.class_type,
        "features": list(model.features),
        "recipe": model.recipe.as_dict(),
        "silos": dict(model.silos),
        "about": dict(model.about),
    }
    try:
        # as it will be read: tuples are lists by then
        _model_in(json.loads(_text(content)))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidResult(
            f"The model cannot be saved: {_reason(error)}.", remedy="Train it again."
        ) from error
    document = {
        "format": FORMAT,
        "version": VERSION,
        "content": content,
        "sha256": _checksum(content),
    }
    files.write(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_model(path: Path) -> TrainedModel:
    """Read a model from a file; see ``load_model``."""
    raw = files.read(path)
    if raw is None:
        raise InvalidResult(
            f"{path} does not exist.", remedy="Check the name, and the folder it is in."
        )
    try:
        document = files.parsed(raw)
        known = document["format"] == FORMAT
        version, content, checksum = (document[k] for k in ("version", "content", "sha256"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_model(path) from error
    if not known:
        raise _no_model(path)
    if version is True or version not in READ:
        raise InvalidResult(
            f"{path} is a model file of version {version}, and this reads "
            f"versions {', '.join(map(str, READ))}.",
            remedy="Read it with the bequest that has written it, or train the model again.",
        )
    if checksum != _checksum(content):
        raise InvalidResult(
            f"{path} is damaged: its content does not fit its checksum.",
            remedy="Take another copy of it.",
        )
    try:
        return _model_in(content)
    except (ValueError, RecursionError) as error:
        raise InvalidResult(
            f"{path} has the right checksum, but is no model: {_reason(error)}.",
            remedy="Train the model again.",
        ) from error


def _model_in(content: object) -> TrainedModel:
    """Return the model in what was parsed.

    Raises:
        ValueError: it is none, or its parts do not fit each other.
    """
    found = _ModelEntry.model_validate(content)
    columns = tuple(_column(entry) for entry in found.recipe.columns)
    recipe = Recipe(columns, found.recipe.bias)
    rows, width = len(found.coef), len(recipe.features)
    if any(len(row) != width for row in found.coef):
        raise ValueError(f"coef: not every row has {width} numbers, one per feature")
    if len(found.intercept) != rows:
        raise ValueError(f"intercept: has {len(found.intercept)} numbers, and coef {rows} rows")
    if tuple(found.features) != recipe.features:
        raise ValueError("features: they are not those of the recipe")
    if len({(column.name, getattr(column, "part", None)) for column in columns}) < len(columns):
        raise ValueError("recipe: two columns have the same name")
    if len({*found.classes}) < len(found.classes):
        raise ValueError("classes: two have the same name")
    wanted = {"logistic": 2, "softmax": max(rows, 2)}.get(found.loss, 0)
    if len(found.classes) != wanted or (found.loss != "softmax" and rows != 1):
        raise ValueError(
            f"classes: there are {len(found.classes)}, and {rows} rows of coef, which is no "
            f"{found.loss} model"
        )
    classes_of(found.classes, found.class_type)
    return TrainedModel(
        loss=found.loss,
        coef=np.array(found.coef, dtype=float).reshape(rows, width),
        intercept=np.array(found.intercept, dtype=float),
        classes=tuple(found.classes),
        recipe=recipe,
        silos=found.silos,
        about=found.about,
        class_type=found.class_type,
    )


def _column(entry: _NumberEntry | _CategoryEntry) -> Number | Category:
    fields = entry.model_dump(exclude={"kind"})
    if entry.indicator and not entry.impute:
        raise ValueError(f'recipe: column "{entry.name}" tells what is missing, but nothing may be')
    if isinstance(entry, _NumberEntry):
        return Number(**fields)
    known = [*entry.values, *entry.silent]
    if not known or len({*known}) < len(known):
        raise ValueError(f'recipe: column "{entry.name}" needs categories, each of them once')
    if entry.fill and not (entry.lenient or entry.fill in known):
        raise ValueError(f'recipe: column "{entry.name}" is filled in with no category of its own')
    return Category(**fields | {"values": tuple(entry.values), "silent": tuple(entry.silent)})


def _reason(error: Exception) -> str:
    """Return the first thing that is wrong, with its place."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place or 'content'}: {first['msg'][:1].lower()}{first['msg'][1:]}".rstrip(".")
    return str(error).rstrip(".") or type(error).__name__


def _no_model(path: Path) -> InvalidResult:
    return InvalidResult(
        f"{path} is no model file.", remedy="Name a file that bequest run --model has written."
    )


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(content: object) -> str:
    return hashlib.sha256(_text(content).encode()).hexdigest()
