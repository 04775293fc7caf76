"""A round of a method of your own on three nodes, before a run is built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from bequest.core.methods.base import Method

# A path of three nodes, two unknowns, a pace that any method can do with for one round.
_W = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 2.0]]) / 3
_PACE = 0.1
_ROUNDING = 1e-9


def try_out(method: Method) -> None:
    """Refuse a method whose messages or rounds have the wrong form, or whose s do not sum to zero.

    Raises:
        InvalidMethod: it is one of these, or raises something itself.
    """
    x, z = np.random.default_rng(0).standard_normal((2, 3, 2))
    before = x.copy(), z.copy()
    try:
        local = method.localise(
            _PACE if method.given is None else float(method.given),
            own_weight=np.diag(_W)[:, None],
            stiffness=np.ones((3, 1)),
            bound=lambda: np.tile(np.eye(2), (3, 1, 1)),
        )
        said = method.message(x, z, local, np.empty_like(x))
        if not isinstance(said, tuple) or len(said) != method.vectors:
            kind = f"{len(said)} arrays" if isinstance(said, tuple) else type(said).__name__
            raise _wrong(
                method,
                f"message returns {kind}",
                f"Return a tuple of {method.vectors} (vectors says how many).",
            )
        if any(np.shape(one) != x.shape for one in said):
            raise _wrong(
                method, "message returns arrays of another shape than x", "Keep the shape of x."
            )
        averages = tuple(_W @ one for one in said)
        differences = (local.coupling * (one - _W @ one) for one in said)
        heard = tuple(differences) if method.hears_differences else averages
        there, kept = method.advance(x, z, said, heard, local, np.empty_like(x))
    except InvalidMethod:
        raise
    except Exception as error:
        raise _wrong(
            method,
            f"a round raises {type(error).__name__}: {error}",
            "A round gets a vector of one node, or a matrix with a row per node.",
        ) from error
    if np.shape(there) != x.shape or np.shape(kept) != x.shape:
        raise _wrong(
            method, "advance returns arrays of another shape than x", "Return the next x and z."
        )
    if not (np.array_equal(x, before[0]) and np.array_equal(z, before[1])):
        raise _wrong(method, "a round overwrites x or z", "Work on copies: both are needed again.")
    gained = np.abs((kept - z).sum(axis=0)).max()
    if method.is_exact and not gained <= _ROUNDING * (1 + np.abs(kept).max()):
        raise _wrong(
            method,
            f"what advance adds to the z of all nodes sums to {gained:.3g}, and not to zero",
            "Add the same multiple of what is heard at every node, or say is_exact = False.",
        )


def _wrong(method: Method, what: str, remedy: str) -> InvalidMethod:
    return InvalidMethod(f"{method.label} ({type(method).__name__}): {what}.", remedy=remedy)
