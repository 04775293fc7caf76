"""One attempt at a change of the membership: the answers that it waits for, step by step.

::

    Halt -> Halted      every member stops; those behind advance to the latest round
    Arrange -> Ready    farewells, adoptions and withdrawals are prepared and written through
    Begin -> Begun      they count from now on, everywhere or nowhere
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from bequest.protocol import messages as m
from bequest.protocol.drafting import Draft
from bequest.protocol.events import Send
from bequest.protocol.present_epoch import PresentEpoch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.steps import StepChoice
    from bequest.protocol.charter import Agenda, Charter
    from bequest.protocol.events import Effect
    from bequest.protocol.membership_register import MembershipRegister


class Phase(StrEnum):
    """What the steward is waiting for."""

    ASKING = "asking"
    RUNNING = "running"
    HALTING = "halting"
    ARRANGING = "arranging"
    BEGINNING = "beginning"
    FINISHED = "finished"


class Change:
    """One attempt at a change; whatever goes wrong before ``Begin`` makes it void.

    Args:
        number: of the attempt, and of the epoch if it succeeds; never used before.
        charter: what was agreed on before the run.
        agenda: what of it is still ahead.
        register: what is known of every node.

    Attributes:
        phase: the step that it is at.
        draft: the next epoch, while it is being arranged.
        waiting: the nodes that have not stopped, or not begun, yet.
        dismissed: the leavers, which may go when every member has begun.
        excluded: the nodes that were taken for lost, to be told so then.
        is_stalled: whether all nodes have to be set going again, having been stopped by a steward
            that is lost.
    """

    def __init__(
        self, number: int, charter: Charter, agenda: Agenda, register: MembershipRegister
    ) -> None:
        self.number = number
        self._charter, self._agenda, self._register = charter, agenda, register
        self.phase = Phase.HALTING
        self.draft: Draft | None = None
        self.waiting: set[int] = set()
        self.dismissed: list[int] = []
        self.excluded: list[int] = []
        self.is_stalled = False

    def is_about(self, node: int) -> bool:
        """Whether the change is about an arrival, and this is the node that comes."""
        return self.draft is not None and self.draft.is_about(node)

    def incarnation(self, node: int) -> int:
        """Return which incarnation an order is for: the one that asks, or the one that is."""
        request = self._register.requests.get(node) if self.is_about(node) else None
        return self._register.incarnation(node) if request is None else request.incarnation

    # --- Halt -> Halted -----------------------------------------------------------------------

    def halt(self, present: PresentEpoch) -> list[Effect]:
        """Stop every member of the present epoch."""
        present.reports = {}
        self.waiting = set(present.alive)
        return [Send(tuple(sorted(self.waiting)), m.Halt(self.number, present.number))]

    def halted(self, node: int, present: PresentEpoch) -> list[Effect]:
        """Go on once every member has reported: advance those behind, or draft the change."""
        self.waiting.discard(node)
        if self.waiting:
            return []
        latest = present.round_reached
        behind = {node for node, report in present.reports.items() if report.round < latest}
        if behind and not present.dead:
            self.waiting = behind
            return [Send(tuple(sorted(behind)), m.Advance(self.number, latest))]
        self.phase = Phase.ARRANGING
        network = {node: set(others) for node, others in present.network.items()}
        draft = Draft(self.number, latest, network, dict(present.lineage), present.number)
        for node, report in present.reports.items():
            draft.lineage[node] = report.lineage
            if report.leaving:
                self._register.leaving.add(node)
        self.draft = draft
        if present.dead:
            draft.lose(present.dead, present.reports, present.buddies, self._charter.recallable)
        elif leavers := present.leavers(self._register.leaving):
            draft.leaving = leavers
            return self._ask_next_leaver(draft)
        elif due := self._register.due(self._agenda.appointment, latest):
            draft.admit(due[0], self._register.requests[due[0]], self._register.lost)
        return self._arrange(draft)

    # --- Arrange -> Ready ---------------------------------------------------------------------

    def found(self) -> list[Effect]:
        """Let the first nodes prepare the first epoch."""
        self.phase = Phase.ARRANGING
        network = {node: set(others) for node, others in self._charter.network.items()}
        return self._arrange(Draft(self.number, 0, network))

    def found_without(self, node: int, number: int) -> list[Effect]:
        """Found the network anew, without a node that has not even begun."""
        assert self.draft is not None  # noqa: S101 - the network is being founded
        self.number = number
        return self._arrange(self.draft.without(node, number))

    def _arrange(self, draft: Draft) -> list[Effect]:
        """Tell the members of the next epoch, and a claimant, what to prepare."""
        self.draft = draft
        return draft.arrange(
            buddies=self._charter.buddies,
            leaving=self._register.leaving,
            domains=self._register.domains,
            incarnation=self.incarnation,
        )

    def _ask_next_leaver(self, draft: Draft) -> list[Effect]:
        """Let the next leaver write its will, or go on to the nodes that stay."""
        if len(draft.handovers) == len(draft.leaving):
            return self._arrange(draft)
        domains = self._register.domains
        return [draft.ask_next_leaver(domains=domains, incarnation=self.incarnation)]

    def ready(self, draft: Draft, node: int, message: m.Ready) -> list[Effect]:
        """Note that a node is ready; a leaver lets the next one write its will."""
        draft.waiting.discard(node)
        if draft.may_forget(node):
            draft.note_will(message)
            return self._ask_next_leaver(draft)
        if node in draft.network:
            draft.lineage[node] = message.lineage
            draft.ready[node] = message
        return []

    # --- Begin -> Begun -----------------------------------------------------------------------

    def commit(self, draft: Draft, before: PresentEpoch) -> tuple[PresentEpoch, bool]:
        """Every node is ready: begin the epoch.

        Returns:
            The epoch, and whether it is over before its first round.
        """
        register, agenda, arrival = self._register, self._agenda, draft.arrival
        draft.count_lost()
        dismissed = [handover.node for handover in draft.handovers]
        excluded = [adoption.node for adoption in draft.adoptions]
        register.lost |= draft.forgotten
        if arrival is not None:
            register.admit(arrival.node, draft.epoch)
            register.leaving.discard(arrival.node)  # that was another incarnation's wish
            register.lost.discard(arrival.node)
            if arrival.purpose == "forget":
                dismissed = [arrival.node]
        register.leaving -= {*dismissed, *excluded}
        present = PresentEpoch(
            draft.epoch,
            draft.round,
            network=draft.network,
            lineage=draft.lineage,
            buddies=draft.buddies,
            dead=before.dead - set(excluded),
        )
        t = present.round
        expected = agenda.expects(t, present.alive)
        if not expected and not has_work(present, register, agenda, t):
            agenda.pass_by(t)
        present.until = agenda.stops[0] if agenda.stops else t
        self.begin(present.network, dismissed, excluded)
        return present, present.until == t and bool(agenda.stops)

    def announce(
        self, draft: Draft, present: PresentEpoch, pace: float, changed: StepChoice | None
    ) -> list[Effect]:
        """Tell every member that the epoch has begun, with that pace."""
        members, lost = tuple(sorted(present.network)), tuple(sorted(self._register.lost))
        roster = tuple(sorted(present.lineage.items()))
        return [
            draft.committed(changed, lost, self._register.incarnation),
            Send(members, m.Begin(present.number, pace, present.until, roster, lost)),
        ]

    def begin(
        self, waiting: Iterable[int], dismissed: Iterable[int], excluded: Iterable[int]
    ) -> None:
        """Wait until these have begun; then those may go, or are told that they are excluded."""
        self.phase, self.draft = Phase.BEGINNING, None
        self.waiting = set(waiting)
        self.dismissed, self.excluded = list(dismissed), list(excluded)


def has_work(
    present: PresentEpoch, register: MembershipRegister, agenda: Agenda, stop: int
) -> bool:
    """Whether something can be changed at a stop that every member has reached."""
    due = register.due(agenda.appointment, stop)
    return bool(present.dead or present.leavers(register.leaving) or due)
