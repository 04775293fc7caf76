"""Beyond the paper: how often, and how much, a will is worse than doing nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.paper.report.charts import Chart, Dot, Group, Strips
from bequest.paper.report.markup import HtmlTable, method
from bequest.paper.report.measures import counted, fixed, given, number
from bequest.paper.report.palette import WILLS as ROLES
from bequest.paper.report.sections.base import Account, CsvRow, Item
from bequest.paper.report.sections.bed import (
    BETTER,
    CONSENSUS,
    FLOOR,
    FORGETFUL,
    PLAIN,
    WORSE,
    YARDSTICKS,
    Bed,
)
from bequest.paper.report.verdicts import Check, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.paper.report.sections.bed import Key, WorseShares
    from bequest.paper.store import Result

DEFAULT: Key = (PLAIN, "observed")
DRIFT: Key = (PLAIN, "Drift(0)")
WHOLE: Key = (PLAIN, "FullHessian")
# names for people; the rest go by their own
SHOWN = {
    "observed": "adaptive",
    "certified": "Legacy-GT, certified",
    "paper's oracle": "Legacy-GT, oracle",
}
# the error when the first node leaves, over that at the start: above the number
STAGES = {0.3: "above 0.3", 0.1: "0.1 to 0.3", 0.01: "0.01 to 0.1", 0.0: "below 0.01"}
# up to this dimension the whole Hessian fits into ten vectors
SMALL = 15
# of an error relative to the start: nothing is forgotten
EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class RobustnessAim:
    """What the default should reach, up to so many unknowns or beyond.

    Attributes:
        worse: the largest share of instances on which it is more than 1.2 times as far off as the
            better of forgetting and GT-C.
        mean: the largest geometric mean of its error over GT-C's.
    """

    worse: float
    mean: float


AIMS = {
    f"up to {SMALL}": RobustnessAim(0.08, 0.01),
    f"more than {SMALL}": RobustnessAim(0.12, 0.05),
}
# over all instances: more than ten times as far off, and the worst
FAR, WORST = 0.015, 50.0
# Drift(0) against GT-C
DRIFT_WORSE, DRIFT_WORST = 0.03, 16.0


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    bed = Bed.of(results)
    stages = _stages(bed)
    found = bed.tally(DEFAULT, BETTER)
    return Account(
        brief=f"the default is more than 1.2 times worse than the better of forgetting and GT-C on "
        f"{_percent(found.shares[0])}, at worst {number(found.worst)} times",
        found=(_default(bed), _early(stages), _others(bed), *_methods(bed)),
        sample=f"{counted(len(bed), 'instance')} that nobody tuned on, {len(bed.runs)} runs each",
        chart=_chart(bed, stages),
        caption="Limit error over that of the better of forgetting and GT-C with gradient "
        "tracking, by how far the network was when the first node left.",
        tables=(
            HtmlTable(
                ("will", "vectors", *(_head(over) for over in YARDSTICKS), "mean over GT-C"),
                {way: _rows(bed, way) for way in bed.ways},
                "Share of the instances on which a will ends more than 1.2, 2 and 10 times as far "
                "off as the yardstick, and the worst factor. The yardsticks are those of gradient "
                "tracking for all methods. Vectors: of the largest farewell, median (and most). "
                "Mean: geometric.",
            ),
            _by_stage(bed, stages, bed.ways[:1]),
            _by_stage(bed, stages, bed.ways[1:], fold="By stage, the other methods"),
            _by_kind(bed),
        ),
        checks=(*_aimed(bed), *_sound(bed)),
        csv=tuple(
            CsvRow(f"{way}, {stage}", SHOWN.get(will, will), f"error over {over}", sample)
            for stage, part in (("all stages", bed), *stages.items())
            for way, will in part.runs
            for over in YARDSTICKS
            for sample in [part.factors((way, will), over)]
            if sample.n
        ),
        notes=(
            (
                "Instances: nine families of losses (quadratics with one basis, tilted, with bases "
                "of their own and with scales of their own; least squares with few, collinear "
                "samples; logistic and softmax regression in silos with few labels; Huber with far "
                "outliers; mixed) on rings, rings with chords, grids, stars, complete and random "
                "graphs of 4 to 20 nodes, with 1 to 15 unknowns, one in seven with up to 40. One "
                "to four nodes leave between rounds 1 and 630, log-uniformly, sometimes at once; "
                "random ones or the most heterogeneous."
            ),
            (
                f"Errors below {given(FLOOR)} of the way from the start to the optimum are "
                "rounding and count as that, in every ratio and mean. The stage is that of "
                "gradient tracking, for all methods."
            ),
            (
                "Equal bytes: NIDS sends one vector per edge and round where gradient tracking "
                "sends two, so every exit is at twice the round. Otherwise at equal rounds."
            ),
        ),
    )


def _stages(bed: Bed) -> dict[str, Bed]:
    """Return the instances by stage, in the order of ``STAGES``."""
    above = float("inf")
    parts = {}
    for least, name in STAGES.items():
        parts[name] = bed.only((bed.stage > least) & (bed.stage <= above))
        above = least
    return parts


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1)}%"


def _shares(tally: WorseShares) -> str:
    return " / ".join(fixed(100 * share, 1) for share in tally.shares) + "%"


def _times(factor: float) -> str:
    return number(factor) if factor < float("inf") else "diverged"


def _head(over: str) -> str:
    name = over if over == BETTER else method(over)
    return f"over {name}: {' / '.join(given(w) for w in WORSE)}, worst"


def _cells(bed: Bed, key: Key, over: str) -> str:
    tally = bed.tally(key, over)
    return f"{_shares(tally)}, {_times(tally.worst)}"


def _named(will: str) -> str:
    return method(will, SHOWN.get(will, will))


def _rows(bed: Bed, way: str) -> tuple[tuple[str, ...], ...]:
    rows = []
    for will in bed.wills(way):
        key, size = (way, will), bed.size((way, will))
        most = "" if size.largest == size.median else f" ({size.largest:g})"
        rows.append(
            (
                _named(will),
                f"{size.median:g}{most}",
                *(_cells(bed, key, over) for over in YARDSTICKS),
                _times(bed.mean(key)),
            )
        )
    return tuple(rows)


def _by_stage(bed: Bed, stages: dict[str, Bed], ways: Sequence[str], fold: str = "") -> HtmlTable:
    def cell(part: Bed, key: Key) -> str:
        return f"{_cells(part, key, BETTER)}; {_times(part.mean(key))}" if len(part) else "–"

    return HtmlTable(
        ("will", *(f"{name} ({len(part)})" for name, part in stages.items())),
        {
            way: [
                (_named(will), *(cell(part, (way, will)) for part in stages.values()))
                for will in bed.wills(way)
            ]
            for way in ways
        },
        "By stage: the error when the first node left over that at the start (and the number of "
        "instances). Share above 1.2, 2 and 10 times the better of forgetting and GT-C, the worst "
        "factor; the geometric mean over GT-C.",
        fold=fold,
    )


def _by_kind(bed: Bed) -> HtmlTable:
    kinds = {name: bed.only(bed.family == name) for name in sorted(set(bed.family.tolist()))}
    kinds |= {
        counted(n, "leaver"): bed.only(bed.leavers == n)
        for n in sorted(set(bed.leavers.astype(int).tolist()))
    }
    kinds |= {f"{which} unknowns": part for which, part in _by_size(bed).items()}
    keys = (DEFAULT, DRIFT, WHOLE)
    return HtmlTable(
        ("instances", *(_named(will) for _, will in keys), "number"),
        {
            PLAIN: [
                (name, *(_cells(part, key, BETTER) for key in keys), str(len(part)))
                for name, part in kinds.items()
            ]
        },
        "Share above 1.2, 2 and 10 times the better of forgetting and GT-C, and the worst factor.",
        fold="By losses, leavers and unknowns",
    )


def _by_size(bed: Bed) -> dict[str, Bed]:
    parts = {f"up to {SMALL}": bed.dim <= SMALL, f"more than {SMALL}": bed.dim > SMALL}
    return {name: bed.only(which) for name, which in parts.items() if which.any()}


def _default(bed: Bed) -> str:
    over = {name: bed.tally(DEFAULT, name) for name in YARDSTICKS}
    return (
        "A default should hardly ever be worse than doing nothing. On these instances the default "
        f"ends more than 1.2 times as far off as forgetting in "
        f"<strong>{_percent(over[FORGETFUL].shares[0])}</strong> (at worst "
        f"{_times(over[FORGETFUL].worst)} times), as GT-C in {_percent(over[CONSENSUS].shares[0])} "
        f"({_times(over[CONSENSUS].worst)}), and as the better of both, which nobody knows "
        f"beforehand, in <strong>{_percent(over[BETTER].shares[0])}</strong>; more than ten times "
        f"as far off in {_percent(over[BETTER].shares[2])}. In the geometric mean its error is "
        f"{_times(bed.mean(DEFAULT))} of GT-C's. The worst instance is seed "
        f"{bed.worst_seed(DEFAULT, BETTER)}, {_times(over[BETTER].worst)} times."
    )


def _early(stages: dict[str, Bed]) -> str:
    parts = [
        f"{name}: {_percent(part.tally(DEFAULT, BETTER).shares[0])}"
        for name, part in stages.items()
        if len(part)
    ]
    return (
        "What matters is how far the network was when the first node left. By its error then, "
        f"relative to the start, the default is worse than the better of both in {', '.join(parts)}"
        "."
    )


def _others(bed: Bed) -> str:
    wills = [will for will in bed.wills(PLAIN) if will not in (FORGETFUL, DEFAULT[1])]
    parts = []
    for will in wills:
        tally = bed.tally((PLAIN, will), BETTER)
        parts.append(
            f"{SHOWN.get(will, will)} {_percent(tally.shares[0])} (worst {_times(tally.worst)}, "
            f"mean {_times(bed.mean((PLAIN, will)))})"
        )
    return f"The others, likewise: {'; '.join(parts)}."


def _methods(bed: Bed) -> tuple[str, ...]:
    ways = bed.ways[1:]
    if not ways:
        return ()
    parts = []
    for way in ways:
        told = []
        for will in (CONSENSUS, DEFAULT[1], WHOLE[1]):
            tally = bed.tally((way, will), BETTER)
            told.append(
                f"{SHOWN.get(will, will)} {_percent(tally.shares[0])}, worst "
                f"{_times(tally.worst)}, mean {_times(bed.mean((way, will)))}"
            )
        parts.append(f"{way}: {'; '.join(told)}")
    return (f"Other methods against the same yardsticks. {'. '.join(parts)}.",)


def _aimed(bed: Bed) -> tuple[Check, ...]:
    checks = []
    for size, part in _by_size(bed).items():
        aim, which = AIMS[size], f"{size} unknowns"
        share, mean = part.tally(DEFAULT, BETTER).shares[0], part.mean(DEFAULT)
        checks += [
            _at_most(
                f"{which}: the default is more than 1.2 times worse than the better of "
                f"forgetting and GT-C on",
                share,
                aim.worse,
                f"of {len(part)}",
            ),
            Check(
                f"{which}: its error is at most {given(aim.mean)} of GT-C's in the geometric mean.",
                f"{_times(mean)}.",
                target(reached=mean <= aim.mean),
                f"the default's error is {_times(mean)} of GT-C's with {which} and not at most "
                f"{given(aim.mean)}",
            ),
        ]
    over, drift = bed.tally(DEFAULT, BETTER), bed.tally(DRIFT, CONSENSUS)
    return (
        *checks,
        _at_most("The default is more than 10 times worse on", over.shares[2], FAR),
        _worst("The default", "the better of both", over.worst, WORST),
        _at_most(
            "Drift(0) is more than 1.2 times worse than GT-C on", drift.shares[0], DRIFT_WORSE
        ),
        _worst("Drift(0)", "GT-C", drift.worst, DRIFT_WORST),
    )


def _at_most(claim: str, share: float, most: float, of: str = "") -> Check:
    limit = f"{given(100 * most)}%"
    return Check(
        f"{claim} at most {limit} of the instances.",
        f"{_percent(share)}{f' {of}' if of else ''}.",
        target(reached=share <= most),
        f"{_within(claim)} {_percent(share)} of the instances and not at most {limit}",
    )


def _worst(subject: str, other: str, factor: float, most: float) -> Check:
    return Check(
        f"{subject} is never more than {given(most)} times worse than {other}.",
        f"At worst {_times(factor)} times.",
        target(reached=factor <= most),
        f"{_within(subject)} is {_times(factor)} times worse than {other} on one instance",
    )


def _within(text: str) -> str:
    """Write the beginning of a sentence within one."""
    return text.replace("The ", "the ", 1) if text.startswith("The ") else text


def _sound(bed: Bed) -> tuple[Check, ...]:
    illegal, runs = int(bed.illegal.sum()), bed.errors.size
    diverged = int((bed.errors == float("inf")).sum())
    quadratic = bed.only(bed.quadratic)
    inexact = sum(float(error) > EXACT for error in quadratic.error(WHOLE))
    return (
        Check(
            "No run diverges.",
            f"{diverged} of {runs} runs did.",
            target(reached=not diverged),
            f"{diverged} of {runs} runs diverged",
        ),
        Check(
            "Every curvature sent lies within the loss's own range [a, b].",
            f"Outside in {counted(illegal, 'legacy', 'legacies')} of {runs} runs.",
            target(reached=not illegal),
            f"{counted(illegal, 'legacy is', 'legacies are')} curved as their losses cannot be",
        ),
        Check(
            "FullHessian forgets nothing of quadratics.",
            f"Farther off than {given(EXACT)} of the start's error on {inexact} of "
            f"{counted(len(quadratic), 'instance')}.",
            target(reached=not inexact),
            f"FullHessian is not exact on {counted(inexact, 'instance')} with quadratics",
        ),
    )


def _chart(bed: Bed, stages: dict[str, Bed]) -> Chart:
    shown = [bed.ways[0], *(way for way in bed.ways[1:] if way.endswith("Hessian, equal bytes"))]
    share = bed.tally(DEFAULT, BETTER).shares[0]
    return Chart(
        "How much worse than the better of forgetting and GT-C",
        tuple(
            Strips(
                way,
                "limit error over the better of both",
                tuple(
                    Group(
                        f"error at the first exit {name}",
                        tuple(
                            Dot(
                                SHOWN.get(will, will),
                                ROLES[will],
                                part.factors((way, will), BETTER),
                            )
                            for will in bed.wills(bed.ways[-1])
                        ),
                        f"{len(part)} instances",
                    )
                    for name, part in stages.items()
                    if len(part)
                ),
            )
            for way in shown
        ),
        "Dot: median; thick bar: quartiles; thin line: all instances. Right of 1 a will is worse.",
        "Limit errors over those of the better of forgetting and GT-C, by will and stage; the "
        f"default is more than 1.2 times worse on {_percent(share)} of the instances.",
    )


ITEM = Item(
    "robustness",
    "Beyond the paper: is a memory ever worse than none",
    "cor:selective",
    "never worse than the classic algorithm by more than the certification slack",
    """“Every departure contributes the smallest of its three certified error bounds, so Legacy-GT
    is never worse than the classic algorithm by more than the certification slack.” The slack has
    no number, and the experiments of the paper have no early exits but those of tab:stress.

    The targets are our own. Instances are drawn at random, most of the exits early, and every will
    is held against forgetting, against GT-C, and against the better of both.""",
    tell,
    beyond=True,
)
