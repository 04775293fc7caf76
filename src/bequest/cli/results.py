"""What came out of a run file, and how it is printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bequest.cli.terminal import Terminal, plural, table
from bequest.documents import NOT_RUN, by_will, median_and_least
from bequest.model.silo_names import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.documents import (
        ChangeDocument,
        DepartureDocument,
        NotRunDocument,
        RunDocument,
        ScoreDocument,
        StepDocument,
        WillDocument,
    )
    from bequest.errors import BequestError
    from bequest.runfile import Job, RunFile

# A longer table of departures is not read; --json has them all.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class RunFileResults:
    """What came out of which run, and what could not be run with its will, though others could.

    ``nobody_left`` is, seed by seed, how the optimum of all the data classifies.
    """

    runs: dict[int, RunDocument] = field(default_factory=dict)
    not_run: list[NotRunDocument] = field(default_factory=list)
    nobody_left: dict[int, ScoreDocument] = field(default_factory=dict)

    def wills(self, file: RunFile) -> list[WillDocument]:
        """Return one document per will, in the order of the file."""
        return by_will(file.wills, list(self.runs.values()), self.not_run)

    def leave_out(self, job: Job, error: BequestError) -> None:
        """Note that it could not be run."""
        told: NotRunDocument = {
            "will": job.label,
            "seed": job.seed,
            "why": error.what,
            "remedy": error.remedy,
        }
        self.not_run.append(told)


def print_found(file: RunFile, found: RunFileResults) -> None:
    """Print the comparison of the wills, and what happened under them."""
    out = Terminal()
    runs, nobody_left = list(found.runs.values()), list(found.nobody_left.values())
    seeds, wills = len(file.seeds), found.wills(file)
    out.print(
        f"{file.path}: {plural(len(wills), 'will')}, {plural(seeds, 'seed')}, "
        f"{plural(file.rounds, 'round')} each\n"
    )
    out.print(_comparison(wills, nobody_left, several=seeds > 1))
    for line in _left_out(found.not_run, several=seeds > 1):
        out.print(f"\n{line}")
    out.print(f"\n{_legend(seeds)}")
    if nobody_left:
        out.print(_about_accuracy(nobody_left[0], seeds))
    if file.silos:
        names = ", ".join(f"{node} {on_one_line(name)}" for node, name in enumerate(file.silos))
        out.print(f"nodes: {names}")
    if seeds == 1:
        out.print()
        _print_departures(out, runs)
        _print_changes(out, runs)
    out.print()
    for line in [*_steps(runs), *_finishes(runs)]:
        out.print(line)


def _comparison(
    wills: Sequence[WillDocument], nobody_left: Sequence[ScoreDocument], *, several: bool
) -> Any:  # noqa: ANN401 - rich's
    worst = ["worst"] if several else []
    graded = ["accuracy"] if nobody_left else []
    headers = ["will", "status", *graded, "error", *worst, "limit", "gap", "vectors", "bytes"]
    rows = []
    if nobody_left:
        best = median_and_least([score["accuracy"] for score in nobody_left])
        rows.append(["nobody left", "", _accuracy(*best, several=several)])
        rows[0] += [""] * (len(headers) - len(rows[0]))
    for will in wills:
        if set(will["statuses"]) == {NOT_RUN}:
            rows.append([will["will"], NOT_RUN, *["-"] * (len(headers) - 2)])
            continue
        diverged = "diverged" in will["statuses"]
        missing, no_limit = ("inf", "none") if diverged else ("unknown", "unknown")
        rows.append(
            [
                will["will"],
                _statuses(will["statuses"]),
                *(
                    [_accuracy(will["accuracy"], will["worst_accuracy"], several=several)]
                    if nobody_left
                    else []
                ),
                number(will["error"], missing),
                *([number(will["worst_error"], missing)] if several else []),
                number(will["worst_limit_error" if several else "limit_error"], no_limit),
                number(will["worst_invariant_gap"], missing, digits=2),
                span(will["vectors"]),
                span(will["bytes"]),
            ]
        )
    return table(headers, rows, text=(0, 1))


def _left_out(not_run: Sequence[NotRunDocument], *, several: bool) -> list[str]:
    """Return what could not be run, and why, a line per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in not_run:
        name = f"{one['will']}, seed {one['seed']}" if several else one["will"]
        reasons.setdefault((one["why"], one["remedy"]), []).append(name)
    return [
        f"{NOT_RUN}: {' / '.join(names)}: {why} {remedy}"
        for (why, remedy), names in reasons.items()
    ]


def _legend(seeds: int) -> str:
    error, statistics, limit = "error", "", ""
    if seeds > 1:
        error, statistics = "error, worst", f"; median and worst of {seeds} seeds"
        limit = "; worst seed"
    return (
        f"{error}: distance of the worst survivor to the optimum of all the data, at the end"
        f"{statistics}\n"
        f"limit: distance of the point they are heading for to the same optimum{limit}; none if "
        "they diverge, or the method is not exact\n"
        "gap: largest |sum z - sum grad h| of any round, rounding if all is well\n"
        "vectors, bytes: what one farewell carries"
    )


def _accuracy(median: float | None, worst: float | None, *, several: bool) -> str:
    """Return "91.2%", with the worst of several seeds in brackets."""
    shown = ["unknown" if value is None else f"{value:.1%}" for value in (median, worst)]
    return f"{shown[0]} ({shown[1]})" if several else shown[0]


def _about_accuracy(score: ScoreDocument, seeds: int) -> str:
    seen = "" if score["on"] == "test" else " (which the models were trained on)"
    statistics = f"; median (and worst) of {seeds} seeds" if seeds > 1 else ""
    return (
        f"accuracy: share of the {score['on']} samples{seen} that the mean of the survivors' "
        f"models classifies right{statistics}\n"
        "nobody left: the optimum of all the data"
    )


def _print_departures(out: Terminal, runs: Sequence[RunDocument]) -> None:
    rows = [
        [
            run["will"] if index == 0 else "",
            str(record["round"]),
            _who(run, record["node"]),
            "none" if record["heir"] is None else _who(run, record["heir"]),
            record["choice"],
            f"{record['vectors']:g}",
            str(record["bytes"]),
        ]
        for run in runs
        for index, record in enumerate(run["departures"])
    ]
    if not rows:
        out.print("nobody left")
        return
    headers = ["will", "round", "node", "heir", "choice", "vectors", "bytes"]
    out.print(table(headers, rows[:SHOWN], text=(0, 4)))
    if len(rows) > SHOWN:
        out.print(f"... and {len(rows) - SHOWN} more; --json shows them all")


def _print_changes(out: Terminal, runs: Sequence[RunDocument]) -> None:
    """Say in words which nodes crashed, returned, joined or were forgotten, under which wills."""
    lines: dict[tuple[int, str], list[str]] = {}
    for run in runs:
        told = [(one["round"], _crash(run, one)) for one in run["departures"] if one["crashed"]]
        told += [(one["round"], _change(run, one)) for one in run["changes"]]
        for dated in told:
            lines.setdefault(dated, []).append(run["will"])
    if lines:
        out.print()
    for (_, line), names in sorted(lines.items(), key=lambda one: one[0][0])[:SHOWN]:
        out.print(line if len(names) == len(runs) else f"{line} ({' / '.join(names)})")


def _who(run: RunDocument, node: int, noun: str = "") -> str:
    """Return what a node is called: its name if it has one, else its number."""
    names = run["network"].get("names")
    return f"{noun}{node}" if names is None else on_one_line(names[node])


def _crash(run: RunDocument, record: DepartureDocument) -> str:
    """Return what became of a crashed node and its memories, and why if it says so."""
    parts = []
    if record["lost"]:
        parts.append(f"no node remembers {', '.join(_who(run, one) for one in record['lost'])}")
    heir = "" if record["heir"] is None else _who(run, record["heir"], "node ")
    if record["node"] not in record["lost"]:
        parts.append(f"{heir} adopted its checkpoint of round {record['checkpoint']}")
    elif heir:
        parts.append(f"{heir} adopted what it had inherited")
    went = f"failed ({record['why']})" if record["failed"] else "crashed"
    who = _who(run, record["node"], "node ")
    return f"{who} {went} after round {record['round']}: {'; '.join(parts)}"


def _change(run: RunDocument, change: ChangeDocument) -> str:
    went = {"return": "returned", "join": "joined", "forget": "was forgotten"}[change["kind"]]
    who = _who(run, change["node"], "node ")
    return f"{who} {went} after round {change['round']}: {change['why']}"


def _steps(runs: Sequence[RunDocument]) -> list[str]:
    """Return why the steps were chosen: in full for one seed, in short for several."""
    lines: dict[str, list[str]] = {}
    for run in runs:
        line = "; ".join(_step(step) for step in run["steps"])
        lines.setdefault(line, []).append(run["will"])
    method, pace = _method(runs), _pace(runs)
    if len(lines) == 1:
        return [method, f"{pace}: {next(iter(lines))}"]
    if len({run["seed"] for run in runs}) == 1:
        each = [f"{pace} of {' / '.join(names)}: {line}" for line, names in lines.items()]
        return [method, *each]
    values = [step["value"] or 0.0 for run in runs for step in run["steps"]]
    spread = f"{min(values):.3g} to {max(values):.3g}"
    return [method, f"{pace}: {spread}, chosen per seed; --json says why"]


def _finishes(runs: Sequence[RunDocument]) -> list[str]:
    """Return how many sums the Newton steps at the end took, if there were any."""
    done = [run["finish"] for run in runs if "finish" in run]
    if not done:
        return []
    counts = [one["sums"] for one in done]
    sums = span([min(counts), max(counts)])
    return [f"finish: Newton steps, {sums} sums of {done[0]['numbers']} numbers per silo"]


def _method(runs: Sequence[RunDocument]) -> str:
    """Return how nodes iterated, without the options that were left open."""
    used = {str(run["provenance"].get("method", "")): None for run in runs}
    return "method: " + ", ".join(re.sub(r"\w+=None, |(, )?\w+=None", "", each) for each in used)


def _pace(runs: Sequence[RunDocument]) -> str:
    """Return what the methods of these runs call the number that all nodes agree on."""
    coupled = all("coupling=" in str(run["provenance"].get("method", "")) for run in runs)
    return "coupling" if coupled else "step"


def _step(step: StepDocument) -> str:
    since = f" after round {step['since']}" if step["since"] else ""
    return f"{number(step['value'])}{since} ({step['why']})"


def _statuses(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{status} {count}" for status, count in sorted(counts.items()))


def number(value: float | None, missing: str = "-", *, digits: int = 3) -> str:
    """Return a number in short, or what its absence means."""
    return missing if value is None else f"{value:.{digits}g}"


def span(ends: list[float] | list[int] | None) -> str:
    """Return "2", or "1-2" where it varies; "-" where there is nothing."""
    if ends is None:
        return "-"
    least, most = (f"{end:g}" if isinstance(end, float) else str(end) for end in ends)
    return least if least == most else f"{least}-{most}"
