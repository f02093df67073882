"""The fourteen synthetic families: name, rate, service, goal and start delay, each drawn from a seed.

A family of another length is stretched or squeezed with all that happens in it, so that a step is still a step after
its first third.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from windlass.simulation.chance import draw_poisson, make_service
from windlass.simulation.load import Load, Slowness, Storm
from windlass.simulation.wishes import NO_OVERRIDES, LoadOverrides

Rate: TypeAlias = Callable[[int], float]
Shape: TypeAlias = Callable[[Random], Rate]
"""Tasks a second at each second; what is up to chance in it is drawn first."""
Period = TypeVar("Period", Slowness, Storm)

HERDS = 600
"""Seconds from one herd of scheduled tasks to the next."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One family."""

    rate: Shape
    length: int = 5400
    mean: float = 1.0
    variation: float = 1.0
    wait: float
    delay: float
    slow: Slowness | None = None
    herd: int = 0
    """Scheduled tasks within a second, every ten minutes."""
    knee: int | None = None
    storm: Storm | None = None
    kill_every: int | None = None

    def draw(self, name: str, seed: int, wishes: LoadOverrides = NO_OVERRIDES) -> Load:
        """Draw it. The same name, seed and wishes give the same tasks."""
        wishes.check()
        rng = Random(f"{name}/{seed}")
        rates, length = self.rate(rng), wishes.seconds or self.length
        stretch, scale = length / self.length, self.compute_scale(rates, wishes)
        moments = draw_poisson(rng, length, lambda second: scale * rates(int(second / stretch)))
        herds = [(float(int(at * stretch)), round(self.herd * scale * stretch)) for at in self.list_herds()]
        moments += [at + rng.random() for at, count in herds for _ in range(count)]
        mean = wishes.service or self.mean
        service = make_service(rng, wishes.distribution, mean, self.variation if wishes.cv2 is None else wishes.cv2)
        arrivals = [(at, service()) for at in sorted(moments)]
        load = Load(
            name=name, length=length, wait=self.wait, delay=self.delay, arrivals=arrivals, scheduled=herds, mean=mean
        )
        return self.add_faults(load, stretch, scale * mean / self.mean)

    def list_herds(self) -> range:
        """When they come."""
        return range(HERDS, self.length, HERDS) if self.herd else range(0)

    def compute_scale(self, rates: Rate, wishes: LoadOverrides) -> float:
        """By how much the rate is raised to have the mean that is wanted."""
        usual = (sum(map(rates, range(self.length))) + self.herd * len(self.list_herds())) / self.length
        rate = usual if wishes.rate is None else wishes.rate
        wishes.check_size(rate * (wishes.seconds or self.length))
        return 1.0 if wishes.rate is None else wishes.rate / usual

    def add_faults(self, load: Load, stretch: float, work: float) -> Load:
        """The load with what happens to workers and downstream, as much longer or shorter as the run."""
        return replace(
            load,
            slow=stretch_period(self.slow, stretch),
            storm=stretch_period(self.storm, stretch),
            # A downstream that serves so much more work has so much more room.
            knee=None if self.knee is None else max(1, round(self.knee * work)),
            kill_every=None if self.kill_every is None else max(1, round(self.kill_every * stretch)),
            kill_share=0.3,
        )


def stretch_period(period: Period | None, factor: float) -> Period | None:
    """The same part of a run of another length."""
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
    """Four a second, and about every 240 s a burst of 20 to 80 for 20 to 90 s."""
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
