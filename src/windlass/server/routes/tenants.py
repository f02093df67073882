"""Tenants over HTTP: tasks, shares of fair queues, weight, pause and resume."""

from __future__ import annotations

from windlass.operations import tenants
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.fields import NO_REASON, Name, Reason
from windlass.wire.tenants import (
    NOT_LIMITED,
    PauseTenant,
    SetWeight,
    TenantDetailsShape,
    TenantShape,
    tenant_details_shape,
    tenant_shape,
)

route = Routes("tenants")

CHANGE_ERRORS = ("invalid_task", "unknown_tenant", "changed_meanwhile")


@route("GET", "/tenants", Scope.READ)
def list_tenants(call: Call) -> list[TenantShape]:
    """List the tenants that have tasks or settings, with their tasks by state and their queues."""
    return [tenant_shape(view) for view in tenants.get_all(call.access)]


@route("GET", "/tenants/{name}", Scope.READ, errors=["unknown_tenant"])
def get_tenant(call: Call, name: Name) -> TenantDetailsShape:
    """Get one tenant, with the share of each fair queue that it should get and got."""
    return tenant_details_shape(tenants.get(call.access, name), tenants.get_shares(call.access, name))


@route("PUT", "/tenants/{name}/weight", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def set_tenant_weight(call: Call, name: Name, body: SetWeight) -> TenantShape:
    """Set the weight of a tenant: its share of the fair queues, relative to the other tenants."""
    author = call.author(body)
    view = tenants.set_weight(call.access, name, body.weight, author, lasts=body.lasts, create=body.create)
    return tenant_shape(view)


@route("POST", "/tenants/{name}/pause", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def pause_tenant(call: Call, name: Name, body: PauseTenant = NOT_LIMITED) -> TenantShape:
    """Start no tasks of a tenant, in any queue; running tasks continue. Everyone who may see it sees the reason."""
    view = tenants.pause(call.access, name, call.author(body), lasts=body.lasts, create=body.create)
    return tenant_shape(view)


@route("POST", "/tenants/{name}/resume", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def resume_tenant(call: Call, name: Name, body: Reason = NO_REASON) -> TenantShape:
    """Start tasks of a tenant again."""
    return tenant_shape(tenants.resume(call.access, name, call.author(body)))
