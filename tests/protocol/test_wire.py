"""Messages as bytes: nothing is lost, nothing that is not a message gets in, versions stay."""

import ast
import dataclasses
import inspect
import math
import random
import struct
import subprocess
import sys
import tracemalloc
import types
import typing
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from protocol import golden

import bequest as bq
from bequest import errors
from bequest.protocol import messages as m
from bequest.protocol import wire

LARGEST = 2**63 - 1
naturals = st.integers(0, 5) | st.integers(0, LARGEST)
addresses = st.just(m.STEWARD) | naturals
finite = st.floats(allow_nan=False, allow_infinity=False)
PURPOSES = ("join", "return", "forget")


def vectors(size):
    return arrays(np.float64, size, elements=st.floats())


@st.composite
def legacies(draw):
    dim = draw(st.integers(1, 4))
    rank = draw(st.sampled_from([0, 1, dim, dim + 2]))
    lineage = draw(st.dictionaries(naturals, st.integers(-3, 3), max_size=4))
    factor = draw(vectors((dim, rank)))
    return draw(
        st.just(bq.Legacy.zero(dim))
        | st.builds(
            bq.Legacy,
            st.floats(),
            vectors(dim),
            st.floats(),
            st.just(lineage),
            st.sampled_from([factor, np.asfortranarray(factor)]),
            vectors(rank),
            st.frozensets(st.sampled_from(sorted(lineage))) if lineage else st.just(frozenset()),
        )
    )


class Array:
    """Stands for ``Vector``, which is no class."""


LEAVES = {
    int: naturals,
    float: finite,
    bool: st.booleans(),
    str: st.text(max_size=10),
    type(None): st.none(),
    Array: st.integers(1, 5).flatmap(vectors),
    bq.Legacy: legacies(),
}
NAMES = {"Vector": Array, "Legacy": bq.Legacy, "Purpose": typing.Literal[PURPOSES]}


def valid(hint):
    """A strategy for what an annotation allows."""
    if hint in LEAVES:
        return LEAVES[hint]
    if dataclasses.is_dataclass(hint):
        return messages(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(valid, parts))
    assert origin is tuple
    if parts[-1] is Ellipsis:
        return st.lists(valid(parts[0]), max_size=3).map(tuple)
    return st.tuples(*map(valid, parts))


def messages(kind):
    hints = typing.get_type_hints(kind, localns=NAMES)
    return st.builds(kind, **{name: valid(hint) for name, hint in hints.items()})


def rounded(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float32).astype(np.float64)


def same(one, other, change=lambda array: array):
    """Whether two messages agree to the last bit; ``change`` is done to the first one's vectors."""
    if isinstance(one, np.ndarray):
        assert other.dtype == np.float64
        assert not other.flags.writeable
        return one.shape == other.shape and change(one).tobytes() == other.tobytes()
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other, [change] * len(one)))
    if isinstance(one, bq.Legacy):
        assert list(one.lineage) == list(other.lineage)
        assert one.factor.flags.c_contiguous == other.factor.flags.c_contiguous
    if dataclasses.is_dataclass(one):
        return all(
            same(getattr(one, field.name), getattr(other, field.name), change)
            for field in dataclasses.fields(one)
        )
    return one == other


def sealed(content):
    """Any bytes with the right checksum behind them."""
    return bytes(content) + struct.pack("<I", zlib.crc32(content))


def framed(kind, header, numbers=b"", *, version=4, width=8, filling=b"\0", total=None):
    """A message put together by hand, as the module's docstring says."""
    if isinstance(header, dict):
        header = msgspec.msgpack.encode(header)
    head = struct.pack("<I", len(header)) + header
    padding = filling * (-(16 + len(head)) % 8)
    length = 16 + len(head) + len(padding) + len(numbers) + 4
    first = struct.pack(
        "<4sHBBQ", b"BQST", version, kind, width, length if total is None else total
    )
    return sealed(first + head + padding + numbers)


def header_of(data):
    (length,) = struct.unpack_from("<I", data, 16)
    return msgspec.msgpack.decode(data[20 : 20 + length], strict=False)


def refused(data, kind=errors.MalformedMessage, **options):
    with pytest.raises(errors.MalformedMessage) as caught:
        wire.decode(data, **options)
    assert type(caught.value) is kind
    assert caught.value.remedy
    return caught.value.what


EXCHANGE = wire.encode(0, 1, m.Exchange(2, 3, np.array([1.0, -2.0])))
KEPT = wire.encode(0, 1, m.Kept(3))


# --- there and back ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", m.KINDS, ids=lambda kind: kind.__name__)
def test_a_message_comes_back_as_it_was(kind):
    @settings(max_examples=60)
    @given(addresses, addresses, messages(kind))
    def check(sender, receiver, message):
        data = wire.encode(sender, receiver, message)
        envelope = wire.decode(data)
        assert (envelope.sender, envelope.receiver) == (sender, receiver)
        assert same(message, envelope.message)
        assert wire.encode(sender, receiver, envelope.message) == data

    check()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in m.KINDS if {"Vector", "Legacy"} & {f.type for f in dataclasses.fields(kind)}],
    ids=lambda kind: kind.__name__,
)
def test_single_precision_rounds_the_vectors_and_nothing_else(kind):
    @settings(max_examples=40)
    @given(messages(kind))
    def check(message):
        data = wire.encode(0, 1, message, precision="float32")
        assert same(message, wire.decode(data).message, change=rounded)

    check()


def test_single_precision_halves_the_vectors():
    payload = np.arange(2000.0)
    double, single = (
        len(wire.encode(0, 1, m.Exchange(1, 1, payload), precision=precision))
        for precision in ("float64", "float32")
    )
    assert double - single == 8000


@pytest.mark.parametrize("change", [bytes, bytearray, memoryview], ids=lambda c: c.__name__)
def test_an_exchange_is_read_where_it_is_unless_others_could_change_it(change):
    payload = np.arange(2000.0)
    data = change(wire.encode(0, 1, m.Exchange(1, 1, payload)))
    found = wire.decode(data).message.payload
    assert found.flags.aligned
    assert not found.flags.writeable
    assert np.shares_memory(found, np.frombuffer(data, np.uint8)) == (change is bytes)
    if change is bytearray:
        data[:] = bytes(len(data))
    assert (found == payload).all()


def test_an_envelope_cannot_be_changed():
    envelope = wire.decode(KEPT)
    assert repr(envelope) == "Envelope(sender=0, receiver=1, message=Kept(epoch=3))"
    with pytest.raises(AttributeError):
        envelope.sender = 3
    with pytest.raises(AttributeError):
        envelope.other = 3


def test_numbers_of_numpys_and_strided_vectors_travel_like_any_other():
    plain = m.Ready(4, 2.5, (1, 2), (), True)
    theirs = m.Ready(np.int64(4), np.float64(2.5), (np.int32(1), np.intp(2)), (), np.True_)
    assert wire.encode(0, 1, theirs) == wire.encode(np.int64(0), 1, plain)
    every_other = np.arange(8.0)[::2]
    welcome = wire.encode(0, 1, m.Welcome(1, every_other))
    assert welcome == wire.encode(0, 1, m.Welcome(1, every_other.copy()))
    legacy = bq.Legacy(np.float64(1.0), np.ones(1), 0.0, {np.int64(3): 1})
    assert same(wire.decode(wire.encode(0, 1, m.Withdrawal(1, legacy))).message.legacy.eta, 1.0)


def test_the_purposes_are_those_of_the_messages():
    tree = ast.walk(ast.parse(inspect.getsource(m)))
    (stated,) = (
        ast.literal_eval(node.value.slice)
        for node in tree
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", None) == "Purpose"
    )
    assert stated == PURPOSES
    for purpose in stated:
        wire.encode(0, m.STEWARD, m.Request(purpose, "here"))


# --- versions stay -------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.EXAMPLES)
def test_this_version_is_written_and_read_as_it_always_was(name):
    sender, receiver, message, precision = golden.EXAMPLES[name]
    data = golden.path_of(name).read_bytes()
    assert golden.encoded(name) == data
    envelope = wire.decode(data)
    assert (envelope.sender, envelope.receiver) == (sender, receiver)
    change = rounded if precision == "float32" else lambda array: array
    assert same(message, envelope.message, change=change)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (v, name)
        for v, later in golden.LATER.items()
        for name in sorted(golden.EXAMPLES.keys() - later)
    ],
)
def test_earlier_versions_are_still_read(version, name):
    """What they did not say yet means that everything is as it was then."""
    sender, receiver, message, precision = golden.EXAMPLES[name]
    envelope = wire.decode(golden.path_of(name, golden.FOLDER.parent / f"v{version}").read_bytes())
    assert (envelope.sender, envelope.receiver) == (sender, receiver)
    change = rounded if precision == "float32" else lambda array: array
    assert same(golden.as_in(version, message), envelope.message, change=change)


def test_every_kind_has_a_golden_file_and_every_file_is_tested():
    assert {path.stem for path in golden.FOLDER.iterdir()} == set(golden.EXAMPLES)
    assert {type(message) for _, _, message, _ in golden.EXAMPLES.values()} == set(m.KINDS)


def test_golden_files_are_never_overwritten(tmp_path):
    assert golden.write_missing(tmp_path) == []
    assert golden.write_missing(tmp_path) == []
    golden.path_of("Kept", tmp_path).write_bytes(b"older")
    assert golden.write_missing(tmp_path) == ["Kept"]
    assert golden.path_of("Kept", tmp_path).read_bytes() == b"older"


def test_the_format_is_the_one_described():
    fields = {"epoch": 2, "round": 3, "payload": 2}
    by_hand = framed(
        0, {"sender": 0, "receiver": 1, "message": fields}, struct.pack("<2d", 1.0, -2.0)
    )
    assert by_hand == EXCHANGE


def test_another_version_is_refused_with_both_numbers():
    what = refused(framed(3, b"whatever", version=7), errors.UnsupportedVersion)
    assert "version 7" in what
    assert "version 4" in what


def test_fields_that_came_later_may_be_left_out():
    data = framed(
        m.KINDS.index(m.Ready),
        {"sender": 0, "receiver": -1, "message": {"epoch": 1, "stiffness": 1, "lineage": []}},
    )
    assert wire.decode(data).message == m.Ready(1, 1.0, ())


# --- what is not a message -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["Exchange", "Checkpoint-first", "Request", "Inquiry"])
def test_every_flipped_bit_and_every_truncation_is_refused(name):
    data = golden.encoded(name)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.MalformedMessage):
            wire.decode(damaged)
    for length in range(len(data)):
        with pytest.raises(errors.MalformedMessage):
            wire.decode(data[:length])
    refused(data + b"\0")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "too few"),
        (b"GET / HTTP/1.1\r\nHost: bequest\r\n", "begin"),
        (framed(3, b"", total=1 << 60), "bytes"),
        (sealed(KEPT[:-4])[:-1] + b"\0", "checksum"),
        (framed(len(m.KINDS), b""), "prefix"),
        (framed(3, b"", width=2), "prefix"),
        (framed(0, b"", bytes(7)), "prefix"),
        (sealed(KEPT[:16] + struct.pack("<I", 1 << 31) + KEPT[20:-4]), "prefix"),
        (framed(3, b"", filling=b"\1"), "between"),
        (framed(3, b""), "header"),
        (framed(3, b"\xc1"), "header"),
        (framed(3, msgspec.msgpack.encode({"sender": 0, "receiver": 0}) + b"\0"), "header"),
    ],
)
def test_bytes_that_are_no_message_are_refused_in_words(data, says):
    assert says in refused(data)


LEGACY = {
    "eta": 1.0,
    "c": 0.0,
    "lineage": {3: 1},
    "blended": [],
    "dim": 2,
    "rank": 1,
    "by_columns": False,
}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (m.Kept, {}),
        (m.Kept, {"epoch": -1}),
        (m.Kept, {"epoch": 1 << 63}),
        (m.Kept, {"epoch": 1.0}),
        (m.Kept, {"epoch": True}),
        (m.Kept, {"epoch": "1"}),
        (m.Kept, {"epoch": 1, "other": 1}),
        (m.Kept, [1]),
        (m.Exchange, {"epoch": 1, "round": 1, "payload": 0}),
        (m.Exchange, {"epoch": 1, "round": 1, "payload": 4}),
        (m.Exchange, {"epoch": 1, "round": 1, "payload": 6}),
        (m.Exchange, {"epoch": 1, "round": 1, "payload": LARGEST}),
        (m.Exchange, {"epoch": 1, "round": -1, "payload": 5}),
        (m.Exchange, {"epoch": 1, "round": 1, "payload": None}),
        (m.Withdrawal, {"epoch": 1, "legacy": None}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"rank": 2}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"dim": 0, "rank": 5}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"dim": 1 << 62, "rank": 1 << 62}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"lineage": {-3: 1}}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"lineage": {3: 1.5}}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"blended": [-3]}}),
        (m.Withdrawal, {"epoch": 1, "legacy": LEGACY | {"by_columns": 0}}),
        (m.Begin, {"epoch": 1, "step": math.inf, "until": 3, "roster": []}),
        (m.Begin, {"epoch": 1, "step": 0.1, "until": 3, "roster": [[0]]}),
        (
            m.Arrange,
            {"epoch": 1, "round": 1, "restart": False, "members": 2, "weights": [math.nan]},
        ),
        (m.Request, {"purpose": "steal", "host": "here"}),
        (m.Request, {"purpose": "join", "host": b"here"}),
    ],
)
def test_headers_that_do_not_hold_what_they_should_are_refused(kind, fields):
    numbers = np.ones(5).tobytes() if {"payload", "legacy"} & set(fields) else b""
    header = {"sender": 0, "receiver": 1, "message": fields}
    assert "header" in refused(framed(m.KINDS.index(kind), header, numbers))


def test_text_must_be_text():
    header = header_of(wire.encode(0, 1, m.Accusation(epoch=1, culprit=1, why="??")))
    packed = msgspec.msgpack.encode(header).replace(b"??", b"\xff\xfe")
    assert "header" in refused(framed(m.KINDS.index(m.Accusation), packed))


@pytest.mark.parametrize("address", [-2, 1 << 63, 0.5, None])
def test_nobody_has_such_an_address(address):
    assert "sender" in refused(framed(11, {"sender": address, "receiver": 1, "message": {}}))
    with pytest.raises(errors.MalformedMessage, match="receiver"):
        wire.encode(0, address, m.Inquiry())


@pytest.mark.parametrize(
    "message",
    [
        m.Kept(-1),
        m.Kept(1 << 80),
        m.Kept("1"),
        m.Kept(object()),
        m.Accusation(epoch=1, culprit=0, why="\ud800"),
        m.Begin(1, math.nan, 3, ()),
        m.Exchange(1, 1, np.zeros((2, 2))),
        m.Exchange(1, 1, np.zeros(0)),
        m.Exchange(1, 1, np.array(["a"])),
        m.Exchange(1, 1, 4),
        m.Exchange(1, 1, [1.0]),
        m.Exchange(1, 1, None),
        m.Exchange(1, 1, bq.Legacy.zero(1)),
        m.Withdrawal(1, np.zeros(2)),
        m.Withdrawal(1, bq.Legacy(0.0, np.zeros(1), 0.0, {-1: 1})),
    ],
)
def test_what_nobody_would_accept_is_not_sent(message):
    with pytest.raises(errors.MalformedMessage, match=type(message).__name__):
        wire.encode(0, 1, message)


@pytest.mark.parametrize("thing", [None, "Kept", m.Kept, bq.Legacy.zero(1), {"epoch": 1}])
def test_what_is_not_a_message_is_a_mistake(thing):
    with pytest.raises(TypeError, match="not a kind of message"):
        wire.encode(0, 1, thing)


# --- limits --------------------------------------------------------------------------------


def peak_of(data, limit):
    """The memory that reading takes at its height, beyond what was there."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        envelope = wire.decode(data, limit=limit)
    except errors.MalformedMessage:
        envelope = None
    peak = tracemalloc.get_traced_memory()[1] - before
    del envelope
    return peak


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_what_is_larger_than_the_limit_is_refused_before_anything_is_allocated(traced):
    data = bytearray(wire.encode(0, 1, m.Exchange(1, 1, np.zeros(1_000_000))))
    for limit in (1 << 16, 10_000_000):
        assert "limit" in refused(data, errors.MessageTooLarge, limit=limit)
    assert peak_of(data, 1 << 16) < 1 << 13
    assert peak_of(bytes(data), 10_000_000) < 1 << 13


MANY = range(256, 256 + 11_000)
GREEDY = {
    "lineage": m.Withdrawal(1, bq.Legacy(0.0, np.zeros(1), 0.0, dict.fromkeys(MANY, 1))),
    "few": m.Withdrawal(
        1, bq.Legacy(0.0, np.zeros(1), 0.0, dict.fromkeys(range(100), 1), blended=set(range(100)))
    ),
    "blended": m.Withdrawal(
        1, bq.Legacy(0.0, np.zeros(1), 0.0, dict.fromkeys(MANY, 1), blended=frozenset(MANY))
    ),
    "ids": m.Request("join", "", known=tuple(MANY)),
    "wards": m.Halted(1, 1, (), tuple((i, i, (i,)) for i in MANY), True),
    "roster": m.Begin(1, 0.1, 1, ((1, ()),) * 10_000),
    "weights": m.Arrange(1, 1, True, 3, None, (1,) * 10_000),
    "text": m.Accusation(epoch=1, culprit=1, why="a" * 10_000 + "\N{GRINNING FACE}"),
    "vector": m.Welcome(1, np.ones(10_000)),
    "factor": m.Checkpoint(1, 1, bq.Legacy(0.0, np.ones(9), 0.0, {}, np.ones((9, 999))), None),
}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", GREEDY)
def test_the_greediest_messages_keep_the_tightest_limit(traced, name, precision):
    data = bytearray(wire.encode(0, 1, GREEDY[name], precision=precision))
    refused_at, limit = 0, wire.DEFAULT_LIMIT
    while limit - refused_at > 1:
        middle = (refused_at + limit) // 2
        try:
            wire.decode(data, limit=middle)
        except errors.MessageTooLarge:
            refused_at = middle
        else:
            limit = middle
    assert peak_of(data, limit) <= limit


# --- fuzz ----------------------------------------------------------------------------------

VALID = [golden.encoded(name) for name in golden.EXAMPLES]
NASTY = [
    *(None, True, -1, 0, 1, 2, 3, 255, 1 << 16, 1 << 31, LARGEST, LARGEST + 1, -(1 << 63)),
    *(0.5, math.nan, math.inf, "", "join", "x" * 300, b"\xff", [], [0] * 40, [[]], [[1, 2, [3]]]),
    *({}, {1: 1}, {-1: 0}, {"epoch": 1}, {"dim": 1 << 40, "rank": 1 << 40}, LEGACY),
]
# arrays, maps and texts that claim to be huge, at every depth
CLAIMS = [b"\xdd\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xdb\x7f\xff\xff\xff", b"\x91" * 900]


def noise(random_, data):
    return random_.randbytes(random_.randrange(120))


def noise_behind_a_prefix(random_, data):
    return framed(random_.randrange(24), noise(random_, data), bytes(8 * random_.randrange(3)))


def truncated(random_, data):
    return data[: random_.randrange(len(data))]


def damaged(random_, data):
    changed = bytearray(data)
    for _ in range(random_.randrange(1, 4)):
        changed[random_.randrange(len(changed))] = random_.randrange(256)
    return changed


def damaged_and_sealed(random_, data):
    return sealed(damaged(random_, data[:-4]))


def truncated_and_sealed(random_, data):
    content = bytearray(truncated(random_, data[:-4]))
    content[8:16] = struct.pack("<Q", len(content) + 4)
    return sealed(content)


def claiming(random_, data):
    (length,) = struct.unpack_from("<I", data, 16)
    at = random_.randrange(length)
    header = data[20 : 20 + at] + random_.choice(CLAIMS) + data[20 + at : 20 + length]
    return framed(data[6], header, data[-12:-4])


def nested(value):
    """Every place in a header, as its container and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in items:
        yield value, key
        if isinstance(inside, dict | list):
            yield from nested(inside)


def misfitting(random_, data):
    header = header_of(data)
    container, key = random_.choice(list(nested(header)))
    container[key] = random_.choice(NASTY)
    (length,) = struct.unpack_from("<I", data, 16)
    end = 20 + length
    return framed(data[6], header, data[end + -end % 8 : -4], width=random_.choice((4, 8)))


def spliced(random_, data):
    (length,) = struct.unpack_from("<I", data, 16)
    other = random_.choice(VALID)
    return framed(other[6], data[20 : 20 + length], other[-12:-4])


MUTATIONS = [
    noise,
    noise_behind_a_prefix,
    truncated,
    damaged,
    damaged_and_sealed,
    truncated_and_sealed,
    claiming,
    misfitting,
    spliced,
]


def fuzzed(count, seed):
    random_ = random.Random(seed)  # noqa: S311 - no secrets
    for turn in range(count):
        mutation = MUTATIONS[turn % len(MUTATIONS)]
        yield mutation.__name__, mutation(random_, random_.choice(VALID))


def test_200000_fuzzed_messages_are_decoded_or_refused_by_name():
    outcomes = dict.fromkeys(((f.__name__, ok) for f in MUTATIONS for ok in (True, False)), 0)
    for name, data in fuzzed(200_000, seed=1):
        try:
            envelope = wire.decode(data)
        except errors.MalformedMessage:
            outcomes[name, False] += 1
        else:
            outcomes[name, True] += 1
            if outcomes[name, True] % 20 == 0:  # what is accepted can be sent on
                again = wire.encode(envelope.sender, envelope.receiver, envelope.message)
                assert same(envelope.message, wire.decode(again).message)
    assert sum(outcomes.values()) == 200_000
    assert all(outcomes[function.__name__, False] > 1000 for function in MUTATIONS)
    assert outcomes["truncated", True] == 0
    assert outcomes["damaged_and_sealed", True] > 1000
    assert outcomes["misfitting", True] > 1000


@pytest.mark.parametrize("limit", [1 << 14, 1 << 17])  # with less, long headers are refused
def test_no_fuzzed_message_takes_more_memory_than_the_limit(traced, limit):
    assert max(peak_of(bytes(data), limit) for _, data in fuzzed(9_000, seed=2)) <= limit


def test_importing_bequest_does_not_load_the_codec():
    code = "import sys, bequest; sys.exit('msgspec' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
