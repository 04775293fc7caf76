"""Wills whose decisions are noted, and wills that decide as these have: for parity of engines."""

from dataclasses import dataclass, field

from bequest.model.wills import Will


@dataclass(frozen=True)
class Remembering(Will):
    """A will whose decisions are noted, by node and round."""

    inner: Will
    decisions: dict = field(default_factory=dict)
    label = "remembering"

    @property
    def title(self):
        return self.inner.title

    @property
    def needs_history(self):
        return self.inner.needs_history

    @property
    def by_gradients(self):
        return self.inner.by_gradients

    def decide(self, estate):
        decided = self.inner.decide(estate)
        self.decisions[estate.node, estate.round] = decided
        return decided


@dataclass(frozen=True)
class Recalling(Will):
    """A will that decides as another one has decided before."""

    decisions: dict
    of: Will
    label = "recalling"

    @property
    def title(self):
        return self.of.title

    def decide(self, estate):
        return self.decisions[estate.node, estate.round]
