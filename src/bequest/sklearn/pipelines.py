"""A fitted pipeline of scikit-learn as one model: its transformers as a recipe.

What a recipe says is said exactly as scikit-learn computes it, so that the model predicts what the
pipeline predicts. What it cannot say is refused: half a pipeline would predict something else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from bequest.data.recipe import Category, Number, Recipe
from bequest.data.written import is_read_as_it_is, label_of, may_be_another
from bequest.errors import InvalidData
from bequest.sklearn.base import SiloEstimator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bequest.data.trained import TrainedModel

_CARRIED = (
    "StandardScaler, RobustScaler, MaxAbsScaler, SimpleImputer, OneHotEncoder, ColumnTransformer"
)


@dataclass(frozen=True, slots=True)
class _Plain:
    """A column as it was given, with what fills in for missing cells if anything does."""

    name: str
    fill: float | str | None = None


_Column: TypeAlias = _Plain | Number | Category


def to_model(fitted: Any) -> TrainedModel:  # noqa: ANN401 - an estimator, a pipeline, a search
    """Return a fitted estimator, pipeline or search as one model, from raw columns to predictions.

    A pipeline may have, before an estimator of ``bequest.sklearn``: StandardScaler, RobustScaler,
    MaxAbsScaler, SimpleImputer (before a scaler), OneHotEncoder, and ColumnTransformer with these.

    Raises:
        InvalidData: a step cannot be carried by a model file; or there is no estimator at the end.
    """
    if isinstance(fitted, SiloEstimator):
        return fitted.to_model()
    if hasattr(fitted, "best_estimator_"):
        return to_model(fitted.best_estimator_)
    last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else None
    if not isinstance(last, SiloEstimator):
        raise InvalidData(
            f"A {type(last or fitted).__name__} is no estimator of bequest.sklearn.",
            remedy="Pass a fitted one, or a pipeline that ends with one.",
        )
    check_is_fitted(last)
    # steps that do nothing may not know what they were given
    first = next(step for _, step in fitted.steps if hasattr(step, "n_features_in_"))
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{k}" for k in range(first.n_features_in_)]
    columns: Sequence[_Column] = [_Plain(str(name)) for name in names]
    for name, step in fitted.steps[:-1]:
        columns = _through(step, columns, name)
    recipe = Recipe(tuple(_finished(column) for column in columns), bias=True)
    model = last.to_model()
    twice = len({column.name for column in recipe.columns}) < len(recipe.columns)
    if twice or len(recipe.features) != len(model.features):
        raise InvalidData(
            "A column goes into the pipeline's estimator twice, or not as its steps say.",
            remedy="Give every column to one transformer of a ColumnTransformer.",
        )
    return replace(model, recipe=recipe)


def _through(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    """Return what a step makes of columns."""
    if step is None or step == "passthrough":
        return [*columns]
    if isinstance(step, str):  # "drop", of a ColumnTransformer
        return []
    way = _WAYS.get(type(step))
    if way is None:
        raise _refusal(name, f"is a {type(step).__name__}")
    return way(step, columns, name)


def _pipeline(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    found = [*columns]
    for inner, one in step.steps:
        found = _through(one, found, f"{name}: {inner}")
    return found


def _by_column(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    # the one place that knows which columns these are, however they were named
    places = step._transformer_to_input_indices
    return [
        column
        for inner, one, _ in step.transformers_
        for column in _through(one, [columns[k] for k in places[inner]], f"{name}: {inner}")
    ]


def _unchanged(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    if step.func is not None:
        raise _refusal(name, "calls a function of yours")
    return [*columns]


def _scaled(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    shifts = {StandardScaler: "mean_", RobustScaler: "center_"}.get(type(step))
    mean = None if shifts is None else getattr(step, shifts)
    if type(step) is StandardScaler and not step.with_mean:
        mean = None
    if getattr(step, "clip", False):
        raise _refusal(name, "clips what it scales")
    means = np.zeros(len(columns)) if mean is None else mean
    scales = np.ones(len(columns)) if step.scale_ is None else step.scale_
    found: list[_Column] = []
    for column, shift, scale in zip(columns, means.tolist(), scales.tolist(), strict=True):
        if not isinstance(column, _Plain) or isinstance(column.fill, str):
            raise _refusal(name, f'scales "{column.name}" after another step')
        fills = column.fill is not None
        found.append(Number(column.name, mean=shift, scale=scale, impute=fills, fill=column.fill))
    return found


def _imputed(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    missing = step.missing_values
    if step.add_indicator or not (missing is None or missing != missing):
        what = "adds indicators" if step.add_indicator else f"takes {missing!r} for missing"
        raise _refusal(name, what)
    found: list[_Column] = []
    for column, value in zip(columns, step.statistics_.tolist(), strict=True):
        if not isinstance(column, _Plain) or column.fill is not None:
            raise _refusal(name, f'fills in "{column.name}" after another step')
        if value is None or value != value:
            raise _refusal(name, f'drops "{column.name}", which had no value at all')
        fill = value if isinstance(value, str) else float(value)
        found.append(replace(column, fill=fill))
    return found


def _coded(step: Any, columns: Sequence[_Column], name: str) -> list[_Column]:  # noqa: ANN401
    grouped = getattr(step, "infrequent_categories_", [])
    if any(one is not None for one in grouped):
        raise _refusal(name, "puts rare categories together")
    dropped = [None] * len(columns) if step.drop_idx_ is None else step.drop_idx_
    found: list[_Column] = []
    for column, given, without in zip(columns, step.categories_, dropped, strict=True):
        if not isinstance(column, _Plain):
            raise _refusal(name, f'codes "{column.name}" after another step')
        lacking = [value for value in given.tolist() if value is None or value != value]
        values = [value for value in given.tolist() if not (value is None or value != value)]
        odd = [v for v in values if isinstance(v, bool) or not isinstance(v, str | int | float)]
        if odd or len(lacking) > 1:
            what = f"{odd[0]!r}, no text or number" if odd else "two kinds of missing cells"
            raise _refusal(name, f'codes "{column.name}" by {what}')
        if without is not None and without >= len(values):
            raise _refusal(name, f'drops the category of missing cells of "{column.name}"')
        _refuse_misread(name, column, values)
        labels = [label_of(value) for value in values]
        silent = () if without is None else (labels.pop(int(without)),)
        found.append(
            Category(
                column.name,
                tuple(labels),
                impute=bool(lacking),
                indicator=bool(lacking),
                fill="" if column.fill is None else label_of(column.fill),
                silent=silent,
                lenient=step.handle_unknown != "error",
            )
        )
    return found


def _refuse_misread(name: str, column: _Plain, values: Sequence[str | float]) -> None:
    """Refuse categories that a model would take for others, or others for them."""
    for value in [*values, *([] if column.fill is None else [column.fill])]:
        if isinstance(value, float) and may_be_another(value):
            what = f"{label_of(value)}, which float64 does not tell from its neighbours"
            raise _refusal(name, f'codes "{column.name}" by {what}')
        if isinstance(value, str) and not is_read_as_it_is(value):
            raise InvalidData(
                f'No model file can carry the step "{name}", which codes "{column.name}" by '
                f"{value!r}: read from a file, such a cell would be another one.",
                remedy="Clean the column before fitting: no empty texts, none with blanks around "
                "them, and numbers as numbers. Or save the pipeline with joblib.",
            )


def _finished(column: _Column) -> Number | Category:
    """Return a column as it is at the end of all steps."""
    if not isinstance(column, _Plain):
        return column
    if isinstance(column.fill, str):
        raise InvalidData(
            f'The column "{column.name}" is text, and no step codes it.',
            remedy="Code it with a OneHotEncoder.",
        )
    return Number(column.name, impute=column.fill is not None, fill=column.fill)


def _refusal(name: str, what: str) -> InvalidData:
    return InvalidData(
        f'No model file can carry the step "{name}", which {what}.',
        remedy=f"Carried are {_CARRIED}, where each column is filled in first, and scaled or coded "
        "once. Or save the pipeline with joblib.",
    )


_WAYS: dict[type, Callable[[Any, Sequence[_Column], str], list[_Column]]] = {
    Pipeline: _pipeline,
    ColumnTransformer: _by_column,
    FunctionTransformer: _unchanged,
    StandardScaler: _scaled,
    RobustScaler: _scaled,
    MaxAbsScaler: _scaled,
    SimpleImputer: _imputed,
    OneHotEncoder: _coded,
}
