"""Classes of a user's own that lack what is asked of them: refused in words, when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bequest.errors import BequestError


def refuse_unfinished(kind: type, error: type[BequestError], *, page: str) -> None:
    """Refuse to make one of a class that leaves out something it must define.

    Args:
        kind: the class.
        error: what to raise.
        page: of the documentation, which shows a whole one.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        names = " and ".join([", ".join(missing[:-1])] * bool(missing[:-1]) + missing[-1:])
        raise error(
            f"The class {kind.__name__} does not define {names}.",
            remedy=f"Define {'it' if len(missing) == 1 else 'them'}; bequest docs {page} shows a "
            "whole one.",
        )
