"""From reports that arrive host by host to the record of a run, in the order of what happened."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bequest.engines.film import Film
from bequest.engines.ledger import Ledger
from bequest.engines.ray.reports import Ended, Rounds
from bequest.protocol.events import Began

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bequest.core.steps import StepChoice
    from bequest.engines.base import Plan
    from bequest.engines.ray.reports import Item
    from bequest.protocol.events import Committed


class Chronicle:
    """Puts what the hosts report into order, and records it.

    Hosts report at different times, but each in its own order. An epoch therefore begins in the
    record once everybody who is alive has reported to be in it: until then the rounds before it
    may not all be here.

    Args:
        plan: the run.
        first: its first step.
        begun: hears of every change that has come into force.
    """

    def __init__(self, plan: Plan, first: StepChoice, begun: Callable[[Committed], None]) -> None:
        self.ledger, self.film = Ledger(plan, first), Film(plan)
        self.epoch = 0
        self._begun = begun
        self._decided: dict[int, Committed] = {}
        self._queues: dict[int, deque[Rounds | Began]] = {}
        self._dead: set[int] = set()

    def report(self, items: Iterable[Item]) -> None:
        """Take in what one host reports."""
        for item in items:
            if isinstance(item, Ended):
                continue
            if isinstance(item, Rounds):
                self._put(item)
            elif isinstance(item.effect, Began):
                if item.effect.epoch > self.epoch:  # or it comes too late to count
                    self._queue(item.process).append(item.effect)
            else:
                self.ledger.observe(item.process, item.effect)
        self.advance()
        # Where a round takes seconds nobody wants to wait for many of them to see one.
        self.film.catch_up()

    def commit(self, change: Committed) -> None:
        """Hear of an epoch that the steward has decided on; it counts once somebody begins it."""
        self._decided[change.epoch] = change
        self.advance()

    def lose(self, node: int) -> None:
        """Hear that a node is lost: nothing more is waited for from it."""
        self._dead.add(node)
        self.advance()

    def admit(self, node: int) -> None:
        """Hear that a node is there again."""
        self._dead.discard(node)
        self._queues.pop(node, None)

    def _put(self, rounds: Rounds) -> None:
        """Record rounds that nothing has to come before; let the others wait, node by node."""
        if not any(map(self._queues.get, rounds.processes)):
            self._record(rounds)
        else:
            for one in rounds.of_each():
                self._queue(one.processes[0]).append(one)

    def _queue(self, process: int) -> deque[Rounds | Began]:
        queue = self._queues.get(process)
        if queue is None:
            queue = self._queues[process] = deque()
        return queue

    def advance(self) -> None:
        """Record everything of which all that comes before it is here."""
        while True:
            for queue in self._queues.values():
                while queue and isinstance(head := queue[0], Rounds):
                    queue.popleft()
                    self._record(head)
            heads = {n: q[0] for n, q in self._queues.items() if q and isinstance(q[0], Began)}
            epoch = min((head.epoch for head in heads.values()), default=None)
            change = None if epoch is None else self._decided.get(epoch)
            if change is None or not all(self._has_come(n, change.epoch) for n in change.members):
                return
            begun = {n: head for n, head in heads.items() if head.epoch == change.epoch}
            for node in begun:
                self._queues[node].popleft()
            # What nobody has begun who is still alive did not happen: a new steward never heard
            # of it.
            if begun.keys() - self._dead:
                self._begin(change, begun)

    def _record(self, rounds: Rounds) -> None:
        self.film.take_many(rounds.processes, rounds.first, rounds.states)
        # A copy: these few numbers are not to keep the whole block from being forgotten.
        for process, x in zip(rounds.processes, rounds.states[0, -1].copy(), strict=True):
            self.ledger.remember(process, x)

    def _has_come(self, node: int, epoch: int) -> bool:
        """Whether a member has begun the epoch, or never will."""
        queue = self._queues.get(node)
        if not queue:
            return node in self._dead
        head = queue[0]
        return isinstance(head, Began) and head.epoch >= epoch

    def _begin(self, change: Committed, begun: dict[int, Began]) -> None:
        self._decided = {e: later for e, later in self._decided.items() if e > change.epoch}
        self.epoch = change.epoch
        self.ledger.commit(change)
        self.film.cut(change)
        for node, state in sorted(begun.items()):
            self.film.begin(node, state)
        self._begun(change)
