"""Limits over HTTP. A limit has no name of its own: its scope is in the body."""

from __future__ import annotations

from windlass.operations import limits
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.limits import LimitScope, LimitShape, SetLimit, limit_of, limit_shape, scope_of

route = Routes("limits")


@route("GET", "/limits", Scope.READ)
def list_limits(call: Call) -> list[LimitShape]:
    """List the limits that are set, with what is used of them and who set them."""
    return [limit_shape(view) for view in limits.get_all(call.access)]


@route(
    "PUT",
    "/limits",
    Scope.OPERATE,
    errors=["invalid_task", "unknown_queue", "unknown_tenant", "unknown_handler", "changed_meanwhile"],
)
def set_limit(call: Call, body: SetLimit) -> LimitShape:
    """Set the limit on a queue, tenant, tenant in a queue, handler or key. It replaces the one that is set."""
    view = limits.put(call.access, limit_of(body), call.author(body), lasts=body.lasts, create=body.create)
    return limit_shape(view)


@route("POST", "/limits:remove", Scope.OPERATE, errors=["invalid_task", "unknown_limit", "changed_meanwhile"])
def remove_limit(call: Call, body: LimitScope) -> LimitShape:
    """Remove the limit on a scope. Return what it was."""
    return limit_shape(limits.remove(call.access, scope_of(body), call.author(body)))
