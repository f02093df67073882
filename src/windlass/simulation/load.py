"""What a simulated pool has to serve: arrivals with their service times, drawn once from a seed and then only read.

Every policy meets the very same tasks, so that two scores differ by the policies alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from windlass.core.retry import Retry

Arrival = tuple[float, float]
"""When it becomes runnable, and how many seconds of a worker it needs."""


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

    def at(self, moment: float) -> float:
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


def poisson(rng: Random, length: int, rate: Callable[[int], float]) -> list[float]:
    """Moments of a Poisson process whose rate is constant within each second."""
    moments: list[float] = []
    need = rng.expovariate(1.0)
    for second in range(length):
        per_second, at = rate(second), 0.0
        while need < (1.0 - at) * per_second:
            at += need / per_second
            moments.append(second + at)
            need = rng.expovariate(1.0)
        need -= (1.0 - at) * per_second
    return moments


def lognormal(rng: Random, mean: float, variation: float) -> Callable[[], float]:
    """Service times of that mean and squared coefficient of variation."""
    spread = math.log(1.0 + variation)
    middle, deviation = math.log(mean) - spread / 2.0, math.sqrt(spread)
    return lambda: rng.lognormvariate(middle, deviation)
