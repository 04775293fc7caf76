"""Beyond the paper: how often, and how much, a will is worse than doing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.model.wills import Adaptive
from bequest.paper.report.charts import Chart, Dot, Group, Strips
from bequest.paper.report.markup import HtmlTable, method
from bequest.paper.report.measures import counted, given, number
from bequest.paper.report.palette import WILLS as ROLES
from bequest.paper.report.sections import judged
from bequest.paper.report.sections.aims import (
    DEFAULT,
    DRIFT,
    SMALL,
    USUAL,
    WHOLE,
    aimed,
    by_size,
    held,
    lawful,
    sound,
)
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
    percent,
    shares,
    times,
)
from bequest.paper.report.sections.sizes import sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.paper.report.sections.bed import Key
    from bequest.paper.store import Result

# names for people; the rest go by their own
SHOWN = {
    "observed": "adaptive",
    "2 vectors": "adaptive, 2 vectors",
    "all branches": "adaptive, 2 vectors, all branches",
    "statistics": "adaptive, statistics",
    "certified": "Legacy-GT, certified",
    "paper's oracle": "Legacy-GT, oracle",
}
# the error when the first node leaves, over that at the start: above the number
STAGES = {0.3: "above 0.3", 0.1: "0.1 to 0.3", 0.01: "0.01 to 0.1", 0.0: "below 0.01"}


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    strong = [result for result in results if not result.params.get("convex")]
    general = [result for result in strong if not result.facts["large"]]
    bed, large, flat = Bed.of(general), _large(strong), _flat(results)
    stages = _stages(bed)
    found, rulings = bed.tally(DEFAULT, BETTER), judged.verdicts(results)
    offered = Adaptive(vectors=2).offered
    return Account(
        brief=f"the default is more than 1.2 times worse than the better of forgetting and GT-C on "
        f"{percent(found.shares[0])}, at worst {number(found.worst)} times",
        found=(
            _default(bed),
            _early(stages),
            *(_many(part) for part in large),
            *(_without_strength(part) for part in flat),
            judged.sentence(rulings, offered),
            _others(bed),
            *_methods(bed),
        ),
        sample=f"{counted(len(bed), 'instance')} not used for tuning, {len(bed.runs)} runs each"
        + "".join(f"; {len(part)} more with many unknowns" for part in large)
        + "".join(f"; {len(part)} more that are not strongly convex" for part in flat),
        chart=_chart(bed, stages),
        caption="Limit error over that of the better of forgetting and GT-C with gradient "
        "tracking, by how far the network was when the first node left.",
        tables=(
            HtmlTable(
                HEADS,
                {way: _rows(bed, way) for way in bed.ways},
                "Share of the instances on which a will ends more than 1.2, 2 and 10 times as far "
                "off as the yardstick, and the worst factor. The yardsticks are those of gradient "
                "tracking for all methods. Vectors: of the largest farewell, median (and most). "
                "Mean: geometric.",
            ),
            _by_stage(bed, stages, bed.ways[:1]),
            _by_stage(bed, stages, bed.ways[1:], fold="By stage, the other methods"),
            _by_kind(bed),
            sizes(bed, SHOWN),
            *(_unknowns(part) for part in large),
            *(_convex(part) for part in flat),
            judged.table(rulings),
        ),
        checks=(
            *aimed(bed),
            *(one for part in large for one in held(part, ", the larger set")),
            *(one for part in flat for one in held(part, ", not strongly convex")),
            *(
                one
                for part, which in ((bed, ""), *((many, ", the larger set") for many in large))
                for way in part.ways
                if way == USUAL
                for one in held(part, f"{which}, {way}", way)
            ),
            *sound(bed, *large),
            *(one for part in flat for one in lawful(part)),
            judged.check(rulings, offered),
        ),
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


def _large(results: Sequence[Result]) -> tuple[Bed, ...]:
    """Return the second set, of instances with many unknowns only, if it is there."""
    second = [result for result in results if result.facts["large"]]
    if not second:
        return ()
    bed = Bed.of(second)
    return (bed.only(bed.dim > SMALL),)  # a softmax has as many as its classes divide


def _flat(results: Sequence[Result]) -> tuple[Bed, ...]:
    """Return the third set, of losses that are not strongly convex, if it is there."""
    third = [result for result in results if result.params.get("convex")]
    return (Bed.of(third),) if third else ()


def _convex(bed: Bed) -> HtmlTable:
    families = sorted(set(bed.family.tolist()))
    parts = {"all": bed} | {name: bed.only(bed.family == name) for name in families}
    return HtmlTable(
        HEADS,
        {f"{way}, {name}": _rows(part, way) for way in bed.ways for name, part in parts.items()},
        f"The {len(bed)} instances of the third set, whose losses are convex and not strongly "
        "convex. Errors are distances to the set of minimisers. Columns as above.",
        fold="Not strongly convex",
    )


def _without_strength(bed: Bed) -> str:
    told = []
    for way in bed.ways:
        for will in (CONSENSUS, DEFAULT[1], WHOLE[1]):
            tally = bed.tally((way, will), BETTER)
            told.append(
                f"{SHOWN.get(will, will)} with {way} {shares(tally)}, worst {times(tally.worst)}, "
                f"mean {times(bed.mean((way, will)))}"
            )
    return (
        f"On {len(bed)} instances whose losses are convex and not strongly convex (intercepts "
        f"without a penalty, no penalty at all, redundant columns): {'; '.join(told)}."
    )


def _unknowns(bed: Bed) -> HtmlTable:
    return HtmlTable(
        HEADS,
        {way: _rows(bed, way) for way in bed.ways},
        f"The {len(bed)} instances of the second set, with more than {SMALL} unknowns. "
        "Columns as above.",
        fold=f"More than {SMALL} unknowns",
    )


def _many(bed: Bed) -> str:
    told = []
    for key in (DEFAULT, WHOLE):
        tally = bed.tally(key, BETTER)
        told.append(
            f"{SHOWN.get(key[1], key[1])} {shares(tally)}, worst {times(tally.worst)}, mean "
            f"{times(bed.mean(key))}"
        )
    return (
        f"On {len(bed)} more instances, all with more than {SMALL} unknowns, where the default "
        f"sends eight directions of its Hessian: {'; '.join(told)}."
    )


def _stages(bed: Bed) -> dict[str, Bed]:
    """Return the instances by stage, in the order of ``STAGES``."""
    above = float("inf")
    parts = {}
    for least, name in STAGES.items():
        parts[name] = bed.only((bed.stage > least) & (bed.stage <= above))
        above = least
    return parts


def _head(over: str) -> str:
    name = over if over == BETTER else method(over)
    return f"over {name}: {' / '.join(given(w) for w in WORSE)}, worst"


HEADS = ("will", "vectors", *(_head(over) for over in YARDSTICKS), "mean over GT-C")


def _cells(bed: Bed, key: Key, over: str) -> str:
    tally = bed.tally(key, over)
    return f"{shares(tally)}, {times(tally.worst)}"


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
                times(bed.mean(key)),
            )
        )
    return tuple(rows)


def _by_stage(bed: Bed, stages: dict[str, Bed], ways: Sequence[str], fold: str = "") -> HtmlTable:
    def cell(part: Bed, key: Key) -> str:
        return f"{_cells(part, key, BETTER)}; {times(part.mean(key))}" if len(part) else "–"

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
    kinds |= {f"{which} unknowns": part for which, part in by_size(bed).items()}
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


def _default(bed: Bed) -> str:
    over = {name: bed.tally(DEFAULT, name) for name in YARDSTICKS}
    return (
        "A default should hardly ever be worse than doing nothing. On these instances the default "
        f"ends more than 1.2 times as far off as forgetting in "
        f"<strong>{percent(over[FORGETFUL].shares[0])}</strong> (at worst "
        f"{times(over[FORGETFUL].worst)} times), as GT-C in {percent(over[CONSENSUS].shares[0])} "
        f"({times(over[CONSENSUS].worst)}), and as the better of both, which no node knows "
        f"beforehand, in <strong>{percent(over[BETTER].shares[0])}</strong>; more than ten times "
        f"as far off in {percent(over[BETTER].shares[2])}. In the geometric mean its error is "
        f"{times(bed.mean(DEFAULT))} of GT-C's. The worst instance is seed "
        f"{bed.worst_seed(DEFAULT, BETTER)}, {times(over[BETTER].worst)} times."
    )


def _early(stages: dict[str, Bed]) -> str:
    parts = [
        f"{name}: {percent(part.tally(DEFAULT, BETTER).shares[0])}"
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
            f"{SHOWN.get(will, will)} {percent(tally.shares[0])} (worst {times(tally.worst)}, "
            f"mean {times(bed.mean((PLAIN, will)))})"
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
                f"{SHOWN.get(will, will)} {percent(tally.shares[0])}, worst "
                f"{times(tally.worst)}, mean {times(bed.mean((way, will)))}"
            )
        parts.append(f"{way}: {'; '.join(told)}")
    return (f"Other methods against the same yardsticks. {'. '.join(parts)}.",)


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
        f"default is more than 1.2 times worse on {percent(share)} of the instances.",
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
