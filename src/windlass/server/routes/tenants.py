"""Tenants over HTTP."""

from __future__ import annotations

from windlass.operations import tenants
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.fields import Name
from windlass.wire.tenants import TenantShape, tenant_shape

route = Routes("tenants")


@route("GET", "/tenants", Scope.READ)
def list_tenants(call: Call) -> list[TenantShape]:
    """List the tenants that have tasks, with their tasks by state and their queues."""
    return [tenant_shape(view) for view in tenants.get_all(call.access)]


@route("GET", "/tenants/{name}", Scope.READ, errors=["unknown_tenant"])
def get_tenant(call: Call, name: Name) -> TenantShape:
    """Get one tenant."""
    return tenant_shape(tenants.get(call.access, name))
