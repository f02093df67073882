"""The rules of Windlass: pure functions and values. No I/O, no clock, no randomness; `now` and `rng` are arguments."""
