"""Silos of both frameworks, and a program to be killed: `python silos.py ADDRESS NAME RECORD`."""

import sys
from pathlib import Path

import numpy as np

import bequest as bq
from bequest.engines import Ray

NODES, ROUNDS, NODES_PER_HOST = 6, 800, 2
# Every host imports its framework, which takes minutes where others have the processors.
STARTUP = 400.0
GRAPH = bq.graphs.ring_with_chords(NODES, chords=3, seed=1)


class Trust(bq.wills.Trust):
    """Hand the quadratic over, however early it is."""

    insists = True


def data(i, m=24, features=5):
    rng = np.random.default_rng([i, 3])
    X = rng.standard_normal((m, features)) + 0.4 * i
    return X.astype(np.float32), np.digitize(X @ np.linspace(1, -1, features), [-1, 1])


def options(i):
    """What both frameworks are told: every other silo reduces the noise of its minibatches."""
    return {"l2": 1e-3, "batch": 4, "full_every": 5 if i % 2 else None}


def of_torch():
    import torch

    from bequest.torch import Silo

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    loss = torch.nn.functional.cross_entropy
    pairs = [tuple(map(torch.tensor, data(i))) for i in range(NODES)]
    return [Silo(model, loss, pair, **options(i)) for i, pair in enumerate(pairs)]


def predict(params, inputs):
    import jax.numpy as jnp

    return jnp.tanh(inputs @ params["in"]) @ params["out"]


def entropy(out, target):
    import jax
    import jax.numpy as jnp

    return -jnp.mean(jax.nn.log_softmax(out)[jnp.arange(target.shape[0]), target])


def of_jax():
    from bequest.jax import Silo

    rng = np.random.default_rng(1)
    shapes = {"in": (5, 6), "out": (6, 3)}
    params = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return [Silo(entropy, params, data(i), predict=predict, **options(i)) for i in range(NODES)]


MAKERS = {"torch": of_torch, "jax": of_jax}


def arguments(framework, will, events, rounds):
    """What a run asks for, on whatever engine."""
    losses = MAKERS[framework]()
    return {
        "problem": bq.Problem(losses),
        "graph": GRAPH,
        "departures": events,
        "rounds": rounds,
        "will": will,
        "method": bq.GradientTracking(step=0.1),
    }


def of_program():
    """What both the program that is killed and the one that resumes it ask for."""
    leaving = [bq.Departure(2, 120), bq.Departure(4, ROUNDS - 50)]
    return arguments("torch", bq.wills.Replay(rank=2), leaving, ROUNDS)


def main(address, name, record):
    options = {"nodes_per_host": NODES_PER_HOST, "startup": STARTUP, "name": name}
    engine = Ray(address, record=Path(record), **options)
    bq.solve(**of_program(), engine=engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
