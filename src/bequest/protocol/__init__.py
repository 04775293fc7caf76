"""The real node: a state machine without I/O, clock, randomness or globals."""
