"""Double-entry bookkeeping of what is remembered: what every node must hold, in every epoch.

The books are kept from what was announced (who leaves what to whom, who adopts what, who takes
what back) and counted once it has begun. They use dense matrices and plain sums, and nothing of
how a node does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.protocol.events import Adopted, Decided, Recalled, Withdrawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.core.legacy import Legacy
    from bequest.protocol.events import Adoption, Committed, Handover

# How far sums in different orders may be apart, relative to what was added up.
_ROUNDING = 1e-10


class Violation(AssertionError):
    """Something that must never happen has happened."""


def identical(one: Legacy, other: Legacy) -> bool:
    """Whether two legacies are the same to the last bit, in all that they say."""
    return (
        (one.eta, one.c, dict(one.lineage), one.blended)
        == (other.eta, other.c, dict(other.lineage), other.blended)
        and np.array_equal(one.p, other.p)
        and np.array_equal(one.factor, other.factor)
        and np.array_equal(one.weights, other.weights)
        and told(one) == told(other)
    )


def told(legacy: Legacy, sign: int = 1) -> tuple[tuple[object, ...], ...]:
    """Return what its samples are, to the last bit, in an order of their own."""
    parts = (
        (part.origins, part.form, part.key, sign * part.sign, *(a.tobytes() for a in part.arrays))
        for part in legacy.samples
    )
    return tuple(sorted(parts))


@dataclass(frozen=True)
class Entry:
    """A quadratic 1/2 x'Hx + p'x + c, and whom it remembers.

    Attributes:
        scale: how large H, p and c of its parts were, together.
        is_exact: whether it is a sum of legacies as they were handed over, and nothing else.
    """

    H: np.ndarray
    p: np.ndarray
    c: float
    lineage: Mapping[int, int]
    blended: frozenset[int] = frozenset()
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    is_exact: bool = True
    samples: tuple[tuple[object, ...], ...] = ()

    @classmethod
    def of(cls, legacy: Legacy) -> Entry:
        H = legacy.hessian()
        size = 1 + np.abs(H).max(), 1 + np.abs(legacy.p).max(), 1 + abs(legacy.c)
        lineage = dict(legacy.lineage)
        return cls(H, legacy.p, legacy.c, lineage, legacy.blended, size, samples=told(legacy))

    @classmethod
    def zero(cls, dim: int) -> Entry:
        return cls(np.zeros((dim, dim)), np.zeros(dim), 0.0, {})

    def plus(self, other: Entry, sign: int = 1) -> Entry:
        nodes = {*self.lineage, *other.lineage}
        shares = {n: self.lineage.get(n, 0) + sign * other.lineage.get(n, 0) for n in nodes}
        inside = {node: share for node, share in sorted(shares.items()) if share}
        if sign > 0:
            samples = tuple(sorted(self.samples + other.samples))
        else:
            samples = tuple(part for part in self.samples if part not in other.samples)
        return Entry(
            self.H + sign * other.H,
            self.p + sign * other.p,
            self.c + sign * other.c,
            inside,
            (self.blended | other.blended) & inside.keys(),
            tuple(a + b for a, b in zip(self.scale, other.scale, strict=True)),
            self.is_exact and other.is_exact,
            samples,
        )

    def is_in(self, legacy: Legacy) -> bool:
        """Whether a legacy says the same, but for the rounding of sums."""
        gaps = (
            np.abs(legacy.hessian() - self.H).max(),
            np.abs(legacy.p - self.p).max(),
            abs(legacy.c - self.c),
        )
        close = all(gap <= _ROUNDING * s for gap, s in zip(gaps, self.scale, strict=True))
        close = close and told(legacy) == self.samples
        return close and (dict(legacy.lineage), legacy.blended) == (self.lineage, self.blended)


@dataclass
class Page:
    """One epoch.

    Attributes:
        counted: whose losses count: founders, and the nodes that joined, but for the forgotten.
        held: member -> what it has inherited.
        receipts: who is remembered -> the memory of its own loss, as it was handed over.
    """

    counted: frozenset[int]
    held: dict[int, Entry] = field(default_factory=dict)
    receipts: dict[int, Legacy] = field(default_factory=dict)


class Books:
    """All pages, by the epoch that they are about; 0 for before the first one."""

    def __init__(self, founders: frozenset[int], dim: int) -> None:
        self.pages = {0: Page(founders)}
        self._dim = dim
        self._announced: dict[tuple[int, int], Decided | Adopted | Recalled | Withdrawn] = {}

    def announce(self, process: int, effect: Decided | Adopted | Recalled | Withdrawn) -> None:
        """Note what will count if the epoch that it is for begins."""
        node = process if isinstance(effect, Decided) else effect.node
        self._announced[effect.epoch, node] = effect

    def turn(self, change: Committed, base: int, seen: Callable[[int], Legacy]) -> Page:
        """Begin a page: what was held in the epoch before, and what has been announced.

        Args:
            change: what counts from now on.
            base: the epoch before.
            seen: member -> what it holds now; believed only where a sum was not exact.
        """
        before = self.pages[base]
        page = Page(before.counted, dict(before.held), dict(before.receipts))
        self.pages[change.epoch] = page
        for handover in change.handovers:
            self._hand_over(page, change.epoch, handover)
        taken = {a.node: page.held.pop(a.node, Entry.zero(self._dim)) for a in change.adoptions}
        for adoption in change.adoptions:
            page.receipts.pop(adoption.node, None)
            if adoption.adopter is not None:
                alone = len(change.adoptions) == 1
                self._adopt(page, change.epoch, adoption, taken[adoption.node], alone=alone)
        if change.arrival is not None:
            self._let_in(page, change, seen)
        for node in change.members:
            page.held.setdefault(node, Entry.zero(self._dim))
        return page

    def _hand_over(self, page: Page, epoch: int, handover: Handover) -> None:
        decided = self._announced[epoch, handover.node]
        held, own = page.held.pop(handover.node), decided.bequest.legacy
        page.receipts.pop(handover.node, None)
        if own is not None:
            page.receipts[handover.node] = own
        if decided.farewell is None:  # the classic way
            return
        whole = held if own is None else Entry.of(own).plus(held)
        sent = decided.farewell.legacy
        if decided.blur is not None:
            whole = Entry.of(sent)
            whole = replace(whole, blended=frozenset(whole.lineage), is_exact=False)
        if not whole.is_in(sent):
            raise Violation(f"{handover} sends {sent}, where {whole} is to be handed over")
        page.held[handover.heir] = page.held[handover.heir].plus(whole)

    def _adopt(
        self, page: Page, epoch: int, adoption: Adoption, inherited: Entry, *, alone: bool
    ) -> None:
        adopted = self._announced[epoch, adoption.node]
        if isinstance(adopted, Recalled):
            if adopted.legacy is not None:
                if inherited.lineage or not alone:
                    raise Violation(f"{adoption} is recalled, though not it alone is lost")
                page.receipts[adoption.node] = adopted.legacy
                page.held[adoption.adopter] = page.held[adoption.adopter].plus(
                    Entry.of(adopted.legacy)
                )
            return
        if not inherited.is_in(adopted.inherited):
            raise Violation(f"{adoption} finds {adopted.inherited}, where it held {inherited}")
        if not adopted.own.is_zero:
            page.receipts[adoption.node] = adopted.own
        whole = Entry.of(adopted.own).plus(inherited)
        page.held[adoption.adopter] = page.held[adoption.adopter].plus(whole)

    def _let_in(self, page: Page, change: Committed, seen: Callable[[int], Legacy]) -> None:
        arrival = change.arrival
        receipt = page.receipts.pop(arrival.node, None)
        if arrival.holder is not None:
            if receipt is None:
                raise Violation(f"{arrival}: there was nothing to be taken out")
            rest = page.held[arrival.holder].plus(Entry.of(receipt), -1)
            if not self._announced[change.epoch, arrival.node].exact:
                found, left = seen(arrival.holder), rest.lineage
                rest = replace(
                    Entry.of(found), lineage=left, blended=frozenset(left), is_exact=False
                )
            if not rest.lineage:
                rest = Entry.zero(self._dim)
            page.held[arrival.holder] = rest
        if arrival.purpose == "forget":
            page.counted -= {arrival.node}
        else:
            page.counted |= {arrival.node}
            page.held[arrival.node] = Entry.zero(self._dim)
