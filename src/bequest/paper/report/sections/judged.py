"""How good the decisions of a rule are, branch by branch, as hindsight judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.paper.report.markup import HtmlTable
from bequest.paper.report.measures import given
from bequest.paper.report.sections.bed import percent
from bequest.paper.report.verdicts import Check, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from bequest.paper.store import Result

# A branch stays among those that are chosen from if it is the better choice where it is chosen, in
# this share of the cases at least.
CALIBRATED = 0.8
NAMES = {
    "none": "forget",
    "local": "the local track",
    "consensus": "the iterate",
    "drift": "the predicted optimum",
}


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """What became of the decisions for one branch.

    Attributes:
        branch: the branch.
        chosen: how often it was chosen.
        better: in what share of these it was no worse than what would have been chosen without it.
        best: in what share it was the best of all.
    """

    branch: str
    chosen: int
    better: float
    best: float

    @property
    def calibrated(self) -> bool:
        """Whether the evidence for the branch can be trusted."""
        return self.better >= CALIBRATED


def verdicts(results: Iterable[Result]) -> tuple[BranchRecord, ...]:
    """Return the verdict on every branch that was chosen."""
    decisions = [one for result in results for one in result.facts["decisions"]]
    found = []
    for branch in NAMES:
        mine = [one for one in decisions if one["choice"] == branch]
        if mine:
            better = [_true(one, branch) <= _true(one, _runner_up(one)) for one in mine]
            best = [_true(one, branch) <= min(one["hindsight"].values()) for one in mine]
            found.append(
                BranchRecord(branch, len(mine), sum(better) / len(mine), sum(best) / len(mine))
            )
    return tuple(found)


def _true(decision: dict[str, Any], branch: str) -> float:
    return float(decision["hindsight"][branch])


def _runner_up(decision: dict[str, Any]) -> str:
    """Return the branch that would have been taken without the one that was."""
    predicted = decision["predicted"]
    others = [branch for branch in predicted if branch != decision["choice"]]
    return str(min(others, key=lambda branch: predicted[branch]))


def table(found: Sequence[BranchRecord]) -> HtmlTable:
    """Return how often each branch was chosen, and how often rightly."""
    return HtmlTable(
        ("two vectors, the rule says", "times", "better than the next", "best of all"),
        {"": [(NAMES[v.branch], str(v.chosen), percent(v.better), percent(v.best)) for v in found]},
        "Every decision of the observed rule between all four branches, held against hindsight: "
        "how far each branch really moves the optimum. Next: the branch it would have taken "
        "otherwise.",
        fold="What a rule's word is worth",
    )


def sentence(found: Sequence[BranchRecord], offered: Sequence[str]) -> str:
    """Say which branches the evidence is good enough for."""
    parts = [
        f"{NAMES[v.branch]} {percent(v.better)} of {v.chosen}"
        for v in found
        if v.branch in ("none", "local")
    ]
    kept = [NAMES[v.branch] for v in found if v.branch in offered]
    return (
        "With two vectors a rule can also choose to forget, or the local track. Where it does, "
        f"that is the better choice in: {'; '.join(parts)}. What is less than "
        f"{given(100 * CALIBRATED)}% is offered only to those who ask for it: "
        f"<code>Adaptive(vectors=2)</code> chooses between {' and '.join(kept)}."
    )


def check(found: Sequence[BranchRecord], offered: Sequence[str]) -> Check:
    """Check that nothing is offered by default that the evidence is not good enough for."""
    doubtful = [
        v for v in found if v.branch in offered and v.branch in ("none", "local")
        and not v.calibrated
    ]  # fmt: skip
    told = "; ".join(f"{NAMES[v.branch]} {percent(v.better)} of {v.chosen}" for v in found)
    return Check(
        "Forgetting and the local track are in the comparison only if they are the better choice "
        f"in at least {given(100 * CALIBRATED)}% of the cases in which they are chosen.",
        f"In the comparison: {', '.join(NAMES[branch] for branch in offered)}. Chosen from all "
        f"four, the better choice: {told}.",
        target(reached=not doubtful),
        f"{' and '.join(NAMES[v.branch] for v in doubtful)} is in the comparison without evidence",
    )
