"""What the controller is told at each tick: counts since the last tick, and sizes as they are now.

Every number is about one pool over all nodes. Whoever observes fills it in; the controller reads nothing else.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Observation(Struct, frozen=True, kw_only=True, gc=False):
    """One second in the life of a pool. Seconds are floats, counts are integers."""

    queued: int = 0
    """Runnable tasks that nobody runs yet."""
    oldest: float = 0.0
    """How long the one that has waited longest has waited, in seconds."""
    arrivals: int = 0
    """Tasks that became runnable for the first time, with those from the schedule."""
    scheduled: int = 0
    """How many of the arrivals came from the schedule, and were known ahead."""
    retried: int = 0
    """Tasks that became runnable again after a failure. They follow errors, not demand: no arrivals."""
    completions: int = 0
    """Attempts that ended, well or not."""
    errors: int = 0
    busy: float = 0.0
    """Worker-seconds spent on tasks since the last tick, those of unfinished tasks too."""
    started: int = 0
    late: int = 0
    """How many of the started had waited longer than the goal."""
    ready: int = 0
    running: int = 0
    """How many of the ready are at work now."""
    starting: int = 0
    draining: int = 0
    start_delay: float = 0.0
    """How long a worker takes to start, as lately measured."""
    due: tuple[tuple[float, int], ...] = ()
    """What the schedule holds: (seconds from now, tasks), nearest first, as far ahead as the observer looks."""
    limit: int | None = None
    """The most workers that a downstream can bear, if it says so."""
    asked: int | None = None
    """The workers that signals from outside ask for, if there are any."""
    breaker: Literal["closed", "open", "half_open"] = "closed"
    """The circuit breaker of the downstream that all tasks of this pool need."""
    deaths: int = 0
    """Workers that died unasked since the last tick."""
    decided: dict[str, float] = {}
    """What deciders of the app ask for, in slots, by name as in `app:by_orders`; one without an answer is not in it."""

    @property
    def alive(self) -> int:
        """The workers that serve or soon will: those still starting are not ordered a second time."""
        return self.ready + self.starting

    def due_within(self, seconds: float) -> int:
        """How many scheduled tasks become runnable in that time."""
        return sum(count for ahead, count in self.due if ahead <= seconds) if self.due else 0
