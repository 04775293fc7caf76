"""Beyond the paper: which rule takes the branch that turns out to be best, and what errors cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bequest.paper.report.charts import Chart, Dot, Group, Strips
from bequest.paper.report.markup import HtmlTable, method
from bequest.paper.report.measures import Sample, counted, fixed, given, number
from bequest.paper.report.palette import WILLS as ROLES
from bequest.paper.report.sections.base import Account, CsvRow, Item, grouped, seeds
from bequest.paper.report.sections.decisions import (
    ALWAYS,
    CERTIFIED,
    COMPARED,
    OBSERVED,
    ORACLE,
    RULES,
    WITH_DRIFT,
    Decision,
    DecisionGroup,
    Family,
    decisions_of,
    family_of,
)
from bequest.paper.report.verdicts import Check, target
from bequest.paper.store import Result

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
class AgreementAim:
    """What the rule from observables should reach: least agreement, largest mean regret."""

    agreement: float
    regret: float
    stretch: float | None = None


AIMS = {"quadratic": AgreementAim(0.80, 1.25), "logistic": AgreementAim(0.70, 1.25, stretch=0.80)}


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    found = {
        name: DecisionGroup(SETUPS[name], [d for result in some for d in decisions_of(result)])
        for name, some in grouped(results, "setup", order=SETUPS).items()
    }
    families = [family for family in (family_of(name, found) for name in AIMS) if family.setups]
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
            HtmlTable(
                ("rule", "best branch", "worst seed", "regret", "above 1.2", "worst"),
                dict(_block(family.name, family.whole) for family in families),
                "Best branch: the share of decisions in which hindsight finds no better one of the "
                "paper's three, over all seeds and on the worst. Regret: how many times farther "
                "than the best branch the one taken moves the optimum; geometric mean, share above "
                "1.2, worst decision. Always consensus is no rule but a baseline.",
            ),
            HtmlTable(
                ("round", *(method(rule) for rule in RULES), "decisions"),
                {family.name: _stages(family.whole) for family in families},
                "Share of decisions with the best branch, by how early the node leaves.",
            ),
            HtmlTable(
                ("rule", "best branch", "worst seed", "regret", "above 1.2", "worst"),
                dict(
                    _block(f"{family.name}, {setup.title}", setup)
                    for family in families
                    for setup in family.setups
                ),
                fold="The rules, setup by setup",
            ),
            HtmlTable(
                ("setup", "takes drift", "gain", "worse", "worst gain"),
                {
                    family.name: [
                        _gains("all", family.whole),
                        *(_gains(setup.title, setup) for setup in family.setups),
                    ]
                    for family in families
                },
                "Gain: how many times less than the branch of the paper's oracle the one taken "
                "moves the optimum, in the geometric mean; worse: the share of decisions in which "
                "it moves it more than 1.2 times as far. Where a path predicts nothing steady, "
                "drift is no other than consensus, and counts as drift.",
                fold="The rule that may choose drift too, setup by setup",
            ),
        ),
        checks=_checks(families),
        csv=tuple(
            line
            for family in families
            for lines in (
                _csv_rows(family.name, family.whole),
                *(_csv_rows(f"{family.name}, {setup.title}", setup) for setup in family.setups),
            )
            for line in lines
        ),
        notes=(
            (
                "The rules do not know the same. The paper's oracle knows x*: it compares the "
                "paper's bounds with true distances and gradients in them. The certified rule "
                "knows a pilot's curve ε(t) and ζ, the largest gradient at x*. The rule from "
                "observables knows neither: it reads the leaver's own loss and path, how many stay "
                "behind, and μ." + _certified(decisions)
            ),
            """Hindsight is the displacement |(∑H − Hᵢ + H̃)⁻¹(∇q − ∇fᵢ)(x*)| of the optimum, exact
            for quadratics and to first order for logistic losses, each decision by itself, as if
            all the others' losses were still whole. Below 10⁻¹⁴ it is rounding, and counts as
            10⁻¹⁴.""",
            """Three random nodes leave, one every 20 rounds, from round 10, 15, 25, 40, 60, 100,
            200 or 400 on. The node always leaves a consensus legacy, so that all decide on the same
            runs. The silos are ten, with logistic losses of 20 to 80 samples; of the two datasets
            they are given, and a seed draws only who leaves.""",
        ),
    )


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1)}%"


def _joined(parts: Iterable[str]) -> str:
    return " and ".join(parts)


def _shares(families: Sequence[Family], rule: str) -> str:
    return _joined(_percent(family.whole.agreement(rule)) for family in families)


def _told(families: Sequence[Family], rule: str) -> str:
    parts = (f"{_percent(f.whole.agreement(rule))} of the {f.name}" for f in families)
    return f"{_joined(parts)} decisions"


def _sample(setups: Sequence[DecisionGroup]) -> str:
    counts = [len(setup.seeds) for setup in setups]
    decisions = sum(len(setup.decisions) for setup in setups)
    return f"{seeds(*counts)} per setup, {counted(decisions, 'decision')}"


def _agreement(families: Sequence[Family], decisions: Sequence[Decision], missing: int) -> str:
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


def _beside(families: Sequence[Family], setups: Sequence[DecisionGroup]) -> str:
    """Say where there is nothing to decide, and where other rules decide better."""
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
                others = DecisionGroup("", rest)
                told += (
                    f"; without, it is {_percent(others.agreement(OBSERVED))} of the "
                    f"{family.name} decisions, with the paper's oracle "
                    f"{_percent(others.agreement(ORACLE))}"
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


def _drift(families: Sequence[Family]) -> str:
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


def _certified(decisions: Sequence[Decision]) -> str:
    if not _always_consensus(decisions):
        return ""
    return (
        " The certified rule took consensus in every single decision. It can never prefer no "
        "legacy to that: (Lᵢ − μᵢ)ε/(nμ), the bound for the iterate with the leaver's own β, is "
        "always smaller than (|∇fᵢ| + Lᵢε)/(rμ), the bound for none with r nodes left."
    )


def _always_consensus(decisions: Sequence[Decision]) -> bool:
    """Whether the certified rule is the same as the baseline."""
    return all(decision.choices[CERTIFIED] == "consensus" for decision in decisions)


def _block(title: str, group: DecisionGroup) -> tuple[str, Sequence[tuple[str, ...]]]:
    rows = [
        (
            method(rule),
            _percent(group.agreement(rule)),
            _percent(group.agreed(rule).worst),
            number(group.regret(rule)),
            _percent(group.worse(rule)),
            number(group.worst(rule)),
        )
        for rule in COMPARED
    ]
    return f"{title} <small>({counted(len(group.decisions), 'decision')})</small>", rows


def _stages(group: DecisionGroup) -> list[tuple[str, ...]]:
    rows, after = [], -math.inf
    for last, title in STAGES.items():
        some = DecisionGroup(title, [d for d in group.decisions if after < d.round <= last])
        after = last
        if some.decisions:
            shares = (_percent(some.agreement(rule)) for rule in RULES)
            rows.append((title, *shares, str(len(some.decisions))))
    return rows


def _gains(title: str, group: DecisionGroup) -> tuple[str, ...]:
    return (
        title,
        _percent(group.drifts),
        number(group.gain),
        _percent(group.losses),
        number(group.least),
    )


def _csv_rows(setting: str, group: DecisionGroup) -> list[CsvRow]:
    found = []
    for rule in COMPARED:
        found += [
            CsvRow(setting, rule, "agreement", group.agreed(rule)),
            CsvRow(setting, rule, "regret", Sample.of(s.regret(rule) for s in group.seeds)),
            CsvRow(setting, rule, "worst regret", Sample.of(s.worst(rule) for s in group.seeds)),
            CsvRow(setting, rule, "pooled agreement", Sample.of([group.agreement(rule)])),
            CsvRow(setting, rule, "pooled regret", Sample.of([group.regret(rule)])),
        ]
    gain = Sample.of((seed.gain for seed in group.seeds), bad="small")
    return [
        *found,
        CsvRow(setting, WITH_DRIFT, "gain over the paper's oracle", gain),
        CsvRow(setting, WITH_DRIFT, "pooled gain", Sample.of([group.gain])),
        CsvRow(setting, WITH_DRIFT, "pooled share of drift", Sample.of([group.drifts])),
        CsvRow(setting, WITH_DRIFT, "pooled share of worse", Sample.of([group.losses])),
    ]


def _checks(families: Sequence[Family]) -> tuple[Check, ...]:
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


def _chart(families: Sequence[Family]) -> Chart:
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
    """At its departure a node compares three certified bounds, for an anchor at the iterate, for
    one at the local track and for no legacy, and takes the smallest. When no anchor is best, “rule
    (eq:anchor) detects this from observables and falls back to the classic bias term”
    (rem:noanchor).

    How often the branch so chosen is the best one is not reported: there is no number to compare
    with. The targets are our own, for a rule that predicts from what a leaver can see how far each
    branch would move the optimum.""",
    tell,
    beyond=True,
)
