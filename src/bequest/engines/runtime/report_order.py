"""From reports that arrive host by host to the record of a run, in the order of what happened."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from bequest.engines.runtime.report_batch import Ended, Rounds
from bequest.protocol.events import Began, Committed, Completed, Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bequest.engines.runtime.ledger import Ledger
    from bequest.engines.runtime.report_batch import ReportItem
    from bequest.engines.runtime.round_recorder import RoundRecorder
    from bequest.protocol.events import Effect

    # What can wait in a node's queue.
    Queued: TypeAlias = Rounds | Completed | Began


class ReportOrder:
    """Puts what nodes report into order, and records it.

    Hosts report at different times, but each in its own order. An epoch therefore begins in the
    record once every member that is alive has reported to be in it: until then the rounds before
    it may not all be here. An epoch that only dead nodes have begun did not happen: a new steward
    never hears of it.

    Args:
        ledger: the records.
        recorder: measures the rounds; None where no process sees the states of all nodes.
        begun: hears of every change that has come into force.

    Attributes:
        epoch: the number of the present epoch; 0 before the first.
        members: the nodes in it, ascending.
    """

    def __init__(
        self, ledger: Ledger, recorder: RoundRecorder | None, begun: Callable[[Committed], None]
    ) -> None:
        self._ledger, self._recorder, self._begun = ledger, recorder, begun
        self.epoch = 0
        self.members: tuple[int, ...] = ()
        self._decided: dict[int, Committed] = {}
        self._queues: dict[int, deque[Queued]] = {}
        # node -> its latest incarnation that is lost
        self._dead: dict[int, int] = {}
        # A member without which an epoch cannot begin, whatever other members of it report.
        self._awaited: tuple[int, int] | None = None

    def observe(self, process: int, effect: Effect) -> None:
        """Take in one effect of a node or of the steward."""
        if isinstance(effect, Completed):
            queue = self._queues.get(process)
            if queue:
                queue.append(effect)
                return
            if self._recorder is not None:
                self._recorder.take(process, effect)
            self._ledger.remember(process, effect.x)
        elif isinstance(effect, Began):
            if effect.epoch > self.epoch:  # or it comes too late to count
                self._queue(process).append(effect)
                awaited = self._awaited
                if awaited is None or awaited[0] == process or awaited[1] != effect.epoch:
                    self._advance()
        elif isinstance(effect, Committed):
            self._decided[effect.epoch] = effect
            self._advance()
        else:
            self._ledger.observe(process, effect)
            if isinstance(effect, Failed) and self._recorder is not None:
                self._recorder.catch_up()  # it may fail because the iterates have escaped

    def report(self, items: Iterable[ReportItem]) -> None:
        """Take in what one host reports."""
        for item in items:
            if isinstance(item, Rounds):
                self._put(item)
            elif not isinstance(item, Ended):
                self.observe(item.process, item.effect)
        self._advance()
        if self._recorder is not None:
            # Where a round takes seconds, a reader does not wait for many of them to see one.
            self._recorder.catch_up()

    def lose(self, node: int, incarnation: int) -> None:
        """Hear that a node is lost: nothing more is waited for from that incarnation."""
        self._dead[node] = max(incarnation, self._dead.get(node, incarnation))
        self._advance()

    def revive(self, running: Mapping[int, int]) -> None:
        """Hear which incarnations run: a verdict on one of them, unheard by any steward, is void.

        The incarnations before it are over all the same.
        """
        self._dead = {
            node: min(dead, running[node] - 1) if node in running else dead
            for node, dead in self._dead.items()
        }
        self._advance()

    def admit(self, node: int, incarnation: int) -> None:
        """Hear that another incarnation of a node is there: those before it are over."""
        self._queues.pop(node, None)
        self._awaited = None
        self._dead[node] = max(incarnation - 1, self._dead.get(node, -1))

    def _put(self, rounds: Rounds) -> None:
        """Record rounds that nothing has to come before; let the others wait, node by node."""
        if not any(map(self._queues.get, rounds.processes)):
            self._record_many(rounds)
        else:
            for one in rounds.of_each():
                self._queue(one.processes[0]).append(one)

    def _queue(self, process: int) -> deque[Queued]:
        queue = self._queues.get(process)
        if queue is None:
            queue = self._queues[process] = deque()
        return queue

    def _advance(self) -> None:
        """Record everything of which all that comes before it is here."""
        self._awaited = None
        while True:
            for process, queue in self._queues.items():
                while queue and not isinstance(head := queue[0], Began):
                    queue.popleft()
                    if isinstance(head, Completed):
                        self._record(process, head)
                    else:
                        self._record_many(head)
            heads = {n: q[0] for n, q in self._queues.items() if q and isinstance(q[0], Began)}
            epoch = min((head.epoch for head in heads.values()), default=None)
            change = None if epoch is None else self._decided.get(epoch)
            if change is None:
                return
            lost = self._lost_of(change) if self._dead else set()
            begun = {n: head for n, head in heads.items() if head.epoch == change.epoch}
            ahead = {n for n, head in heads.items() if head.epoch > change.epoch} - lost
            # A member that goes on to a later epoch has never heard of one that only dead nodes
            # have begun; nor has the steward, and other members may have left meanwhile.
            only_dead = begun.keys() <= lost
            is_void = only_dead and not ahead.isdisjoint(change.members)
            if not is_void:
                # The last ones, which are often told last, so that it is seldom looked for another.
                members = reversed(change.members)
                away = (n for n in members if not self._has_come(n, change.epoch, lost))
                awaited = next(away, None)
                if awaited is not None:
                    self._awaited = awaited, change.epoch
                    return
            if only_dead and not ahead:
                return  # the verdict may be void: a new steward would find them in that epoch
            for node in begun:
                self._queues[node].popleft()
            if begun.keys() - lost:
                self._begin(change, begun)

    def _record(self, process: int, state: Completed) -> None:
        if self._recorder is not None:
            self._recorder.take(process, state)
        self._ledger.remember(process, state.x)

    def _record_many(self, rounds: Rounds) -> None:
        if self._recorder is not None:
            self._recorder.take_many(rounds.processes, rounds.first, rounds.states)
        # A copy: these few numbers must not keep the whole block in memory.
        for process, x in zip(rounds.processes, rounds.states[0, -1].copy(), strict=True):
            self._ledger.remember(process, x)

    def _lost_of(self, change: Committed) -> set[int]:
        """Return the members of an epoch that are lost, in the incarnation that was in it."""
        members = zip(change.members, change.incarnations, strict=True)
        return {node for node, incarnation in members if incarnation <= self._dead.get(node, -1)}

    def _has_come(self, node: int, epoch: int, lost: set[int]) -> bool:
        """Whether a member has begun the epoch, or never will."""
        queue = self._queues.get(node)
        if not queue:
            return node in lost
        head = queue[0]
        return isinstance(head, Began) and head.epoch >= epoch

    def _begin(self, change: Committed, begun: dict[int, Began]) -> None:
        self._decided = {e: later for e, later in self._decided.items() if e > change.epoch}
        self.epoch, self.members = change.epoch, change.members
        self._ledger.go_back(change.follows)
        self._ledger.commit(change)
        if self._recorder is not None:
            self._recorder.cut(change)
            for node, state in sorted(begun.items()):
                self._recorder.begin(node, state)
        for node, state in begun.items():
            self._ledger.remember(node, state.x)
        self._begun(change)


class Numbered:
    """One host's reports, which may overtake each other, in the order of their numbers.

    Attributes:
        count: how many have been taken in.
    """

    def __init__(self) -> None:
        self.count = 0
        self._early: dict[int, list[ReportItem]] = {}

    def put(self, number: int, items: list[ReportItem]) -> list[list[ReportItem]]:
        """Take in a report; return those whose turn it is now. A copy changes nothing."""
        if number > self.count:
            self._early[number] = items
        ready = []
        while self.count + 1 in self._early:
            self.count += 1
            ready.append(self._early.pop(self.count))
        return ready
