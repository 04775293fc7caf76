"""Which method is best with stochastic gradients: gradient tracking, exact diffusion or NIDS.

    python benchmarks/minibatches.py digits       # or "breast cancer"
    python benchmarks/minibatches.py departures

Every method is tuned on seeds 0 and 1 and reported on seeds 10 to 14, at equal bytes: its constant
step, with plain minibatches and with all samples every 20 rounds, and with the former also how soon
its steps are halved. Steps are parts of one over the largest curvature of all nodes; with NIDS, of
one over that of each node (its ``safety`` is half of that). What each chooses by itself is shown,
too. The figure is the distance of the worst node to the optimum, averaged over the last tenth of
the rounds, relative to the distance at the start: median, and worst.

With ``departures`` three of ten silos leave, 50 rounds apart: softmax with 80 unknowns, all samples
every 20 rounds or plain minibatches. The figure is how far the optimum of what the survivors
minimise is from that of all the data, relative to the distance at the start, on seeds 10 to 14.
"""

import sys
from statistics import median

import numpy as np

import bequest as bq
from bequest.model.partition import first_component, sorted_chunks

TUNE, REPORT = range(2), range(10, 15)
STEPS = [0.1, 0.25, 0.5, 1.0, 1.8]
HALVES = [25, 100, 400]


def bed(name):
    load = {"breast cancer": bq.datasets.breast_cancer, "digits": bq.datasets.digits}[name]
    X, y = load()
    X = np.asarray(X, dtype=float)
    X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
    if name == "digits":
        silos = [np.flatnonzero(y == k) for k in range(10)]
        make = lambda rows: bq.Softmax(X[rows], y[rows], 10, 0.05)  # noqa: E731
    else:
        silos = sorted_chunks(y, first_component(X), n=10)
        make = lambda rows: bq.Logistic(X[rows], y[rows], 0.05)  # noqa: E731
    return [make(rows) for rows in silos], bq.graphs.ring_with_chords(10, chords=5, seed=1)


def methods(full_every, stiffest):
    for share in STEPS:
        step, told = share / stiffest, f"step {share}/L"
        yield "gradient tracking, tuned", told, bq.GradientTracking(step=step)
        yield "exact diffusion, tuned", told, bq.methods.ExactDiffusion(step=step, mixing=0.5)
        yield "NIDS, tuned", told, bq.NIDS(safety=share / 2)
    yield "gradient tracking", "", bq.GradientTracking()
    yield "exact diffusion", "", bq.methods.ExactDiffusion(mixing=0.5)
    yield "NIDS", "", bq.NIDS()
    if full_every is None:
        for half in HALVES:
            yield "NIDS, decaying", f"half {half}", bq.methods.Decaying(bq.NIDS(), half)
            for share in (0.5, 1.0):
                one = bq.methods.Decaying(bq.GradientTracking(step=share / stiffest), half)
                yield "gradient tracking, decaying", f"step {share}/L, half {half}", one


def main(name, vectors, full_every):
    losses, graph = bed(name)
    stiffest = max(loss.curvature.b for loss in losses)
    optimum = bq.Problem(losses).optimum()

    def run(method, seed):
        silos = [bq.Minibatches(f, 16, seed=seed, full_every=full_every) for f in losses]
        found = bq.solve(
            bq.Problem(silos),
            graph,
            method=method,
            rounds=vectors // method.vectors,
            optimum=optimum,
        )
        tail = found.error[-len(found.error) // 10 :]
        return float(np.mean(tail) / found.error[0]) if np.isfinite(tail).all() else np.inf

    best = {}
    for label, options, method in methods(full_every, stiffest):
        score = median(run(method, seed) for seed in TUNE)
        if label not in best or score < best[label][0]:
            best[label] = score, options, method
    how = "plain minibatches" if full_every is None else f"all samples every {full_every} rounds"
    print(f"{name}, {vectors} vectors per edge, batches of 16, {how}", flush=True)
    for label, (_, options, method) in best.items():
        found = [run(method, seed) for seed in REPORT]
        rounds = vectors // method.vectors
        print(f"  {label:30}{options:24}{rounds:6} rounds  {median(found):.2e} ({max(found):.2e})")


def projected():
    """Return the digits, seen through eight random projections: ten silos, 80 unknowns."""
    X, y = bq.datasets.digits()
    X = np.asarray(X) / 16 @ np.random.default_rng(0).standard_normal((64, 8)) / 4
    return [bq.Softmax(X[y == k], y[y == k], 10, 0.05) for k in range(10)]


def departures():
    losses, graph = projected(), bq.graphs.ring_with_chords(10, chords=5, seed=1)
    stiffest = max(loss.curvature.b for loss in losses)
    tracking = bq.GradientTracking(step=0.5 / stiffest)
    for full_every, will, name, method in (
        (None, bq.wills.FullHessian(), "NIDS", bq.NIDS()),
        (20, bq.wills.Forgetful(), "NIDS", bq.NIDS()),
        (20, bq.wills.Drift(0), "NIDS", bq.NIDS()),
        (20, bq.wills.FullHessian(), "NIDS", bq.NIDS()),
        (20, bq.wills.FullHessian(), "gradient tracking", tracking),
    ):
        cells = []
        for first in (200, 500, 1000):
            leaving = [bq.Departure(node, first + 50 * k) for k, node in enumerate((7, 3, 8))]
            found = []
            for seed in REPORT:
                silos = [bq.Minibatches(f, 16, seed=seed, full_every=full_every) for f in losses]
                run = bq.solve(
                    bq.Problem(silos),
                    graph,
                    departures=leaving,
                    will=will,
                    method=method,
                    rounds=first + 110,
                )
                found.append(run.limit_error / run.error[0])
            cells.append(f"{median(found):.1e} ({max(found):.1e})")
        print(f"full_every={full_every!s:5} {name:18} {will.title:20}", *cells, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["departures"]:
        departures()
        sys.exit()
    for vectors in (1000, 4000):
        for full_every in (None, 20):
            main(sys.argv[1], vectors, full_every)
