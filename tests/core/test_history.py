"""What a node remembers of its path: few pairs, evenly, over the later half of the epoch."""

import numpy as np
import pytest

from bequest.core import history

AGES = range(3001)


def forgetting_online(until: int):
    """A node that lives through an epoch and never holds more than 17 pairs, age by age.

    Written down from the description: give up the oldest while it lies in the first 45% of the
    epoch, else the pair whose neighbours are closest to each other (the oldest of equals).
    """
    held: list[int] = []
    for now in range(until + 1):
        held = [*held, now]
        if len(held) == 17:
            if held[0] < now - 0.55 * now:
                held = held[1:]
            else:
                closest = min(range(1, 16), key=lambda k: held[k + 1] - held[k - 1])
                held = held[:closest] + held[closest + 1 :]
        yield now, tuple(held)


@pytest.fixture(scope="module")
def incarnations() -> dict[int, tuple[int, ...]]:
    return dict(forgetting_online(AGES[-1]))


def test_a_node_that_forgets_as_it_goes_holds_just_these_pairs(incarnations):
    for age in [*range(300), *range(300, 3001, 37)]:
        assert history.kept(age) == incarnations[age], age


def test_nothing_is_held_that_was_given_up_before(incarnations):
    """Streaming: what is held at one age was held, or is new, at that age."""
    for age in AGES[1:]:
        assert set(incarnations[age]) <= {*incarnations[age - 1], age}


def test_there_are_at_most_sixteen_pairs_in_order_and_the_present_is_one(incarnations):
    for age, held in incarnations.items():
        assert len(held) == min(age + 1, history.PAIRS)
        assert list(held) == sorted(set(held))
        assert held[-1] == age
        assert held[0] >= 0


def test_they_span_about_half_of_the_epoch(incarnations):
    spans = {age: (held[-1] - held[0]) / age for age, held in incarnations.items() if age > 40}
    assert min(spans.values()) >= 0.49, min(spans, key=spans.get)
    assert max(spans.values()) <= 0.55, max(spans, key=spans.get)


def test_no_gap_is_much_wider_than_the_others(incarnations):
    worst = {}
    for age, held in incarnations.items():
        if age > 40:
            gaps = np.diff(held)
            worst[age] = gaps.max() / gaps.mean()
    assert max(worst.values()) <= 2.0, (max(worst, key=worst.get), max(worst.values()))
    assert max(worst.values()) >= 1.5  # or the bound says nothing


def test_the_newest_pairs_are_not_all_that_is_left(incarnations):
    """Even means even: both halves of the span hold about half of the pairs."""
    for age, held in incarnations.items():
        if age > 40:
            later = sum(t > (held[0] + held[-1]) / 2 for t in held)
            assert later <= 11, (age, held)
            assert later >= 5, (age, held)


def test_an_epoch_can_be_read_as_it_was():
    X, Z = np.arange(12.0).reshape(6, 2), -np.arange(12.0).reshape(6, 2)
    path = history.EpochPath(X, Z)
    before = path.until(2)
    assert (len(path), len(before)) == (6, 4)
    np.testing.assert_array_equal(before.X, X[2:])
    np.testing.assert_array_equal(before.Z, Z[2:])
    assert len(path.until(0)) == 6
    assert len(path.until(9)) == 0


def path(X) -> history.EpochPath:
    X = np.asarray(X, dtype=float)
    return history.EpochPath(X, np.zeros_like(X))


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("dim", [1, 2, 30])
def test_a_path_drifts_if_it_leads_somewhere(dim, scale):
    ahead = np.linspace(1, 0, 16)[:, None] * np.ones(dim) * scale
    assert path(ahead).drifts
    assert path(ahead + 7 * scale).drifts
    assert path(ahead[:2]).drifts
    slowing = np.geomspace(1, 1e-6, 16)[::-1, None] * np.ones(dim) * scale
    assert path(slowing).drifts
    assert not path(np.ones((16, dim)) * scale).drifts  # stands still
    there_and_back = np.concatenate([ahead, ahead[::-1]])
    assert not path(there_and_back).drifts
    swinging = np.where(np.arange(16) % 2, 1.0, -1.0)[:, None] * np.ones(dim) * scale
    assert not path(swinging).drifts


def test_random_steps_mostly_do_not_drift():
    for dim in (2, 10, 100):
        steps = np.random.default_rng(dim).standard_normal((200, 16, dim))
        drifting = sum(path(np.cumsum(walk, axis=0)).drifts for walk in steps)
        scattered = sum(path(walk).drifts for walk in steps)
        assert drifting <= 20, (dim, drifting)
        assert scattered == 0, (dim, scattered)


def test_a_path_that_turns_a_corner_drifts():
    corner = np.concatenate([np.linspace([1, 1], [0, 1], 8), np.linspace([0, 1], [0, 0], 8)])
    assert path(corner).drifts
