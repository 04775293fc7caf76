"""Fingerprints: every option of every method, will, loss and engine is noticed, also a nested one.

The options are read off the signatures, so that one that is added later has to be added here.
"""

import inspect
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from functools import cache, lru_cache, singledispatch

import numpy as np
import pytest

import bequest as bq
from bequest.core.methods.around import Around
from bequest.engines.fingerprint import described, differences, fingerprint
from bequest.errors import BequestError
from bequest.model import objectives
from bequest.solver import prepare

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 3)), np.arange(12) % 2
PLAN = prepare(
    bq.Problem([bq.Quadratic(np.eye(3), np.full(3, c)) for c in range(3)]),
    [(0, 1), (1, 2)],
    departures=[bq.Departure(1, 5)],
    will=bq.wills.Consensus(),
    rounds=10,
)


def noticed(there, here):
    """The parts that two plans, or two engines, differ in."""
    if not isinstance(there, type(PLAN)):
        there, here = ((PLAN, engine) for engine in (there, here))
    else:
        there, here = ((plan, bq.engines.Vector()) for plan in (there, here))
    found = differences(fingerprint(*there), fingerprint(*here))
    return "the method" if found.startswith("the method (") else found


def with_method(method):
    return replace(PLAN, method=method)


def with_will(will):
    return replace(PLAN, wills={1: will})


def with_loss(loss):
    problem = PLAN.problem
    return replace(PLAN, problem=bq.Problem([loss, *map(problem.objective, (1, 2))]))


class Mine(bq.methods.Method):
    """Gradient descent with a mean: two options, and no ``repr`` that tells them."""

    label = "mine"
    given = 0.05

    def __init__(self, step, pull=1.0, schedule=None):
        self.step, self.pull, self.schedule = step, pull, schedule

    def message(self, x, z, local, out=None):
        return (x,)

    def advance(self, x, z, said, heard, local, out=None):
        return x - self.step * z - self.pull * heard[0], z - heard[0]


class MineToo(Mine):
    """The same options, and other rounds."""

    def advance(self, x, z, said, heard, local, out=None):
        return x - 2.0 * self.step * z - self.pull * heard[0], z - heard[0]


class Silent(Mine):
    """Its ``repr`` and its label say nothing of its options."""

    def __repr__(self):
        return "Silent()"


@dataclass(frozen=True)
class Mild(bq.wills.Will):
    """A will around another one."""

    label = "mild"
    inner: bq.wills.Will
    limit: float = 1.0

    def decide(self, estate):
        return self.inner.decide(estate)


# class -> option -> two values of it, in a pair; what is required comes first.
GT = bq.GradientTracking
METHODS = {
    bq.methods.GradientTracking: {"step": (0.1, 0.2)},
    bq.methods.DIGing: {"step": (0.1, None)},
    bq.methods.DGD: {"step": (0.1, np.nextafter(0.1, 1))},
    bq.methods.EXTRA: {"step": (0.1, 0.2)},
    bq.methods.ExactDiffusion: {"step": (0.1, 0.2), "mixing": (0.5, 0.6)},
    bq.methods.NIDS: {
        "metric": ("scalar", "hessian"), "coupling": (0.5, None), "safety": (0.5, 0.6),
    },
    bq.methods.ADMM: {
        "metric": ("scalar", "hessian"), "coupling": (0.5, None), "safety": (0.5, 0.6),
    },
    bq.methods.Decaying: {"method": (GT(0.1), GT(0.2)), "half": (10, 11)},
    bq.methods.Momentum: {"method": (GT(0.1), bq.methods.DIGing(0.1)), "momentum": (0.5, 0.6)},
}  # fmt: skip
WILLS = {
    bq.wills.Adaptive: {
        "rule": ("observed", "certified"), "vectors": (10.0, 11.0),
        "branches": (None, ("consensus", "none")), "drop": ("heterogeneity", "sensitivity"),
        "statistics": (False, True),
    },
    bq.wills.Budget: {"vectors": (3.0, 4.0)},
    bq.wills.Classic: {},
    bq.wills.Consensus: {},
    bq.wills.Drift: {"rank": (1, 2), "hessian": ("products", "secant")},
    bq.wills.Forgetful: {},
    bq.wills.FullHessian: {},
    bq.wills.LocalTrack: {},
    bq.wills.PointOnly: {"cap": (0.5, None)},
    bq.wills.Replay: {"rank": (None, 2), "centroids": (None, 2)},
    bq.wills.Trust: {},
}  # fmt: skip


def ask(x):
    return float(x @ x) / 2, x


def ask_more(x):
    return float(x @ x), 2 * x


def product(x, v):
    return v


def same_product(x, v):
    return v + 0.0


def load():
    return bq.Quadratic(np.eye(3), np.zeros(3))


def load_another():
    return bq.Quadratic(np.eye(3), np.ones(3))


SAMPLES = {
    "X": (X, X + 1e-12), "y": (Y, 1 - Y), "l2": (0.1, 0.2), "divisor": (None, 13.0),
    "sample_weight": (None, np.arange(1.0, 13.0)), "unpenalised": ((), (2,)),
}  # fmt: skip
LOSSES = {
    objectives.Quadratic: {"A": (np.eye(3), 2 * np.eye(3)), "c": (np.zeros(3), np.ones(3))},
    objectives.Logistic: SAMPLES,
    objectives.LeastSquares: SAMPLES,
    objectives.Huber: SAMPLES | {"delta": (1.0, 1.1)},
    objectives.Softmax: {
        **SAMPLES, "X": (X[:, :1], X[:, 1:2]), "classes": (3, 3), "unpenalised": ((), (0,)),
    },
    objectives.Function: {
        "value_and_grad": (ask, ask_more), "dim": (3, 3), "curvature": ((1.0, 2.0), (1.0, 3.0)),
        "hvp": (product, same_product), "check": (False, True), "seed": (0, 1),
    },
    objectives.Loaded: {
        "loader": (load, load_another), "dim": (3, 3), "curvature": ((1.0, 2.0), (1.0, 3.0)),
    },
    objectives.Minibatches: {
        "loss": (bq.Logistic(X, Y, 0.1), bq.Logistic(X, Y, 0.2)), "size": (2, 3), "seed": (0, 1),
        "full_every": (None, 4),
    },
}  # fmt: skip
# What the other losses of a problem fix.
FIXED = {(objectives.Function, "dim"), (objectives.Loaded, "dim"), (objectives.Softmax, "classes")}
WEATHER, NIGHT = bq.engines.Weather, frozenset({"a"})
OPTIONS_OF_ENGINES = {
    bq.engines.Vector: {"watch": (None, print)},
    bq.engines.Loop: {
        "weather": (WEATHER(), WEATHER(seed=1)), "hosts": (1, 2), "as_bytes": (False, True),
        "scribe": (None, print), "watch": (None, print),
    },
    bq.engines.Ray: {
        "address": (None, "10.0.0.1:1"), "nodes_per_host": (1, 2),
        "placement": (None, {0: "a", 1: "b", 2: "a"}), "cpus_per_host": (1.0, 2.0),
        "patience": (60.0, 61.0), "grace": (30.0, 31.0), "startup": (120.0, 121.0),
        "name": ("one", "two"), "record": (None, "there"), "resume": (False, True),
        "watch": (None, print),
    },
}  # fmt: skip
WITHOUT_EFFECT = {
    "address", "cpus_per_host", "patience", "grace", "startup", "name", "record", "resume",
    "watch", "scribe",
}  # fmt: skip


def of(room, kind):
    """The classes that a room shows to users, and that are of a kind and finished."""
    shown = (getattr(room, name) for name in room.__all__)
    return {
        one for one in shown
        if isinstance(one, type) and issubclass(one, kind) and not inspect.isabstract(one)
        and one is not kind
    }  # fmt: skip


def options(kind):
    return set(inspect.signature(kind).parameters)


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        (METHODS, of(bq.methods, bq.methods.Method)),
        (WILLS, of(bq.wills, bq.wills.Will)),
        (LOSSES, of(objectives, objectives.Objective)),
        (OPTIONS_OF_ENGINES, {bq.engines.Vector, bq.engines.Loop, bq.engines.Ray}),
    ],
    ids=["methods", "wills", "losses", "engines"],
)
def test_no_option_is_missing_in_these_tables(table, shown):
    assert set(table) >= shown - _WITHOUT_OPTIONS
    for kind, values in table.items():
        assert options(kind) == set(values), kind


# Isotropic is made by the package, and has the options of a Quadratic.
_WITHOUT_OPTIONS = {getattr(objectives, "Isotropic", None)}


def each(table):
    return [
        pytest.param(kind, name, id=f"{kind.__name__}-{name}")
        for kind, values in table.items()
        for name in values
    ]


def two(table, kind, name):
    """The same thing twice, but for one option."""
    first = {option: values[0] for option, values in table[kind].items()}
    if kind is bq.engines.Ray and name == "placement":
        first["nodes_per_host"] = None  # one or the other
    if kind is bq.wills.Adaptive and name == "drop":
        first["rule"] = "certified"  # the others do not use it
    return kind(**first), kind(**first | {name: table[kind][name][1]})


@pytest.mark.parametrize(("kind", "name"), each(METHODS))
def test_every_option_of_a_method_is_noticed(kind, name):
    one, other = two(METHODS, kind, name)
    assert noticed(with_method(one), with_method(other)) == "the method"
    again, _ = two(METHODS, kind, name)
    assert noticed(with_method(one), with_method(again)) == ""


@pytest.mark.parametrize(("kind", "name"), each(METHODS))
def test_every_option_of_a_method_within_another_one_is_noticed(kind, name):
    methods = [bq.methods.Decaying(method, 10) for method in two(METHODS, kind, name)]
    assert noticed(*map(with_method, methods)) == "the method"


@pytest.mark.parametrize(("kind", "name"), each(WILLS))
def test_every_option_of_a_will_is_noticed(kind, name):
    one, other = two(WILLS, kind, name)
    again, _ = two(WILLS, kind, name)
    for around in (lambda will: will, Mild):
        assert noticed(with_will(around(one)), with_will(around(other))) == "the wills"
        assert noticed(with_will(around(one)), with_will(around(again))) == ""


def test_wills_and_methods_without_options_differ():
    wills = [kind(**{o: v[0] for o, v in values.items()}) for kind, values in WILLS.items()]
    assert len({fingerprint(with_will(w), bq.engines.Vector())["the wills"] for w in wills}) == 11
    methods = [two(METHODS, kind, next(iter(values)))[0] for kind, values in METHODS.items()]
    told = [fingerprint(with_method(m), bq.engines.Vector())["the method"] for m in methods]
    assert len(set(told)) == len(METHODS)


@pytest.mark.parametrize(("kind", "name"), each(LOSSES))
def test_every_option_of_a_loss_is_noticed(kind, name):
    if kind is objectives.Softmax:
        plans = [_softmax(loss) for loss in two(LOSSES, kind, name)]
    else:
        plans = [with_loss(loss) for loss in two(LOSSES, kind, name)]
    expected = "" if (kind, name) in FIXED else "the loss of node 0"
    assert noticed(*plans) == expected


def _softmax(loss):
    """A problem with as many unknowns as the loss has."""
    return prepare(bq.Problem([loss]), bq.Graph([], n=1), rounds=1, start=np.zeros(loss.dim))


@pytest.mark.parametrize(("kind", "name"), each(OPTIONS_OF_ENGINES))
def test_every_option_of_an_engine_is_noticed_unless_it_has_no_effect(kind, name):
    one, other = two(OPTIONS_OF_ENGINES, kind, name)
    found = noticed(one, other)
    assert found == "" if name in WITHOUT_EFFECT else found.startswith("the engine")


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "delay": (0.0, 1.0),
        "duplication": 0.5,
        "partitions": (bq.engines.Partition(1.0, 2.0, NIGHT),),
        "outages": (bq.engines.Outage(1.0, "a"),),
        "patience": 1.0,
        "seed": 3,
    }.items(),
)
def test_the_weather_is_noticed(name, value):
    assert name in options(WEATHER)
    delayed = {"delay": (0.0, 2.0)}  # without which no time passes
    there, here = (
        bq.engines.Loop(weather=WEATHER(**(delayed | more))) for more in ({}, {name: value})
    )
    assert noticed(there, here).startswith("the engine")


def test_all_of_the_weather_is_tried():
    assert len(options(WEATHER)) == 6


def test_the_order_in_which_hosts_were_written_down_makes_no_difference():
    there, here = {0: "a", 1: "b", 2: "a"}, {2: "a", 1: "b", 0: "a"}
    for engine in (bq.engines.Loop, bq.engines.Ray):
        name = "hosts" if engine is bq.engines.Loop else "placement"
        assert noticed(engine(**{name: there}), engine(**{name: here})) == ""


@pytest.mark.parametrize(
    "around",
    [
        lambda method: method,
        lambda method: bq.methods.Momentum(method, 0.5),
        lambda method: bq.methods.Decaying(method, 10),
        lambda method: bq.methods.Momentum(bq.methods.Decaying(method, 10), 0.5),
        Around,
    ],
    ids=["bare", "momentum", "decaying", "both", "around"],
)
def test_own_methods_within_others_are_known_by_what_they_hold_and_do(around):
    there = with_method(around(Mine(0.05)))
    assert noticed(there, with_method(around(Mine(0.05)))) == ""
    for other in (Mine(0.06), Mine(0.05, 0.5), MineToo(0.05), Mine(0.05, schedule=ask)):
        assert noticed(there, with_method(around(other))) == "the method"
    one, other = (with_method(around(Silent(step))) for step in (0.05, 0.06))
    assert noticed(one, other) == "the method"
    one, other = (with_method(around(Mine(0.05, schedule=how))) for how in (ask, ask_more))
    assert noticed(one, other) == "the method"


def test_what_cannot_be_looked_into_leaves_no_address_behind():
    held = [bq.methods.Momentum(Mine(0.05, schedule=threading.Lock()), 0.5) for _ in range(2)]
    assert noticed(*map(with_method, held)) == ""


def with_helper(wrap, most):
    """A will that asks a helper, which ``wrap`` has made something of."""

    @wrap
    def limit(k):
        return most

    class Limited(bq.wills.Consensus):
        def decide(self, estate):
            choose = super() if limit(1) > 1.5 else bq.wills.Forgetful()
            return choose.decide(estate)

    return with_will(Limited())


@pytest.mark.parametrize("wrap", [cache, lru_cache(2), singledispatch, np.vectorize])
def test_helpers_that_a_package_wraps_are_noticed(wrap):
    assert noticed(with_helper(wrap, 1.0), with_helper(wrap, 2.0)) == "the wills"
    assert noticed(with_helper(wrap, 1.0), with_helper(wrap, 1.0)) == ""


def test_own_wills_within_others_are_known_by_what_they_hold():
    there = with_will(Mild(Mild(bq.wills.Drift(1))))
    assert noticed(there, with_will(Mild(Mild(bq.wills.Drift(1))))) == ""
    for other in (Mild(Mild(bq.wills.Drift(2))), Mild(Mild(bq.wills.Drift(1), 0.5))):
        assert noticed(there, with_will(other)) == "the wills"


class Handmade:
    """An engine of the user's own; its ``repr`` is its class's."""

    def __init__(self, method=None):
        self.method = method

    def __repr__(self):
        return "Handmade()"

    def run(self, plan, progress=None):
        return bq.engines.Vector().run(plan, progress)


class Slower(bq.engines.Loop):
    """One derived from ours."""


class Quicker(bq.engines.Loop):
    """Another one, which does something else."""

    def run(self, plan, progress=None):
        return super().run(plan, None)


def test_own_engines_are_known_by_what_they_hold_and_do():
    assert noticed(Handmade(Mine(0.1)), Handmade(Mine(0.1))) == ""
    assert noticed(Handmade(Mine(0.1)), Handmade(Mine(0.2))) == "the engine"
    assert noticed(Slower(), Slower(watch=print)) == ""
    assert noticed(Slower(), Slower(hosts=2)).startswith("the engine")
    engines = [bq.engines.Loop(), Slower(), Quicker()]
    told = [fingerprint(PLAN, engine)["the engine"] for engine in engines]
    assert len(set(told)) == 3


def test_what_a_run_says_of_its_method_and_engine_has_no_address_in_it():
    one, other = (bq.methods.Momentum(Mine(0.05), 0.5) for _ in range(2))
    assert described(one) == described(other)
    assert described(one).startswith("Momentum(method=")
    assert described(bq.methods.NIDS(coupling=0.5)) == repr(bq.methods.NIDS(coupling=0.5))
    assert described(bq.engines.Loop(hosts=2)) == repr(bq.engines.Loop(hosts=2))
    assert described(bq.engines.Vector()) == "Vector()"
    assert described(Handmade()) == "Handmade()"  # its author's own words
    silent = Handmade.__new__(type("Silent", (), {"run": Handmade.run}))
    assert len(described(silent)) == 32


def test_another_process_finds_the_same_of_own_methods_and_sets():
    program = (
        "import test_fingerprint_options as t, bequest as bq, json\n"
        "night = frozenset(map(str, range(20)))\n"
        "weather = t.WEATHER(partitions=(bq.engines.Partition(1.0, 2.0, night),))\n"
        "plan = t.with_method(bq.methods.Momentum(t.Mine(0.05, schedule=t.ask), 0.5))\n"
        "print(json.dumps(t.fingerprint(plan, bq.engines.Loop(weather=weather))))"
    )
    folders = [inspect.getfile(bq).rsplit("/bequest/", 1)[0], __file__.rsplit("/", 1)[0]]
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": os.pathsep.join(folders), "PATH": "", "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# --- the same in other words ---------------------------------------------------------------


def in_other_words(value):
    """Other ways to write down a number, or a pair of them, that options may take."""
    if isinstance(value, bool) or not isinstance(value, int | float | tuple):
        return []
    if isinstance(value, tuple):
        numbers = value and all(isinstance(one, float) for one in value)
        return [list(value), tuple(map(np.float64, value))] if numbers else []
    whole = [int(value), np.int64(value)] if float(value).is_integer() else []
    return [*whole, float(value), np.float64(value), *([-0.0] if value == 0 else [])]


WHOLE = {"step": 1.0, "momentum": 0.0, "mixing": 1.0, "coupling": 1.0, "cap": 1.0, "l2": 0.0}


@pytest.mark.parametrize(
    ("table", "kind", "name"),
    [
        pytest.param(table, kind, name, id=f"{kind.__name__}-{name}")
        for table in (METHODS, WILLS, LOSSES)
        for kind, values in table.items()
        for name in values
        if kind is not objectives.Softmax
    ],
)
def test_a_number_in_other_words_is_the_same_number(table, kind, name):
    held = {id(METHODS): with_method, id(WILLS): with_will, id(LOSSES): with_loss}[id(table)]
    first = {option: values[0] for option, values in table[kind].items()}
    if kind is bq.wills.Adaptive and name == "drop":
        first["rule"] = "certified"
    for value in [*table[kind][name], *([WHOLE[name]] if name in WHOLE else [])]:
        try:
            there = held(kind(**first | {name: value}))
        except BequestError:
            continue  # such as a part that has to be below 1
        for other in in_other_words(value):
            try:
                here = held(kind(**first | {name: other}))
            except BequestError:
                continue  # whole numbers have to be written as such
            assert noticed(there, here) == ""


def test_a_pilot_in_other_words_is_the_same_pilot():
    pilots = [bq.Pilot(2, 0, 1, 3, 0), bq.Pilot(2.0, -0.0, np.float64(1.0), np.int64(3), 0.0)]
    assert noticed(*(replace(PLAN, pilot=pilot) for pilot in pilots)) == ""


def test_weather_in_other_words_is_the_same_weather():
    def weather(number, none):
        return bq.engines.Loop(
            weather=WEATHER(
                delay=(none, number(2)),
                duplication=number(1),
                partitions=(bq.engines.Partition(none, number(2), NIGHT),),
                outages=(bq.engines.Outage(number(1), "a"),),
                patience=number(3),
            )
        )

    assert noticed(weather(int, 0), weather(float, -0.0)) == ""
    assert noticed(weather(np.int64, 0), weather(np.float64, 0.0)) == ""
