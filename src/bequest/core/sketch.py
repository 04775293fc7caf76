"""Curvature in a few directions, and never more or less of it than there can be.

A sketch is H~ = low I + F F'. With any input (rounding, collinear directions, products that are
mere cancellation), what comes out satisfies low I <= H~ <= high I: nothing is subtracted from
low, and no singular value of F is larger than sqrt(high - low).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.arrays import Matrix, Vector

# Curvature in the sketch below this share of the largest possible one is cancellation, not data.
_RITZ = 1e-8
# How far, relative to the largest curvature, products may be from what is possible.
_IMPLAUSIBLE = 0.05
# Curvature that a sketch leaves out is none below this share of the largest possible one.
_NOTHING = 1e-7
# A quadratic with less than this share of its largest curvature may be flat somewhere.
HELD = 1e-4
# Directions that differ by less than this share of their length are the same.
_INDEPENDENT = 1e-6


def orthonormal(directions: Iterable[Vector], *, rank: int) -> Matrix:
    """Return an orthonormal basis of the first ``rank`` independent directions, in their order."""
    found: list[Vector] = []
    size = 0
    for direction in directions:
        size = direction.size
        length = float(np.linalg.norm(direction))
        if not np.isfinite(length) or length == 0:
            continue
        rest = direction / length
        for _ in range(2):  # twice is enough (Kahan): the second pass removes what rounding left
            for q in found:
                rest = rest - q * (q @ rest)
        length = float(np.linalg.norm(rest))
        if length > _INDEPENDENT:
            found.append(rest / length)
        if len(found) >= rank:
            break
    return np.array(found).T if found else np.empty((size, 0))


def is_plausible(product: Matrix, Q: Matrix, *, low: float, high: float) -> bool:
    """Whether H Q can be products of one symmetric matrix with that spectrum, but for rounding.

    Products that are differences of noisy gradients are not: they are out of range by far.
    """
    if not np.isfinite(product).all():
        return False
    core = Q.T @ product
    slack = _IMPLAUSIBLE * high
    values = np.linalg.eigvalsh((core + core.T) / 2)
    within = bool(((values >= low - slack) & (values <= high + slack)).all())
    return within and float(np.abs(core - core.T).max(initial=0.0)) <= slack


def nystrom(product: Matrix, Q: Matrix, *, low: float, high: float) -> Matrix:
    """Return F of the Nystrom sketch low I + F F' of H from H Q, its spectrum within [low, high].

    F = (H - low I) Q [Q'(H - low I)Q]^(-1/2): exact on the span of Q, and between low I and H
    everywhere in exact arithmetic. In floating point late in a run, where the core is noise, its
    small eigenvalues are dropped and the singular values of F are clipped.

    Args:
        product: H Q.
        Q: orthonormal columns.
        low: a lower bound of H's spectrum.
        high: an upper bound.
    """
    excess = product - low * Q
    core = Q.T @ excess
    values, basis = np.linalg.eigh((core + core.T) / 2)
    kept = values > _RITZ * high
    F = excess @ (basis[:, kept] / np.sqrt(values[kept]))
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    s = np.minimum(s, np.sqrt(max(high - low, 0.0)))
    if not s.all():  # no room for curvature: no column to send
        U, s, Vt = U[:, s > 0], s[s > 0], np.eye(int((s > 0).sum()))
    return np.asarray((U * s) @ Vt)


def left_out(core: Matrix, rank: int, *, low: float, high: float) -> float:
    """Return how much curvature the Nystrom sketch of some directions leaves out of others.

    On average, per direction: the diagonal of H - low I - F F' there, a Schur complement.

    Args:
        core: W'HW for orthonormal columns W: those of the sketch first, then the others.
        rank: how many of them are the sketch's.
        low: a lower bound of H's spectrum.
        high: an upper bound.
    """
    excess = (core + core.T) / 2 - low * np.eye(len(core))
    values, basis = np.linalg.eigh(excess[:rank, :rank])
    kept = values > _RITZ * high
    told = (basis[:, kept] / np.sqrt(values[kept])).T @ excess[:rank, rank:]
    missed = np.maximum(np.diagonal(excess)[rank:] - (told * told).sum(axis=0), 0.0)
    mean = float(missed.mean()) if missed.size else 0.0
    return mean if mean > _NOTHING * high else 0.0
