"""``bequest demo``: the silo that took digit 7 with it, in two tables and one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import extras, files
from bequest.cli.live import watching
from bequest.cli.terminal import Meter, Terminal, table
from bequest.engines import Ray
from bequest.experiments import casualties, digits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bequest.data import Score
    from bequest.experiments.digits import Ending, Outcome

_NOBODY = "nobody left"


def demonstrate(*, seed: int, folder: Path) -> None:
    """Run the study, print it, and draw it."""
    extras.need("data", "plot", what="The demonstration")
    files.make_folder(folder)
    with Meter(digits.work()) as meter:
        outcome = digits.study(seed, watch=meter.part)
    out = Terminal()
    out.print(_story())
    for schedule in digits.SCHEDULES:
        out.print(f"\n{_when(schedule)}\n")
        out.print(_table(outcome, schedule))
        out.print()
        for ending in outcome.under(schedule):
            for line in _choices(ending):
                out.print(line)
    out.print(
        f"\n{_legend(outcome)}\n... to ...: who bequeathed to whom, and which memory the will chose"
    )
    for line in _unsettled(outcome):
        out.print(line)
    written = _draw(outcome, folder)
    out.print(f"\nwritten to {' and '.join(map(str, written))}")


def demonstrate_for_real(*, seed: int, address: str | None) -> None:
    """Run the study on a cluster, with one silo killed and one preempted, and print it."""
    extras.need("data", "ray", what="The demonstration on a cluster")
    outcome = casualties.study(
        seed,
        engine=Ray(address),
        watching=lambda name: watching(f"ten silos, {name}", nodes=len(digits.DIGITS)),
    )
    out = Terminal()
    out.print(
        "Ten silos, one handwritten digit each, learn together to tell all ten apart,\n"
        "as processes of a cluster. Then the process of silo "
        f"{casualties.KILLED} is killed (SIGKILL), that of\n"
        f"silo {casualties.PREEMPTED} is preempted (SIGTERM), and silo {casualties.PLANNED} leaves "
        "as it had planned to.\n"
    )
    out.print(_table(outcome, casualties.SCHEDULE))
    for ending in outcome.endings:
        out.print(f"\n{ending.will}:")
        for record in ending.run.departures:
            out.print(f"  {record}")
        if ending.run.lost:
            out.print(f"  nobody remembers {_listed(ending.run.lost)}")
    out.print(f"\n{_legend(outcome)}")


def _story() -> str:
    return (
        "Ten silos, one handwritten digit each, learn together to tell all ten apart.\n"
        f"Then the silos of {_listed(digits.LEAVERS)} leave for good."
    )


def _when(schedule: str) -> str:
    return f"They leave {schedule}, after rounds {_listed(digits.SCHEDULES[schedule])}:"


def _legend(outcome: Outcome) -> str:
    return (
        f"right: percent of the {outcome.exam.y.size} test images that the survivors' mean model "
        "gets right\n"
        "0 to 9: the same for the images of one digit (recall)\n"
        f"{_NOBODY}: the optimum of all the data"
    )


def _table(outcome: Outcome, schedule: str) -> object:
    rows = [[_NOBODY, *_percent(outcome.nobody_left)]]
    rows += [[ending.will, *_percent(ending.score)] for ending in outcome.under(schedule)]
    return table(["will", "right", *outcome.exam.classes], rows, text=(0,))


def _percent(score: Score) -> list[str]:
    recall = ["-" if value is None else f"{100 * value:.0f}" for value in score.recall.values()]
    return [f"{100 * score.accuracy:.1f}", *recall]


def _choices(ending: Ending) -> list[str]:
    """Return what every leaver bequeathed to whom, if it did."""
    records = [record for record in ending.run.departures if record.heir is not None]
    if not records:
        return []
    told = ", ".join(f"{r.node} to {r.heir} {r.choice}" for r in records)
    return [f"{ending.will}: {told}"]


def _unsettled(outcome: Outcome) -> list[str]:
    """Return which models would still change their mind about an image."""
    return [
        f"not settled: {ending.will}, {ending.schedule}: {ending.unsettled} images would change "
        "with more rounds"
        for ending in outcome.endings
        if ending.unsettled
    ]


def _draw(outcome: Outcome, folder: Path) -> list[Path]:
    from bequest.report import drawing, recalls

    columns = {
        f"{schedule}: after rounds {_listed(rounds)}": {
            _NOBODY: outcome.nobody_left,
            **{ending.will: ending.score for ending in outcome.under(schedule)},
        }
        for schedule, rounds in digits.SCHEDULES.items()
    }
    figure = recalls.recalls(
        outcome.endings[-1].run,
        columns,
        title=_title(outcome),
        subtitle=f"Ten silos, one handwritten digit each; {_listed(digits.LEAVERS)} leave. Bars: "
        f"recall per digit on {outcome.exam.y.size} test images; outlines: {_NOBODY}",
    )
    return drawing.save(figure, folder, "digits")


def _title(outcome: Outcome) -> str:
    """Return what the figure shows, where it shows most: if they leave early."""
    forgotten, paper, drift, *_ = (ending.score.accuracy for ending in outcome.under("early"))
    return (
        f"Three silos leave early with their digits: {forgotten:.0%} right if they are forgotten, "
        f"{paper:.0%} with the paper's legacy, {drift:.0%} with the drift's"
    )


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    if not first:
        return last
    return f"{', '.join(first)} and {last}"
