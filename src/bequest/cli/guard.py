"""How a command ends when it fails."""

from __future__ import annotations

import difflib
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bequest.errors import BequestError, InvalidInput
from bequest.files import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

USAGE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141  # the last two as the shell counts signals
# Errors of the operating system: standard output cannot be written.
_NO_OUTPUT = NO_ROOM | {errno.EBADF}


class Guarded(TyperGroup):
    """A group of commands that explain their failures; bugs keep their traceback."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as typer has them
        """Read the command line, run the command, and end the process."""
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()  # where the reader or the room has gone, this is when to notice
        except BrokenPipeError:
            _give_up(sys.stdout)
            sys.exit(CLOSED_PIPE)
        except OSError as error:
            if error.errno not in _NO_OUTPUT:
                raise
            # ``bequest.files`` explains errors of files: this is standard output.
            _give_up(sys.stdout)
            explain(
                f"The output cannot be written: {os.strerror(error.errno).lower()}.",
                "Make room for it, or send it elsewhere.",
            )
            sys.exit(USAGE)

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as typer has them
        """Read the options before the command; ``--help`` is answered here."""
        try:
            return super().make_context(*args, **options)
        except BrokenPipeError as error:  # typer would end with the code of a run that diverged
            _give_up(sys.stdout)
            raise typer.Exit(CLOSED_PIPE) from error

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the type is private to typer
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BequestError as error:
            explain(error.what, error.remedy)
            raise typer.Exit(USAGE) from error
        except MemoryError as error:
            explain(f"There is not enough memory: {error}.", "Use fewer nodes, unknowns or rounds.")
            raise typer.Exit(USAGE) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            _give_up(sys.stdout)
            raise typer.Exit(CLOSED_PIPE) from error


def _give_up(stream: TextIO) -> None:
    """Discard what Python still writes there at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(what: str, remedy: str) -> None:
    """Say on stderr what went wrong and what to do about it."""
    try:
        typer.echo(f"error: {what}\nwhat to do: {remedy}", err=True)
    except OSError:  # there is no room for that either; the exit code says it
        _give_up(sys.stderr)


def not_found(kind: str, name: str, known: Iterable[str]) -> InvalidInput:
    """Return the error that names what there is, and what may have been meant."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    return InvalidInput(
        f"There is no {kind} called {name!r}.", remedy=f"{hint}There are: {', '.join(names)}."
    )
