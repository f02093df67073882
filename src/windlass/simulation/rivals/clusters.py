"""What clusters do: Kubernetes' HPA on two metrics, KEDA on top of it, Knative, and AWS target tracking."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from windlass.autoscale.observe import Observation
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy
from windlass.simulation.rivals.sizes import bounded

PERIOD, STABLE = 15, 300
TOLERANCE = 0.1
Desired: TypeAlias = Callable[[Observation, float], float]
"""What is seen, and the mean number of busy workers over a period → the workers that the metric asks for."""


def hpa(desired: Desired, load: Load) -> tuple[int, Policy]:
    """Kubernetes' HPA: each 15 s desired = current · metric / target, unless within a tolerance of 10 %.

    Down to the highest recommendation of the last 5 minutes; up by no more than 4 or a doubling in 15 s. It does not
    go below one: that is KEDA's part.
    """
    size = max(1, load.floor)
    advice: deque[tuple[int, float]] = deque()
    busy: deque[float] = deque(maxlen=PERIOD)

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size
        busy.append(seen.busy)
        if now % PERIOD:
            return size
        wish = desired(seen, sum(busy) / len(busy))
        advice.append((now, size if abs(wish / size - 1) <= TOLERANCE + 1e-9 else wish))
        while advice[0][0] < now - STABLE:
            advice.popleft()
        stable = max(advice[-1][1], min(float(size), max(each for _, each in advice)))
        size = max(1, bounded(load, min(stable, max(2 * size, size + 4))))
        return size

    return size, decide


def hpa_queue(target: float, load: Load) -> tuple[int, Policy]:
    """The HPA on an external metric, waiting tasks, with a target for each worker (`AverageValue`)."""
    return hpa(lambda seen, _: seen.queued / target, load)


def hpa_use(target: float, load: Load) -> tuple[int, Policy]:
    """The HPA on utilisation, 80 % by default. Where it would grow, pods that still start count as idle."""

    def desired(seen: Observation, busy: float) -> float:
        grows = busy > target * seen.ready
        return max(float(seen.alive), busy / target) if grows else busy / target

    return hpa(desired, load)


def keda(target: float, load: Load) -> tuple[int, Policy]:
    """KEDA: the HPA on ceil(tasks / target), 5 by default, where running tasks count as its queue scalers count them.

    From zero it starts one worker for the first task, and it goes to zero 5 minutes after the last.
    """
    size, scaled = hpa(lambda seen, _: (seen.queued + seen.running) / target, load)
    last = 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal last
        wish = scaled(now, seen)
        last = now if seen.queued + seen.running else last
        return 0 if load.floor == 0 and now - last > STABLE else wish

    return size, decide


def knative(target: float, load: Load) -> tuple[int, Policy]:
    """Knative: concurrency over a stable window of 60 s, at 70 % of one task for each worker, looked at every 2 s.

    Where the need over 6 s is 200 % of the ready workers it panics: it follows that need and only grows, until that
    was not so for 60 s. Down at most to half of what is ready, up at most a thousandfold.
    """
    size, panic = load.floor, -STABLE
    tasks: deque[int] = deque(maxlen=60)

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, panic
        tasks.append(seen.queued + seen.running)
        if now % 2:
            return size
        recent = list(tasks)[-6:]
        ready = max(1, seen.ready)
        stable = max(sum(tasks) / len(tasks) / target, ready // 2)
        quick = max(sum(recent) / len(recent) / target, ready // 2)
        panic = now if quick >= 2 * ready else panic
        wish = bounded(load, min(stable, 1000 * ready))
        size = max(size, wish, bounded(load, quick)) if now - panic < 60 else wish
        return size

    return size, decide


def aws(period: float, share: float, load: Load) -> tuple[int, Policy]:
    """AWS target tracking: waiting tasks for each instance in service against latency / run time (here a share of it).

    Alarms of one-minute periods: three above the target scale out in proportion, fifteen below 90 % of it scale in,
    gradually. Two periods pass between activities. The period is 60 s as published; shorter ones are settings.
    """
    size, last, over, under = load.floor, -1000, 0, 0
    acceptable = share * load.wait / load.mean

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, last, over, under
        if now % int(period):
            return size
        ratio = seen.queued / max(1, seen.ready) / acceptable
        over, under = (over + 1 if ratio > 1 else 0), (under + 1 if ratio < 0.9 else 0)
        if over >= 3 and now - last >= period * 2:
            size, last = bounded(load, max(1, size) * min(ratio, 4)), now
        elif under >= 15 and now - last >= period * 2:
            size, last = bounded(load, min(size * 0.9, size - 1)), now
        return size

    return size, decide
