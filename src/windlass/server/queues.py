"""Queues over HTTP: settings, counts, and the switch that lets nothing more be claimed."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from windlass.core.ordering import Queue
from windlass.server.calls import Call
from windlass.server.routes import Routes
from windlass.server.schemas import NO_REASON, Name, QueueShape, Reason, SetQueue
from windlass.server.scopes import Scope
from windlass.server.shapes import queue_shapes

route = Routes("queues")


@route("GET", "/queues", Scope.READ)
def list_queues(call: Call) -> list[QueueShape]:
    """Every queue that was configured or has tasks: its settings, and how many tasks it has in each state."""
    who = call.who
    counts = [count for count in call.store.counts() if who.tenant in (None, count.tenant)]
    return [shape for shape in queue_shapes(call.store.queues(), counts) if who.queue in (None, shape.name)]


@route("PUT", "/queues/{name}", Scope.OPERATE, errors=["invalid_task", "unknown_queue"])
def set_queue(call: Call, name: Name, body: SetQueue) -> QueueShape:
    """Set all settings of a queue. A new strategy gives the tasks that are there their new places."""
    before = _queue(call, name)
    call.store.configure(
        replace(
            before,
            strategy=body.strategy,
            horizon=timedelta(seconds=body.horizon_seconds),
            step=timedelta(seconds=body.step_seconds),
            max_waiting=body.max_waiting,
            max_leased=body.max_leased,
            weight=body.weight,
            fair=body.fair,
        )
    )
    call.note(f"queue/{name}", "configured", f"set the queue {name}", settings=body)
    return _shape(call, name)


@route("POST", "/queues/{name}/pause", Scope.OPERATE, errors=["unknown_queue"])
def pause_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Let nothing more of a queue be claimed; what runs goes on. Say why: everybody will see it."""
    by = body.by or call.who.name
    call.store.configure(replace(_queue(call, name), paused=True, paused_by=by, paused_why=body.why or None))
    call.note(f"queue/{name}", "paused", f"paused the queue {name}{_because(body)}")
    return _shape(call, name)


@route("POST", "/queues/{name}/resume", Scope.OPERATE, errors=["unknown_queue"])
def resume_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Let the tasks of a queue be claimed again."""
    call.store.configure(replace(_queue(call, name), paused=False, paused_by=None, paused_why=None))
    call.note(f"queue/{name}", "resumed", f"resumed the queue {name}{_because(body)}")
    return _shape(call, name)


def _queue(call: Call, name: str) -> Queue:
    """The queue as it is set now; one that nobody has heard of has the defaults."""
    call.check_queue(name)
    return next((queue for queue in call.store.queues() if queue.name == name), Queue(name=name))


def _shape(call: Call, name: str) -> QueueShape:
    counts = [count for count in call.store.counts() if count.queue == name]
    [shape] = queue_shapes([_queue(call, name)], counts)
    return shape


def _because(reason: Reason) -> str:
    by = f" for {reason.by}" if reason.by else ""
    return f"{by}: {reason.why}" if reason.why else by
