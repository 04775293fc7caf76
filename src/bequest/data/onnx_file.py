"""A model as an ONNX graph, for programs that know nothing of bequest; the one place of onnx.

A column is an input of its name, in double precision or as text, with a row per sample. Outputs are
``prediction`` and, where there are classes, ``probabilities``. A graph refuses nothing: what
``predict`` has words for (a missing number, an unknown category) makes the probabilities of a row,
or its number, NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import extras, files
from bequest.data.recipe import Category, Number
from bequest.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.data.trained import TrainedModel

# Text can be compared from this version of the operators on.
_OPERATORS, _FORMAT = 19, 9


def write_onnx(path: Path, model: TrainedModel) -> None:
    """Write a model as ONNX, as a whole or not at all; see ``TrainedModel.to_onnx``."""
    extras.need("onnx", what="An ONNX file")
    files.check_writable(path)
    files.write(path, _Graph(model).bytes())


class _Graph:
    """The graph of a model while it is made."""

    def __init__(self, model: TrainedModel) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self._model, self._helper, self._arrays = model, helper, numpy_helper
        self._double, self._text = TensorProto.DOUBLE, TensorProto.STRING
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._types = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64, "b": TensorProto.BOOL}

    def bytes(self) -> bytes:
        """Return the whole graph."""
        model, helper = self._model, self._helper
        inputs = [self._input(name) for name in model.recipe.needs]
        parts = [
            self._number(column) if isinstance(column, Number) else self._category(column)
            for column in model.recipe.columns
        ]
        X = self._node("Concat", *parts, axis=1)
        scores = self._node("MatMul", X, self._constant(np.ascontiguousarray(model.coef.T)))
        scores = self._node("Add", scores, self._constant(model.intercept))
        outputs = self._classified(scores) if model.classes else [self._predicted(scores)]
        graph = helper.make_graph(self._nodes, "bequest", inputs, outputs, self._constants)
        whole = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPERATORS)],
            ir_version=_FORMAT,
            producer_name="bequest",
            producer_version=__version__,
        )
        written: bytes = whole.SerializeToString()
        return written

    def _node(self, kind: str, *inputs: str, called: str | None = None, **options: Any) -> str:  # noqa: ANN401
        name = called or f"#{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, list(inputs), [name], **options))
        return name

    def _constant(self, value: Any) -> str:  # noqa: ANN401 - an array, or what becomes one
        name = f"#constant {len(self._constants)}"
        self._constants.append(self._arrays.from_array(np.asarray(value), name))
        return name

    def _input(self, name: str) -> Any:  # noqa: ANN401 - onnx's
        columns = [column for column in self._model.recipe.columns if column.name == name]
        kind = self._text if isinstance(columns[0], Category) else self._double
        return self._helper.make_tensor_value_info(name, kind, ["rows", len(columns)])

    def _number(self, column: Number) -> str:
        values = column.name
        if column.part is not None:
            values = self._node("Gather", values, self._constant([column.part]), axis=1)
        gone = self._node("IsNaN", values) if column.impute else None
        if gone is not None:
            values = self._node("Where", gone, self._constant([[column.filled_in]]), values)
        values = self._node("Sub", values, self._constant([[column.mean]]))
        values = self._node("Div", values, self._constant([[column.scale]]))
        if not column.indicator or gone is None:
            return values
        return self._node("Concat", values, self._node("Cast", gone, to=self._double), axis=1)

    def _category(self, column: Category) -> str:
        known = [*column.values, ""] if column.indicator else [*column.values]
        cells = column.name
        if column.fill:
            empty = self._node("Equal", cells, self._constant(np.array([[""]], dtype=object)))
            fill = self._constant(np.array([[column.fill]], dtype=object))
            cells = self._node("Where", empty, fill, cells)
        features = len(known)
        known += column.silent
        same = self._node("Equal", cells, self._constant(np.array([known], dtype=object)))
        coded = self._node("Cast", same, to=self._double)
        if not column.lenient:
            coded = self._known(coded)
        if features == len(known):
            return coded
        first, last, axis = (self._constant([one]) for one in (0, features, 1))
        return self._node("Slice", coded, first, last, axis)

    def _known(self, coded: str) -> str:
        # one that is unknown is zero everywhere, and 0/0 is NaN
        any_of_them = self._node("ReduceMax", coded, self._constant([1]), keepdims=1)
        return self._node("Div", coded, any_of_them)

    def _predicted(self, scores: str) -> Any:  # noqa: ANN401 - onnx's
        self._node("Squeeze", scores, self._constant([1]), called="prediction")
        return self._helper.make_tensor_value_info("prediction", self._double, ["rows"])

    def _classified(self, scores: str) -> list[Any]:
        classes, helper = self._model.classes_, self._helper
        if self._model.coef.shape[0] == 1:  # the score of the second class, beside one of zero
            none = self._node("Sub", scores, scores)
            scores = self._node("Concat", none, scores, axis=1)
        self._node("Softmax", scores, called="probabilities", axis=1)
        best = self._node("ArgMax", scores, axis=1, keepdims=0)
        kind = self._types.get("i" if classes.dtype.kind == "u" else classes.dtype.kind, self._text)
        wide = {self._double: np.float64, self._types["i"]: np.int64, self._types["b"]: np.bool_}
        names = self._constant(classes.astype(wide.get(kind, object)))
        self._node("Gather", names, best, called="prediction", axis=0)
        return [
            helper.make_tensor_value_info("prediction", kind, ["rows"]),
            helper.make_tensor_value_info("probabilities", self._double, ["rows", classes.size]),
        ]
