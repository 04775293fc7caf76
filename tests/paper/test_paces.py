"""The coupling that NIDS chooses with matrices, on the hostile bed: nobody leaves, equal rounds.

On DEV seeds, which it was tuned on. Where it was chosen as if losses were as flat as they may be,
it was up to 11 times too small: a million times the error of NIDS with numbers (seed 169).
"""

import numpy as np
import pytest

import bequest as bq
from bequest.paper.studies import hostile

# what rounding may leave does not count
ROUNDING = 1e-10
METHODS = {
    "numbers": bq.NIDS(),
    "matrices": bq.NIDS(metric="hessian"),
    "tracking": bq.GradientTracking(),
}


def errors(seed):
    case = hostile.instance(seed)
    return {
        name: max(
            bq.solve(
                case.problem,
                case.graph,
                method=method,
                rounds=max(case.rounds, 100),
                start=case.start,
                optimum=case.optimum,
            ).error[-1]
            / case.scale,
            ROUNDING,
        )
        for name, method in METHODS.items()
    }


# Huber, logistic and softmax losses on all kinds of graphs; 13: least squares, one node stiff
@pytest.mark.parametrize("seed", [13, 43, 106, 140, 169, 187, 205, 213, 232, 250, 268, 356])
def test_matrices_are_no_worse_than_numbers_where_losses_are_flatter_than_they(seed):
    found = errors(seed)
    assert found["matrices"] <= 1.2 * min(found["numbers"], found["tracking"])


@pytest.mark.slow
def test_matrices_are_seldom_worse_than_numbers_and_never_than_gradient_tracking():
    found = [errors(seed) for seed in hostile.DEV]
    numbers, tracking = (
        np.array([one["matrices"] / one[other] for one in found])
        for other in ("numbers", "tracking")
    )
    print(
        f"worse than 1.2 times: {np.mean(numbers > 1.2):.3f} of numbers (worst "
        f"{numbers.max():.3g}, median {np.median(numbers):.3g}), {np.mean(tracking > 1.2):.3f} of "
        f"tracking (worst {tracking.max():.3g}, median {np.median(tracking):.3g})"
    )
    assert np.mean(numbers > 1.2) <= 0.08
    assert numbers.max() <= 35
    assert np.median(numbers) <= 0.6
    assert tracking.max() <= 1.3
