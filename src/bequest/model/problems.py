"""Problems to try things on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from bequest.core.arrays import is_number, is_whole, refuse_masked
from bequest.errors import InvalidObjective
from bequest.model.objectives.quadratic import QuadraticStack
from bequest.model.problem import Problem
from bequest.model.seeding import seeded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bequest.core.arrays import Tensor

Basis = Literal["random", "shared", "tilted"]
Spectrum = Literal["uniform", "linear", "log"]


def quadratics(
    n: int,
    dim: int,
    mu: float,
    L: float,
    seed: int,
    *,
    basis: Basis = "random",
    spectrum: Spectrum | ArrayLike | None = None,
    spread: float = 5.0,
) -> Problem:
    """Return n heterogeneous quadratics 1/2 (x - c_i)' A_i (x - c_i), c_i ~ N(0, spread^2 I).

    Args:
        n: number of nodes.
        dim: number of unknowns.
        mu: smallest eigenvalue allowed.
        L: largest eigenvalue allowed.
        seed: of everything random here.
        basis: eigenvectors of the A_i. ``"random"``: drawn anew per node, so that the sum is
            well conditioned even where its parts are not (Sec. 5.1). ``"shared"``: the same for
            all, so that the sum is as ill-conditioned as its parts (tab:stress). ``"tilted"``:
            shared, then turned a little per node by expm(0.15 (G - G')/sqrt(2 dim)), and every
            eigenvalue times exp(0.3 N(0, 1)), which may leave [mu, L].
        spectrum: eigenvalues of the A_i: ``"uniform"`` in [mu, L] per node (the default for the
            random basis), ``"linear"`` spacing from mu to L in every node (the default for the
            others), ``"log"`` spacing, or one array of dim positive numbers for all nodes.
        spread: how far apart the nodes' own minimisers are.

    >>> problem = quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=7)
    >>> problem.regime, 1.0 <= problem.mu <= problem.L <= 10.0
    ('SC', True)
    """
    if not (is_whole(n, least=1) and is_whole(dim, least=1)):
        raise InvalidObjective(
            f"n={n!r}, dim={dim!r}.",
            remedy="Use whole numbers: at least one node and one unknown.",
        )
    if not (is_number(mu) and is_number(L)):
        raise InvalidObjective(f"mu={mu!r}, L={L!r}.", remedy="Use 0 <= mu <= L, both finite.")
    if not 0 <= mu <= L or not np.isfinite(L):
        raise InvalidObjective(f"mu={mu}, L={L}.", remedy="Use 0 <= mu <= L, both finite.")
    if not (is_number(spread) and np.isfinite(spread) and spread >= 0):
        raise InvalidObjective(f"spread={spread!r}.", remedy="Use a finite number >= 0.")
    rng = seeded(seed, InvalidObjective)
    if spectrum is None:
        spectrum = "uniform" if basis == "random" else "linear"
    if isinstance(spectrum, str):
        eigenvalues = _eigenvalues(n, dim, mu, L, spectrum, rng)
    else:
        eigenvalues = _given(n, dim, spectrum)
    if basis == "random":
        Q = _random_bases(n, dim, rng)
    elif basis == "shared":
        Q = np.broadcast_to(_random_bases(1, dim, rng), (n, dim, dim))
    elif basis == "tilted":
        from scipy.linalg import expm

        G = rng.standard_normal((n, dim, dim))
        Q = _random_bases(1, dim, rng) @ expm(0.15 * (G - G.transpose(0, 2, 1)) / np.sqrt(2 * dim))
        eigenvalues = eigenvalues * np.exp(0.3 * rng.standard_normal((n, dim)))
    else:
        raise InvalidObjective(
            f"basis={basis!r} is not known.", remedy='Use "random", "shared" or "tilted".'
        )
    A = (Q * eigenvalues[:, None, :]) @ Q.transpose(0, 2, 1)
    A = (A + A.transpose(0, 2, 1)) / 2  # the product is symmetric up to rounding only
    return Problem.stacked(QuadraticStack(A, spread * rng.standard_normal((n, dim))))


def _eigenvalues(
    n: int, dim: int, mu: float, L: float, spectrum: str, rng: np.random.Generator
) -> np.ndarray:
    if spectrum == "uniform":
        return rng.uniform(mu, L, (n, dim))
    if spectrum == "linear":
        return np.tile(np.linspace(mu, L, dim), (n, 1))
    if spectrum == "log" and mu > 0:
        return np.tile(np.geomspace(mu, L, dim), (n, 1))
    raise InvalidObjective(
        f"spectrum={spectrum!r} with mu={mu} is not known.",
        remedy='Use "uniform", "linear", "log" (with mu > 0) or an array of eigenvalues.',
    )


def _given(n: int, dim: int, spectrum: ArrayLike) -> np.ndarray:
    refuse_masked(spectrum, "spectrum")
    try:
        eigenvalues = np.asarray(spectrum, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidObjective(
            f"spectrum={spectrum!r} is no list of numbers.",
            remedy=f"Pass {dim} finite eigenvalues >= 0.",
        ) from error
    if eigenvalues.shape != (dim,) or not (np.isfinite(eigenvalues) & (eigenvalues >= 0)).all():
        raise InvalidObjective(
            f"spectrum has shape {eigenvalues.shape}, or an entry that is negative or not finite.",
            remedy=f"Pass {dim} finite eigenvalues >= 0.",
        )
    return np.tile(eigenvalues, (n, 1))


def _random_bases(n: int, dim: int, rng: np.random.Generator) -> Tensor:
    Q, R = np.linalg.qr(rng.standard_normal((n, dim, dim)))
    # Signs that make the distribution uniform over all bases (Haar).
    return np.asarray(Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :])
