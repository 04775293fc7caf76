"""``bequest demo``: the silo that took digit 7 with it, in two tables, one figure and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import extras, files
from bequest.cli.live import watching
from bequest.cli.terminal import Meter, Terminal, table
from bequest.demo import cluster, digits
from bequest.engines import Ray
from bequest.model import wills
from bequest.view.page import page_of
from bequest.view.reading import shown
from bequest.view.scenery import staged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bequest.data import Score
    from bequest.demo.digits import Comparison, ScoredRun

_NOBODY = "nobody left"


def demonstrate(*, seed: int, folder: Path) -> None:
    """Compare the wills, print the tables, and draw the figure."""
    extras.need("data", "plot", what="The demonstration")
    files.make_folder(folder)
    with Meter(digits.work()) as meter:
        comparison = digits.study(seed, watch=meter.part)
    out = Terminal()
    out.print(
        "Ten silos, one handwritten digit each, learn together to tell all ten apart.\n"
        f"Then the silos of {_listed(digits.LEAVERS)} leave for good."
    )
    for schedule, rounds in digits.SCHEDULES.items():
        out.print(f"\nThey leave {schedule}, after rounds {_listed(rounds)}:\n")
        out.print(_table(comparison, schedule))
        out.print()
        for scored in comparison.under(schedule):
            records = [record for record in scored.run.departures if record.heir is not None]
            if records:
                told = ", ".join(f"{r.node} to {r.heir} {r.choice}" for r in records)
                out.print(f"{scored.will}: {told}")
    out.print(
        f"\n{_legend(comparison)}\n"
        f"{wills.Adaptive().title}: the default will\n"
        "... to ...: which silo bequeathed to which, and which memory the will chose"
    )
    for scored in comparison.runs:
        if scored.unsettled:
            out.print(
                f"not settled: {scored.will}, {scored.schedule}: {scored.unsettled} images would "
                "change with more rounds"
            )
    written = _draw(comparison, folder)
    out.print(f"\nwritten to {' and '.join(map(str, written))}")
    page = folder / "digits.html"
    # The runs of the figure: forgetting beside remembering.
    runs = [shown(one.run, f"{one.will}, {one.schedule}") for one in comparison.runs]
    files.write(page, page_of(staged(runs)))
    out.print(f"watch it in a browser: {page}")


def demonstrate_network(*, seed: int) -> None:
    """Tell the same story with a neural network; print the table."""
    extras.need("data", "torch", what="The demonstration with a network")
    from bequest.demo import networks

    with Meter(len(networks.WILLS) * networks.ROUNDS) as meter:
        graded = networks.study(seed, watch=meter.part)
    out = Terminal()
    out.print(
        "Ten silos, one handwritten digit each, train one neural network on minibatches of 16.\n"
        f"Then the silos of {_listed(digits.LEAVERS)} leave for good, after rounds "
        f"{_listed(networks.LEAVE_AFTER)} of {networks.ROUNDS}.\n"
    )
    rows = [
        [one.will, f"{one.vectors:.2f}" if one.vectors else "", *_percent(one.score)]
        for one in graded
    ]
    out.print(table(["will", "vectors", "right", *map(str, digits.DIGITS)], rows, text=(0,)))
    out.print(
        "\nright: percent of the test images that the survivors' mean model gets right\n"
        "0 to 9: the same for the images of one digit (recall)\n"
        "vectors: the largest farewell, in vectors of as many numbers as the network has parameters"
    )


def demonstrate_for_real(*, seed: int, address: str | None) -> None:
    """Compare the wills on a cluster, with one silo killed and one preempted; print the table."""
    extras.need("data", "ray", what="The demonstration on a cluster")
    comparison = cluster.study(
        seed,
        engine=Ray(address),
        watching=lambda name: watching(f"ten silos, {name}", nodes=len(digits.DIGITS)),
    )
    out = Terminal()
    out.print(
        "Ten silos, one handwritten digit each, learn together to tell all ten apart,\n"
        "as processes of a cluster. Then the process of silo "
        f"{cluster.KILLED} is killed (SIGKILL), that of\n"
        f"silo {cluster.PREEMPTED} is preempted (SIGTERM), and silo {cluster.PLANNED} leaves "
        "as it had planned to.\n"
    )
    out.print(_table(comparison, cluster.SCHEDULE))
    for scored in comparison.runs:
        out.print(f"\n{scored.will}:")
        for record in scored.run.departures:
            out.print(f"  {record}")
        if scored.run.lost:
            out.print(f"  no node remembers {_listed(scored.run.lost)}")
    out.print(f"\n{_legend(comparison)}")


def _legend(comparison: Comparison) -> str:
    return (
        "sent: the largest farewell, in vectors as long as the model; kB: in 1000 bytes\n"
        f"right: percent of the {comparison.exam.y.size} test images that the survivors' mean "
        "model gets right\n"
        "0 to 9: the same for the images of one digit (recall)\n"
        f"{_NOBODY}: the optimum of all the data"
    )


def _table(comparison: Comparison, schedule: str) -> object:
    rows = [[_NOBODY, "", "", *_percent(comparison.nobody_left)]]
    for scored in comparison.under(schedule):
        vectors, size = scored.sent
        rows.append([scored.will, f"{vectors:g}", _kilobytes(size), *_percent(scored.score)])
    headers = ["will", "sent", "kB", "right", *comparison.exam.classes]
    return table(headers, rows, text=(0,), dense=True)


def _percent(score: Score) -> list[str]:
    recall = ["-" if value is None else f"{100 * value:.0f}" for value in score.recall.values()]
    return [f"{100 * score.accuracy:.1f}", *recall]


def _draw(comparison: Comparison, folder: Path) -> list[Path]:
    from bequest.demo import figure

    columns = {
        f"{schedule}: after rounds {_listed(rounds)}": {
            _NOBODY: comparison.nobody_left,
            **{_sized(scored): scored.score for scored in comparison.under(schedule)},
        }
        for schedule, rounds in digits.SCHEDULES.items()
    }
    drawn = figure.draw(
        comparison.runs[-1].run,
        columns,
        title=_title(comparison),
        subtitle=f"Ten silos, one handwritten digit each; {_listed(digits.LEAVERS)} leave. Bars: "
        f"recall per digit on {comparison.exam.y.size} test images; outlines: {_NOBODY}",
    )
    return figure.save(drawn, folder, "digits")


def _sized(scored: ScoredRun) -> str:
    """Return the name of a will, and what its largest farewell weighs."""
    return f"{scored.will}, {_kilobytes(scored.sent[1])} kB"


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f}" if size else "0"


def _title(comparison: Comparison) -> str:
    """Return what the figure shows most clearly: what happens if the silos leave early."""
    forgotten, paper, *_, default = (one.score.accuracy for one in comparison.under("early"))
    return (
        f"Three silos leave early with their digits: {forgotten:.0%} right if they are forgotten, "
        f"{paper:.0%} with the paper's legacy, {default:.0%} with the default's"
    )


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    if not first:
        return last
    return f"{', '.join(first)} and {last}"
