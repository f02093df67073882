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
    known = {limit.name: limit for limit in limits if limit.set_by is None or limit.set_by.holds(now)}
    room = Room(known.values(), tenants, running, full_at, now)
    startable: Counter[str] = Counter()
    for (queue, tenant), tasks in runnable.items():
        if room.get_pause(tenant) is None:
            startable[queue] += _cap(room, known, tasks, f"tenant={tenant}", f"queue={queue},tenant={tenant}")
    return Counter({queue: _cap(room, known, tasks, f"queue={queue}") for queue, tasks in startable.items()})


def _cap(room: Room, limits: Mapping[str, Limit], tasks: int, *names: str) -> int:
    for name in names:
        free = room.count_free(name, limits[name]) if name in limits else None
        tasks = tasks if free is None else min(tasks, free)
    return max(0, tasks)
