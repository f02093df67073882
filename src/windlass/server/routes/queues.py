"""Queues over HTTP: settings, counts, and the switch that lets nothing more be claimed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.operations.caller import Scope
from windlass.operations.queues import RESUMED, change_queue, paused, queue_of
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.stores.coordination import Entry
from windlass.wire.schemas import NO_REASON, Name, QueueShape, Reason, SetQueue
from windlass.wire.shapes import queue_shapes

route = Routes("queues")


@route("GET", "/queues", Scope.READ)
def list_queues(call: Call) -> list[QueueShape]:
    """Every queue that was configured or has tasks: its settings, and how many tasks it has in each state."""
    who = call.caller
    counts = [count for count in call.store.counts() if who.tenant in (None, count.tenant)]
    return [shape for shape in queue_shapes(call.store.queues(), counts) if who.queue in (None, shape.name)]


@route("PUT", "/queues/{name}", Scope.OPERATE, errors=["invalid_task", "unknown_queue", "changed_meanwhile"])
def set_queue(call: Call, name: Name, body: SetQueue) -> QueueShape:
    """Set all settings of a queue. A new strategy gives the tasks that are there their new places."""
    settings = {
        "strategy": body.strategy,
        "horizon": timedelta(seconds=body.horizon_seconds),
        "step": timedelta(seconds=body.step_seconds),
        "max_waiting": body.max_waiting,
        "max_leased": body.max_leased,
        "weight": body.weight,
        "fair": body.fair,
    }
    return _set(call, name, settings, call.entry(f"queue/{name}", "configured", f"set the queue {name}", settings=body))


@route("POST", "/queues/{name}/pause", Scope.OPERATE, errors=["unknown_queue", "changed_meanwhile"])
def pause_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Let nothing more of a queue be claimed; what runs goes on. Say why: everybody will see it."""
    entry = call.entry(f"queue/{name}", "paused", f"paused the queue {name}{_because(body)}")
    return _set(call, name, paused(body.by or call.caller.name, body.why), entry)


@route("POST", "/queues/{name}/resume", Scope.OPERATE, errors=["unknown_queue", "changed_meanwhile"])
def resume_queue(call: Call, name: Name, body: Reason = NO_REASON) -> QueueShape:
    """Let the tasks of a queue be claimed again."""
    entry = call.entry(f"queue/{name}", "resumed", f"resumed the queue {name}{_because(body)}")
    return _set(call, name, RESUMED, entry)


def _set(call: Call, name: str, settings: Mapping[str, Any], entry: Entry) -> QueueShape:
    call.check_queue(name)
    change_queue(call.store, name, settings, entry)
    counts = [count for count in call.store.counts() if count.queue == name]
    [shape] = queue_shapes([queue_of(call.store, name)], counts)
    return shape


def _because(reason: Reason) -> str:
    by = f" for {reason.by}" if reason.by else ""
    return f"{by}: {reason.why}" if reason.why else by
