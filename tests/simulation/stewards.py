"""What no plan says: another steward, after the one before has died by accident."""

from bequest.protocol.messages import STEWARD


def replace_steward(execution):
    """Start another steward, and tell it every verdict that is still true."""
    stewards = execution.supervisor.stewards
    execution.world.start_steward(stewards.inquire())
    for verdict in stewards.appoint().verdicts:
        execution.world.give(STEWARD, verdict)
