"""A silo of a few: its own part of the way of all is larger, and it is missed as much."""

import re

import numpy as np
import pytest
import torch
from seeds import seeds
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import bequest as bq
from bequest.torch import Silo

SPLITS = {
    "digits apart": lambda labels, n, seed: bq.partition.by_label(labels, n),
    "dirichlet": lambda labels, n, seed: bq.partition.dirichlet(labels, n, 0.3, seed=seed),
    "alike": lambda labels, n, seed: bq.partition.iid(labels.size, n, seed=seed),
}
WILLS = {"forgets": bq.wills.Forgetful(), "trust": bq.wills.Trust()}


def right(n, split, seed, leaves):
    """The percentages that are right when silo 2 has left, by will, and what Trust said."""
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
    rows = np.random.default_rng(seed).permutation(len(X))
    exam, learned = rows[:540], rows[540:]
    silos = SPLITS[split](y[learned].numpy(), n, seed)
    found = {}
    for title, will in WILLS.items():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
        losses = [
            Silo(model, cross_entropy, (X[learned[silo]], y[learned[silo]]), l2=1e-4, batch=16)
            for silo in silos
        ]
        run = bq.solve(
            bq.Problem(losses),
            bq.graphs.ring(n),
            rounds=300,
            method=bq.GradientTracking(0.3),
            will=will,
            departures=[bq.Departure(2, leaves)],
        )
        model.load_state_dict(run.model)
        with torch.no_grad():
            found[title] = 100 * (model(X[exam]).argmax(1) == y[exam]).double().mean().item()
    return found, run.departures[0]


@pytest.mark.parametrize("leaves", [80, 160])
@pytest.mark.parametrize("seed", seeds([7, 8, 9], quick=1))
@pytest.mark.parametrize("n", [4, 5])
def test_a_silo_whose_digits_no_other_has_is_remembered(n, seed, leaves):
    found, record = right(n, "digits apart", seed, leaves)
    print(n, seed, leaves, found)
    assert record.choice == "trust"
    assert found["trust"] >= found["forgets"] + 6


@pytest.mark.parametrize("leaves", [80, 160])
@pytest.mark.parametrize("seed", seeds([7, 8, 9], quick=1))
@pytest.mark.parametrize("split", ["dirichlet", "alike"])
@pytest.mark.parametrize("n", [4, 5])
def test_a_silo_like_the_others_is_forgotten_while_the_network_learns(n, split, seed, leaves):
    found, record = right(n, split, seed, leaves)
    assert record.choice == "none"
    assert found["trust"] == found["forgets"]
    assert float(re.search(r"cosine ([\d.]+)", record.why)[1]) > 0.2
