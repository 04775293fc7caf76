"""Digests of what things are made of: two that differ in anything have two."""

import array
import collections
import contextlib
import datetime
import decimal
import functools
import itertools
import logging
import operator
import random
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from scipy.special import betaln, gammaln

import bequest as bq
from bequest.model.content import digest, look_into

A = np.diag([1.0, 2.0])


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Gained(bq.LeastSquares):
    gain = 1.0

    def __init__(self, X, y, gain):
        super().__init__(X, y)
        self.gain = gain


class Mine(bq.wills.Drift):
    def __init__(self, k):
        super().__init__()
        object.__setattr__(self, "k", k)


class Kind(np.ndarray):
    """Arrays of another kind."""


class Number(float):
    """A number with an attribute."""


def number(more):
    made = Number(1.0)
    made.more = more
    return made


def module(scale):
    made = types.ModuleType("helpers")
    exec(f"SCALE = {scale}\ndef eta(x):\n    return SCALE * x", made.__dict__)  # noqa: S102
    return made


def using(helpers):
    def decide(x):
        return helpers.eta(x)

    return types.FunctionType(decide.__code__, {"helpers": helpers}, closure=decide.__closure__)


def with_attribute(k):
    def f(x):
        return f.k * x

    f.k = k
    return f


def caught(x):
    try:
        y = x()
        y = y()
    except ValueError:
        y = 0
    return y


def half_caught(x):
    try:
        y = x()
    except ValueError:
        y = 0
    else:
        y = y()
    return y


def minus(x, *, a, b):
    return x * a - b


def swapped(x, *, b, a):
    return x * b - a


def wrapped(like):
    @functools.wraps(like)
    def decide(self, estate):
        return 2

    return decide


def plain(self, estate):
    return 1


def answering(k):
    return lambda *x: k


def dispatched(k):
    @functools.singledispatch
    def f(x):
        return 0.0

    f.register(float)(answering(k))
    return f


def using_cached(k):
    weight = functools.cache(answering(k))
    return lambda x: weight() * x


def in_context(k):
    def f(*x):
        yield k

    return contextlib.contextmanager(f)


class Remembering:
    def __init__(self, k):
        self.k = k

    def __reduce__(self):
        return "Remembering"


# What installed packages make of functions of the user's own.
MADE = {
    "functools.cache": lambda k: functools.cache(answering(k)),
    "functools.lru_cache": lambda k: functools.lru_cache(maxsize=4)(answering(k)),
    "functools.singledispatch": lambda k: functools.singledispatch(answering(k)),
    "what is registered": dispatched,
    "contextlib.contextmanager": in_context,
    "numpy.errstate": lambda k: np.errstate(all="ignore")(answering(k)),
    "numpy.vectorize": lambda k: np.vectorize(answering(k)),
    "what a function uses": using_cached,
    "two of them": lambda k: functools.cache(np.errstate(all="ignore")(answering(k))),
}

DIFFERENT = {
    "numbers": (1.0, 2.0),
    "signs of zero": (0.0, -0.0),
    "long numbers": (10**5000, 10**5000 + 1),
    "text": ("a", "b"),
    "lists": ([1, 2], [2, 1]),
    "the order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "factories": (collections.defaultdict(int), collections.defaultdict(list)),
    "attributes of numbers": (number(1), number(2)),
    "arrays": (np.zeros(3), np.array([0.0, 0.0, 1e-300])),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "kinds of arrays": (A.view(Kind), A),
    "names of fields": (np.zeros(1, [("a", "f8")]), np.zeros(1, [("b", "f8")])),
    "masks": (np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[1, 0])),
    "slots": (Slotted(1), Slotted(2)),
    "what shadows a class": (Gained(A, [1, 2], 2.0), Gained(A, [1, 2], 5.0)),
    "what a derived will holds": (Mine(1), Mine(3)),
    "deques": (collections.deque([1]), collections.deque([2])),
    "bytearrays": (bytearray(b"a"), bytearray(b"b")),
    "memory": (memoryview(b"a"), memoryview(b"b")),
    "array.array": (array.array("d", [1.0]), array.array("d", [2.0])),
    "dates": (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
    "decimals": (decimal.Decimal("1.0"), decimal.Decimal("1.1")),
    "slices": (slice(1), slice(2)),
    "patterns": (re.compile("a"), re.compile("b")),
    "getters": (operator.itemgetter(0), operator.itemgetter(1)),
    "iterators": (iter([1, 2]), iter([1, 3])),
    "cycles": (itertools.cycle([1]), itertools.cycle([2])),
    "bound builtins": (A.dot, (2 * A).dot),
    "bound wrappers": (A.__matmul__, (2 * A).__matmul__),
    "random states": (random.Random(1).random, random.Random(2).random),  # noqa: S311
    "generators": (np.random.default_rng(1), np.random.default_rng(2)),
    "partials": (functools.partial(minus, a=1), functools.partial(minus, a=2)),
    "own modules": (using(module(1.0)), using(module(2.0))),
    "functions' attributes": (with_attribute(1), with_attribute(2)),
    "what is caught": (caught, half_caught),
    "the names of arguments": (minus, swapped),
    "what wraps ours": (wrapped(bq.wills.Drift.decide), plain),
    "sizes of caches": tuple(functools.lru_cache(k)(plain) for k in (1, 2)),
    "what pickle would look up": (Remembering(1), Remembering(2)),
} | {name: (made(1.0), made(2.0)) for name, made in MADE.items()}


@pytest.mark.parametrize("name", DIFFERENT)
def test_two_that_differ_are_told_apart(name):
    one, other = DIFFERENT[name]
    assert digest(one) != digest(other)
    assert digest([one]) == digest([one])


@pytest.mark.parametrize("name", MADE)
def test_what_a_package_made_of_a_function_is_the_same_anew_and_after_use(name):
    made = MADE[name](1.0)
    before = look_into(made)
    assert before == look_into(MADE[name](1.0))
    made(1.0)
    assert look_into(made) == before
    assert not before.opaque


def test_what_a_package_has_under_its_name_is_known_by_it():
    for one in (
        np.add,
        gammaln,
        np.linalg.inv,
        contextlib.contextmanager,
        re.compile,
        pytest.approx,
    ):
        assert not look_into(one).opaque
    assert digest(gammaln) != digest(betaln)
    # numpy keeps the function where it cannot be seen
    assert look_into(np.frompyfunc(answering(1.0), 1, 1)).opaque


def test_equal_ones_are_not():
    assert digest(np.float64(1.5)) == digest(1.5)
    assert digest(np.int64(3)) == digest(3)
    assert digest(np.asfortranarray(A)) == digest(A.copy())
    assert digest({1, 2, 3}) == digest({3, 2, 1})
    assert digest(bq.wills.Drift(1)) == digest(bq.wills.Drift(rank=1))
    shared = [1.0]
    assert digest([shared, shared]) == digest([[1.0], [1.0]])
    assert digest(with_attribute(1)) == digest(with_attribute(1))
    cyclic = []
    cyclic.append(cyclic)
    assert digest(cyclic) == digest(cyclic)


def test_what_is_used_is_still_the_same():
    log = logging.getLogger("mine")

    def decide(estate):
        log.debug("%s", estate.a)
        return estate.a

    before = digest(decide)
    decide(types.SimpleNamespace(a=1))
    assert digest(decide) == before
    globals()["a"] = 7  # no more than the name of an attribute there
    try:
        assert digest(decide) == before
    finally:
        del globals()["a"]


def test_what_cannot_be_looked_into_is_said():
    assert not look_into([1.0, A, caught, bq.wills.Drift()]).opaque
    for hidden in ((x for x in ()), sys.stdout, open):
        found = look_into([hidden])
        assert found.opaque or hidden is open
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert look_into(deep).opaque


def even(k):
    return odd(k - 1) if k else 1


def odd(k):
    return even(k - 1) if k else 2


def both():
    return even(4) + odd(3)


def test_hash_seeds_make_no_difference():
    found = set()
    for seed in ("0", "1", "2", "3", "5"):
        program = (
            "import test_content as t; print(t.digest(t.both), t.digest(t.Mine(1)), "
            "t.digest({'b', 'a', 'c'}), *(t.digest(made(1.0)) for made in t.MADE.values()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=__file__.rsplit("/", 1)[0],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": bq.__file__.rsplit("/bequest/", 1)[0]},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_the_version_of_an_installed_package_counts(monkeypatch):
    from bequest.model import content

    content._package.cache_clear()
    before = digest(pytest.approx)
    monkeypatch.setattr(content.metadata, "version", lambda _: "99")
    content._package.cache_clear()
    assert digest(pytest.approx) != before
    content._package.cache_clear()
