"""Handlers and crons over HTTP: what the app's nodes have to offer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.errors import UnknownCron
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.schemas import NO_REASON, CronShape, HandlerShape, Reason
from windlass.wire.shapes import cron_shape, handler_shape

route = Routes("manifest")

CronName = Annotated[str, Meta(min_length=1, max_length=512)]


@route("GET", "/handlers", Scope.READ)
def list_handlers(call: Call) -> list[HandlerShape]:
    """Every handler that was ever published, with the schema of its arguments, by name."""
    return [handler_shape(handler) for handler in call.store.handlers()]


@route("GET", "/crons", Scope.READ, unrestricted=True)
def list_crons(call: Call) -> list[CronShape]:
    """Every schedule that was ever published, by name."""
    return [cron_shape(cron, call.handlers.parameters(cron.info.handler)) for cron in call.store.crons()]


@route("POST", "/crons/{name}/pause", Scope.OPERATE, unrestricted=True, errors=["unknown_cron"])
def pause_cron(call: Call, name: CronName, body: Reason = NO_REASON) -> CronShape:
    """Let a schedule fire no more."""
    entry = call.entry(f"cron/{name}", "paused", f"paused the cron {name}{': ' if body.why else ''}{body.why}")
    call.store.pause_cron(name, True, by=body.by or call.caller.name, why=body.why, entries=[entry])
    return _cron(call, name)


@route("POST", "/crons/{name}/resume", Scope.OPERATE, unrestricted=True, errors=["unknown_cron"])
def resume_cron(call: Call, name: CronName, body: Reason = NO_REASON) -> CronShape:
    """Let a schedule fire again."""
    entry = call.entry(f"cron/{name}", "resumed", f"resumed the cron {name}{': ' if body.why else ''}{body.why}")
    call.store.pause_cron(name, False, entries=[entry])
    return _cron(call, name)


def _cron(call: Call, name: str) -> CronShape:
    found = next((cron for cron in call.store.crons() if cron.info.name == name), None)
    if found is None:
        raise UnknownCron(name)
    return cron_shape(found, call.handlers.parameters(found.info.handler))
