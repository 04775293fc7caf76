"""To drive one node, or the steward, by hand: one message at a time.

Everything is in one dimension, with numbers that can be checked on paper: a node's loss is
1/2 h (x - c)^2, the step is 1/4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.model.wills import Setting
from bequest.protocol import messages as m
from bequest.protocol.events import Dropped, Received, Send
from bequest.protocol.node import Node

STEP = 0.25
SETTING = Setting(n=3, mu=1.0, kappa=4.0, step=STEP, pilot=None, optimum=None)
CONSENSUS = bq.wills.Consensus()
# All nodes that the messages in these tests are about.
ROSTER = tuple((node, ()) for node in range(10))


def loss(h=2.0, c=1.0):
    return bq.Quadratic([[h]], [c])


def make(ident=1, *, h=2.0, c=1.0, start=3.0, will=CONSENSUS, tau=None, **options):
    """A node with the loss 1/2 h (x - c)^2, at ``start``."""
    return Node(
        ident,
        options.pop("objective", None) or loss(h, c),
        method=options.pop("method", bq.GradientTracking()),
        setting=SETTING,
        start=np.atleast_1d(np.array(start, dtype=float)),
        will=will,
        checkpoint_every=tau,
        **options,
    )


def quadratic(ident, h, c):
    """The legacy that remembers 1/2 h (x - c)^2 exactly."""
    return Legacy.anchored(ident, anchor=[c], value=0.0, gradient=[0.0], eta=h)


def arrange(epoch=1, t=0, **fields):
    """An order to prepare an epoch; by default in the middle of the path 0 - 1 - 2."""
    fields.setdefault("restart", False)
    fields.setdefault("neighbours", (0, 2))
    near = fields["neighbours"]
    fields.setdefault("members", max(3, len(near or ()) + 1))
    if near is not None:
        fields.setdefault("weights", (1 / 4,) * len(near))
    return m.Arrange(epoch, t, **fields)


def begin(epoch=1, *, step=STEP, until=100, roster=ROSTER, lost=()):
    return m.Begin(epoch, step, until, roster, lost)


def give(machine, sender, *messages):
    """Hand over messages from one sender; return all the effects."""
    return [effect for message in messages for effect in machine.handle(Received(sender, message))]


def order(node, *messages):
    """What the steward says, to the incarnation that it is talking to."""
    meant = [
        replace(one, incarnation=node.incarnation) if isinstance(one, m.Arrange) else one
        for one in messages
    ]
    return give(node, m.STEWARD, *meant)


def exchange(epoch, t, x, z):
    """What a neighbour says who would go to x, and whose tracker is z."""
    return m.Exchange(epoch, t, np.array([*np.atleast_1d(x), *np.atleast_1d(z)], dtype=float))


def sent(effects, kind=None, to=None):
    """The messages among the effects, of one kind, to one receiver."""
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send)
        and (kind is None or isinstance(effect.message, kind))
        and (to is None or to in effect.to)
    ]


def only(effects, kind, to=None):
    """The one message of that kind."""
    (message,) = sent(effects, kind, to)
    return message


def noted(effects, kind):
    """The effects of one kind that are no messages."""
    return [effect for effect in effects if isinstance(effect, kind)]


def dropped(effects):
    """Why the one message was dropped, without a word to any node."""
    (effect,) = effects
    assert isinstance(effect, Dropped)
    return effect.why


def blamed(effects):
    """Who was blamed, and why: the message was dropped and the steward has been told."""
    record, accusation = effects
    assert isinstance(record, Dropped)
    assert accusation.to == (m.STEWARD,)
    said = accusation.message
    assert isinstance(said, m.Accusation)
    assert said.culprit == record.sender
    assert record.why in said.why
    return said.culprit, record.why


def started(node, until=100, **fields):
    """A node that has begun epoch 1."""
    order(node, arrange(**fields))
    for buddy in fields.get("buddies", ()):
        give(node, buddy, m.Kept(1))
    order(node, begin(until=until))
    return node


def halted(node, epoch=2, current=1):
    """A node that has been stopped for a change."""
    order(node, m.Halt(epoch, current))
    return node


class Circle:
    """A few real nodes, and us as their steward: messages go where they are to, in order.

    Attributes:
        nodes: who is there.
        told: what the steward has been told, as (sender, message).
        notes: the effects that are no messages, as (who, effect).
    """

    def __init__(self, *nodes):
        self.nodes = {node.ident: node for node in nodes}
        self.told, self.notes, self._line = [], [], []

    def order(self, orders):
        """Send each node its orders, and let every node talk until none has anything to say."""
        for ident, messages in orders.items():
            for message in messages if isinstance(messages, tuple) else (messages,):
                self._line.append((m.STEWARD, ident, message))
        while self._line:
            sender, receiver, message = self._line.pop(0)
            self._carry_out(receiver, self.nodes[receiver].handle(Received(sender, message)))
        return self

    def all(self, message):
        """Send every node the same order."""
        return self.order(dict.fromkeys(self.nodes, message))

    def _carry_out(self, ident, effects):
        for effect in effects:
            if not isinstance(effect, Send):
                self.notes.append((ident, effect))
                continue
            for receiver in effect.to:
                if receiver == m.STEWARD:
                    self.told.append((ident, effect.message))
                elif receiver in self.nodes:
                    self._line.append((ident, receiver, effect.message))

    def heard(self, kind, ident=None):
        """What the steward has been told, of one kind, by one node."""
        return [
            message
            for sender, message in self.told
            if isinstance(message, kind) and ident in (None, sender)
        ]

    def noted(self, kind, ident=None):
        """The facts of one kind, about one node."""
        return [
            effect
            for who, effect in self.notes
            if isinstance(effect, kind) and ident in (None, who)
        ]

    def imbalance(self, *members):
        """How far the trackers' sum is from the gradients', which it must never be."""
        nodes = [self.nodes[ident] for ident in members or self.nodes]
        return float(
            np.abs(
                sum(node.iterate.z for node in nodes) - sum(node.iterate.g for node in nodes)
            ).max()
        )


def path(*nodes, rounds=3, **fields):
    """Nodes on a path that have completed some rounds together, and stopped."""
    circle = Circle(*nodes)
    idents = list(circle.nodes)
    for k, ident in enumerate(idents):
        near = tuple(sorted(idents[max(k - 1, 0) : k] + idents[k + 1 : k + 2]))
        circle.order({ident: arrange(neighbours=near, members=len(idents), **fields)})
    return circle.all(begin(until=rounds))
