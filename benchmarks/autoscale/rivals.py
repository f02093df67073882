"""Models of the autoscaling rules that others use, to compare Windlass with.

Each rule follows its public documentation, not its code. A rule is a function of its settings and a load (its user
would know the goal and about how long a task runs) that returns a first size and a policy. Each rule is tried in
several settings, its published default first if there is one, and the best result counts, which favors the rival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from windlass.autoscale.observe import Observation
from windlass.simulation.load import Load
from windlass.simulation.policies import HINDSIGHT, clairvoyant, clamp_size, static
from windlass.simulation.policies import POLICIES as OURS
from windlass.simulation.run import Policy, Start

PERIOD, STABLE = 15, 300
TOLERANCE = 0.1
Desired: TypeAlias = Callable[[Observation, float], float]
"""Returns the workers that a metric asks for, given the observation and the mean number of busy workers."""


def hpa(desired: Desired, load: Load) -> tuple[int, Policy]:
    """Kubernetes HPA: every 15 s, desired = current · metric / target, with a tolerance of 10 %.

    It shrinks to the highest recommendation of the last 5 minutes, and grows by at most 4 or a doubling in 15 s. It
    never goes below one worker; KEDA does.
    """
    size = max(1, load.min)
    advice: deque[tuple[int, float]] = deque()
    busy: deque[float] = deque(maxlen=PERIOD)

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size
        busy.append(seen.busy)
        if now % PERIOD:
            return size
        wanted = desired(seen, sum(busy) / len(busy))
        advice.append((now, size if abs(wanted / size - 1) <= TOLERANCE + 1e-9 else wanted))
        while advice[0][0] < now - STABLE:
            advice.popleft()
        stable = max(advice[-1][1], min(float(size), max(each for _, each in advice)))
        size = max(1, clamp_size(load, min(stable, max(2 * size, size + 4))))
        return size

    return size, decide


def hpa_queue(target: float, load: Load) -> tuple[int, Policy]:
    """HPA on an external metric: waiting tasks, with a target per worker (`AverageValue`)."""
    return hpa(lambda seen, _: seen.queued / target, load)


def hpa_use(target: float, load: Load) -> tuple[int, Policy]:
    """HPA on utilization, 80 % by default. When it would grow, pods that are still starting count as idle."""

    def desired(seen: Observation, busy: float) -> float:
        grows = busy > target * seen.ready
        return max(float(seen.alive), busy / target) if grows else busy / target

    return hpa(desired, load)


def keda(target: float, load: Load) -> tuple[int, Policy]:
    """KEDA: HPA on ceil(tasks / target), 5 by default. Running tasks count, as in its queue scalers.

    It starts one worker for the first task, and scales to zero 5 minutes after the last one.
    """
    size, scaled = hpa(lambda seen, _: (seen.queued + seen.running) / target, load)
    last = 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal last
        wanted = scaled(now, seen)
        last = now if seen.queued + seen.running else last
        return 0 if load.min == 0 and now - last > STABLE else wanted

    return size, decide


def knative(target: float, load: Load) -> tuple[int, Policy]:
    """Knative: concurrency over a stable window of 60 s, at 70 % of one task per worker, evaluated every 2 s.

    When the need over 6 s reaches 200 % of the ready workers it panics: it follows that need and only grows, until 60 s
    have passed without another panic. It shrinks to at most half of the ready workers, and grows up to a thousandfold.
    """
    size, panic = load.min, -STABLE
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
        wanted = clamp_size(load, min(stable, 1000 * ready))
        size = max(size, wanted, clamp_size(load, quick)) if now - panic < 60 else wanted
        return size

    return size, decide


def aws(period: float, share: float, load: Load) -> tuple[int, Policy]:
    """AWS target tracking: waiting tasks per instance, with a share of latency / run time as the target.

    Three one-minute periods above the target scale out in proportion; fifteen below 90 % of it scale in gradually. Two
    periods pass between activities. The published period is 60 s; shorter ones are settings.
    """
    size, last, over, under = load.min, -1000, 0, 0
    acceptable = share * load.wait / load.mean

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, last, over, under
        if now % int(period):
            return size
        ratio = seen.queued / max(1, seen.ready) / acceptable
        over, under = (over + 1 if ratio > 1 else 0), (under + 1 if ratio < 0.9 else 0)
        if over >= 3 and now - last >= period * 2:
            size, last = clamp_size(load, max(1, size) * min(ratio, 4)), now
        elif under >= 15 and now - last >= period * 2:
            size, last = clamp_size(load, min(size * 0.9, size - 1)), now
        return size

    return size, decide


PREFETCH = 4
"""Messages that a Celery process reserves. Its autoscaler sees no more of the queue than that."""


def celery(keepalive: float, load: Load) -> tuple[int, Policy]:
    """Celery: every second, as many processes as reserved tasks. It grows at once.

    It shrinks only if the last growth is longer ago than the keepalive, 30 s by default.
    """
    size, grown = load.min, 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, grown
        reserved = min(seen.queued, PREFETCH * max(1, size)) + seen.running
        need = clamp_size(load, reserved)
        if need > size:
            size, grown = need, now
        elif need < size and now - grown > keepalive:
            size = need
        return size

    return size, decide


def dask(duration: float, load: Load) -> tuple[int, Policy]:
    """Dask adaptive: every second, all known work divided by a target duration (5 s), at most one worker per task.

    It shrinks after three lower recommendations in a row.
    """
    size, lower = load.min, 0

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size, lower
        tasks = seen.queued + seen.running
        need = clamp_size(load, min(tasks, tasks * load.mean / duration))
        lower = lower + 1 if need < size else 0
        if need > size or lower >= 3:
            size, lower = need, 0
        return size

    return size, decide


def judoscale(up: float, down: float, jump: float, calm: float, load: Load) -> tuple[int, Policy]:
    """Judoscale on queue time: every 10 s above a mark one worker more, after 10 minutes below another one less.

    The marks are shares of the goal. Growth waits for workers that are starting. A jump of 0 is a tuned variant that
    grows in proportion to the excess and sheds a tenth per minute once calm.
    """
    size, last, below = load.min, -1000, 0
    pause = max(10.0, load.delay)

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, last, below
        below = below + 1 if seen.oldest < down * load.wait else 0
        if seen.oldest > up * load.wait and now - last >= pause:
            excess = min(2.0, 1 + 0.2 * seen.oldest / (up * load.wait))
            size, last = clamp_size(load, size + jump if jump else size * excess + 1), now
        elif below >= calm and now - last >= (calm if jump else 60):
            size, last = clamp_size(load, size - 1 if jump else min(size * 0.9, size - 1)), now
        return size

    return size, decide


def threshold(high: float, low: float, load: Load) -> tuple[int, Policy]:
    """Utilization above one mark for 5 s: a quarter more. Below the other for 60 s: a tenth less."""
    size, above, below = load.min, 0, 0

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size, above, below
        use = seen.busy / seen.ready if seen.ready else float(seen.queued > 0)
        above, below = (above + 1 if use > high else 0), (below + 1 if use < low else 0)
        if above >= 5 and not seen.starting:
            size, above = clamp_size(load, size * 1.25 + 1), 0
        elif below >= 60:
            size, below = clamp_size(load, min(size * 0.9, size - 1)), 0
        return size

    return size, decide


def aimd(step: float, load: Load) -> tuple[int, Policy]:
    """Tasks late or nearly late: +k every 5 s. A minute without a queue and with a third idle: ×0.75."""
    size, calm = load.min, 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, calm
        calm = calm + 1 if not seen.queued and seen.running < 0.7 * seen.ready else 0
        if seen.oldest > 0.3 * load.wait and now % 5 == 0:
            size = clamp_size(load, size + step)
        elif calm >= 60:
            size, calm = clamp_size(load, size * 0.75), 0
        return size

    return size, decide


def pid(gain: float, load: Load) -> tuple[int, Policy]:
    """PID on utilization including the backlog, set point 0.8. The integral stops while the output is at a bound."""
    size, integral, last = load.min, 0.0, 0.0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, integral, last
        if now % 5:
            return size
        need = seen.running + seen.queued * load.mean / load.wait
        error = (need / 0.8 - size) / max(1, size)
        output = max(1, size) * (1 + gain * error + 0.1 * integral + 0.1 * (error - last))
        if load.min < output < load.max:
            integral = max(-2.0, min(2.0, integral + error * 0.05))
        last = error
        size = apply_deadband(size, clamp_size(load, output))
        return size

    return size, decide


def little(share: float, load: Load) -> tuple[int, Policy]:
    """Little's law alone: λ·s / ρ, with the rate of the last minute and ρ 0.7 by default."""
    size = load.min
    recent: deque[int] = deque(maxlen=60)

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size
        recent.append(seen.arrivals)
        size = apply_deadband(size, clamp_size(load, sum(recent) / len(recent) * load.mean / share))
        return size

    return size, decide


def apply_deadband(size: int, wanted: int, band: float = 0.1) -> int:
    """Return the wanted size, or the current one if they differ by no more than the deadband."""
    return wanted if abs(wanted - size) > band * size else size


def vary(family: Callable[..., tuple[int, Policy]], *settings: tuple[float, ...]) -> Mapping[str, Start]:
    """Return one rule in several settings, by their text."""
    return {" ".join(f"{value:g}" for value in each): partial(family, *each) for each in settings}


RIVALS: Mapping[str, Mapping[str, Start]] = {
    "hpa-queue": vary(hpa_queue, (1,), (2,), (5,), (10,)),
    "hpa-use": vary(hpa_use, (0.8,), (0.7,), (0.6,), (0.5,)),
    "keda": vary(keda, (5,), (2,), (1,), (0.8,), (0.6,)),
    "knative": vary(knative, (0.7,), (0.5,), (0.85,), (2,)),
    "aws-backlog": vary(aws, (60, 1), (20, 0.3), (10, 0.1), (5, 0.1), (5, 0.03)),
    "celery": vary(celery, (30,), (60,), (120,), (300,)),
    "dask": vary(dask, (5,), (0.7,), (1,), (15,)),
    "judoscale": vary(
        judoscale, (0.2, 0.05, 1, 600), (0.1, 0.02, 0, 120), (0.2, 0.05, 0, 120), (0.4, 0.1, 0, 120), (0.6, 0.2, 0, 120)
    ),
    "threshold": vary(threshold, (0.8, 0.5), (0.9, 0.6), (0.95, 0.7), (0.7, 0.4)),
    "aimd": vary(aimd, (1,), (2,), (4,), (8,)),
    "pid": vary(pid, (0.2,), (0.4,), (0.7,), (1.0,)),
    "little": vary(little, (0.7,), (0.6,), (0.8,), (0.9,)),
    "static": vary(static, (10,), (25,), (50,), (100,)),
}
POLICIES: Mapping[str, Mapping[str, Start]] = {
    "slo": {"": OURS["slo"]},
    **{f"own-{name}": {"": start} for name, start in OURS.items() if name not in ("slo", "clairvoyant")},
    **RIVALS,
    "clairvoyant": {"": clairvoyant},
    HINDSIGHT: {},
}
"""Every policy with its settings. `hindsight` has none, since it searches the best size for each load."""
ALL = ("slo", *RIVALS, HINDSIGHT, "clairvoyant")
"""The policies that `all` stands for: Windlass's default, all rivals, and the two limits."""
