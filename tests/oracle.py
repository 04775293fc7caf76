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


def value(loss, x):
    """The value of a loss over samples, in extended precision."""
    x, X, y = np.asarray(x).astype(Long), loss.X.astype(Long), loss.y.astype(Long)
    penalty = np.full(X.shape[1], Long(loss.l2))
    penalty[list(loss.unpenalised)] = 0
    if isinstance(loss, bq.Softmax):
        maps = x.reshape(loss.classes, -1)
        scores = X @ maps.T
        top = scores.max(axis=1)
        own = scores[np.arange(len(y)), loss.y.astype(int)]
        each = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - own
        return each.sum() / Long(loss.divisor) + (penalty * maps**2).sum() / 2
    t = X @ x
    if isinstance(loss, bq.Logistic):
        each = np.maximum(-y * t, 0) + np.log1p(np.exp(-np.abs(t)))
    elif isinstance(loss, bq.LeastSquares):
        each = (t - y) ** 2 / 2
    else:
        off, delta = np.abs(t - y), Long(loss.delta)
        each = np.where(off <= delta, off**2 / 2, delta * (off - delta / 2))
    return each.sum() / Long(loss.divisor) + (penalty * x**2).sum() / 2


def descended(losses, rounds=100):
    """A minimiser, by damped Newton steps from zero in columns that are centred and scaled.

    The last column is an intercept, of ones. What is flat has a curvature of 1e-17 instead.
    """
    X = np.concatenate([loss.X for loss in losses]).astype(Long)
    classes = getattr(losses[0], "classes", 1)
    T = np.eye(X.shape[1], dtype=Long)
    T[-1, :-1] = -X[:, :-1].mean(axis=0)
    T /= np.sqrt(((X @ T) ** 2).mean(axis=0))
    whole = np.kron(np.eye(classes, dtype=Long), T)
    x = np.zeros(len(whole), dtype=Long)
    level = sum(value(loss, x) for loss in losses)
    for turn in range(rounds):
        gradient, hessian = np.zeros_like(x), np.zeros((x.size, x.size), dtype=Long)
        for loss in losses:
            # derivatives know no columns without a penalty
            free = np.tile(np.isin(np.arange(X.shape[1]), loss.unpenalised), classes)
            slope, bend = derivatives(loss, x)
            gradient += slope - Long(loss.l2) * x * free
            hessian += bend - Long(loss.l2) * np.diag(free.astype(Long))
        gradient, hessian = whole.T @ gradient, whole.T @ hessian @ whole
        # Huber's pieces: every second step is a short one
        ridge = 1e-3 if turn % 2 and isinstance(losses[0], bq.Huber) else 1e-17
        hessian += Long(ridge) * np.diagonal(hessian).max() * np.eye(x.size, dtype=Long)
        step, size = whole @ -solve(hessian, gradient), Long(1)
        while size > 1e-9:
            now = sum(value(loss, x + size * step) for loss in losses)
            if now < level:
                break
            size /= 2
        if not now < level:
            break
        x, level = x + size * step, now
    return x
