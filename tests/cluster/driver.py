"""A user's program, to be killed: `python driver.py ADDRESS NAME RECORD ROUNDS`."""

import sys
from pathlib import Path

from faults import GRAPH, PROBLEM

import bequest as bq
from bequest.engines import Ray


def arguments(rounds):
    """What both the program that is killed and the one that resumes it ask for."""
    leaving = [bq.Departure(3, 200), bq.Departure(12, rounds - 50)]
    return {
        "problem": PROBLEM,
        "graph": GRAPH,
        "departures": leaving,
        "rounds": rounds,
        "will": bq.wills.Drift(0),
    }


def main(address, name, record, rounds):
    engine = Ray(address, nodes_per_host=5, name=name, record=Path(record))
    bq.solve(**arguments(int(rounds)), engine=engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
