"""The input and the output of a decider that the app defines with `@app.decider`."""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

PREFIX = "app:"
"""The prefix of deciders that the app defines, as in `app:by_orders`."""
MOST_WORKERS = 10_000


class PoolSituation(Struct, frozen=True, kw_only=True):
    """The state of a pool over all nodes at one moment. Sizes are in workers, durations in seconds."""

    pool: str
    now: float
    """Seconds since 1970, UTC."""
    workers: int
    """Workers that the pool has or is about to start."""
    min: int
    max: int
    """The bounds. An answer outside of them is clamped."""
    threads: int = 1
    """Tasks that one worker runs at once."""
    wait: float = 5.0
    """The goal: the longest time that a task may wait."""
    queued: int = 0
    """Runnable tasks that have not started."""
    oldest: float = 0.0
    """How long the oldest runnable task has waited."""
    running: int = 0
    """Tasks that are running."""
    arrivals: float = 0.0
    """Recent arrivals per second."""
    service: float = 1.0
    """Recent average run time of a task."""
    due: int = 0
    """Scheduled tasks that become due within the next minute."""


def check_answer(value: object) -> float:
    """Return a decider's answer as a number of workers, or raise `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"The decider returned {value!r:.100}. Return a number of workers.")
    if not isfinite(value) or not 0 <= value <= MOST_WORKERS:
        raise ValueError(f"The decider returned {value!r:.100}. Return 0 to {MOST_WORKERS:,} workers.")
    return float(value)
