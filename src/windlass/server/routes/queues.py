"""Queues over HTTP: settings, numbers of tasks, pause and resume."""

from __future__ import annotations

from windlass.operations import queues
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.fields import NO_REASON, Name, Reason
from windlass.wire.queues import QueueShape, SetQueue, queue_settings, queue_shape

route = Routes("queues")

CHANGE_ERRORS = ("invalid_task", "unknown_queue", "changed_meanwhile")


@route("GET", "/queues", Scope.READ)
def list_queues(call: Call) -> list[QueueShape]:
    """List the queues that were configured or have tasks, with their settings and numbers of tasks."""
    return [queue_shape(view) for view in queues.get_all(call.access)]


@route("GET", "/queues/{name}", Scope.READ, errors=["unknown_queue"])
def get_queue(call: Call, name: Name) -> QueueShape:
    """Get one queue."""
    return queue_shape(queues.get(call.access, name))


@route("PUT", "/queues/{name}", Scope.OPERATE, errors=CHANGE_ERRORS)
def set_queue(call: Call, name: Name, body: SetQueue) -> QueueShape:
    """Set all settings of a queue. A new strategy also reorders the tasks that are waiting."""
    return queue_shape(queues.change(call.access, name, queue_settings(body), call.author()))


@route("POST", "/queues/{name}/pause", Scope.OPERATE, errors=CHANGE_ERRORS)
def pause_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Stop claiming tasks of a queue; running tasks continue. Everybody sees the reason."""
    return queue_shape(queues.pause(call.access, name, call.author(body)))


@route("POST", "/queues/{name}/resume", Scope.OPERATE, errors=CHANGE_ERRORS)
def resume_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Claim tasks of a queue again."""
    return queue_shape(queues.resume(call.access, name, call.author(body)))
