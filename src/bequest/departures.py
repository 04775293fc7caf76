"""What happens to the membership of a network: ``bequest.departures``.

The events, which are also names of ``bequest`` itself, and a choice of leavers. They live in
``bequest.model.events``.
"""

from bequest.model.events import (
    Crash,
    Departure,
    Event,
    Forget,
    Join,
    Return,
    most_heterogeneous,
)

__all__ = ["Crash", "Departure", "Event", "Forget", "Join", "Return", "most_heterogeneous"]
