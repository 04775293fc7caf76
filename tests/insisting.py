"""Wills whose quadratics are handed over in any case, also where a loss is not convex."""

import numpy as np


def insisting(will):
    """Return the same will, insisting."""
    kind = type(will)
    return type(f"Insisting{kind.__name__}", (kind,), {"insists": True})(**vars(will))


def check_quadratics(run, losses, step):
    """Assert that every leaver left one, with a curvature that a Gauss-Newton matrix may have."""
    assert run.departures
    for record in run.departures:
        assert record.choice != "none"
        assert record.vectors >= 2.0
        least, most = record.legacy.curvature
        loss = losses.objective(record.node)
        assert least >= loss.l2 * (1 - 1e-9)
        # Trust goes by the step, and the others by the range that the loss has.
        own = loss.convexified.curvature.b
        heaviest = 0.5 / step if record.choice == "trust" else own
        inherited = len(record.legacy.lineage) - 1
        assert most <= (heaviest + inherited * max(own, 0.5 / step)) * (1 + 1e-9)
    assert np.isfinite(run.x).all()
    assert run.invariant_gap.max() < 1e-13
