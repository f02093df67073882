"""The load of a simulated pool: arrivals with their run times, drawn from a seed.

Every policy gets exactly the same tasks, so two scores differ by the policies alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeAlias

from msgspec import Struct

from windlass.core.retry import Retry
from windlass.errors import WindlassError

Arrival = tuple[float, float]
"""The second at which a task becomes runnable, and the seconds that it runs."""
Service: TypeAlias = Callable[[], float]
"""Draws one run time in seconds."""
MOST_TASKS = 500_000
"""The most tasks that a simulation plays, so that it takes seconds."""


class InvalidLoad(WindlassError, ValueError):
    """The load or an option of the simulation is invalid. The message says which value, and what is valid."""

    code = "invalid_load"


class Storm(Struct, frozen=True, kw_only=True):
    """A period in which attempts fail, and the retry policy of the tasks."""

    begin: float
    end: float
    share: float = 0.9
    policy: Retry = Retry()
    """The default of tasks: three retries after about 10, 20 and 40 seconds."""


class Slowness(Struct, frozen=True, kw_only=True):
    """A period in which tasks that start take longer."""

    begin: float
    end: float
    factor: float

    def get_factor(self, moment: float) -> float:
        """Return the factor by which a task that starts at this moment takes longer."""
        return self.factor if self.begin <= moment < self.end else 1.0


class Load(Struct, frozen=True, kw_only=True):
    """The tasks of one simulation in order of arrival, and the faults of workers and downstream."""

    name: str
    length: int
    """Seconds."""
    wait: float
    """The goal W."""
    delay: float
    """The start delay D of a worker."""
    arrivals: Sequence[Arrival]
    scheduled: Sequence[tuple[float, int]] = ()
    """Times and counts of scheduled tasks, known in advance. These tasks are among the arrivals."""
    slow: Slowness | None = None
    knee: int | None = None
    """The number of busy workers above which they slow each other down."""
    storm: Storm | None = None
    kill_every: int | None = None
    kill_share: float = 0.0
    mean: float = 1.0
    """The mean run time, for policies whose user has to know it."""
    min: int = 1
    max: int = 200


def draw_poisson(rng: Random, length: int, rate: Callable[[int], float]) -> list[float]:
    """Draw the times of a Poisson process whose rate is constant within each second."""
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


def lognormal(rng: Random, mean: float, variation: float) -> Service:
    """Return a source of lognormal run times. A large squared coefficient of variation makes a heavy tail."""
    spread = math.log(1.0 + variation)
    middle, deviation = math.log(mean) - spread / 2.0, math.sqrt(spread)
    return lambda: rng.lognormvariate(middle, deviation)


def exponential(rng: Random, mean: float, variation: float) -> Service:
    """Return a source of exponential run times. Their squared coefficient of variation is always 1."""
    del variation
    return lambda: rng.expovariate(1.0 / mean)


def bimodal(rng: Random, mean: float, variation: float) -> Service:
    """Return a source of many short and a tenth of long run times, or fewer long ones if the variation needs it."""
    share = min(0.1, 0.5 / (1.0 + variation))
    short = mean * (1.0 - math.sqrt(variation * share / (1.0 - share)))
    long = mean * (1.0 + math.sqrt(variation * (1.0 - share) / share))
    return lambda: long if rng.random() < share else short


def constant(rng: Random, mean: float, variation: float) -> Service:
    """Return a source of equal run times."""
    del rng, variation
    return lambda: mean


DISTRIBUTIONS: Mapping[str, Callable[[Random, float, float], Service]] = {
    "lognormal": lognormal,
    "exponential": exponential,
    "bimodal": bimodal,
    "constant": constant,
}


def make_service(rng: Random, distribution: str, mean: float, variation: float) -> Service:
    """Return a source of run times by the name of the distribution."""
    if distribution not in DISTRIBUTIONS:
        raise InvalidLoad(f"Unknown distribution={distribution!r}. Use one of {', '.join(DISTRIBUTIONS)}.")
    return DISTRIBUTIONS[distribution](rng, mean, variation)


class LoadOverrides(Struct, frozen=True, kw_only=True):
    """Options that change how a load is drawn. None keeps the value of the scenario or trace."""

    rate: float | None = None
    """Mean tasks per second."""
    service: float | None = None
    """Mean run time in seconds."""
    cv2: float | None = None
    """The squared coefficient of variation of the run time."""
    distribution: str = "lognormal"
    seconds: int | None = None
    """The length of the run."""

    def check(self) -> None:
        """Raise InvalidLoad if a value is out of range."""
        for name, least, most in (("rate", 1e-6, 1e5), ("service", 1e-6, 1e6), ("seconds", 1, 1e7)):
            value: float | None = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InvalidLoad(f"{name}={value!r} is out of range. Use {least:g} to {most:g}.")
        if self.cv2 is not None and not 0 <= self.cv2 <= 1000:
            raise InvalidLoad(f"cv2={self.cv2!r} is out of range. Use 0 to 1000.")
        if self.distribution not in DISTRIBUTIONS:
            known = ", ".join(DISTRIBUTIONS)
            raise InvalidLoad(f"Unknown distribution={self.distribution!r}. Use one of {known}.")
        if self.distribution == "exponential" and self.cv2 not in (None, 1):
            raise InvalidLoad(
                f"cv2={self.cv2!r} does not fit exponential, which always has 1. Use lognormal or bimodal."
            )

    def check_none(self, load: str) -> None:
        """Raise InvalidLoad if any option is set, because this load is played as recorded."""
        for name in self.__struct_fields__:
            if getattr(self, name) != getattr(NO_OVERRIDES, name):
                raise InvalidLoad(f"{name}={getattr(self, name)!r} cannot change {load}, which is played as recorded.")

    def check_size(self, tasks: float) -> None:
        """Raise InvalidLoad if there are more tasks than can be played in seconds."""
        if tasks > MOST_TASKS:
            raise InvalidLoad(f"rate and seconds make {tasks:,.0f} tasks. The limit is {MOST_TASKS:,}.")


NO_OVERRIDES = LoadOverrides()
