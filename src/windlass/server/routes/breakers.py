"""Downstreams over HTTP: their circuit breakers, and the hand that holds them open or closed."""

from __future__ import annotations

from windlass.core.breaker import BreakerState
from windlass.operations import breakers
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.routes.pools import by_whom
from windlass.wire.pools import BreakerShape, Close, HoldOpen, breaker_shape
from windlass.wire.schemas import Name

route = Routes("breakers")

HELD_OPEN, CLOSED = HoldOpen(), Close()


@route("GET", "/breakers", Scope.READ, unrestricted=True)
def list_breakers(call: Call) -> list[BreakerShape]:
    """Every downstream whose tasks have failed lately, or that somebody holds open or closed, by name."""
    return [breaker_shape(each) for each in breakers.downstreams(call.store, call.now)]


@route("POST", "/breakers/{name}/open", Scope.OPERATE, unrestricted=True, errors=["invalid_task", "changed_meanwhile"])
def open_breaker(call: Call, name: Name, body: HoldOpen = HELD_OPEN) -> BreakerShape:
    """Let no task of this downstream start, for some time or until it is closed."""
    by = by_whom(call, body)
    breakers.hold(call.store, name, BreakerState.OPEN, call.now, by=by, why=body.why, lasts=body.lasts)
    return _found(call, name)


@route("POST", "/breakers/{name}/close", Scope.OPERATE, unrestricted=True, errors=["invalid_task", "changed_meanwhile"])
def close_breaker(call: Call, name: Name, body: Close = CLOSED) -> BreakerShape:
    """Let the tasks of this downstream start again; it opens by the usual rule, unless it is held."""
    by = by_whom(call, body)
    if body.hold or body.lasts is not None:
        breakers.hold(call.store, name, BreakerState.CLOSED, call.now, by=by, why=body.why, lasts=body.lasts)
    else:
        breakers.close(call.store, name, call.now, by=by)
    return _found(call, name)


def _found(call: Call, name: str) -> BreakerShape:
    there = {each.name: each for each in breakers.downstreams(call.store, call.now)}
    return breaker_shape(there[name])
