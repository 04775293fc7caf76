"""Minimisers in extended precision, by formulas that know nothing of the library's."""

import numpy as np

import bequest as bq

Long = np.longdouble


def solve(A, b):
    """A^-1 b by elimination with pivots, in the precision of A."""
    A, b = A.copy(), b.copy()
    for k in range(len(b)):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, pivot]], b[[k, pivot]] = A[[pivot, k]], b[[pivot, k]]
        factors = A[k + 1 :, k] / A[k, k]
        A[k + 1 :] -= factors[:, None] * A[k]
        b[k + 1 :] -= factors * b[k]
    x = np.zeros_like(b)
    for k in reversed(range(len(b))):
        x[k] = (b[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k]
    return x


def derivatives(loss, x):
    """Gradient and Hessian of one loss, sample by sample, in extended precision."""
    x = x.astype(Long)
    if isinstance(loss, bq.Quadratic):
        A, c = loss.A.astype(Long), loss.c.astype(Long)
        return A @ (x - c), A
    X, y, l2 = loss.X.astype(Long), loss.y.astype(Long), Long(loss.l2)
    if isinstance(loss, bq.Softmax):
        scores = X @ x.reshape(loss.classes, -1).T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        miss = shares - np.eye(loss.classes, dtype=Long)[loss.y.astype(int)]
        gradient = (miss.T @ X).ravel()
        bends = np.einsum("ka,ab->kab", shares, np.eye(loss.classes, dtype=Long))
        bends -= np.einsum("ka,kb->kab", shares, shares)
        hessian = np.einsum("kab,ki,kj->aibj", bends, X, X).reshape(x.size, x.size)
        # A shift of all classes changes l2/2 |x|^2 only, so that there is none in the minimiser.
        # Any curvature will do for it, and none makes the system singular.
        hessian += np.kron(np.ones((loss.classes, loss.classes)), np.diag((X * X).sum(axis=0)))
    else:
        t = X @ x
        if isinstance(loss, bq.Logistic):
            with np.errstate(over="ignore"):
                slope, bend = -y / (1 + np.exp(y * t)), 1 / (2 + 2 * np.cosh(t))
        elif isinstance(loss, bq.LeastSquares):
            slope, bend = t - y, np.ones_like(t)
        else:
            slope = np.clip(t - y, -loss.delta, loss.delta)
            bend = (np.abs(t - y) <= loss.delta).astype(Long)
        gradient, hessian = X.T @ slope, X.T @ (bend[:, None] * X)
    identity = np.eye(x.size, dtype=Long)
    return gradient / Long(loss.divisor) + l2 * x, hessian / Long(loss.divisor) + l2 * identity


def polished(losses, x):
    """The minimiser next to x, by Newton steps; the last of them is rounding in every coordinate.

    A point close by at which the gradient vanishes is THE minimiser, since the sum is convex.
    """
    x = np.asarray(x).astype(Long)
    if isinstance(losses[0], bq.Softmax):
        rows = x.reshape(losses[0].classes, -1)
        x = (rows - rows.mean(axis=0)).ravel()
    for _ in range(8):
        parts = [derivatives(loss, x) for loss in losses]
        gradient, hessian = sum(g for g, _ in parts), sum(H for _, H in parts)
        scale = np.sqrt(np.diagonal(hessian))
        step = solve(hessian / scale / scale[:, None], gradient / scale) / scale
        x = x - step
    assert (np.abs(step) <= 1e-15 * (np.abs(x) + np.linalg.norm(scale * x) / scale)).all()
    return x


def solved(losses):
    """The minimiser of quadratics, from their formulas alone."""
    dim = losses[0].dim
    parts = [derivatives(loss, np.zeros(dim)) for loss in losses]
    gradient, hessian = sum(g for g, _ in parts), sum(H for _, H in parts)
    scale = np.sqrt(np.diagonal(hessian))
    return solve(hessian / scale / scale[:, None], -gradient / scale) / scale
