"""How a command ends when it does not end well."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from bequest.errors import BequestError

USAGE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141  # the last two as the shell counts signals


class Guarded(TyperGroup):
    """A group of commands whose failures are told in words; bugs keep their traceback."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the type is private to typer
        """Run the command."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # where the reader has gone, this is the moment to notice
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
            # Python flushes stdout once more at exit; let it flush into nothing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(CLOSED_PIPE) from error


def explain(what: str, remedy: str) -> None:
    """Say on stderr what went wrong and what to do about it."""
    typer.echo(f"error: {what}\nwhat to do: {remedy}", err=True)
