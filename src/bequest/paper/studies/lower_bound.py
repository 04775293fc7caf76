"""thm:lower: two leavers that no memory of one gradient can tell apart."""

from __future__ import annotations

import numpy as np

from bequest.core import certificates
from bequest.core.legacy import Legacy
from bequest.model.objectives import Quadratic
from bequest.model.problem import Problem
from bequest.paper.studies.study import Case, Findings, Study

KAPPAS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


def measure(*, n: int) -> Findings:
    """Return how far the two optima are apart, the formula, and what our legacy ends at."""
    rows = []
    for kappa in KAPPAS:
        b, c, c_other = certificates.lower_bound_pair(mu=1.0, L=kappa, n=n, distance=1.0)
        rest = [Quadratic([[1.0]], [b])] * (n - 1)
        one = Problem([Quadratic([[1.0]], [c]), *rest])
        other = Problem([Quadratic([[kappa]], [c_other]), *rest])
        memory = Legacy.anchored(0, anchor=[0.0], value=0.0, gradient=[1.0], eta=(1 + kappa) / 2)
        answer = one.among(range(1, n)).minimiser(memory)
        errors = [float(np.abs(answer - problem.optimum())[0]) for problem in (one, other)]
        apart = float(np.abs(one.optimum() - other.optimum())[0])
        floor = certificates.first_order_floor(a=1.0, b=kappa, distance=1.0, rest=n - 1.0)
        promised = (kappa - 1) / (2 * n)
        rows.append((kappa, apart, 2 * floor, max(errors), floor, promised))
    names = ("kappa", "apart", "formula", "ours", "floor", "promised")
    return Findings(dict(zip(names, np.array(rows).T, strict=True)), {})


STUDY = Study("lower-bound", tuple(Case(f"n-{n:03d}", {"n": n}) for n in (5, 20, 100)), measure)
