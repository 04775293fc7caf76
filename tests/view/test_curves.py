"""Curves are thinned so that nothing that stands out is left out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bequest.curves import NAMES, curves_of
from bequest.model.outcome import Trajectory


def trajectory(length, seed=0, error=True):
    rng = np.random.default_rng(seed)
    curves = np.exp(rng.standard_normal((4, length)).cumsum(axis=1))
    return Trajectory(curves[0] if error else None, *curves[1:])


@given(st.integers(1, 3000), st.integers(30, 900), st.integers(0, 9))
def test_what_stands_out_is_kept(length, most, seed):
    measured = trajectory(length, seed)
    told = curves_of(measured, most=most, also=[length // 3])
    rounds = told["rounds"]
    assert told["of"] == length
    assert rounds == sorted(set(rounds))
    assert len(rounds) <= most + 12 + 9
    assert {0, length // 3, length - 1} <= set(rounds)
    for name in NAMES:
        curve = getattr(measured, name)
        assert {int(curve.argmin()), int(curve.argmax())} <= set(rounds)
        assert np.allclose(told[name], curve[rounds], rtol=1e-3)


def test_what_is_not_finite_or_not_known_is_none():
    measured = trajectory(50, error=False)
    measured.gradient_norm[40:] = np.inf
    told = curves_of(measured, most=1000)
    assert told["error"] is None
    assert told["gradient_norm"][39:41] == [told["gradient_norm"][39], None]
    assert told["gradient_norm"][39] is not None
    assert curves_of(measured, most=1000, last=9)["of"] == 10
