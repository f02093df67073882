"""Crons over HTTP: list them, run one now, pause and resume."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.operations import crons
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.crons import CronShape, NextTimes, cron_shape
from windlass.wire.fields import NO_REASON, Reason, Text
from windlass.wire.tasks import Receipt, receipt_shape

route = Routes("crons")

CHANGE_ERRORS = ("unknown_cron", "invalid_task")


class HowMany(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times to return."""

    n: Annotated[int, Meta(ge=1, le=1_000)] = 5


@route("GET", "/crons", Scope.READ, unrestricted=True)
def list_crons(call: Call) -> list[CronShape]:
    """List the crons that were ever published."""
    return [cron_shape(view) for view in crons.get_all(call.access)]


@route("GET", "/crons/{name}", Scope.READ, unrestricted=True, errors=["unknown_cron"])
def get_cron(call: Call, name: Text) -> CronShape:
    """Get one cron."""
    return cron_shape(crons.get(call.access, name))


@route("GET", "/crons/{name}/next", Scope.READ, unrestricted=True, errors=["unknown_cron"])
def next_times(call: Call, name: Text, query: HowMany) -> NextTimes:
    """Get the next times at which a cron runs."""
    paused = crons.get(call.access, name).state.paused
    return NextTimes(cron=name, paused=paused, times=crons.next_times(call.access, name, query.n))


@route(
    "POST",
    "/crons/{name}/run",
    Scope.OPERATE,
    status=201,
    unrestricted=True,
    errors=[*CHANGE_ERRORS, "unknown_handler"],
)
def run_cron(call: Call, name: Text, body: Reason = NO_REASON) -> Receipt:
    """Submit a cron's task now. Its schedule does not change."""
    return receipt_shape(crons.run(call.access, name, call.author(body)))


@route("POST", "/crons/{name}/pause", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def pause_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Stop firing a cron until it is resumed."""
    return cron_shape(crons.pause(call.access, name, call.author(body)))


@route("POST", "/crons/{name}/resume", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def resume_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Fire a cron again. Its misfire policy decides about the times that it missed."""
    return cron_shape(crons.resume(call.access, name, call.author(body)))


@route("POST", "/crons/{name}/remove", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def remove_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Remove a cron that is no longer in the code. Return it as it was."""
    return cron_shape(crons.remove(call.access, name, call.author(body)))
