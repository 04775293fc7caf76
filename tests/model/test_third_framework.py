"""A third framework is one class: NumPy, with a network and its derivatives by hand."""

import numpy as np
import pytest
from insisting import check_quadratics, insisting
from rehearsal import Rehearsal

import bequest as bq
from bequest.engines import Loop
from bequest.model.objectives.model_checks import check_backend
from bequest.model.objectives.network import Backend, Network

FEATURES, HIDDEN, TINY = 3, 4, 1e-30


class Tanh:
    """out = tanh(X W') v, and half of its squared distance to the targets; x is W and v."""

    dim, precision = HIDDEN * (FEATURES + 1), float(np.finfo(float).eps)
    architecture = f"tanh {FEATURES}-{HIDDEN}-1"

    def __init__(self, inputs, targets, weights=None):
        self.inputs, self.targets, self.weights = inputs, targets, weights

    @property
    def samples(self):
        return len(self.targets)

    def start(self):
        return np.random.default_rng(5).standard_normal(self.dim)

    def _taken(self, rows):
        rows = slice(None) if rows is None else rows
        inputs, targets = self.inputs[rows], self.targets[rows]
        even = np.full(len(targets), 1.0 / len(targets))
        return inputs, targets, even if self.weights is None else self.weights[rows]

    def _out(self, x, inputs):
        W, v = x[:-HIDDEN].reshape(HIDDEN, FEATURES), x[-HIDDEN:]
        hidden = np.tanh(inputs @ W.T)
        return hidden @ v, hidden, v

    def _back(self, pulls, inputs, hidden, v):
        """Return what the outputs pull at the parameters."""
        inner = pulls[:, None] * v * (1 - hidden**2)
        return np.concatenate([(inner.T @ inputs).ravel(), pulls @ hidden])

    def _slope(self, x, rows):
        inputs, targets, weights = self._taken(rows)
        out, hidden, v = self._out(x, inputs)
        return self._back(weights * (out - targets), inputs, hidden, v)

    def value(self, x, rows):
        inputs, targets, weights = self._taken(rows)
        return float(weights @ (self._out(x, inputs)[0] - targets) ** 2 / 2)

    def gradient(self, x, rows):
        return self._slope(x, rows)

    def hessian_product(self, x, v):
        return self._slope(x + 1j * TINY * v, None).imag / TINY

    def gauss_product(self, x, v):
        inputs, _, weights = self._taken(None)
        moved = self._out(x + 1j * TINY * v, inputs)[0].imag / TINY
        _, hidden, outer = self._out(x, inputs)
        return self._back(weights * moved, inputs, hidden, outer)

    def output_shape(self, x, rows):
        return self._out(x, self.inputs[rows])[0].shape

    def arrays(self):
        return self.inputs, self.targets

    def on(self, points, labels, weights):
        return Tanh(points, labels, weights)

    def model(self, x):
        return {"W": x[:-HIDDEN].reshape(HIDDEN, FEATURES), "v": x[-HIDDEN:]}

    def content(self):
        return self.architecture, self.arrays()


def silo(i):
    rng = np.random.default_rng([i, 3])
    X = rng.standard_normal((20, FEATURES)) + 0.3 * i
    backend: Backend = Tanh(X, np.sin(X).sum(axis=1))
    check_backend(backend, "a network of NumPy")
    return Network(backend, l2=1e-2, batch=5)


PROBLEM = bq.Problem([silo(i) for i in range(6)])
GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)


def solved(will, engine=None):
    return bq.solve(
        PROBLEM,
        GRAPH,
        departures=[bq.Departure(2, 6), bq.Departure(4, 12)],
        rounds=30,
        method=bq.GradientTracking(step=0.05),
        will=will,
        engine=engine,
    )


def test_its_derivatives_are_right():
    loss, x = PROBLEM.objective(1), PROBLEM.objective(1).start
    v, step = np.random.default_rng(0).standard_normal(loss.dim), 1e-6
    ahead, behind = x + step * v, x - step * v
    assert loss.gradient(x) @ v == pytest.approx(
        (loss.value(ahead) - loss.value(behind)) / (2 * step), rel=1e-6
    )
    np.testing.assert_allclose(
        loss.hvp(x, v), (loss.gradient(ahead) - loss.gradient(behind)) / (2 * step), atol=1e-6
    )
    assert np.linalg.eigvalsh(loss.convexified.hessian(x))[0] >= loss.l2 * (1 - 1e-9)


@pytest.mark.parametrize(
    "will",
    [bq.wills.Replay(rank=2), insisting(bq.wills.Trust()), insisting(bq.wills.Drift(2))],
    ids=lambda will: will.title,
)
def test_all_that_a_network_can_do_it_can_do(will):
    rows = solved(will)
    if will.tells_statistics:
        assert [record.choice for record in rows.departures] == ["replay", "replay"]
        assert rows.invariant_gap.max() < 1e-13
    else:
        check_quadratics(rows, PROBLEM, step=0.05)
    for engine in (Loop(as_bytes=True), Rehearsal(hosts=6)):
        np.testing.assert_array_equal(solved(will, engine).x, rows.x)
    assert rows.model["W"].shape == (HIDDEN, FEATURES)
    np.testing.assert_array_equal(rows.model["v"], rows.x.mean(axis=0)[-HIDDEN:])
