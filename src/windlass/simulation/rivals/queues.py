"""What task queues and their hosts do: Celery's autoscaler, Dask's adaptive clusters, and queue-time thresholds."""

from __future__ import annotations

from windlass.autoscale.observe import Observation
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy
from windlass.simulation.rivals.sizes import bounded

PREFETCH = 4
"""How many messages a Celery process reserves; its autoscaler sees no more of a queue."""


def celery(keepalive: float, load: Load) -> tuple[int, Policy]:
    """Celery: each second, as many processes as it has reserved tasks, at once when growing.

    Down only when the last growth is longer ago than a keepalive, 30 s by default.
    """
    size, grown = load.floor, 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, grown
        reserved = min(seen.queued, PREFETCH * max(1, size)) + seen.running
        need = bounded(load, reserved)
        if need > size:
            size, grown = need, now
        elif need < size and now - grown > keepalive:
            size = need
        return size

    return size, decide


def dask(duration: float, load: Load) -> tuple[int, Policy]:
    """Dask adaptive: each second, all the work there is over a target duration, 5 s by default, no more than tasks.

    Down when it said so three times in a row.
    """
    size, lower = load.floor, 0

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size, lower
        tasks = seen.queued + seen.running
        need = bounded(load, min(tasks, tasks * load.mean / duration))
        lower = lower + 1 if need < size else 0
        if need > size or lower >= 3:
            size, lower = need, 0
        return size

    return size, decide


def judoscale(up: float, down: float, jump: float, calm: float, load: Load) -> tuple[int, Policy]:
    """Queue time as Judoscale uses it, each 10 s: above a mark one more, below another for 10 minutes one less.

    The marks are shares of the goal. Growth waits for what is starting. A jump of 0 is a tuned form that grows in
    proportion to the excess and sheds a tenth a minute once calm.
    """
    size, last, below = load.floor, -1000, 0
    pause = max(10.0, load.delay)

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, last, below
        below = below + 1 if seen.oldest < down * load.wait else 0
        if seen.oldest > up * load.wait and now - last >= pause:
            excess = min(2.0, 1 + 0.2 * seen.oldest / (up * load.wait))
            size, last = bounded(load, size + jump if jump else size * excess + 1), now
        elif below >= calm and now - last >= (calm if jump else 60):
            size, last = bounded(load, size - 1 if jump else min(size * 0.9, size - 1)), now
        return size

    return size, decide
