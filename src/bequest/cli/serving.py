"""``bequest run --view``: the page of a run while it goes on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from bequest.engines import Loop, Vector
from bequest.view.live import LivePage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bequest.engines import Engine
    from bequest.engines.runtime.view import View


@contextmanager
def serving(*, asked: bool) -> Iterator[LivePage | None]:
    """Serve the page if it is asked for, and say where it is."""
    if not asked:
        yield None
        return
    with LivePage() as page:
        typer.echo(f"watch it while it goes on: {page.address}", err=True)
        yield page


def watched(
    engine: Engine, page: LivePage | None, title: str, names: tuple[str, ...] = ()
) -> Engine:
    """Return the engine with a page that hears what is new; a cluster's views tell it instead."""
    if page is None:
        return engine
    page.begin(title, names)
    if isinstance(engine, Loop):
        return replace(engine, watch=page.tell)
    return type(engine)(watch=page.tell) if isinstance(engine, Vector) else engine


def seen_by(see: Callable[[View], None], page: LivePage | None) -> Callable[[View], None]:
    """Return what to call with the views of a run on a cluster: the terminal, and the page."""
    if page is None:
        return see

    def both(view: View) -> None:
        for line in view.news:
            page.tell(line)
        see(view)

    return both
