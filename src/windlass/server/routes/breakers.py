"""Circuit breakers over HTTP."""

from __future__ import annotations

from windlass.core.breaker import BreakerState
from windlass.operations import breakers
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.breakers import BreakerShape, Close, HoldOpen, breaker_shape
from windlass.wire.fields import NO_REASON, Name, Reason

route = Routes("breakers")

HELD_OPEN, CLOSED = HoldOpen(), Close()
CHANGE_ERRORS = ("invalid_task", "changed_meanwhile", "unknown_breaker")


@route("GET", "/breakers", Scope.READ, unrestricted=True)
def list_breakers(call: Call) -> list[BreakerShape]:
    """List the breakers of downstreams whose tasks failed recently, or that a person holds."""
    return [breaker_shape(view) for view in breakers.get_all(call.access)]


@route("GET", "/breakers/{name}", Scope.READ, unrestricted=True, errors=["unknown_breaker"])
def get_breaker(call: Call, name: Name) -> BreakerShape:
    """Get the breaker of one downstream."""
    return breaker_shape(breakers.get(call.access, name))


@route("POST", "/breakers/{name}/open", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def open_breaker(call: Call, name: Name, body: HoldOpen = HELD_OPEN) -> BreakerShape:
    """Start no tasks of a downstream, for some time or until its breaker is closed."""
    author = call.author(body)
    found = breakers.hold(call.access, name, BreakerState.OPEN, author=author, lasts=body.lasts, create=body.create)
    return breaker_shape(found)


@route("POST", "/breakers/{name}/close", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def close_breaker(call: Call, name: Name, body: Close = CLOSED) -> BreakerShape:
    """Start tasks of a downstream again. Unless it is held, the breaker opens again when enough tasks fail."""
    author = call.author(body)
    if body.hold or body.lasts is not None:
        found = breakers.hold(
            call.access, name, BreakerState.CLOSED, author=author, lasts=body.lasts, create=body.create
        )
        return breaker_shape(found)
    return breaker_shape(breakers.close(call.access, name, author=author))


@route("POST", "/breakers/{name}/remove", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def remove_breaker(call: Call, name: Name, body: Reason = NO_REASON) -> BreakerShape:
    """Remove a breaker and what it has counted. Return it as it was."""
    return breaker_shape(breakers.remove(call.access, name, author=call.author(body)))
