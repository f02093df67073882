"""The fourteen synthetic scenarios, drawn from a seed.

A scenario of another length is stretched with all its events: a step in the middle stays in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from windlass.simulation.load import NO_OVERRIDES, Load, LoadOverrides, Slowness, Storm, draw_poisson, make_service

Rate: TypeAlias = Callable[[int], float]
Shape: TypeAlias = Callable[[Random], Rate]
"""Draws the random part of a scenario, and returns its tasks per second at each second."""
Period = TypeVar("Period", Slowness, Storm)
HERDS = 600
"""Seconds between two herds of scheduled tasks."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One scenario: its rate over time, run times, goal, start delay and faults."""

    rate: Shape
    length: int = 5400
    mean: float = 1.0
    variation: float = 1.0
    wait: float
    delay: float
    slow: Slowness | None = None
    herd: int = 0
    """Scheduled tasks that become due within one second, every ten minutes."""
    knee: int | None = None
    storm: Storm | None = None
    kill_every: int | None = None

    def draw(self, name: str, seed: int, overrides: LoadOverrides = NO_OVERRIDES) -> Load:
        """Draw a load. The same name, seed and overrides give the same tasks."""
        overrides.check()
        rng = Random(f"{name}/{seed}")
        rates, length = self.rate(rng), overrides.seconds or self.length
        stretch, scale = length / self.length, self.compute_scale(rates, overrides)
        moments = draw_poisson(rng, length, lambda second: scale * rates(int(second / stretch)))
        herds = [(float(int(at * stretch)), round(self.herd * scale * stretch)) for at in self.list_herds()]
        moments += [at + rng.random() for at, count in herds for _ in range(count)]
        mean = overrides.service or self.mean
        service = make_service(
            rng, overrides.distribution, mean, self.variation if overrides.cv2 is None else overrides.cv2
        )
        arrivals = [(at, service()) for at in sorted(moments)]
        load = Load(
            name=name, length=length, wait=self.wait, delay=self.delay, arrivals=arrivals, scheduled=herds, mean=mean
        )
        return self.add_faults(load, stretch, scale * mean / self.mean)

    def list_herds(self) -> range:
        """Return the seconds at which herds become due."""
        return range(HERDS, self.length, HERDS) if self.herd else range(0)

    def compute_scale(self, rates: Rate, overrides: LoadOverrides) -> float:
        """Return the factor that gives the rate the mean of the overrides."""
        usual = (sum(map(rates, range(self.length))) + self.herd * len(self.list_herds())) / self.length
        rate = usual if overrides.rate is None else overrides.rate
        overrides.check_size(rate * (overrides.seconds or self.length))
        return 1.0 if overrides.rate is None else overrides.rate / usual

    def add_faults(self, load: Load, stretch: float, work: float) -> Load:
        """Return the load with the faults of workers and downstream, scaled to its length."""
        return replace(
            load,
            slow=stretch_period(self.slow, stretch),
            storm=stretch_period(self.storm, stretch),
            # The capacity of the downstream scales with the work.
            knee=None if self.knee is None else max(1, round(self.knee * work)),
            kill_every=None if self.kill_every is None else max(1, round(self.kill_every * stretch)),
            kill_share=0.3,
        )


def stretch_period(period: Period | None, factor: float) -> Period | None:
    """Scale a period to a run of another length."""
    return None if period is None else replace(period, begin=period.begin * factor, end=period.end * factor)


def constant(rate: float) -> Shape:
    return lambda _: lambda _t: rate


def wave(middle: float, swing: float, period: float) -> Shape:
    return lambda _: lambda t: middle + swing * math.sin(t / period)


def step(_: Random) -> Rate:
    return lambda t: 40.0 if 1800 <= t < 3600 else 5.0


def ramp(_: Random) -> Rate:
    return lambda t: 2.0 + 48.0 * (1.0 - abs(t - 2700) / 2700)


def sawtooth(_: Random) -> Rate:
    return lambda t: 5.0 + 35.0 * (t % 600) / 600


def on_off(_: Random) -> Rate:
    return lambda t: 30.0 if t % 900 < 300 else 0.2


def bursts(rng: Random) -> Rate:
    """Return 4 tasks per second, with bursts of 20 to 80 per second for 20 to 90 s, about every 240 s."""
    rates, at = [4.0] * 5400, rng.expovariate(1 / 240)
    while at < len(rates):
        until = at + rng.uniform(20, 90)
        height = rng.uniform(20, 80)
        rates[int(at) : int(until)] = [height] * (min(int(until), len(rates)) - int(at))
        at = until + rng.expovariate(1 / 240)
    return lambda t: rates[t]


SCENARIOS: Mapping[str, Scenario] = {
    "steady": Scenario(rate=constant(20), wait=5, delay=5),
    "step": Scenario(rate=step, wait=10, delay=10),
    "ramp": Scenario(rate=ramp, wait=5, delay=20),
    "sawtooth": Scenario(rate=sawtooth, wait=5, delay=10),
    "on/off": Scenario(rate=on_off, wait=20, delay=15),
    "heavy tail": Scenario(rate=constant(10), length=7200, variation=20, wait=10, delay=5),
    "tight": Scenario(rate=wave(15, 10, 600), mean=0.5, wait=1, delay=10),
    "long": Scenario(rate=wave(0.4, 0.3, 2400), length=14400, mean=60, wait=60, delay=30),
    "service shift": Scenario(
        rate=constant(15), wait=10, delay=10, slow=Slowness(begin=2700, end=math.inf, factor=2.5)
    ),
    "slow downstream": Scenario(
        rate=constant(20), wait=10, delay=5, slow=Slowness(begin=1800, end=2400, factor=3), knee=40
    ),
    "error storm": Scenario(rate=constant(15), wait=10, delay=5, storm=Storm(begin=1800, end=2400)),
    "chaos": Scenario(rate=constant(20), wait=5, delay=10, kill_every=300),
    "bursts": Scenario(rate=bursts, wait=10, delay=5),
    "cron herd": Scenario(rate=constant(3), wait=30, delay=15, herd=1500),
}
