"""A user's program, to be killed: `python driver.py ADDRESS NAME RECORD ROUNDS`.

As long as there is a file called ``slow`` beside the record, hosts take long to load their data.
"""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from faults import GRAPH, PROBLEM

import bequest as bq
from bequest.engines import Ray


def sampled(node):
    """A loss of which every round takes two samples, on some nodes all of them now and then."""
    rng = np.random.default_rng(node)
    loss = bq.LeastSquares(rng.standard_normal((8, 5)), rng.standard_normal(8), l2=1.0)
    return bq.Minibatches(loss, 2, seed=4, full_every=None if node % 2 else 7)


# Of some nodes the gradient is whole, of others it is stochastic.
MIXED = bq.Problem([sampled(n) if n % 3 == 0 else PROBLEM.objective(n) for n in range(12)])


def load(node, flag):
    """One node's loss, on its host."""
    while Path(flag).exists():
        time.sleep(0.1)
    return PROBLEM.objective(node)


def loaded(rounds, flag):
    """The same with data that are loaded on their hosts."""
    losses = [
        bq.Loaded(partial(load, node, str(flag)), dim=5, curvature=(1.0, 10.0))
        for node in range(12)
    ]
    return {**arguments(rounds), "problem": bq.Problem(losses)}


def arguments(rounds):
    """What both the program that is killed and the one that resumes it ask for."""
    leaving = [bq.Departure(3, rounds // 3), bq.Departure(11, rounds - 50)]
    return {
        "problem": MIXED,
        "graph": GRAPH,
        "departures": leaving,
        "rounds": rounds,
        "will": bq.wills.Drift(0),
    }


def main(address, name, record, rounds):
    engine = Ray(address, nodes_per_host=4, name=name, record=record)
    flag = Path(record).with_name("slow")
    ask = partial(loaded, flag=flag) if flag.exists() else arguments
    bq.solve(**ask(int(rounds)), engine=engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
