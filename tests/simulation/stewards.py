"""What no plan says: another steward, after the one before has died by accident."""

from bequest.protocol.messages import STEWARD


def replace_steward(execution):
    """Start another steward, and tell it every verdict that is still true."""
    asked, verdicts = execution.supervisor.inquire()
    execution.world.start_steward(asked)
    for verdict in verdicts:
        execution.world.give(STEWARD, verdict)
