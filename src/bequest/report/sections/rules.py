"""Beyond the paper: which rule takes the branch that turns out to be best, and what errors cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.report.charts import Chart, Dot, Group, Strips
from bequest.report.markup import Table, method
from bequest.report.measures import Sample, bounded, counted, fixed, given, number
from bequest.report.palette import WILLS as ROLES
from bequest.report.sections.base import Account, Item, Record, grouped, seeds
from bequest.report.verdicts import Check, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bequest.store import Result

# the branches of the paper, and the rules that choose from them
BRANCHES = ("consensus", "local", "none")
OBSERVED, CERTIFIED, ORACLE = "observed", "certified", "paper's oracle"
RULES = (OBSERVED, CERTIFIED, ORACLE)
# the rule that needs no deciding, and the one with a fourth branch
ALWAYS, WITH_DRIFT = "always consensus", "observed, with drift"
COMPARED = (*RULES, ALWAYS)
# below this, a displacement is rounding
FLOOR = 1e-14
# a branch that moves the optimum so many times farther is a worse one
WORSE = 1.2
# the rounds of the decisions, up to and including these
STAGES = {15.0: "up to 15", 40.0: "16 to 40", 100.0: "41 to 100", math.inf: "after 100"}
# in the order of the report; what comes before the comma is the family
SETUPS = {
    "quadratic, Sec. 5.1": "Sec. 5.1",
    "quadratic, stress 10": "stress, κ = 10",
    "quadratic, stress 100": "stress, κ = 100",
    "quadratic, tilt 30": "tilted, κ = 30",
    "quadratic, tilt 100": "tilted, κ = 100",
    "logistic, alike": "silos alike",
    "logistic, different": "silos different",
    "logistic, very different": "silos very different",
    "logistic, breast cancer": "breast cancer",
    "logistic, digits": "digits, odd or even",
}


@dataclass(frozen=True, slots=True)
class Aim:
    """What the rule from observables should reach: least agreement, largest mean regret."""

    agreement: float
    regret: float
    stretch: float | None = None


AIMS = {"quadratic": Aim(0.80, 1.25), "logistic": Aim(0.70, 1.25, stretch=0.80)}


@dataclass(frozen=True, slots=True)
class _Decision:
    """One departure: what every rule would do, and how far each branch moves the optimum."""

    seed: int
    round: int
    choices: Mapping[str, str]
    moved: Mapping[str, float]

    def by(self, rule: str) -> float:
        """How far the optimum moves under a rule."""
        return self.moved["consensus" if rule == ALWAYS else self.choices[rule]]

    def regret(self, rule: str) -> float:
        """How many times farther than under the best of the paper's branches."""
        return bounded(self.by(rule) / min(self.moved[branch] for branch in BRANCHES))

    def agrees(self, rule: str) -> bool:
        """Whether there is no better branch."""
        return self.regret(rule) <= 1

    @property
    def gain(self) -> float:
        """How many times less than under the paper's oracle it moves if drift is a branch too."""
        return bounded(self.by(ORACLE) / self.by(WITH_DRIFT))


@dataclass(frozen=True, slots=True)
class _Group:
    """Decisions to be counted together."""

    title: str
    decisions: Sequence[_Decision]

    def agreement(self, rule: str) -> float:
        return _share(decision.agrees(rule) for decision in self.decisions)

    def regret(self, rule: str) -> float:
        return _geometric(decision.regret(rule) for decision in self.decisions)

    def worse(self, rule: str) -> float:
        return _share(decision.regret(rule) > WORSE for decision in self.decisions)

    def worst(self, rule: str) -> float:
        return max(decision.regret(rule) for decision in self.decisions)

    @property
    def drifts(self) -> float:
        """How often drift is taken."""
        return _share(decision.choices[WITH_DRIFT] == "drift" for decision in self.decisions)

    @property
    def gain(self) -> float:
        return _geometric(decision.gain for decision in self.decisions)

    @property
    def losses(self) -> float:
        """How often the rule with drift is worse than the paper's oracle."""
        return _share(decision.gain * WORSE < 1 for decision in self.decisions)

    @property
    def least(self) -> float:
        return min(decision.gain for decision in self.decisions)

    @property
    def seeds(self) -> list[_Group]:
        """The decisions of each seed."""
        mine: dict[int, list[_Decision]] = {}
        for decision in self.decisions:
            mine.setdefault(decision.seed, []).append(decision)
        return [_Group(self.title, some) for some in mine.values()]

    def agreed(self, rule: str) -> Sample:
        """Return the agreement seed by seed."""
        return Sample.of((seed.agreement(rule) for seed in self.seeds), bad="small")


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    whole: _Group
    setups: Sequence[_Group]


def tell(results: Sequence[Result]) -> Account:
    """Tell what came out."""
    groups = grouped(results, "setup")
    found = {
        name: _Group(title, [d for result in groups[name,] for d in _decisions(result)])
        for name, title in SETUPS.items()
        if (name,) in groups
    }
    families = [family for family in (_family(name, found) for name in AIMS) if family.setups]
    every = [setup for family in families for setup in family.setups]
    decisions = [decision for setup in every for decision in setup.decisions]
    return Account(
        brief="the rule from observables takes the best branch in "
        f"{_told(families, OBSERVED)} (the paper's oracle: {_shares(families, ORACLE)}); regret "
        + _joined(number(family.whole.regret(OBSERVED)) for family in families),
        found=(
            _agreement(families, decisions, len(SETUPS) - len(every)),
            _beside(families, every),
            _drift(families),
        ),
        sample=_sample(every),
        chart=_chart(families),
        caption="Share of the decisions in which a rule takes the branch that hindsight finds "
        "best, of the paper's three.",
        tables=(
            Table(
                ("rule", "best branch", "worst seed", "regret", "above 1.2", "worst"),
                tuple(_block(family.name, family.whole) for family in families),
                "Best branch: the share of decisions in which hindsight finds no better one of the "
                "paper's three, over all seeds and on the worst. Regret: how many times farther "
                "than the best branch the one taken moves the optimum; geometric mean, share above "
                "1.2, worst decision. Always consensus is no rule but a baseline.",
            ),
            Table(
                ("round", *(method(rule) for rule in RULES), "decisions"),
                tuple((family.name, _stages(family.whole)) for family in families),
                "Share of decisions with the best branch, by how early the node leaves.",
            ),
            Table(
                ("rule", "best branch", "worst seed", "regret", "above 1.2", "worst"),
                tuple(
                    _block(f"{family.name}, {setup.title}", setup)
                    for family in families
                    for setup in family.setups
                ),
                fold="The rules, setup by setup",
            ),
            Table(
                ("setup", "takes drift", "gain", "worse", "worst gain"),
                tuple(
                    (
                        family.name,
                        tuple(
                            _gains(title, setup)
                            for title, setup in (
                                ("all", family.whole),
                                *((setup.title, setup) for setup in family.setups),
                            )
                        ),
                    )
                    for family in families
                ),
                "Gain: how many times less than the branch of the paper's oracle the one taken "
                "moves the optimum, in the geometric mean; worse: the share of decisions in which "
                "it moves it more than 1.2 times as far. Where a path predicts nothing steady, "
                "drift is no other than consensus, and counts as drift.",
                fold="The rule that may choose drift too, setup by setup",
            ),
        ),
        checks=_checks(families),
        records=tuple(
            record
            for family in families
            for setting, group in (
                (family.name, family.whole),
                *((f"{family.name}, {setup.title}", setup) for setup in family.setups),
            )
            for record in _records(setting, group)
        ),
        notes=(
            (
                "The rules do not know the same. The paper's oracle knows x*: it compares the "
                "paper's bounds with true distances and gradients in them. The certified rule "
                "knows a pilot's curve ε(t) and ζ, the largest gradient at x*. The rule from "
                "observables knows neither: it reads the leaver's own loss and path, how many stay "
                "behind, and μ." + _certified(decisions)
            ),
            (
                "Hindsight is the displacement |(∑H − Hᵢ + H̃)⁻¹(∇q − ∇fᵢ)(x*)| of the "
                "optimum, exact for quadratics and to first order for logistic losses, each "
                "decision by itself, as if all the others' losses were still whole. Below 10⁻¹⁴ it "
                "is rounding, and counts as 10⁻¹⁴."
            ),
            (
                "Three random nodes leave, one every 20 rounds, from round 10, 15, 25, 40, 60, "
                "100, 200 or 400 on. Whatever the rules say, a consensus legacy is left, so that "
                "all decide on the same runs. The silos are ten, with logistic losses of 20 to 80 "
                "samples; of the two datasets they are given, and a seed draws only who leaves."
            ),
        ),
    )


def _decisions(result: Result) -> list[_Decision]:
    seed = int(result.params["seed"])
    return [
        _Decision(
            seed,
            int(one["round"]),
            one["choices"],
            {branch: max(float(moved), FLOOR) for branch, moved in one["hindsight"].items()},
        )
        for one in result.facts["decisions"]
    ]


def _family(name: str, found: Mapping[str, _Group]) -> _Family:
    setups = [group for setup, group in found.items() if setup.startswith(f"{name},")]
    return _Family(name, _Group(name, [d for setup in setups for d in setup.decisions]), setups)


def _share(held: Iterable[bool]) -> float:
    every = list(held)
    return sum(every) / len(every)


def _geometric(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1)}%"


def _joined(parts: Iterable[str]) -> str:
    return " and ".join(parts)


def _shares(families: Sequence[_Family], rule: str) -> str:
    return _joined(_percent(family.whole.agreement(rule)) for family in families)


def _told(families: Sequence[_Family], rule: str) -> str:
    parts = (f"{_percent(f.whole.agreement(rule))} of the {f.name}" for f in families)
    return f"{_joined(parts)} decisions"


def _sample(setups: Sequence[_Group]) -> str:
    counts = sorted({len({decision.seed for decision in setup.decisions}) for setup in setups})
    n = seeds(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return f"{n} per setup, {counted(sum(len(s.decisions) for s in setups), 'decision')}"


def _agreement(families: Sequence[_Family], decisions: Sequence[_Decision], missing: int) -> str:
    shares = _shares(families, ALWAYS)
    certified = (
        f"the certified rule in {_shares(families, CERTIFIED)}, always consensus in {shares}"
    )
    if _always_consensus(decisions):
        certified = f"the certified rule, which always takes consensus, in {shares}"

    def regrets(rule: str) -> str:
        return _joined(number(family.whole.regret(rule)) for family in families)

    def worsts(rule: str) -> str:
        return _joined(number(family.whole.worst(rule)) for family in families)

    return (
        f"Every rule decides on the same {counted(len(decisions), 'departure')}, early and late, "
        "and hindsight judges. Of the paper's three branches, <strong>the rule from observables "
        f"takes the best in {_told(families, OBSERVED)}</strong>; the paper's oracle in "
        f"{_shares(families, ORACLE)}, {certified}. What the rule from observables takes moves "
        f"the optimum {regrets(OBSERVED)} times as far as the best branch in the geometric mean, "
        f"at worst {worsts(OBSERVED)} times; what the paper's oracle takes {regrets(ORACLE)} "
        f"times, at worst {worsts(ORACLE)}."
        + (f" {missing} of the {len(SETUPS)} setups have not been computed." if missing else "")
    )


def _beside(families: Sequence[_Family], setups: Sequence[_Group]) -> str:
    """Tell where there is nothing to decide, and where others decide better."""
    told = ""
    for family in families:
        easy = [setup for setup in family.setups if setup.agreement(ALWAYS) == 1]
        rest = [d for setup in family.setups if setup not in easy for d in setup.decisions]
        if easy:
            told += (
                "Consensus is best throughout, and there is nothing to decide, on "
                f"{_joined(setup.title for setup in easy)}"
            )
            if rest:
                told += (
                    f"; without, it is {_percent(_Group('', rest).agreement(OBSERVED))} of the "
                    f"{family.name} decisions, with the paper's oracle "
                    f"{_percent(_Group('', rest).agreement(ORACLE))}"
                )
            told += ". "
    behind = []
    for rule in (ORACLE, ALWAYS):
        ahead = [setup for setup in setups if setup.agreement(rule) > setup.agreement(OBSERVED)]
        among = (
            f"{s.title}: {_percent(s.agreement(rule))} against {_percent(s.agreement(OBSERVED))}"
            for s in ahead
        )
        name = "the paper's oracle" if rule == ORACLE else "always consensus"
        behind.append(
            f"{name} on {len(ahead)} of {counted(len(setups), 'setup')}"
            + (f" ({'; '.join(among)})" if ahead else "")
        )
    return f"{told}The rule from observables is right less often than {' and than '.join(behind)}."


def _drift(families: Sequence[_Family]) -> str:
    return (
        "With drift as a fourth branch, the rule takes it in "
        + _joined(f"{_percent(f.whole.drifts)} of the {f.name}" for f in families)
        + " decisions. The optimum then moves <strong>"
        + _joined(number(family.whole.gain) for family in families)
        + " times less</strong> than with the branch of the paper's oracle, in the geometric mean, "
        "and more than 1.2 times as far in "
        + _joined(_percent(family.whole.losses) for family in families)
        + " of the decisions."
    )


def _certified(decisions: Sequence[_Decision]) -> str:
    if not _always_consensus(decisions):
        return ""
    return (
        " The certified rule took consensus in every single decision. It can never prefer no "
        "legacy to that: (Lᵢ − μᵢ)ε/(nμ), the bound for the iterate with the leaver's own β, is "
        "always smaller than (|∇fᵢ| + Lᵢε)/(rμ), the bound for none with r nodes left."
    )


def _always_consensus(decisions: Sequence[_Decision]) -> bool:
    """Whether the certified rule is no other than the baseline."""
    return all(decision.choices[CERTIFIED] == "consensus" for decision in decisions)


def _block(title: str, group: _Group) -> tuple[str, tuple[tuple[str, ...], ...]]:
    rows = tuple(
        (
            method(rule),
            _percent(group.agreement(rule)),
            _percent(group.agreed(rule).worst),
            number(group.regret(rule)),
            _percent(group.worse(rule)),
            number(group.worst(rule)),
        )
        for rule in COMPARED
    )
    return f"{title} <small>({counted(len(group.decisions), 'decision')})</small>", rows


def _stages(group: _Group) -> tuple[tuple[str, ...], ...]:
    rows, after = [], -math.inf
    for last, title in STAGES.items():
        some = _Group(title, [d for d in group.decisions if after < d.round <= last])
        after = last
        if some.decisions:
            shares = (_percent(some.agreement(rule)) for rule in RULES)
            rows.append((title, *shares, str(len(some.decisions))))
    return tuple(rows)


def _gains(title: str, group: _Group) -> tuple[str, ...]:
    return (
        title,
        _percent(group.drifts),
        number(group.gain),
        _percent(group.losses),
        number(group.least),
    )


def _records(setting: str, group: _Group) -> list[Record]:
    found = []
    for rule in COMPARED:
        found += [
            Record(setting, rule, "agreement", group.agreed(rule)),
            Record(setting, rule, "regret", Sample.of(s.regret(rule) for s in group.seeds)),
            Record(setting, rule, "worst regret", Sample.of(s.worst(rule) for s in group.seeds)),
            Record(setting, rule, "pooled agreement", Sample.of([group.agreement(rule)])),
            Record(setting, rule, "pooled regret", Sample.of([group.regret(rule)])),
        ]
    gain = Sample.of((seed.gain for seed in group.seeds), bad="small")
    return [
        *found,
        Record(setting, WITH_DRIFT, "gain over the paper's oracle", gain),
        Record(setting, WITH_DRIFT, "pooled gain", Sample.of([group.gain])),
        Record(setting, WITH_DRIFT, "pooled share of drift", Sample.of([group.drifts])),
        Record(setting, WITH_DRIFT, "pooled share of worse", Sample.of([group.losses])),
    ]


def _checks(families: Sequence[_Family]) -> tuple[Check, ...]:
    checks = []
    for family in families:
        aim, whole = AIMS[family.name], family.whole
        share, worst = whole.agreement(OBSERVED), whole.agreed(OBSERVED).worst
        here = f"{_percent(share)} of {len(whole.decisions)} (worst seed {_percent(worst)})."
        short = f"the best branch is taken in {_percent(share)} of the {family.name} decisions"
        least = f"{given(100 * aim.agreement)}%"
        checks.append(
            Check(
                f"The rule from observables takes the best branch in at least {least} of the "
                f"{family.name} decisions.",
                here,
                target(reached=share >= aim.agreement),
                f"{short} and not in {least}",
            )
        )
        regret = whole.regret(OBSERVED)
        checks.append(
            Check(
                f"Its regret in {family.name} decisions is at most {given(aim.regret)} in the "
                "geometric mean.",
                f"{number(regret)}; at worst {number(whole.worst(OBSERVED))}.",
                target(reached=regret <= aim.regret),
                f"the regret in {family.name} decisions is {number(regret)} and not at most "
                f"{given(aim.regret)}",
            )
        )
        if aim.stretch is not None:
            more = f"{given(100 * aim.stretch)}%"
            checks.append(
                Check(
                    f"Stretch: the best branch in more than {more} of the {family.name} decisions.",
                    here,
                    target(reached=share > aim.stretch),
                    f"{short} and not in more than {more}",
                )
            )
    return tuple(checks)


def _chart(families: Sequence[_Family]) -> Chart:
    return Chart(
        "How often each rule takes the best branch",
        tuple(
            Strips(
                f"{family.name} losses",
                "% of the decisions of a seed",
                tuple(
                    Group(
                        setup.title,
                        tuple(
                            Dot(
                                rule,
                                ROLES[rule],
                                Sample.of(100 * share for share in setup.agreed(rule).values),
                            )
                            for rule in RULES
                        ),
                    )
                    for setup in family.setups
                ),
                (0.0, 100.0),
                "linear",
            )
            for family in families
        ),
        "Dot: median; thick bar: quartiles; thin line: all seeds.",
        "Share of decisions in which each rule takes the best branch, one group per setup; the "
        f"rule from observables does in {_told(families, OBSERVED)}.",
    )


ITEM = Item(
    "rules",
    "Beyond the paper: who decides best",
    "eq:anchor",
    "the smallest of three certified bounds decides, from observables",
    (
        (
            "At its departure a node compares three certified bounds, for an anchor at the "
            "iterate, for one at the local track and for no legacy, and takes the smallest. When "
            "no anchor is best, “rule (eq:anchor) detects this from observables and falls back to "
            "the classic bias term” (rem:noanchor)."
        ),
        (
            "How often the branch so chosen is the best one is not reported: there is no number to "
            "compare with. The targets are our own, for a rule that predicts from what a leaver "
            "can see how far each branch would move the optimum."
        ),
    ),
    tell,
    beyond=True,
)
