"""The decisions that the rules are compared on: how often each is right, and what errors cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bequest.paper.report.measures import Sample, bounded
from bequest.paper.store import Result

# the branches of the paper, and the rules that choose from them
BRANCHES = ("consensus", "local", "none")
OBSERVED, CERTIFIED, ORACLE = "observed", "certified", "paper's oracle"
RULES = (OBSERVED, CERTIFIED, ORACLE)
# the rule that needs no deciding, and the one with a fourth branch
ALWAYS, WITH_DRIFT = "always consensus", "observed, with drift"
COMPARED = (*RULES, ALWAYS)
# below this, a displacement is rounding
FLOOR = 1e-14
# a branch that moves the optimum this many times as far as another is a worse one
WORSE = 1.2


@dataclass(frozen=True, slots=True)
class Decision:
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
class DecisionGroup:
    """Decisions to be counted together."""

    title: str
    decisions: Sequence[Decision]

    def agreement(self, rule: str) -> float:
        """Return how often a rule takes the best branch."""
        return _share(decision.agrees(rule) for decision in self.decisions)

    def regret(self, rule: str) -> float:
        """Return the geometric mean of its regrets."""
        return _geometric(decision.regret(rule) for decision in self.decisions)

    def worse(self, rule: str) -> float:
        """Return how often it takes a branch that is clearly worse."""
        return _share(decision.regret(rule) > WORSE for decision in self.decisions)

    def worst(self, rule: str) -> float:
        """Return its largest regret."""
        return max(decision.regret(rule) for decision in self.decisions)

    @property
    def drifts(self) -> float:
        """How often drift is taken."""
        return _share(decision.choices[WITH_DRIFT] == "drift" for decision in self.decisions)

    @property
    def gain(self) -> float:
        """The geometric mean of the gains of the rule with drift."""
        return _geometric(decision.gain for decision in self.decisions)

    @property
    def losses(self) -> float:
        """How often the rule with drift is worse than the paper's oracle."""
        return _share(decision.gain * WORSE < 1 for decision in self.decisions)

    @property
    def least(self) -> float:
        """Its smallest gain."""
        return min(decision.gain for decision in self.decisions)

    @property
    def seeds(self) -> list[DecisionGroup]:
        """The decisions of each seed."""
        mine: dict[int, list[Decision]] = {}
        for decision in self.decisions:
            mine.setdefault(decision.seed, []).append(decision)
        return [DecisionGroup(self.title, some) for some in mine.values()]

    def agreed(self, rule: str) -> Sample:
        """Return the agreement seed by seed."""
        return Sample.of((seed.agreement(rule) for seed in self.seeds), bad="small")


@dataclass(frozen=True, slots=True)
class Family:
    """The setups with one kind of loss, and all their decisions."""

    name: str
    whole: DecisionGroup
    setups: Sequence[DecisionGroup]


def decisions_of(result: Result) -> list[Decision]:
    """Return the decisions of one result."""
    seed = int(result.params["seed"])
    return [
        Decision(
            seed,
            int(one["round"]),
            one["choices"],
            {branch: max(float(moved), FLOOR) for branch, moved in one["hindsight"].items()},
        )
        for one in result.facts["decisions"]
    ]


def family_of(name: str, found: Mapping[str, DecisionGroup]) -> Family:
    """Return the setups whose names begin with that of the family."""
    setups = [group for setup, group in found.items() if setup.startswith(f"{name},")]
    whole = [decision for setup in setups for decision in setup.decisions]
    return Family(name, DecisionGroup(name, whole), setups)


def _share(held: Iterable[bool]) -> float:
    every = list(held)
    return sum(every) / len(every)


def _geometric(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
