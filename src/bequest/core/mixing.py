"""Averaging weights on a graph, and how fast and how safely they average."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices, Matrix, Vector

    Weights: TypeAlias = "Matrix | csr_array"

# Below this many nodes one dense product beats the overhead of a sparse one (benchmarks/rounds.py).
DENSE_NODES = 128
# Messages of more numbers than this are averaged where they lie: bringing them side by side for one
# dense product would cost more than the product (benchmarks/models.py).
LONG_MESSAGE = 1 << 13
# They go through the cache in pieces of so many numbers, which BLAS leaves to one thread.
_PIECE = 1 << 13
# Up to this many nodes the spectrum is computed exactly; beyond, by Lanczos.
EXACT_SPECTRUM_NODES = 400


def metropolis(edges: Indices, nodes: int) -> csr_array:
    """Return the Metropolis weights w_jl = 1/(1 + max(deg_j, deg_l)) with w_jj the rest.

    Symmetric and doubly stochastic; each entry needs the degrees of two neighbours only.

    Args:
        edges: one row (j, l) per undirected edge, rows numbered 0..nodes-1, no repeats.
        nodes: number of rows.

    Paper: as:net.
    """
    from scipy.sparse import csr_array

    j, l = edges[:, 0], edges[:, 1]  # noqa: E741
    degree = np.bincount(edges.ravel(), minlength=nodes)
    weight = 1.0 / (1.0 + np.maximum(degree[j], degree[l]))
    given = np.bincount(j, weight, nodes) + np.bincount(l, weight, nodes)
    rows = np.arange(nodes)
    return csr_array(
        (
            np.concatenate([weight, weight, 1.0 - given]),
            (np.concatenate([j, l, rows]), np.concatenate([l, j, rows])),
        ),
        shape=(nodes, nodes),
    )


def weigh(shares: Sequence[float], rows: Sequence[Vector], out: Vector) -> None:
    """Write the weighted sum of long rows into ``out``, in their order.

    Piece by piece: so that what comes out depends on nothing but the rows, neither on what is
    computed beside them nor on how many threads BLAS has.
    """
    from scipy.linalg.blas import daxpy

    for begin in range(0, out.size, _PIECE):
        part = slice(begin, begin + _PIECE)
        total = out[part]
        np.multiply(rows[0][part], shares[0], total)
        for share, row in zip(shares[1:], rows[1:], strict=True):
            daxpy(row[part], total, a=share)  # in place


def weigh_all(
    shares: Sequence[Sequence[float]], orders: Sequence[Sequence[int]], rows: Matrix, out: Matrix
) -> None:
    """Do the same for all nodes: row i of ``out`` is of the rows ``orders[i]``, by their shares.

    A piece of all rows comes from memory once, and not once for every node that hears it.
    """
    from scipy.linalg.blas import daxpy

    near = list(zip(shares, orders, strict=True))
    for begin in range(0, rows.shape[1], _PIECE):
        part = slice(begin, begin + _PIECE)
        given, totals = list(rows[:, part]), list(out[:, part])
        for total, (share, order) in zip(totals, near, strict=True):
            np.multiply(given[order[0]], share[0], total)
            for weight, other in zip(share[1:], order[1:], strict=True):
                daxpy(given[other], total, a=weight)


def laplacian(weights: csr_array) -> csr_array:
    """Return I - W."""
    from scipy.sparse import csr_array, eye_array

    return csr_array(eye_array(weights.shape[0]) - weights)


def mixer(weights: csr_array) -> Callable[[Matrix, Matrix | None], Matrix]:
    """Return ``mix(source, out)`` = W @ source, in the form that is faster here.

    It may be in ``out``, if that is an array, and is in one of its own otherwise.
    """
    nodes = weights.shape[0]
    # A dense product streams through memory; it wins on few nodes and on crowded graphs.
    if nodes <= DENSE_NODES or weights.nnz > nodes * nodes / 8:
        dense: Matrix = np.ascontiguousarray(weights.toarray())
        return partial(np.matmul, dense)

    def mix_sparse(source: Matrix, out: Matrix | None) -> Matrix:  # noqa: ARG001 - SciPy has none
        mixed: Matrix = weights @ source
        return mixed

    return mix_sparse


def spectral_gap(weights: csr_array, *, rough: bool = False) -> float:
    """Return 1 - lambda, lambda the largest |eigenvalue| but for the one of consensus.

    Exact for small graphs, Lanczos to six digits for large ones. ``rough`` stops Lanczos early,
    which is cheap on networks of any size and may overestimate the gap of one that mixes slowly;
    so does a network for which six digits take more than a few thousand products.

    Paper: as:net.
    """
    nodes = weights.shape[0]
    if nodes == 1:
        return 1.0
    if nodes <= EXACT_SPECTRUM_NODES:
        eigenvalues = np.linalg.eigvalsh(weights.toarray())
        return float(1.0 - max(abs(eigenvalues[0]), abs(eigenvalues[-2])))
    if rough:
        return 1.0 - abs(_lanczos_end(weights, "LM", tolerance=1e-2, restarts=4))
    return 1.0 - abs(_lanczos_end(weights, "LM", tolerance=1e-10, restarts=3000))


def second_eigenvalue(weights: csr_array) -> float:
    """Return the largest eigenvalue but for that of consensus.

    For large graphs by inverse iteration, since what counts is how little it is below one. On very
    large ones that mix slowly its linear systems are not solved to the end, and it is too small.
    """
    nodes = weights.shape[0]
    if nodes == 1:
        return 0.0
    if nodes <= EXACT_SPECTRUM_NODES:
        return float(np.linalg.eigvalsh(weights.toarray())[-2])
    from scipy.sparse.linalg import LinearOperator, cg

    def laplacian(vector: Vector) -> Vector:
        product: Vector = vector - weights @ vector
        return product

    operator = LinearOperator((nodes, nodes), matvec=laplacian, dtype=np.float64)
    most = int(np.clip(_MULTIPLICATIONS / weights.nnz, 30, 2000))
    mode = _start(nodes)
    for _ in range(_INVERSE_ITERATIONS):
        mode -= mode.mean()
        mode, _ = cg(operator, mode / np.linalg.norm(mode), rtol=1e-3, maxiter=most)
    mode -= mode.mean()
    return 1.0 - float(mode @ laplacian(mode)) / float(mode @ mode)


def smallest_eigenvalue(weights: csr_array) -> float:
    """Return the smallest eigenvalue, or for a large graph a lower bound of it.

    Gershgorin's bound 2 min w_jj - 1 costs nothing; Lanczos is asked only where it is useless.
    """
    if weights.shape[0] <= EXACT_SPECTRUM_NODES:
        return float(np.linalg.eigvalsh(weights.toarray())[0])
    disc = 2.0 * float(weights.diagonal().min()) - 1.0
    return (
        disc
        if disc >= -0.7
        else max(disc, _lanczos_end(weights, "SA", tolerance=1e-2, restarts=4) - _LANCZOS_SLACK)
    )


# What the search for the slowest mode of a large graph may take, and in how many steps.
_MULTIPLICATIONS, _INVERSE_ITERATIONS = 2e7, 5
# Lanczos approaches an end of the spectrum from inside; this is how far it may still be off.
_LANCZOS_SLACK = 0.02


def _start(nodes: int) -> Vector:
    """Return a fixed vector, aligned with no eigenvector of a symmetric graph."""
    return np.asarray(np.cos(np.arange(nodes) * 1.618033988749895))


def _lanczos_end(weights: csr_array, which: str, *, tolerance: float, restarts: int) -> float:
    """Return the eigenvalue of W off consensus at the lower end ("SA"), or the largest ("LM")."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    nodes = weights.shape[0]

    def off_consensus(vector: Vector) -> Vector:
        # W - 11'/n takes the eigenvalue 1 out of the way
        product: Vector = weights @ vector - vector.mean()
        return product

    operator = LinearOperator((nodes, nodes), matvec=off_consensus, dtype=np.float64)
    start = _start(nodes)
    try:
        found = eigsh(
            operator,
            k=1,
            which=which,
            v0=start,
            tol=tolerance,
            maxiter=restarts,
            return_eigenvectors=False,
        )
        return float(found[0])
    except ArpackNoConvergence:
        power = start - start.mean()
        for _ in range(30):
            power = off_consensus(power) if which == "LM" else power - off_consensus(power)
            power /= np.linalg.norm(power)
        return float(power @ off_consensus(power))
