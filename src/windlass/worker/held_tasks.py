"""Leaves tasks that limits and pauses of tenants hold back out of what pools are sized for."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from windlass.clock import Clock
from windlass.core.fairness import TENANT, Tenant, decode_tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, decode_limit
from windlass.core.startable import count_startable
from windlass.stores.coordination import Look, QueueLook
from windlass.stores.protocol import Store

REFRESH_SECONDS = 5.0
"""How long a node uses limits and settings of tenants that it has read. Claims always use the current ones."""


class HeldTasks:
    """What a node knows about limits and pauses. Without any, a look at the queues costs nothing more."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._limits: list[Limit] = []
        self._paused: dict[str, Tenant] = {}
        self._read_at = -REFRESH_SECONDS

    def leave_out(self, look: Look) -> Look:
        """Return a look with only those runnable tasks that could start."""
        self._refresh()
        if not self._limits and not self._paused:
            return look
        startable = self._count(look)
        return replace(look, queues=[_leave_out(each, startable[each.queue]) for each in look.queues])

    def _refresh(self) -> None:
        now = self._clock.monotonic()
        if now - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = now
        limits = (decode_limit(control.value) for control in self._store.controls(LIMIT))
        self._limits = [limit for limit in limits if limit.handler is None and limit.key is None]
        tenants = {control.name: decode_tenant(control.value) for control in self._store.controls(TENANT)}
        self._paused = {name: tenant for name, tenant in tenants.items() if tenant.paused is not None}

    def _count(self, look: Look) -> Counter[str]:
        runnable: Counter[tuple[str, str]] = Counter()
        for count in self._store.counts():
            if count.state is State.RUNNABLE:
                runnable[count.queue, count.tenant] += count.tasks
        full_at = self._store.buckets([limit.name for limit in self._limits if limit.rate is not None])
        return count_startable(runnable, self._limits, self._paused, self._store.running(), full_at, look.now)


def _leave_out(look: QueueLook, startable: int) -> QueueLook:
    """Return a queue with only the tasks that could start. The longest wait may be that of a task that could not."""
    if startable >= look.runnable:
        return look
    return replace(look, runnable=startable, oldest=None)
