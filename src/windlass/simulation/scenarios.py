"""The fourteen synthetic families: name, rate, service, goal and start delay, each drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from windlass.simulation.load import Load, Slowness, Storm, lognormal, poisson

Rate = Callable[[int], float]


def steady(_: Random) -> Rate:
    return lambda _t: 20.0


def step(_: Random) -> Rate:
    return lambda t: 40.0 if 1800 <= t < 3600 else 5.0


def ramp(_: Random) -> Rate:
    return lambda t: 2.0 + 48.0 * (1.0 - abs(t - 2700) / 2700)


def sawtooth(_: Random) -> Rate:
    return lambda t: 5.0 + 35.0 * (t % 600) / 600


def on_off(_: Random) -> Rate:
    return lambda t: 30.0 if t % 900 < 300 else 0.2


def constant(rate: float) -> Callable[[Random], Rate]:
    return lambda _: lambda _t: rate


def wave(middle: float, swing: float, period: float) -> Callable[[Random], Rate]:
    return lambda _: lambda t: middle + swing * math.sin(t / period)


def bursts(rng: Random) -> Rate:
    """Four a second, and about every 240 s a burst of 20 to 80 for 20 to 90 s."""
    rates, at = [4.0] * 5400, rng.expovariate(1 / 240)
    while at < len(rates):
        until = at + rng.uniform(20, 90)
        height = rng.uniform(20, 80)
        rates[int(at) : int(until)] = [height] * (min(int(until), len(rates)) - int(at))
        at = until + rng.expovariate(1 / 240)
    return lambda t: rates[t]


def draw(
    name: str,
    seed: int,
    *,
    rate: Callable[[Random], Rate],
    length: int = 5400,
    mean: float = 1.0,
    variation: float = 1.0,
    wait: float,
    delay: float,
    slow: Slowness | None = None,
    herd: int = 0,
    knee: int | None = None,
    storm: Storm | None = None,
    kill_every: int | None = None,
) -> Load:
    """Draw one scenario. The same name and seed give the same tasks."""
    rng = Random(f"{name}/{seed}")
    moments = poisson(rng, length, rate(rng))
    herds = [(float(at), herd) for at in range(600, length, 600)] if herd else []
    moments += [at + rng.random() for at, count in herds for _ in range(count)]
    service = lognormal(rng, mean, variation)
    arrivals = [(at, service()) for at in sorted(moments)]
    return Load(
        name=name, length=length, wait=wait, delay=delay, arrivals=arrivals, scheduled=herds, slow=slow, knee=knee,
        storm=storm, kill_every=kill_every, kill_share=0.3, mean=mean,
    )  # fmt: skip


SCENARIOS: Mapping[str, Callable[[str, int], Load]] = {
    "steady": partial(draw, rate=steady, wait=5, delay=5),
    "step": partial(draw, rate=step, wait=10, delay=10),
    "ramp": partial(draw, rate=ramp, wait=5, delay=20),
    "sawtooth": partial(draw, rate=sawtooth, wait=5, delay=10),
    "on/off": partial(draw, rate=on_off, wait=20, delay=15),
    "heavy tail": partial(draw, rate=constant(10), length=7200, variation=20, wait=10, delay=5),
    "tight": partial(draw, rate=wave(15, 10, 600), mean=0.5, wait=1, delay=10),
    "long": partial(draw, rate=wave(0.4, 0.3, 2400), length=14400, mean=60, wait=60, delay=30),
    "service shift": partial(
        draw, rate=constant(15), wait=10, delay=10, slow=Slowness(begin=2700, end=math.inf, factor=2.5)
    ),
    "slow downstream": partial(
        draw, rate=steady, wait=10, delay=5, slow=Slowness(begin=1800, end=2400, factor=3), knee=40
    ),
    "error storm": partial(draw, rate=constant(15), wait=10, delay=5, storm=Storm(begin=1800, end=2400)),
    "chaos": partial(draw, rate=steady, wait=5, delay=10, kill_every=300),
    "bursts": partial(draw, rate=bursts, wait=10, delay=5),
    "cron herd": partial(draw, rate=constant(3), wait=30, delay=15, herd=1500),
}
