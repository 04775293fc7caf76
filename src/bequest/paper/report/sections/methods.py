"""Beyond the paper: every method with the one hand-off, against targets of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.paper.report.charts import Chart, Dot, Group, Strips
from bequest.paper.report.measures import number
from bequest.paper.report.palette import ITERATIONS as ROLES
from bequest.paper.report.sections.base import Account, Item, seeds
from bequest.paper.report.sections.method_checks import (
    DEFAULT,
    PEAKS,
    ending_checks,
    jolt_checks,
    speed_checks,
)
from bequest.paper.report.sections.method_parts import (
    BYTES,
    INEXACT,
    JOLTED,
    LEAVING,
    METHODS,
    OURS,
    ROUNDS,
    SCALAR,
    SETUPS,
    TRACKING,
    all_peaks,
    count,
    disturbances,
    endings,
    joined,
    speeds,
)
from bequest.paper.report.sections.method_tables import (
    ending_csv,
    ending_tables,
    jolt_csv,
    jolt_tables,
    speed_csv,
    speed_tables,
)
from bequest.paper.report.verdicts import target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bequest.paper.report.sections.method_parts import Disturbance, Ending, Speed
    from bequest.paper.store import Result


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    quick, ends, jolts = speeds(results), endings(results), disturbances(results)
    checks = (*speed_checks(quick), *ending_checks(ends), *jolt_checks(jolts))
    met = sum(check.grade == target(reached=True) for check in checks)
    whole = len(SETUPS) + len(LEAVING) + len(JOLTED)
    missing = whole - len(quick) - len(ends) - len(jolts)
    found = [_told_speed(quick), _told_endings(ends), _told_jolts(jolts)]
    if missing:
        found.append(f"{missing} of the {whole} setups have not been computed.")
    return Account(
        brief=_brief(quick) + f"{met} of {len(checks)} targets met",
        found=tuple(text for text in found if text),
        sample=_sample(quick, ends, jolts),
        chart=_chart(quick, ends, jolts),
        caption="Nobody leaves: what it takes until the farthest node is within 10⁻⁶ of the "
        "optimum, relative to the start. Nodes leave: where survivors end with the default will.",
        tables=(*speed_tables(quick), *ending_tables(ends), *jolt_tables(jolts)),
        checks=checks,
        csv=(*speed_csv(quick), *ending_csv(ends), *jolt_csv(jolts)),
        notes=(
            (
                "One vector goes over every edge in each direction per round, two with gradient "
                "tracking and DIGing; every node takes one gradient per round. ADMM is the "
                "linearised one, in node form. NIDS-H is NIDS whose metric is a matrix above each "
                "node's Hessian. All choose their paces themselves, from curvatures and the graph."
            ),
            (
                "Tuned: with the best multiple of that pace, of 2⁻²·⁵, 2⁻², … 2²·⁵, chosen on the "
                "seeds 100 and 101; on data, which are what they are, on these, and up to 2⁵·⁵: "
                "their losses are less curved than the bounds that paces are chosen by. Not "
                "reached: on half of the seeds not within twice the rounds of gradient tracking."
            ),
            (
                "At equal bytes a method with one vector per edge runs twice the rounds before "
                "and between exits. Ratios are taken seed by seed; errors below 10⁻¹² are "
                "rounding, and count as 10⁻¹² there."
            ),
            (
                "Peaks: the most heterogeneous node crashes, or returns having left at half that "
                "time, when the error has fallen to 10⁻², 10⁻⁵ and 10⁻⁸ of that of the start; the "
                "whole Hessian is left, so that quadratics are remembered exactly and all of the "
                "error is on its way to zero. Vanished: it crashes, and no checkpoint is kept."
            ),
        ),
    )


def _span(samples: Iterable[float]) -> str:
    found = sorted(samples)
    return " to ".join(dict.fromkeys(count(value) for value in (found[0], found[-1])))


def _brief(quick: Sequence[Speed]) -> str:
    if not quick:
        return ""
    least = min(speed.gain(label).worst for speed in quick for label in OURS)
    return (
        f"NIDS needs {_span(s.gain(SCALAR).median for s in quick)} times fewer vectors than "
        f"gradient tracking, both with paces they choose, on the worst seed {number(least)}; "
    )


def _sample(quick: Sequence[Speed], ends: Sequence[Ending], jolts: Sequence[Disturbance]) -> str:
    counts = {speed.n for speed in quick} | {end.n for end in ends}
    counts |= {found.relative(SCALAR, "50", "recalled", "forgotten").n for found in jolts}
    drawn = max(counts)
    return f"{seeds(drawn)} per drawn setup" + (", one case per dataset" if 1 in counts else "")


def _told_speed(quick: Sequence[Speed]) -> str:
    if not quick:
        return ""
    peers = [
        f"{label} {_span(s.gain(label).median for s in quick)}"
        for label in METHODS
        if label != TRACKING
    ]
    lost = [
        speed.vectors(label).median / speed.tuned[label][1].median
        for speed in quick
        for label in OURS
        if label in speed.tuned
    ]
    beside = [
        speed.tuned[TRACKING][1].median / speed.vectors(label).median
        for speed in quick
        for label in OURS
        if TRACKING in speed.tuned
    ]
    tuned = (
        f"Gradient tracking with a tuned step needs {_span(beside)} times as many vectors as NIDS "
        "and NIDS-H with those that they choose; tuned ones would save these a factor of "
        f"{number(max(lost))} at most. "
        if lost and beside
        else ""
    )
    return (
        "<strong>Nobody leaves.</strong> Gains over gradient tracking in vectors per edge to 10⁻⁶, "
        f"medians of the setups: {', '.join(peers)} (0: not reached). {tuned}{INEXACT} does not "
        f"get there: it is left with {_span(s.left.median for s in quick)} times the error of the "
        "start."
    )


def _told_endings(ends: Sequence[Ending]) -> str:
    if not ends:
        return ""
    parts = [
        f"{label} at {budget} {_span(e.ratio(DEFAULT, f'{label}, {budget}').median for e in ends)}"
        for budget in (BYTES, ROUNDS)
        for label in OURS
    ]
    return (
        "<strong>Nodes leave.</strong> With the will that one gets, where survivors end relative "
        f"to gradient tracking, medians of the setups: {'; '.join(parts)}."
    )


def _told_jolts(jolts: Sequence[Disturbance]) -> str:
    if not jolts:
        return ""
    returns, crashes = (
        max(s.median for label in METHODS for s in all_peaks(jolts, kind, label)) for kind in PEAKS
    )
    return (
        "<strong>Nodes return, crash, vanish.</strong> Within 20 rounds of a return the error "
        f"peaks at {number(returns)} times that before, within 20 rounds of a crash at "
        f"{number(crashes)} (the largest medians of all methods, setups and stages). A node that "
        "vanishes without a word and without a checkpoint is remembered by what the others lack, "
        "where the guard trusts that."
    )


def _chart(quick: Sequence[Speed], ends: Sequence[Ending], jolts: Sequence[Disturbance]) -> Chart:
    half = (len(quick) + 1) // 2
    panels = [
        Strips(
            "nobody leaves",
            "vectors per edge to 10⁻⁶",
            tuple(
                Group(
                    speed.title,
                    tuple(Dot(name, ROLES[name], speed.vectors(name)) for name in METHODS),
                )
                for speed in some
            ),
        )
        for some in (quick[:half], quick[half:])
        if some
    ]
    if ends:
        runs = {TRACKING: TRACKING, **{label: f"{label}, {BYTES}" for label in OURS}}
        panels.append(
            Strips(
                "nodes leave",
                "limit error, default will, equal bytes",
                tuple(
                    Group(
                        end.title,
                        tuple(
                            Dot(name, ROLES[name], end.errors[DEFAULT][run])
                            for name, run in runs.items()
                        ),
                    )
                    for end in ends
                ),
            )
        )
    if jolts:
        panels.append(
            Strips(
                "nodes return and crash",
                "largest error of 20 rounds, over that before",
                tuple(
                    Group(
                        f"after a {kind}",
                        tuple(
                            Dot(name, ROLES[name], joined(all_peaks(jolts, kind, name)))
                            for name in METHODS
                        ),
                    )
                    for kind in PEAKS
                ),
                (1.0, 10.0),
            )
        )
    return Chart(
        "The methods, side by side",
        tuple(panels),
        "Dot: median; thick bar: quartiles; thin line: all seeds; triangle at the edge: not "
        "reached on some.",
        "Vectors per edge that every method needs, one group per setup, and limit errors after "
        "departures with gradient tracking and NIDS at equal bytes.",
    )


ITEM = Item(
    "methods",
    "Beyond the paper: any method, one hand-off",
    "prop:invariant",
    "“any off-the-shelf decentralized method applies verbatim”",
    """With a single heir, “any off-the-shelf decentralized method applies verbatim”. The paper's
    own is gradient tracking, two vectors per edge and round; it has no number for another one.

    Here the state of a node is (x, s) with ∑s = 0 for every method, and a leaver hands over s and
    its legacy, whatever the method. The targets are our own.""",
    tell,
    beyond=True,
)
