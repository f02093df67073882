"""Events of workflows, as people and programs set them."""

from __future__ import annotations

from typing import Any

from windlass.core.payload import encode_result
from windlass.core.waits import check_event
from windlass.errors import InvalidTask, Refused
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.workflows import choose_tenant
from windlass.stores.operator import EventSet


def set_event(
    access: Access, workflow: str, event: str, value: Any, author: Author, *, tenant: str | None = None
) -> EventSet:
    """Set an event of a workflow to a JSON value. Setting it again to the same value changes nothing.

    Without a tenant it is that of the workflow, or the caller's own for one that does not exist yet. A caller who is
    limited to a queue is refused, because what comes after the event may be in any queue.
    """
    if access.caller.queue is not None:
        raise Refused("forbidden", "A workflow may use many queues, and this token is limited to one queue.")
    tenant = choose_tenant(access, tenant) if tenant or access.caller.tenant else _find_tenant(access, workflow)
    check_event(workflow, event, tenant)
    text = f"set event {event} of workflow {workflow} of {tenant}"
    entry = author.entry(f"workflow/{workflow}", "event set", text, tenant=tenant, event=event)
    return access.store.set_event(workflow, event, encode_result(value, name="value"), tenant=tenant, entries=[entry])


def _find_tenant(access: Access, workflow: str) -> str:
    tenants = access.store.workflow_tenants(workflow, limit=20)
    if len(tenants) > 1:
        raise InvalidTask(f"workflow={workflow!r} exists for several tenants. Choose one of {', '.join(tenants)}.")
    return tenants[0] if tenants else choose_tenant(access, None)
