"""Queues over HTTP: settings, numbers of tasks, pause and resume."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.times import duration
from windlass.operations import queues
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.fields import NO_REASON, Length, Name, Reason
from windlass.wire.queues import (
    NOT_LIMITED,
    Every,
    PauseQueue,
    PointShape,
    QueueShape,
    SetQueue,
    point_shape,
    queue_settings,
    queue_shape,
)

route = Routes("queues")

CHANGE_ERRORS = ("invalid_task", "unknown_queue", "changed_meanwhile")


class ReadSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which points of a time series."""

    every: Every = Every.MINUTE
    """Seconds are kept for 15 minutes, minutes for 2 days."""
    last: Length = "1h"
    """How far back, up to 30 days."""


@route("GET", "/queues", Scope.READ)
def list_queues(call: Call) -> list[QueueShape]:
    """List the queues that were configured or have tasks, with their settings and numbers of tasks."""
    return [queue_shape(view) for view in queues.get_all(call.access)]


@route("GET", "/queues/{name}", Scope.READ, errors=["unknown_queue"])
def get_queue(call: Call, name: Name) -> QueueShape:
    """Get one queue."""
    return queue_shape(queues.get(call.access, name))


@route("GET", "/queues/{name}/series", Scope.READ, errors=["unknown_queue", "invalid_task"])
def read_series(call: Call, name: Name, query: ReadSeries) -> list[PointShape]:
    """Read arrivals, completions, failures and waits of a queue per second or minute, oldest first."""
    return _series(call, name, query)


@route("GET", "/queues:series", Scope.READ, unrestricted=True, errors=["invalid_task"])
def read_total_series(call: Call, query: ReadSeries) -> list[PointShape]:
    """Read arrivals, completions, failures and waits of all queues together, per second or minute, oldest first."""
    return _series(call, None, query)


@route("PUT", "/queues/{name}", Scope.OPERATE, errors=CHANGE_ERRORS)
def set_queue(call: Call, name: Name, body: SetQueue) -> QueueShape:
    """Set all settings of a queue. A new strategy also reorders the tasks that are waiting."""
    return queue_shape(queues.change(call.access, name, queue_settings(body), call.author(body), create=body.create))


@route("POST", "/queues/{name}/pause", Scope.OPERATE, errors=CHANGE_ERRORS)
def pause_queue(call: Call, name: Name, body: PauseQueue = NOT_LIMITED) -> QueueShape:
    """Stop claiming tasks of a queue; running tasks continue. Everyone sees the reason."""
    return queue_shape(queues.pause(call.access, name, call.author(body), lasts=body.lasts, create=body.create))


@route("POST", "/queues/{name}/resume", Scope.OPERATE, errors=CHANGE_ERRORS)
def resume_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Claim tasks of a queue again."""
    return queue_shape(queues.resume(call.access, name, call.author(body)))


@route("POST", "/queues/{name}/remove", Scope.OPERATE, errors=[*CHANGE_ERRORS, "not_allowed"])
def remove_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Remove the settings of a queue that has no unfinished tasks. Return them as they were."""
    return queue_shape(queues.remove(call.access, name, call.author(body)))


def _series(call: Call, name: str | None, query: ReadSeries) -> list[PointShape]:
    points = queues.series(call.access, name, query.every.resolution, duration(query.last, "last"))
    return [point_shape(point) for point in points]
