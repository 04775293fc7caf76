"""The command ``bequest``.

Only the declarations are here; what a command does, and everything heavy that it needs, is
imported when it runs, so that ``bequest --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bequest.cli.guard import USAGE, Guarded, explain

app = typer.Typer(
    name="bequest",
    cls=Guarded,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decentralized optimization that remembers the nodes it loses.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


class EngineName(StrEnum):
    """The engines, as they are named in run files."""

    VECTOR = "vector"
    LOOP = "loop"
    RAY = "ray"


class DemoModel(StrEnum):
    """What the silos of the demonstration train."""

    SOFTMAX = "softmax"
    MLP = "mlp"


class DemoEngine(StrEnum):
    """The engines of the demonstration."""

    VECTOR = "vector"
    RAY = "ray"


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callbacks are called like this
    if asked:
        from bequest.version import __version__

        typer.echo(f"bequest {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command("run")
def run_command(
    *,
    file: Annotated[Path, typer.Argument(help="What to run; see bequest docs run-file.")],
    as_json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write the results to this file: JSON, or a row per run as .csv or .parquet.",
        ),
    ] = None,
    engine: Annotated[
        EngineName | None,
        typer.Option(
            help="What carries the nodes, instead of what the file says: arrays, real nodes on a "
            "virtual network, or a cluster."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster, as for ray.init; without one it is started here (ray engine "
            "only)."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Write a log of every run to this folder (loop engine only)."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write every run to this folder as soon as it is done."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Do not run again what is on record there."),
    ] = False,
    view: Annotated[
        bool,
        typer.Option("--view", help="Serve a page on this machine on which it can be watched."),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="Write the model of every run to this folder, as model.json (tables)."),
    ] = None,
    overwrite: Overwrite = False,
    curves: Annotated[
        bool,
        typer.Option("--curves", help="Put every round into the JSON, with all digits."),
    ] = False,
) -> None:
    """Run every will of a run file with every seed, and compare them.

    A will that cannot be run here (its pilot diverges, it needs an optimum that is not known) is
    left out, with the reason. Exit code 0: done; 1: every run diverged; 2: the file or an option
    is wrong, or none of the wills can be run.
    """
    from bequest.cli.run import run_file

    raise typer.Exit(
        run_file(
            file,
            as_json=as_json,
            output=output,
            engine=None if engine is None else engine.value,
            address=address,
            log=log,
            record=record,
            resume=resume,
            view=view,
            model=model,
            overwrite=overwrite,
            curves=curves,
        )
    )


@app.command("predict")
def predict_command(
    *,
    model: Annotated[Path, typer.Argument(help="A model that bequest run --model has written.")],
    table: Annotated[Path, typer.Argument(help="New rows: .csv, .npz or .parquet.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every class.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict the label of new rows, as CSV; columns go by name, and others are not used."""
    from bequest.cli.model import predict_rows

    predict_rows(model, table, proba=proba, output=output, overwrite=overwrite)


@app.command("plot")
def plot_command(
    *,
    results: Annotated[Path, typer.Argument(help="What bequest run -o has written.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")
    ] = Path("curves.png"),
) -> None:
    """Draw the error of every run against its rounds, with survivors and departures.

    Of a sweep, and of .csv or .parquet, which have no curves: the errors at the end over a setting.
    """
    from bequest.cli.plot import plot_results

    plot_results(results, output)


@app.command("data")
def data_command(
    *,
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="A table (.csv, .npz or .parquet), several of one silo each, or a run file."
        ),
    ],
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    silo: Annotated[str | None, typer.Option(help="The column that names the silo.")] = None,
    as_json: Json = False,
) -> None:
    """Describe tables before they are used: columns, what is missing, balance, what is refused.

    Of a run file, what is left to refuse after what it says about columns.
    """
    from bequest.cli.data import describe_table

    describe_table(tables, label=label, silo=silo, as_json=as_json)


@app.command("forget")
def forget_command(
    *,
    file: Annotated[Path, typer.Argument(help="The run file, of which runs are on record.")],
    silo: Annotated[str, typer.Argument(help="The silo to forget: its name, or its number.")],
    record: Annotated[Path, typer.Option(help="The folder that its runs are recorded in.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the model and the receipt.")
    ],
    run: Annotated[
        int | None, typer.Option(min=1, help="Which run of the file; they count from 1.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Take a silo that has left out of the model of a recorded run, and write a receipt.

    The receipt says what was withdrawn, from which node, and whether nothing of it remains.
    """
    from bequest.cli.forget import forget_silo

    forget_silo(file, silo, record=record, number=run, output=output, overwrite=overwrite)


models = typer.Typer(no_args_is_help=True, help="Look at models that bequest run --model wrote.")
app.add_typer(models, name="model")


@models.command("show")
def model_show_command(
    *,
    model: Annotated[Path, typer.Argument(help="A model that bequest run --model has written.")],
    as_json: Json = False,
) -> None:
    """Show what a model is made of, which silos are in it and how, and its certificate."""
    from bequest.cli.model import show_model

    show_model(model, as_json=as_json)


@models.command("export")
def model_export_command(
    *,
    model: Annotated[Path, typer.Argument(help="A model that bequest run --model has written.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file, such as model.onnx.")],
    overwrite: Overwrite = False,
) -> None:
    """Write a model as an ONNX graph, for other programs: an input per column, by its name."""
    from bequest.cli.model import export_model

    export_model(model, output=output, overwrite=overwrite)


@models.callback()
def _models() -> None:
    pass


@app.command("replay")
def replay_command(
    *,
    log: Annotated[Path, typer.Argument(help="A log that bequest run --log has written.")],
    node: Annotated[
        str | None,
        typer.Option(help="Show what happened to this node (a number), or to the steward."),
    ] = None,
    until: Annotated[
        int | None, typer.Option(min=1, help="Stop after this event; they count from 1.")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            min=1, help="Show this many of the latest events only; of all nodes without --node."
        ),
    ] = None,
) -> None:
    """Repeat a run from its log, and check after every event that the state is the same.

    Exit code 0: every state is identical; 1: one differs; 2: the log or an option is wrong, or the
    log breaks off (what comes before is replayed).
    """
    from bequest.cli.replay import replay_log

    raise typer.Exit(replay_log(log, node=node, until=until, tail=tail))


@app.command("view")
def view_command(
    *,
    run: Annotated[
        Path,
        typer.Argument(
            help="A record (bequest run --record), a log (--log), or what --json has printed."
        ),
    ],
    other: Annotated[
        Path | None, typer.Argument(metavar="[RUN2]", help="Another one, to show beside it.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; by default next to RUN, as .html."),
    ] = None,
) -> None:
    """Write one page on which a run can be watched: it works offline, in any browser.

    The network, who left and who remembers whom, and the curves, round by round; two runs side by
    side. Of a run that broke off, or goes on, what is there so far. See bequest docs view.
    """
    from bequest.cli.view import write_page

    write_page([run] if other is None else [run, other], output=output)


@app.command("demo")
def demo_command(
    *,
    seed: Annotated[int, typer.Option(min=0, help="Of the network and the test images.")] = 4,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the figure and the page.")
    ] = Path("out/demo"),
    engine: Annotated[
        DemoEngine,
        typer.Option(help="ray: as processes of a cluster, one killed and one preempted for real."),
    ] = DemoEngine.VECTOR,
    address: Annotated[
        str | None,
        typer.Option(help="Of a cluster on this machine; without one it is started (ray only)."),
    ] = None,
    model: Annotated[
        DemoModel, typer.Option(help="mlp: a neural network of torch, trained on minibatches.")
    ] = DemoModel.SOFTMAX,
) -> None:
    """Show the silo that took digit 7 with it: what is left of it, under every will.

    Ten silos hold one handwritten digit each; three of them leave. Needs scikit-learn, and
    matplotlib or Ray: pip install "bequest[data,plot]", or "bequest[data,ray]"; a network needs
    "bequest[data,torch]".
    """
    # These arrays are too small to share among threads, which get in each other's way instead.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from bequest.cli.demo import demonstrate, demonstrate_for_real, demonstrate_network

    if model is DemoModel.MLP:
        if engine is DemoEngine.RAY:
            raise typer.BadParameter("The network is trained by the vector engine.")
        demonstrate_network(seed=seed)
    elif engine is DemoEngine.RAY:
        demonstrate_for_real(seed=seed, address=address)
    else:
        demonstrate(seed=seed, folder=output)


@app.command("reproduce")
def reproduce_command(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(help="Which studies; all of them if none is named.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for results and report.")
    ] = Path("out/reproduction"),
    again: Annotated[
        bool, typer.Option("--again", help="Compute everything anew, also what is there.")
    ] = False,
) -> None:
    """Compute the paper's figures and tables again, and write a report about them.

    Results that are already there are kept; an interrupted reproduction goes on from there. Needs
    matplotlib, and scikit-learn for some: pip install "bequest[data,plot]".
    """
    from bequest.cli.reproduce import reproduce as carry_out

    carry_out(names or [], folder=output, again=again)


@app.command("info")
def info_command(*, as_json: Json = False) -> None:
    """Show versions, the machine, and what can be named in a run file."""
    from bequest.cli.info import tell

    tell(as_json=as_json)


@app.command("docs")
def docs_command(
    *,
    page: Annotated[
        str | None, typer.Argument(help="Which page; lists them if none is named.")
    ] = None,
) -> None:
    """Print a page of the documentation, such as run-file, loop or cluster."""
    from bequest.cli.docs import show

    show(page)


def main() -> None:
    """Run the command; the entry point."""
    if sys.stderr is None:  # closed by the caller: what is said there is not to be read
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as we live
    if sys.stdout is None:  # now, before anything is computed that could not be shown
        explain(
            "The output cannot be written: standard output is closed.",
            "Send it to a file, or to /dev/null if it is not to be read.",
        )
        sys.exit(USAGE)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a label in Greek must not end a run on an old terminal
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="bequest")
