"""Chance from a seed: when tasks arrive, and how long they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

from windlass.simulation.load import InvalidLoad

Service: TypeAlias = Callable[[], float]
"""Draws one run time in seconds."""


def draw_poisson(rng: Random, length: int, rate: Callable[[int], float]) -> list[float]:
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


def lognormal(rng: Random, mean: float, variation: float) -> Service:
    """Run times of that mean and squared coefficient of variation; with a large one, a heavy tail."""
    spread = math.log(1.0 + variation)
    middle, deviation = math.log(mean) - spread / 2.0, math.sqrt(spread)
    return lambda: rng.lognormvariate(middle, deviation)


def exponential(rng: Random, mean: float, variation: float) -> Service:
    """Run times without memory. Their variation is 1 by nature."""
    del variation
    return lambda: rng.expovariate(1.0 / mean)


def bimodal(rng: Random, mean: float, variation: float) -> Service:
    """Many short tasks and a tenth of long ones; fewer long ones if the variation asks for it."""
    share = min(0.1, 0.5 / (1.0 + variation))
    short = mean * (1.0 - math.sqrt(variation * share / (1.0 - share)))
    long = mean * (1.0 + math.sqrt(variation * (1.0 - share) / share))
    return lambda: long if rng.random() < share else short


def constant(rng: Random, mean: float, variation: float) -> Service:
    """Every task the same."""
    del rng, variation
    return lambda: mean


DISTRIBUTIONS: Mapping[str, Callable[[Random, float, float], Service]] = {
    "lognormal": lognormal,
    "exponential": exponential,
    "bimodal": bimodal,
    "constant": constant,
}


def make_service(rng: Random, distribution: str, mean: float, variation: float) -> Service:
    """Run times by the name of their distribution."""
    if distribution not in DISTRIBUTIONS:
        raise InvalidLoad(f"distribution={distribution!r} is not known; give one of {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[distribution](rng, mean, variation)
