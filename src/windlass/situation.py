"""What an app's own decider is shown, and what it may answer."""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

PREFIX = "app:"
"""Begins the names of deciders that are functions of the app, as in `app:by_orders`."""
MOST_WORKERS = 10_000


class PoolSituation(Struct, frozen=True, kw_only=True):
    """A pool over all nodes, at one moment. Sizes are in workers, lengths of time in seconds."""

    pool: str
    now: float
    """Seconds since 1970, UTC."""
    workers: int
    """How many the pool has or is about to have."""
    least: int
    most: int
    """The bounds. An answer beyond them is cut to them, so there is no need to."""
    threads: int = 1
    """How many tasks one worker runs at once."""
    wait: float = 5.0
    """The goal: how long a task may wait."""
    queued: int = 0
    """Runnable tasks that nobody runs yet."""
    oldest: float = 0.0
    """How long the one that has waited longest has waited."""
    running: int = 0
    """Tasks that run now."""
    arrivals: float = 0.0
    """Tasks that lately came in one second."""
    service: float = 1.0
    """How long a task lately ran, on average."""
    due: int = 0
    """Tasks that the schedule brings within the next minute."""


def checked_answer(value: object) -> float:
    """Return a decider's answer as a number of workers; `ValueError` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"it returned {value!r:.100}, which is not a number of workers")
    if not isfinite(value) or not 0 <= value <= MOST_WORKERS:
        raise ValueError(f"it returned {value!r:.100}; return 0 to {MOST_WORKERS:,} workers")
    return float(value)
