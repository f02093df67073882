"""Crons over HTTP: list them, create and change them at run time, run one now, pause and resume."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.errors import Conflict
from windlass.operations import crons
from windlass.operations.caller import Scope
from windlass.operations.crons import CronView
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.crons import ChangeCron, CreateCron, CronShape, NextTimes, cron_changes, cron_shape, new_cron
from windlass.wire.fields import NO_REASON, Reason, Text
from windlass.wire.tasks import Receipt, receipt_shape

route = Routes("crons")

CHANGE_ERRORS = ("unknown_cron", "invalid_task", "version_conflict")
CREATE_ERRORS = ("invalid_task", "invalid_payload", "unknown_handler", "not_allowed", "changed_meanwhile")


class HowMany(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times to return."""

    n: Annotated[int, Meta(ge=1, le=1_000)] = 5


class CreateQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do if the name is taken."""

    replace: bool = False
    """Change the cron of this name, if it was created at run time."""


@route("GET", "/crons", Scope.READ)
def list_crons(call: Call) -> list[CronShape]:
    """List the crons of all apps, and those created at run time."""
    return [cron_shape(view) for view in crons.get_all(call.access)]


@route("POST", "/crons", Scope.OPERATE, status=201, errors=["cron_exists", "unknown_cron", *CREATE_ERRORS])
def create_cron(call: Call, query: CreateQuery, body: CreateCron) -> CronShape:
    """Create a cron at run time. Every live node that has its handler fires it. The token also needs `submit`."""
    view = crons.create(call.access, new_cron(body), call.author(body), replace=query.replace)
    return _tagged(call, view)


@route("GET", "/crons/{name}", Scope.READ, errors=["unknown_cron"])
def get_cron(call: Call, name: Text) -> CronShape:
    """Get one cron."""
    return _tagged(call, crons.get(call.access, name))


@route(
    "PATCH",
    "/crons/{name}",
    Scope.OPERATE,
    headers=["If-Match"],
    errors=["unknown_cron", "version_conflict", *CREATE_ERRORS],
)
def change_cron(call: Call, name: Text, body: ChangeCron) -> CronShape:
    """Change a cron that was created at run time. The token also needs `submit`."""
    expect = _expected(call, name)
    return _tagged(call, crons.change(call.access, name, cron_changes(body), call.author(body), expect=expect))


@route("GET", "/crons/{name}/next", Scope.READ, errors=["unknown_cron"])
def next_times(call: Call, name: Text, query: HowMany) -> NextTimes:
    """Get the next times at which a cron runs."""
    paused = crons.get(call.access, name).state.paused
    return NextTimes(cron=name, paused=paused, times=crons.next_times(call.access, name, query.n))


@route(
    "POST",
    "/crons/{name}/run",
    Scope.OPERATE,
    status=201,
    errors=["unknown_cron", "invalid_task", "unknown_handler"],
)
def run_cron(call: Call, name: Text, body: Reason = NO_REASON) -> Receipt:
    """Submit a cron's task now. Its schedule does not change."""
    return receipt_shape(crons.run(call.access, name, call.author(body)))


@route("POST", "/crons/{name}/pause", Scope.OPERATE, headers=["If-Match"], errors=CHANGE_ERRORS)
def pause_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Stop firing a cron until it is resumed."""
    return _tagged(call, crons.pause(call.access, name, call.author(body), expect=_expected(call, name)))


@route("POST", "/crons/{name}/resume", Scope.OPERATE, headers=["If-Match"], errors=CHANGE_ERRORS)
def resume_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Fire a cron again. Its misfire policy decides about the times that it missed."""
    return _tagged(call, crons.resume(call.access, name, call.author(body), expect=_expected(call, name)))


@route("POST", "/crons/{name}/remove", Scope.OPERATE, headers=["If-Match"], errors=CHANGE_ERRORS)
def remove_cron(call: Call, name: Text, body: Reason = NO_REASON) -> CronShape:
    """Remove a cron that was created at run time, or is no longer in the code. Return it as it was."""
    return cron_shape(crons.remove(call.access, name, call.author(body), expect=_expected(call, name)))


def _tagged(call: Call, view: CronView) -> CronShape:
    call.response_headers["ETag"] = _etag(view)
    return cron_shape(view)


def _etag(view: CronView) -> str:
    return f'"{view.state.version}"'


def _expected(call: Call, name: str) -> int | None:
    """Return the version that the caller has seen, for the store to compare; None if any version will do."""
    wanted = call.headers.get("if-match")
    if not wanted or wanted == "*":
        return None
    view = crons.get(call.access, name)
    if _etag(view) not in [each.strip() for each in wanted.split(",")]:
        raise Conflict(f"cron {name}")
    return view.state.version
