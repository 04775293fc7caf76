"""Pure arithmetic: no I/O, no clock, no randomness. Paper letters are allowed here."""
