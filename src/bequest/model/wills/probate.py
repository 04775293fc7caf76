"""Proving a will: what it decided is checked before it is carried out.

A will may be a user's own. What it returns becomes part of what the heir minimises and of the
records, so what could not be carried out, or could not be told from something else later, is
refused here, for every engine alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from bequest.core.arrays import frozen, is_fixed, is_whole
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills.base import Bequest, Choice
from bequest.model.wills.guard import guarded

if TYPE_CHECKING:
    from bequest.model.wills.base import Estate, Will

CHOICES: tuple[str, ...] = get_args(Choice)
_ONE_OF = f"Use one of {', '.join(CHOICES)}."
_RETURN = "Return Bequest(choice, why, legacy, anchor) of bequest.wills from decide."


def decision(will: Will, estate: Estate) -> Bequest:
    """Return what the will decides about the estate.

    Of a loss that is not convex a quadratic may be left out (``guard``).

    Raises:
        InvalidWill: it is no bequest, or one that cannot be carried out.
    """
    try:
        bequest = will.decide(estate)
    except Exception as error:
        error.add_note(f"It is the will of node {estate.node} ({will.title}) that failed.")
        raise
    found = _objection(bequest, estate)
    if found is not None:
        what, remedy = found
        raise InvalidWill(
            f"The will of node {estate.node} ({will.title}) returned {what}.", remedy=remedy
        )
    bequest = guarded(will, bequest, estate)
    # What is on record must not change behind its back.
    anchor = bequest.anchor
    if anchor is None or (
        type(anchor) is np.ndarray and anchor.dtype == float and is_fixed(anchor)
    ):
        return bequest
    return replace(bequest, anchor=frozen(anchor))


def _objection(bequest: object, estate: Estate) -> tuple[str, str] | None:
    """Return what is wrong with it and what to do, or None."""
    # A subclass could compose another message than the one that is recorded.
    if type(bequest) is not Bequest:
        return f"{_named(bequest)}, not a Bequest", _RETURN
    whole = bequest.rank is None or is_whole(bequest.rank, least=0)
    for name, right, remedy in (
        ("choice", _is_one_of(bequest.choice, CHOICES), _ONE_OF),
        ("restart", type(bequest.restart) is bool, "Use True or False."),
        ("why", _is_text(bequest.why), "Say why in a text."),
        ("rank", whole, "Use a whole number >= 0, or None."),
    ):
        if not right:
            return f"a Bequest with {name}={getattr(bequest, name)!r}", remedy
    return (
        _about_arrays(bequest, estate)
        or _about_legacy(bequest, estate)
        or _about_accounts(bequest, estate.x.size)
    )


def _about_arrays(bequest: Bequest, estate: Estate) -> tuple[str, str] | None:
    dim = estate.x.size
    anchor, along = bequest.anchor, bequest.along
    if anchor is not None and not _is_array(anchor, (dim,), estate):
        return (
            f"a Bequest whose anchor is not {dim} finite numbers",
            "Give the point where the legacy is exact, such as estate.x, or None.",
        )
    if along is not None:
        columns = along.shape[-1] if isinstance(along, np.ndarray) and along.ndim else 0
        if not _is_array(along, (dim, columns), estate):
            return (
                f"a Bequest whose along is not a finite array with {dim} rows",
                "Give one column per direction, or None.",
            )
    return None


def _about_legacy(bequest: Bequest, estate: Estate) -> tuple[str, str] | None:
    legacy, dim = bequest.legacy, estate.x.size
    if legacy is None:
        return None
    made = "Make it with estate.anchored_at(anchor, eta), or Legacy.anchored(estate.node, ...)."
    if type(legacy) is not Legacy:
        return f"a Bequest whose legacy is {_named(legacy)}", f"{made} None is for no legacy."
    if legacy.p.shape != (dim,):
        shape = " by ".join(map(str, legacy.p.shape))
        return f"a legacy in {shape} dimensions, but the problem has {dim}", made
    # Of iterates that are not numbers there is no legacy that is.
    if not legacy.is_finite and np.isfinite(estate.x).all():
        return (
            f"a legacy ({bequest.choice}) that is not finite",
            "See what the loss gives at the anchor, and what the will makes of it.",
        )
    if legacy.lineage != {estate.node: 1} or legacy.blended:
        return (
            f"a legacy of {', '.join(map(str, legacy.lineage)) or 'no node'}",
            f"{made} It is of the leaver alone; what it inherited is passed on without its will.",
        )
    if legacy.samples and not estate.setting.statistics:
        return (
            "statistics of samples, which the run forbids",
            "Allow them (statistics=True), or use a will that hands over vectors only.",
        )
    if any(part.origins != (estate.node,) or part.sign != 1 for part in legacy.samples):
        return "samples of another node", made
    if bequest.restart:
        return (
            "a legacy with restart=True, which hands over nothing",
            "Use restart=False, or no legacy.",
        )
    return None


def _about_accounts(bequest: Bequest, dim: int) -> tuple[str, str] | None:
    for name in ("bounds", "predicted", "branches"):
        account = getattr(bequest, name)
        if type(account) is dict and not account:
            continue  # the usual case: nodes ask their wills at every checkpoint
        if not (isinstance(account, Mapping) and all(_is_one_of(c, CHOICES) for c in account)):
            return (
                f"a Bequest with {name}={account!r}",
                f"Use a mapping whose keys are among {', '.join(CHOICES)}.",
            )
        for choice, entry in account.items():
            if name == "branches":
                right = entry is None or (type(entry) is Legacy and entry.p.shape == (dim,))
            else:
                right = _is_number(entry)
            if not right:
                return (
                    f"a Bequest whose {name} of {choice} is {_named(entry)}",
                    f"Use legacies in {dim} dimensions, or None."
                    if name == "branches"
                    else "Use real numbers.",
                )
    return None


def _is_array(array: object, shape: tuple[int, ...], estate: Estate) -> bool:
    """Whether it is an array of that shape, and of numbers unless the iterate is not."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in "fiu":
        return False
    return bool(np.isfinite(array).all()) or not bool(np.isfinite(estate.x).all())


def _is_one_of(word: object, known: tuple[str, ...]) -> bool:
    return isinstance(word, str) and word in known


def _is_text(words: object) -> bool:
    """Whether it can be shown and written down."""
    try:
        return isinstance(words, str) and words.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_number(entry: object) -> bool:
    """Whether it is a real number that a float can hold."""
    if not isinstance(entry, int | float | np.integer | np.floating):
        return False
    try:
        float(entry)
    except OverflowError:
        return False
    return True


def _named(thing: object) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"
