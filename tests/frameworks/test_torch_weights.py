"""Samples of torch that do not count alike: asked at once where the loss allows it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bequest.torch import Silo

SAMPLES = 12


def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((SAMPLES, 5))
    y = np.digitize(X @ np.linspace(1, -1, 5), [-1, 1])
    return torch.tensor(X), torch.tensor(y)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def _own(out, target):
    """Return a mean that knows no reduction."""
    return cross_entropy(out, target)


def _smooth(out, target, reduction="mean"):
    """Return what says something else of each sample than of all."""
    each = cross_entropy(out, target, reduction="none")
    return each.mean() if reduction == "mean" else 2 * each


@pytest.mark.parametrize(
    ("loss", "at_once"),
    [
        (cross_entropy, True),
        (nn.CrossEntropyLoss(), True),
        (_own, False),
        (_smooth, False),
    ],
    ids=["function", "module", "own", "other"],
)
def test_samples_with_weights_are_asked_at_once_where_the_loss_says_the_same(loss, at_once):
    inputs, targets = data()
    silo = Silo(mlp(), loss, (inputs, targets))
    shares = np.random.default_rng(0).random(SAMPLES)
    weighted = silo.backend.on(inputs.numpy(), targets.numpy().astype(float), shares)
    asked = []

    def watched(out, target, **options):
        asked.append(len(out))
        return loss(out, target, **options)

    x = silo.start + 0.1
    expected = sum(
        share * silo.backend.gradient(x, np.array([k])) for k, share in enumerate(shares)
    )
    np.testing.assert_allclose(weighted.gradient(x, None), expected, rtol=1e-10, atol=1e-13)
    total = sum(share * silo.backend.value(x, np.array([k])) for k, share in enumerate(shares))
    assert weighted.value(x, None) == pytest.approx(total, rel=1e-10)
    bent = weighted.gauss_product(x, np.ones(silo.dim))
    singly = sum(
        share * silo.backend.on(*_alone(inputs, targets, k)).gauss_product(x, np.ones(silo.dim))
        for k, share in enumerate(shares)
    )
    np.testing.assert_allclose(bent, singly, rtol=1e-9, atol=1e-12)
    if not isinstance(loss, nn.Module):
        silo.backend.loss = watched
        again = silo.backend.on(inputs.numpy(), targets.numpy().astype(float), shares)
        asked.clear()
        again.gradient(x, None)
        assert asked == ([SAMPLES] if at_once else [1])


def _alone(inputs, targets, k):
    return inputs[k : k + 1].numpy(), targets[k : k + 1].numpy().astype(float), np.ones(1)
