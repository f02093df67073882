"""What a simulated pool has to serve: arrivals with their service times, drawn once from a seed and then only read.

Every policy meets the very same tasks, so that two scores differ by the policies alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.core.retry import Retry
from windlass.errors import WindlassError

Arrival = tuple[float, float]
"""When it becomes runnable, and how many seconds of a worker it needs."""


class InvalidLoad(WindlassError, ValueError):
    """A load, or a wish about it, that cannot be played. The message names it and says what would be right."""

    code = "invalid_load"


class Storm(Struct, frozen=True, kw_only=True):
    """A time in which attempts fail, and how they are tried again."""

    begin: float
    end: float
    share: float = 0.9
    policy: Retry = Retry()
    """The default of every task: three retries after about 10, 20 and 40 seconds."""


class Slowness(Struct, frozen=True, kw_only=True):
    """A time in which whatever starts takes longer."""

    begin: float
    end: float
    factor: float

    def get_factor(self, moment: float) -> float:
        """By how much longer a task takes that starts then."""
        return self.factor if self.begin <= moment < self.end else 1.0


class Load(Struct, frozen=True, kw_only=True):
    """One scenario, drawn: tasks in order of arrival, and what happens to workers and downstream meanwhile."""

    name: str
    length: int
    """Seconds."""
    wait: float
    """The goal W."""
    delay: float
    """The start delay D of a worker."""
    arrivals: Sequence[Arrival]
    scheduled: Sequence[tuple[float, int]] = ()
    """Moments and counts that the schedule knows ahead. Those tasks are among the arrivals."""
    slow: Slowness | None = None
    knee: int | None = None
    """More busy workers than this make each other slower."""
    storm: Storm | None = None
    kill_every: int | None = None
    kill_share: float = 0.0
    mean: float = 1.0
    """The mean service time, for policies whose user has to know it."""
    floor: int = 1
    ceiling: int = 200
