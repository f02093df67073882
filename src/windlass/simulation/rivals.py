"""The rules of the field, as policies: each with its published defaults and some sensible settings.

Every factory takes a load (its user would know the goal and about how long a task runs) and gives a first size and a
policy. The reported number of a rival is that of its best setting over all loads, which favours it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import ceil

from windlass.autoscale.observations import Observation
from windlass.simulation.load import Load
from windlass.simulation.score import Policy

Start = Callable[[Load], tuple[int, Policy]]


def bounded(load: Load, size: float) -> int:
    return max(load.floor, min(load.ceiling, ceil(size - 1e-9)))


def beyond(size: int, wish: int, band: float = 0.1) -> int:
    """The wish, unless it lies within a deadband of a tenth."""
    return wish if abs(wish - size) > band * size else size


def hpa(metric: Callable[[Observation, float], float], load: Load) -> tuple[int, Policy]:
    """Kubernetes: desired = ceil(current · ratio), 10 % tolerance, each 15 s, 5 min down-stabilisation, up ×2 or +4."""
    size = load.floor
    wishes: deque[tuple[int, int]] = deque()
    busy: deque[float] = deque(maxlen=15)

    def decide(now: int, seen: Observation) -> int:
        nonlocal size
        busy.append(seen.busy / max(1, seen.ready))
        if now % 15:
            return size
        ratio = metric(seen, sum(busy) / len(busy))
        wish = size if abs(ratio - 1) <= 0.1 else bounded(load, min(size * ratio, max(2 * size, size + 4)))
        wishes.append((now, wish))
        while wishes[0][0] < now - 300:
            wishes.popleft()
        size = wish if wish > size else min(size, max(each for _, each in wishes))
        return size

    return size, decide


def by_queue(target: float) -> Start:
    """On the external metric of queue length per worker."""
    return partial(hpa, lambda seen, _: seen.queued / target / max(1, seen.ready))


def by_use(target: float) -> Start:
    """On utilisation."""
    return partial(hpa, lambda _, use: use / target)


def keda(target: float) -> Start:
    """KEDA: the HPA on ceil(queue / target per replica), the queue with what is running."""
    return partial(hpa, lambda seen, _: (seen.queued + seen.running) / target / max(1, seen.ready))


def knative(target: float, load: Load) -> tuple[int, Policy]:
    """Concurrency over a stable window of 60 s; at 200 % of it over 6 s, panic: grow only, until calm for 60 s."""
    size, panic = load.floor, -1000
    seen_load: deque[float] = deque(maxlen=60)

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, panic
        seen_load.append(seen.queued + seen.running)
        recent = list(seen_load)[-6:]
        stable, quick = sum(seen_load) / len(seen_load) / target, sum(recent) / len(recent) / target
        if now % 2:
            return size
        if quick >= 2 * max(1, seen.ready):
            panic = now
        if now - panic < 60:
            size = max(size, bounded(load, quick))
        else:
            size = bounded(load, min(stable, 1000 * size))
        return size

    return size, decide


def aws(period: int, share: float, load: Load) -> tuple[int, Policy]:
    """Backlog per instance against a share of latency / service time; 3 alarm periods out, 15 in, and cooldowns."""
    size, last, over, under = load.floor, -1000, 0, 0

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, last, over, under
        if now % period:
            return size
        ratio = seen.queued / max(1, seen.ready) / (share * load.wait / load.mean)
        over, under = (over + 1 if ratio > 1 else 0), (under + 1 if ratio < 0.9 else 0)
        if over >= 3 and now - last >= period * 2:
            size, last = bounded(load, size * min(ratio, 4)), now
        elif under >= 15 and now - last >= period * 2:
            size, last = bounded(load, size * 0.9 - 0.5), now
        return size

    return size, decide


def celery(keepalive: float, load: Load) -> tuple[int, Policy]:
    """Grow to min(queued + running, most) at once; shrink by the idle ones when idle for a keepalive."""
    size, last = load.floor, 0

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, last
        need = bounded(load, seen.queued + seen.running)
        if need > size or (need < size and now - last > keepalive):
            size, last = need, now
        return size

    return size, decide


def dask(duration: float, load: Load) -> tuple[int, Policy]:
    """Total work / target duration, no more than tasks; shrinks when it said so three times."""
    size, lower = load.floor, 0

    def decide(_now: int, seen: Observation) -> int:
        nonlocal size, lower
        tasks = seen.queued + seen.running
        need = bounded(load, min(tasks, tasks * load.mean / duration))
        lower = lower + 1 if need < size else 0
        if need > size or lower >= 3:
            size, lower = need, 0
        return size

    return size, decide


def judoscale(up: float, down: float, load: Load) -> tuple[int, Policy]:
    """Queue time: up while above one share of the goal, each 10 s, by more if far above; down after 2 minutes below."""
    size, last, calm = load.floor, -1000, 0

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, last, calm
        calm = calm + 1 if seen.oldest < down * load.wait else 0
        if seen.oldest > up * load.wait and now - last >= max(10, load.delay):
            size, last = bounded(load, size * min(2.0, 1 + 0.2 * seen.oldest / (up * load.wait)) + 1), now
        elif calm >= 120 and now - last >= 60:
            size, last = bounded(load, min(size * 0.9, size - 1)), now
        return size

    return size, decide


def threshold(high: float, low: float, load: Load) -> tuple[int, Policy]:
    """Utilisation above one mark for 5 s: a quarter more; below the other for 60 s: a tenth less."""
    size, above, below = load.floor, 0, 0

    def decide(_now: int, seen: Observation) -> int:
        nonlocal size, above, below
        use = seen.busy / max(1, seen.ready)
        above, below = (above + 1 if use > high else 0), (below + 1 if use < low else 0)
        if above >= 5 and not seen.starting:
            size, above = bounded(load, size * 1.25 + 1), 0
        elif below >= 60:
            size, below = bounded(load, size * 0.9 - 0.5), 0
        return size

    return size, decide


def aimd(step: int, load: Load) -> tuple[int, Policy]:
    """Late or about to be: +k each 5 s. A minute without a queue and a quarter idle: ×0.75."""
    size, calm = load.floor, 0

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, calm
        calm = calm + 1 if not seen.queued and seen.running < 0.7 * seen.ready else 0
        if seen.oldest > 0.3 * load.wait and now % 5 == 0:
            size = bounded(load, size + step)
        elif calm >= 60:
            size, calm = bounded(load, size * 0.75), 0
        return size

    return size, decide


def pid(gain: float, load: Load) -> tuple[int, Policy]:
    """Utilisation, with the backlog in it, to 0.8; the integral stands still while the output is at a bound."""
    size, integral, last = load.floor, 0.0, 0.0

    def decide(now: int, seen: Observation) -> int:
        nonlocal size, integral, last
        if now % 5:
            return size
        need = seen.running + seen.queued * load.mean / load.wait
        error = (need / 0.8 - size) / max(1, size)
        output = size * (1 + gain * error + 0.1 * integral + 0.1 * (error - last))
        if load.floor < output < load.ceiling:
            integral = max(-2.0, min(2.0, integral + error * 0.05))
        last = error
        size = beyond(size, bounded(load, output))
        return size

    return size, decide


def little(share: float, load: Load) -> tuple[int, Policy]:
    """λ·s / ρ, the rate over a minute."""
    size = load.floor
    recent: deque[int] = deque(maxlen=60)

    def decide(_now: int, seen: Observation) -> int:
        nonlocal size
        recent.append(seen.arrivals)
        size = beyond(size, bounded(load, sum(recent) / len(recent) * load.mean / share))
        return size

    return size, decide


def static(size: int, load: Load) -> tuple[int, Policy]:
    """A fixed size."""
    return bounded(load, size), lambda _now, _seen: bounded(load, size)


def several(family: Callable[..., tuple[int, Policy]], *settings: tuple[float, ...]) -> dict[str, Start]:
    """One rival in several settings."""
    return {" ".join(f"{value:g}" for value in each): partial(family, *each) for each in settings}


RIVALS: dict[str, dict[str, Start]] = {
    "hpa queue": {f"{n:g}": by_queue(n) for n in (1, 2, 5, 10)},
    "hpa use": {f"{n:g}": by_use(n) for n in (0.5, 0.6, 0.7, 0.8)},
    "keda": {f"{n:g}": keda(n) for n in (0.6, 0.8, 2, 5)},
    "knative": several(knative, (0.5,), (0.7,), (0.85,), (2,)),
    "aws backlog": several(aws, (60, 1), (20, 0.3), (10, 0.1), (5, 0.1), (5, 0.03)),
    "celery": several(celery, (30,), (60,), (120,), (300,)),
    "dask": several(dask, (0.7,), (1,), (5,), (15,)),
    "judoscale": several(judoscale, (0.1, 0.02), (0.2, 0.05), (0.4, 0.1), (0.6, 0.2)),
    "threshold": several(threshold, (0.8, 0.5), (0.9, 0.6), (0.95, 0.7), (0.7, 0.4)),
    "aimd": several(aimd, (1,), (2,), (4,), (8,)),
    "pid": several(pid, (0.2,), (0.4,), (0.7,), (1.0,)),
    "little": several(little, (0.6,), (0.7,), (0.8,), (0.9,)),
    "static": several(static, (10,), (25,), (50,), (100,)),
}
HINDSIGHT = tuple(range(1, 12)) + tuple(range(12, 30, 2)) + tuple(range(30, 201, 10))
"""The sizes among which the best static one is chosen afterwards, for each load by itself."""
