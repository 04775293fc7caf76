"""Many messages as one buffer, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.engines.runtime.message_batch import Addressed, pack, unpack
from bequest.errors import MalformedMessage
from bequest.protocol.messages import STEWARD, Exchange, Halt, LeaveRequest

ids = st.integers(0, 2**40)
receivers = st.lists(ids, min_size=1, max_size=4).map(tuple)


@st.composite
def addressed(draw):
    dim = draw(st.integers(1, 4))
    numbers = st.lists(st.floats(width=64), min_size=2 * dim, max_size=2 * dim)
    exchanges = st.builds(
        Exchange, epoch=ids, round=ids, payload=numbers.map(lambda row: np.array(row))
    )
    farewells = st.builds(
        lambda t: Farewell(1, t, Legacy.zero(dim), np.zeros(dim), 3), st.integers(0, 9)
    )
    others = st.one_of(st.builds(Halt, ids, ids, ids), st.builds(LeaveRequest, ids), farewells)
    one = st.builds(Addressed, ids, receivers, st.one_of(exchanges, others))
    return draw(st.lists(one, max_size=6))


def spelled(one):
    sender, to, message = one
    if isinstance(message, Exchange):
        return sender, to, message.epoch, message.round, message.payload.tobytes()
    if isinstance(message, Farewell):
        return sender, to, message.round, message.surplus.tobytes()
    return sender, to, message


@given(addressed())
def test_round_trip(sent):
    received = unpack(pack(sent))
    assert sorted(map(repr, map(spelled, received))) == sorted(map(repr, map(spelled, sent)))


def test_exchanges_stay_where_they_are():
    payload = np.arange(4.0)
    (one,) = unpack(pack([Addressed(3, (1, 2), Exchange(1, 7, payload))]))
    assert one.receivers == (1, 2)
    assert not one.message.payload.flags.writeable
    assert one.message.payload.base is not None


def test_the_steward_may_write_too():
    (one,) = unpack(pack([Addressed(STEWARD, (0, 5), Halt(2, 1))]))
    assert one == Addressed(STEWARD, (0, 5), Halt(2, 1))


@given(st.binary(max_size=200))
def test_nonsense_is_refused(data):
    with pytest.raises(MalformedMessage):
        unpack(data)


@given(st.data())
def test_damage_is_noticed(data):
    good = pack([Addressed(3, (1, 2), Exchange(1, 7, np.ones(6))), Addressed(1, (0,), Halt(2, 1))])
    place = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedMessage):
        unpack(bytes(bad))
    with pytest.raises(MalformedMessage):
        unpack(good[:place])
