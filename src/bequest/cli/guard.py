"""How a command ends when it does not end well."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bequest.errors import BequestError
from bequest.files import NO_ROOM

if TYPE_CHECKING:
    from typing import TextIO

USAGE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141  # the last two as the shell counts signals


class Guarded(TyperGroup):
    """A group of commands whose failures are told in words; bugs keep their traceback."""

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
            if error.errno not in NO_ROOM:
                raise
            # What is wrong with a file, ``bequest.files`` has told: this is standard output.
            _give_up(sys.stdout)
            explain(
                f"The output cannot be written: {os.strerror(error.errno).lower()}.",
                "Make room for it, or send it elsewhere.",
            )
            sys.exit(USAGE)

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
    """Let what Python still wants to write there at exit go into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(what: str, remedy: str) -> None:
    """Say on stderr what went wrong and what to do about it."""
    try:
        typer.echo(f"error: {what}\nwhat to do: {remedy}", err=True)
    except OSError:  # there is no room for that either; the exit code says it
        _give_up(sys.stderr)
