"""What things are made of, as a digest: equal for equal contents, another one for any other.

A result belongs to what it was computed from. Names and shapes do not tell two problems apart, so
everything is followed down to its numbers; a function of the user's own down to its code, its
defaults, and the values that it closes over or finds among the globals of its module. Functions and
classes of installed packages are known by their names and the version of their package; what such a
package made of a function of the user's own (``functools.cache``, ``jax.grad``) by that, too.

What cannot be looked into (an open file, a generator, a lock) is *opaque*: it is known by its class
only, and the digest says that there was such a thing.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import logging
import pickle
import struct
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from bequest.model.objectives.function import Function
from bequest.model.objectives.network import Network
from bequest.model.objectives.rows import canonical
from bequest.model.problem import Problem

# What objects raise that do not let themselves be looked into, such as locks and open files.
_UNWILLING = (
    TypeError,
    ValueError,
    AttributeError,
    NotImplementedError,
    RuntimeError,  # RecursionError among them
    pickle.PicklingError,
)
_PLAIN = (bool, int, float, complex, str, bytes, range, type(None), type(...), type(NotImplemented))
_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}
# Arrays of more bytes than this are not copied to be read.
_LARGE = 2**20
# Under which names functions that learn as they are used keep all that they are made of: those of
# functools.singledispatch, and of torch.compile.
_AROUND = ("registry", "_torchdynamo_orig_callable")
_STANDARD = Path(sysconfig.get_path("stdlib"))


class Digest(NamedTuple):
    """32 hexadecimal digits; and whether something could not be looked into."""

    digits: str
    opaque: bool


def digest(*values: object) -> str:
    """Return 32 hexadecimal digits that change with anything these values are made of.

    >>> digest(np.arange(3.0)) == digest(np.array([0.0, 1.0, 2.0]))
    True
    >>> digest({1, 2}) == digest({2, 1}), digest([1]) == digest((1,))
    (True, False)
    """
    return look_into(*values).digits


def look_into(*values: object) -> Digest:
    """Return the digest of these values, and whether all of them could be looked into."""
    content = _Content()
    return Digest(content.of(values).hex()[:32], content.opaque)


class _Content:
    """Digests of things, made from the digests of their parts.

    Equal parts count alike, whether or not they are one and the same object. A thing that is met
    again within itself counts by how far out it is.
    """

    def __init__(self) -> None:
        self.opaque = False
        self._done: dict[int, tuple[bytes, object]] = {}  # with the object: its id stays its own
        self._under_way: list[int] = []

    def of(self, value: object) -> bytes:
        if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
            value = value.item()
        if type(value) in _PLAIN:
            return _hashed(type(value).__name__, _plain(value))
        if id(value) in self._done:
            return self._done[id(value)][0]
        if id(value) in self._under_way:
            out = len(self._under_way) - self._under_way.index(id(value))
            return _hashed("within", str(out).encode())
        self._under_way.append(id(value))
        try:
            found = self._whole(value)
        except RecursionError:
            found = self._unknown(value)
        self._under_way.pop()
        self._done[id(value)] = found, value
        return found

    def _parts(self, kind: str, *parts: object) -> bytes:
        return _hashed(kind, *map(self.of, parts))

    def _named(self, kind: str, parts: Mapping[str, object]) -> bytes:
        """Return the digest of parts that have names, and no order."""
        return _hashed(kind, *(self.of(part) for pair in sorted(parts.items()) for part in pair))

    def _unknown(self, value: object) -> bytes:
        self.opaque = True
        return _hashed("opaque", _name(type(value)))

    def _whole(self, value: Any) -> bytes:  # noqa: ANN401 - whatever it is
        kind = type(value)
        if kind in (list, tuple):
            return self._parts(kind.__name__, *value)
        if kind in (set, frozenset):
            return _hashed("set", *sorted(map(self.of, value)))
        if kind in (dict, types.MappingProxyType):  # in their order, which may matter
            return self._parts("map", *(part for pair in value.items() for part in pair))
        match value:
            case np.ndarray():
                return self._array(value)
            case PurePath():
                return self._parts("path", str(value))
            case Enum():
                return self._parts("enum", kind, value.name)
            case functools.partial():
                return self._parts("partial", value.func, value.args, value.keywords)
            case types.MethodType():
                return self._parts("method", value.__func__, value.__self__)
            case types.FunctionType():
                return self._function(value)
            case types.CodeType():
                return self._parts("code", *_read(value))
            case type():
                return self._class(value)
            case types.ModuleType():
                return _hashed("module", _name(value))
            case types.BuiltinFunctionType() | types.MethodWrapperType():
                owner = getattr(value, "__self__", None)
                return self._parts("builtin", _name(value), owner)
            case logging.Logger():  # what it keeps changes as it is used
                return _hashed("logger", value.name.encode())
            case memoryview():
                return self._parts("memory", value.tobytes())
            case _ if issparse(value):  # in whatever form it is held
                held = canonical(value)
                return self._parts("sparse", held.shape, held.indptr, held.indices, held.data)
            case Problem() | Network():
                return self._parts("problem", kind, value.content())
        return self._object(value)

    def _array(self, array: np.ndarray) -> bytes:
        if array.dtype.hasobject:
            return self._parts("objects", array.shape, array.ravel().tolist())
        if isinstance(array, np.ma.MaskedArray):
            return self._parts("masked", np.ma.getmaskarray(array), array.filled(0))
        kind = f"{type(array).__name__} {array.dtype.descr} {array.shape}"
        whole = np.ascontiguousarray(array)
        if whole.nbytes < _LARGE:
            return _hashed(kind, whole.tobytes())
        return _hashed(kind, whole.reshape(-1).view(np.uint8).data)  # the same, not copied

    def _function(self, function: types.FunctionType) -> bytes:
        home = function.__globals__.get("__name__")  # __module__ may say something else
        package = _package(home)
        if package is not None:
            if _is_found(function):
                return _hashed("function", _name(function), package)
            return self._made(function, f"{home}.{function.__code__.co_qualname}", package)
        code = function.__code__
        attributes = set(_used(code, _ATTRIBUTES))
        met = _met(set(_used(code, _GLOBALS)), attributes, function.__globals__)
        met |= _met(set(code.co_freevars), attributes, _closed(function))
        return _hashed(
            "own function",
            self._parts("code", code, function.__defaults__, function.__kwdefaults__),
            self._named("met", met),
            self._named("attributes", vars(function)),
        )

    def _made(self, function: types.FunctionType, name: str, package: bytes) -> bytes:
        """Return the digest of what a package made, often around a function of the user's own."""
        held = vars(function)
        around = next((held[key] for key in _AROUND if key in held), None)
        if around is not None:  # the rest of it changes as it is used
            return _hashed("around", name.encode(), package, self.of(around))
        return _hashed(
            "made",
            name.encode(),
            package,
            self._parts("defaults", function.__defaults__, function.__kwdefaults__),
            self._named("closed", _closed(function)),
            self._named("attributes", held),
        )

    def _called(self, value: Any, name: str) -> bytes:  # noqa: ANN401 - whatever it is
        """Return the digest of what pickle would look up by its name.

        That is all there is to say of what is a package's, and nothing about another: what
        ``functools.cache`` made of a function goes by the name of that.
        """
        if _is_packaged(value, name):
            return self._parts("object", type(value), name)
        held = _attributes(value)
        if not held and _package(type(value).__module__) is not None:
            return self._unknown(value)
        return _hashed("called", self.of(type(value)), self._named("held", held))

    def _class(self, kind: type) -> bytes:
        package = _package(kind.__module__)
        if package is not None:
            return _hashed("class", _name(kind), package)
        members = {name: _unwrapped(member) for name, member in vars(kind).items()}
        # but for its documentation, its module, its memory layout
        told = {k: v for k, v in members.items() if not k.startswith("__") or callable(v)}
        return _hashed(
            "own class",
            self._parts("bases", kind.__qualname__, kind.__bases__),
            self._named("members", told),
        )

    def _object(self, value: Any) -> bytes:  # noqa: ANN401 - whatever it is
        if hasattr(value, "__array__"):
            try:  # a tensor may keep account of its gradients
                plain = value.detach() if hasattr(value, "detach") else value
                return self._parts("array of", type(value), np.asarray(plain))
            except _UNWILLING:
                pass
        held: dict[str, object] = {}
        if is_dataclass(value):
            held |= {field.name: getattr(value, field.name) for field in fields(value)}
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except _UNWILLING:
            return self._unknown(value) if not held else self._held(value, held, ())
        if isinstance(reduced, str):
            return self._called(value, reduced)
        how, made, state, *items = (*reduced, None, None, None)[:5]
        # An object's attributes, and those that have a place of their own in memory.
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                held |= {k: v for k, v in part.items() if not _is_cache(type(value), k)}
        known = isinstance(state, dict) or _is_slotted(state)
        rest = [list(one) if isinstance(one, Iterator) else one for one in items]
        return self._held(value, held, (how, made, None if known else state, rest))

    def _held(self, value: object, held: Mapping[str, object], rest: Iterable[object]) -> bytes:
        named = self._named("held", {str(name): part for name, part in held.items()})
        return _hashed("object", self.of(type(value)), named, self._parts("rest", *rest))


def _hashed(kind: str, *parts: bytes | memoryview) -> bytes:
    found = hashlib.sha256(kind.encode())
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _name(value: Any) -> bytes:  # noqa: ANN401 - whatever has one
    name = getattr(value, "__qualname__", value.__name__)
    return f"{getattr(value, '__module__', '')}.{name}".encode()


def _plain(value: object) -> bytes:
    match value:
        case bytes():
            return value
        case bool():
            return str(value).encode()
        case int():
            return f"{value:x}".encode()
        case float():
            return struct.pack("<d", value)
        case complex():
            return struct.pack("<2d", value.real, value.imag)
    return str(value).encode(errors="surrogatepass")


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@functools.cache
def _package(module: str | None) -> bytes | None:
    """Return the package and the version that a module is of; None if it is the user's own."""
    top = (module or "").partition(".")[0]
    if top == "bequest":
        return b"bequest"  # its version is part of every fingerprint
    path = getattr(sys.modules.get(top), "__file__", None)
    if top in sys.stdlib_module_names and top != "__main__":
        own = path is not None and _STANDARD not in Path(path).parents
        return None if own else b"python"
    found = _distributions().get(top)
    if not found:
        return None
    return f"{found[0]} {metadata.version(found[0])}".encode()


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _closed(function: types.FunctionType) -> dict[str, object]:
    """Return what a function closes over, by name."""
    cells = map(_cell, function.__closure__ or ())
    return dict(zip(function.__code__.co_freevars, cells, strict=True))


def _is_found(function: types.FunctionType) -> bool:
    """Whether a package has this under its name, so that the name and the version say it all."""
    found: object = sys.modules.get(function.__module__)
    if _package(function.__module__) is None:
        return False
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return getattr(found, "__func__", found) is function  # of a class method


def _is_packaged(value: object, name: str) -> bool:
    """Whether any module of a package has this under that name; its own may not be known."""
    homes = [home for home, module in list(sys.modules.items()) if _vars(module).get(name) is value]
    return any(_package(home) is not None for home in homes)


def _vars(value: object) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(value, "__dict__", {})
    return found


def _attributes(value: object) -> dict[str, object]:
    """Return what an object holds, but for what tells only readers about it."""
    held: dict[str, object] = dict(_vars(value))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                held.setdefault(name, getattr(value, name))
    told = {"__doc__", "__module__", "__annotations__", "__name__", "__qualname__", "__weakref__"}
    return {name: part for name, part in held.items() if name not in told}


def _read(code: types.CodeType) -> tuple[object, ...]:
    """Return what a function does, but for where it is written."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return (code.co_code, *names, *arguments, code.co_flags, code.co_exceptiontable, code.co_consts)


def _used(code: types.CodeType, operations: set[str]) -> Iterator[str]:
    """Yield the names that a function uses in such operations, those within it included."""
    for one in dis.get_instructions(code):
        if one.opname in operations:
            yield str(one.argval)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _used(const, operations)


def _met(names: set[str], attributes: set[str], space: Mapping[str, object]) -> dict[str, object]:
    """Return what a function finds under these names, and in the user's own modules among them."""
    found: dict[str, object] = {}
    for name in sorted(names & space.keys()):
        value = found[name] = space[name]
        if isinstance(value, types.ModuleType) and _package(value.__name__) is None:
            inside = _met(attributes, set(), vars(value))
            found |= {f"{name}.{inner}": one for inner, one in inside.items()}
    return found


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


def _is_slotted(state: object) -> bool:
    """Whether it is the state of an object with slots: a pair of mappings, or of None and one."""
    return (
        isinstance(state, tuple)
        and len(state) == 2
        and all(part is None or isinstance(part, dict) for part in state)
    )


def _is_cache(kind: type, name: object) -> bool:
    """Whether it is only kept to answer faster, or has been learnt from answers."""
    if issubclass(kind, Function) and name in Function.learnt:
        return True
    return isinstance(getattr(kind, str(name), None), functools.cached_property)
