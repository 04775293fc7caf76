"""Partitioners: every sample exactly once, no silo empty, the same again for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bequest as bq
from bequest.errors import InvalidData

part = bq.partition


def check(silos, count, n):
    assert len(silos) == n
    assert all(silo.size and not silo.flags.writeable for silo in silos)
    assert all((np.diff(silo) > 0).all() for silo in silos)
    assert sorted(np.concatenate(silos).tolist()) == list(range(count))


labels_and_silos = st.lists(st.integers(0, 6), min_size=1, max_size=60).flatmap(
    lambda y: st.tuples(st.just(y), st.integers(1, len(y)))
)


@given(labels_and_silos, st.integers(0, 2**32 - 1))
def test_every_sample_is_in_exactly_one_silo_and_no_silo_is_empty(case, seed):
    y, n = case
    check(part.by_label(y, n), len(y), n)
    check(part.sorted_chunks(y, n=n), len(y), n)
    check(part.iid(len(y), n, seed), len(y), n)
    check(part.by_column(y), len(y), len(set(y)))


@given(st.lists(st.integers(0, 3), min_size=30, max_size=60), st.integers(0, 1000))
def test_dirichlet_silos_are_a_partition_too(y, seed):
    check(part.dirichlet(y, 4, 1.0, seed), len(y), 4)


def test_by_column_sorts_names_and_numbers():
    assert [s.tolist() for s in part.by_column([10, 9, 10, 2])] == [[3], [1], [0, 2]]
    assert [s.tolist() for s in part.by_column(["b", "a"])] == [[1], [0]]


def test_one_silo_per_label_is_in_the_order_of_the_labels():
    y = np.array([3, 1, 2, 1, 3])
    assert [set(y[silo]) for silo in part.by_label(y, 3)] == [{1}, {2}, {3}]


def test_fewer_silos_than_labels_keep_labels_whole_and_sizes_even():
    y = np.repeat(np.arange(5), [40, 30, 30, 20, 10])
    silos = part.by_label(y, 3)
    held = [set(y[silo].tolist()) for silo in silos]
    assert sum(len(h) for h in held) == 5
    assert max(s.size for s in silos) <= 50


def test_more_silos_than_labels_cut_the_largest_labels():
    y = np.repeat([0, 1], [90, 30])
    silos = part.by_label(y, 4)
    assert all(len(set(y[silo].tolist())) == 1 for silo in silos)
    assert [silo.size for silo in silos] == [30, 30, 30, 30]


def test_a_label_is_never_cut_into_more_shards_than_it_has_samples():
    check(part.by_label([0, 1, 1, 1], 4), 4, 4)


def test_small_alpha_separates_and_large_alpha_mixes():
    y = np.repeat(np.arange(5), 200)

    def purity(alpha):
        silos = part.dirichlet(y, 5, alpha, seed=3)
        return np.mean([np.bincount(y[silo]).max() / silo.size for silo in silos])

    assert purity(0.05) > 0.6
    assert purity(1000.0) < 0.3


def test_a_seed_gives_the_same_silos_again_and_another_seed_does_not():
    y = np.arange(100) % 3
    for split in (lambda s: part.iid(100, 4, s), lambda s: part.dirichlet(y, 4, 0.5, s)):
        assert all(np.array_equal(a, b) for a, b in zip(split(1), split(1), strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(split(1), split(2), strict=True))


def test_chunks_are_sorted_by_the_first_key_then_the_second():
    first, second = np.array([1, 0, 1, 0, 1, 0]), np.array([3, 1, 1, 2, 2, 3])
    silos = part.sorted_chunks(first, second, n=3)
    assert [silo.tolist() for silo in silos] == [[1, 3], [2, 5], [0, 4]]


def test_the_first_component_is_the_direction_of_most_variance_with_a_fixed_sign():
    rng = np.random.default_rng(0)
    direction = np.array([0.6, -0.8])
    X = np.outer(rng.normal(size=200) * 5, direction) + rng.normal(size=(200, 2)) * 0.1 + 7
    scores = part.first_component(X)
    along = (X - X.mean(axis=0)) @ -direction  # the largest entry, -0.8, becomes positive
    assert np.corrcoef(scores, along)[0, 1] > 0.999
    np.testing.assert_allclose(part.first_component(X[::-1])[::-1], scores, atol=1e-9)


@given(st.lists(st.integers(0, 3), min_size=8, max_size=80), st.floats(0.2, 0.8))
def test_a_holdout_takes_the_same_share_of_every_label(y, fraction):
    y = np.array(y)
    try:
        learn, test = part.holdout(y, fraction, seed=1)
    except InvalidData:
        assert all(round(fraction * np.sum(y == c)) == 0 or np.sum(y == c) == 1 for c in set(y))
        return
    assert sorted([*learn, *test]) == list(range(y.size))
    for label in set(y.tolist()):
        count = np.sum(y == label)
        assert np.sum(y[test] == label) == min(round(fraction * count), count - 1)


@pytest.mark.parametrize(
    ("split", "what"),
    [
        (lambda: part.iid(3, 4, 0), "3 samples cannot fill 4 silos"),
        (lambda: part.iid(3, 0, 0), "n is 0"),
        (lambda: part.iid(3, 1.5, 0), "n is 1.5"),
        (lambda: part.iid(0, 1, 0), "count is 0"),
        (lambda: part.by_label([], 1), "y has shape"),
        (lambda: part.by_label([[1, 2]], 1), "y has shape"),
        (lambda: part.by_label([1.0, np.nan], 1), "NaN at index 1"),
        (lambda: part.by_column([None, 1]), "silo column has shape"),
        (lambda: part.dirichlet([0, 1], 2, 0.0, 0), "alpha is 0"),
        (lambda: part.dirichlet([0, 1], 2, np.inf, 0), "alpha is inf"),
        (lambda: part.dirichlet([0] * 5, 5, 1e-6, 0), "In none of 1000 draws"),
        (lambda: part.sorted_chunks(n=2), "no key"),
        (lambda: part.sorted_chunks([1, 2], [1], n=1), "different lengths"),
        (lambda: part.holdout([0, 1], 1.0, 0), "test fraction is 1.0"),
        (lambda: part.holdout([0, 1], 0.5, 0), "nothing to test on"),
        (lambda: part.first_component([[np.nan]]), "NaN"),
        (lambda: part.first_component([1.0]), "shape"),
    ],
)
def test_what_cannot_be_split_is_refused_by_name(split, what):
    with pytest.raises(InvalidData, match=what) as caught:
        split()
    assert caught.value.remedy
