"""How many runnable tasks limits and pauses of tenants allow to start. Pools are sized for these alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from windlass.core.fairness import Tenant
from windlass.core.limits import Limit, Room, Running
from windlass.core.times import Micros


def count_startable(
    runnable: Mapping[tuple[str, str], int],
    limits: Iterable[Limit],
    tenants: Mapping[str, Tenant],
    running: Iterable[Running],
    full_at: Mapping[str, Micros],
    now: Micros,
) -> Counter[str]:
    """Return how many tasks could start in each queue if there were enough workers.

    `runnable` are tasks by queue and tenant. Limits on handlers and keys are left out, because tasks are not counted by
    them. A limit on a tenant counts in each of its queues.
    """
    room = Room(limits, tenants, running, full_at, now)
    startable: Counter[str] = Counter()
    for (queue, tenant), tasks in runnable.items():
        if room.get_pause(tenant) is None:
            startable[queue] += _cap(room, tasks, f"tenant={tenant}", f"queue={queue},tenant={tenant}")
    return Counter({queue: _cap(room, tasks, f"queue={queue}") for queue, tasks in startable.items()})


def _cap(room: Room, tasks: int, *names: str) -> int:
    for name in names:
        free = room.count_free(name)
        tasks = tasks if free is None else min(tasks, free)
    return max(0, tasks)
