"""What things are made of, as a digest: equal for equal contents, another one for any other.

A result belongs to what it was computed from. Names and shapes do not tell two problems apart, so
everything is followed down to its numbers; a function of the user's own down to its code, its
defaults, and the values that it closes over or finds among the globals of its module. Functions and
classes of installed packages are known by their names, as the versions of these are compared, too.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from bequest.model.objectives.base import Objective
from bequest.model.problem import Problem

# What objects raise that do not let themselves be looked into, such as locks and open files.
_UNWILLING = (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError)
_INSTALLED = ("site-packages", "dist-packages")


def digest(*values: object) -> str:
    """Return 32 hexadecimal digits that change with anything these values are made of.

    >>> digest(np.arange(3.0)) == digest(np.array([0.0, 1.0, 2.0]))
    True
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), digest([1]) == digest((1,))
    (True, False)
    """
    return _Content().of(values).hex()[:32]


class _Content:
    """Digests of things, made from the digests of their parts.

    Equal parts count alike, whether or not they are one and the same object. A thing that is met
    again within itself counts by how far out it is.
    """

    def __init__(self) -> None:
        self._done: dict[int, tuple[bytes, object]] = {}  # with the object: its id stays its own
        self._under_way: list[int] = []

    def of(self, value: object) -> bytes:
        if _is_plain(value):
            return _hashed(type(value).__name__, _plain(value))
        if id(value) in self._done:
            return self._done[id(value)][0]
        if id(value) in self._under_way:
            out = len(self._under_way) - self._under_way.index(id(value))
            return _hashed("within", str(out).encode())
        self._under_way.append(id(value))
        found = self._whole(value)
        self._under_way.pop()
        self._done[id(value)] = found, value
        return found

    def _parts(self, kind: str, *parts: object) -> bytes:
        return _hashed(kind, *map(self.of, parts))

    def _whole(self, value: Any) -> bytes:  # noqa: ANN401 - whatever it is
        match value:
            case np.ndarray():
                return self._array(value)
            case Enum():
                return self._parts("enum", type(value), value.name)
            case Mapping():
                return _hashed("map", *sorted(self.of(k) + self.of(v) for k, v in value.items()))
            case AbstractSet():
                return _hashed("set", *sorted(map(self.of, value)))
            case list() | tuple():
                return self._parts(type(value).__name__, *value)
            case functools.partial():
                return self._parts("partial", value.func, value.args, value.keywords)
            case types.MethodType():
                return self._parts("method", value.__func__, value.__self__)
            case types.FunctionType():
                return self._function(value)
            case types.CodeType():
                return self._parts("code", value.co_code, value.co_names, value.co_consts)
            case type():
                return self._class(value)
            case types.ModuleType() | types.BuiltinFunctionType():
                return _hashed("name", _name(value))
            case np.random.Generator():
                return self._parts("generator", value.bit_generator.state)
        if hasattr(value, "__array__"):
            with suppress(*_UNWILLING):
                return self._array(np.asarray(value))
        return self._object(value)

    def _array(self, array: np.ndarray) -> bytes:
        if array.dtype.hasobject:
            return self._parts("objects", array.shape, array.ravel().tolist())
        if isinstance(array, np.ma.MaskedArray):
            return self._parts("masked", np.ma.getmaskarray(array), array.filled(0))
        kind = f"array {array.dtype.str} {array.shape}"
        return _hashed(kind, np.ascontiguousarray(array).tobytes())

    def _function(self, function: types.FunctionType) -> bytes:
        if _is_installed(function.__module__):
            return _hashed("function", _name(function))
        met = {name: function.__globals__.get(name) for name in _names(function.__code__)}
        return self._parts(
            "own function",
            function.__code__,
            function.__defaults__,
            function.__kwdefaults__,
            [_cell(cell) for cell in function.__closure__ or ()],
            {name: value for name, value in met.items() if value is not None},
        )

    def _class(self, kind: type) -> bytes:
        if _is_installed(kind.__module__):
            return _hashed("class", _name(kind))
        members = {name: _unwrapped(member) for name, member in vars(kind).items()}
        # but for its documentation, its module, its memory layout
        told = {k: v for k, v in members.items() if not k.startswith("__") or callable(v)}
        return self._parts("own class", kind.__qualname__, kind.__bases__, told)

    def _object(self, value: Any) -> bytes:  # noqa: ANN401 - whatever it is
        if isinstance(value, Objective | Problem):
            return self._parts("object", type(value), value.content())
        if is_dataclass(value):
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            return self._parts("object", type(value), held)
        return self._parts("object", type(value), _state(value))


def _hashed(kind: str, *parts: bytes) -> bytes:
    found = hashlib.sha256(kind.encode())
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _name(value: Any) -> bytes:  # noqa: ANN401 - whatever has one
    name = getattr(value, "__qualname__", value.__name__)
    return f"{getattr(value, '__module__', '')}.{name}".encode()


def _is_plain(value: object) -> bool:
    return value is None or isinstance(
        value, bool | int | float | complex | str | bytes | np.generic | PurePath | range
    )


def _plain(value: object) -> bytes:
    match value:
        case np.generic():
            return value.dtype.str.encode() + value.tobytes()
        case bytes():
            return value
        case bool() | None:
            return str(value).encode()
        case float():
            return struct.pack("<d", value)
    return str(value).encode(errors="surrogatepass")


def _is_installed(module: str | None) -> bool:
    """Whether a module comes with Python, or with a package that was installed."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    if top == "bequest":
        return True
    path = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return any(folder in path for folder in _INSTALLED)


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a function looks up, those within it included."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*(_names(one) for one in inner))


def _unwrapped(member: object) -> object:
    """Return the function behind a property, a class method or a static method."""
    match member:
        case property():
            return (member.fget, member.fset)
        case functools.cached_property():
            return member.func
        case classmethod() | staticmethod():
            return member.__func__
        case types.GetSetDescriptorType() | types.MemberDescriptorType():
            return member.__name__
    return member


def _state(value: Any) -> object:  # noqa: ANN401 - whatever it is
    """Return what an object holds, but what it only keeps to answer faster."""
    try:
        state = value.__getstate__()
    except _UNWILLING:
        return "opaque"
    if isinstance(state, dict):
        return {k: v for k, v in state.items() if not _is_cache(type(value), k)}
    return state


def _is_cache(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), functools.cached_property)
