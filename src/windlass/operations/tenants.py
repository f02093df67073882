"""Tenants as people see them: the tasks of each, by state and queue."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.errors import UnknownTenant
from windlass.operations.access import Access


class TenantView(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, and the queues in which it has any."""

    name: str
    tasks: Mapping[State, int]
    queues: list[str]


def get_all(access: Access) -> list[TenantView]:
    """Return every tenant that has tasks, by name."""
    tasks: dict[str, dict[State, int]] = {}
    queues: dict[str, set[str]] = {}
    for count in access.counts():
        if count.tasks <= 0:  # A sum of deltas may be passing through zero.
            continue
        states = tasks.setdefault(count.tenant, {})
        states[count.state] = states.get(count.state, 0) + count.tasks
        queues.setdefault(count.tenant, set()).add(count.queue)
    return [TenantView(name=name, tasks=tasks[name], queues=sorted(queues[name])) for name in sorted(tasks)]


def get(access: Access, name: str) -> TenantView:
    """Return one tenant. Raise `UnknownTenant` if it has no tasks."""
    found = next((view for view in get_all(access) if view.name == name), None)
    if found is None:
        raise UnknownTenant(name)
    return found
