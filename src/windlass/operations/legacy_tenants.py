"""Tenants as people see them: whose tasks stand where. One place for the command line, the API and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from windlass.stores.protocol import Count


class TenantRow(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, and the queues in which it has any."""

    name: str
    tasks: dict[str, int]
    queues: list[str]


def by_tenant(counts: Iterable[Count]) -> list[TenantRow]:
    """Counts by queue, tenant and state, put together for each tenant, by name."""
    tasks: dict[str, dict[str, int]] = {}
    queues: dict[str, set[str]] = {}
    for count in counts:
        if count.tasks <= 0:  # A sum of deltas may be passing through zero.
            continue
        states = tasks.setdefault(count.tenant, {})
        states[count.state.value] = states.get(count.state.value, 0) + count.tasks
        queues.setdefault(count.tenant, set()).add(count.queue)
    return [TenantRow(name=name, tasks=tasks[name], queues=sorted(queues[name])) for name in sorted(tasks)]
