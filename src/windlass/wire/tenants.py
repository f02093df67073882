"""The JSON shape of tenants."""

from __future__ import annotations

from msgspec import Struct

from windlass.operations.tenants import TenantView


class TenantShape(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, and the queues in which it has any."""

    name: str
    tasks: dict[str, int]
    queues: list[str]


def tenant_shape(view: TenantView) -> TenantShape:
    """Convert a tenant."""
    tasks = {state.value: number for state, number in view.tasks.items()}
    return TenantShape(name=view.name, tasks=tasks, queues=view.queues)
