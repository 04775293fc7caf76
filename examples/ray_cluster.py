"""Eight nodes on a Ray cluster; one of its processes is killed for real, another one preempted.

Run it with `python examples/ray_cluster.py`; it needs `pip install "bequest[ray]"`. Without an
address it starts a Ray on this machine for the time of the run; with one, such as
`python examples/ray_cluster.py auto`, it uses the cluster that is there (and kills nothing: it can
only send signals to processes of its own machine).
"""

import os
import signal
import sys

import numpy as np

import bequest as bq


class Misfortune:
    """Watches the run, and ends two of its processes on the way."""

    def __init__(self) -> None:
        self.killed = self.preempted = 0

    def __call__(self, view: bq.engines.View) -> None:
        if not self.killed and view.round >= 100:
            self.killed = view.hosts["host 1"].pid
            os.kill(self.killed, signal.SIGKILL)  # a machine that just dies
        if not self.preempted and view.round >= 300:
            self.preempted = view.hosts["host 2"].pid
            os.kill(self.preempted, signal.SIGTERM)  # one that is asked to go
        tell(view)


def tell(view: bq.engines.View) -> None:
    for notice in view.notices:
        if notice.time > tell.latest:
            tell.latest = notice.time
            print(f"{notice.time:6.2f} s  {notice.what}")


tell.latest = -1.0


def main(address: str | None = None) -> bq.Run:
    problem = bq.problems.quadratics(n=8, dim=5, mu=1.0, L=10.0, seed=1)
    graph = bq.graphs.ring_with_chords(8, chords=4, seed=1)
    engine = bq.engines.Ray(
        address=address,
        nodes_per_host=2,
        cpus_per_host=0.25,
        watch=Misfortune() if address is None else tell,
    )
    run = bq.solve(
        problem,
        graph,
        rounds=800,
        engine=engine,
        will=bq.wills.Drift(0),
        checkpoint_every=5,  # what is remembered of a node that just dies is this old at most
    )
    print(run)
    for record in run.departures:
        print(record)
    left = bq.Problem([problem.objective(node) for node in run.survivors])
    bias = float(np.linalg.norm(left.optimum() - problem.optimum()))
    print(f"distance to the optimum of all the data:   {run.error[-1]:.2g}")
    print(f"if those who are gone had been forgotten:  {bias:.2g}")
    return run


if __name__ == "__main__":
    main(*sys.argv[1:2])
