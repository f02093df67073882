"""Event streams over HTTP: all queues and pools, one task, one workflow."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.task import TaskId
from windlass.errors import UnknownQueue
from windlass.operations.caller import Scope
from windlass.operations.workflows import find_tenant
from windlass.server.events.topics import Overview, TaskTopic, WorkflowTopic
from windlass.server.http.call import Call
from windlass.server.http.event_stream import EventStream
from windlass.server.http.routing import Routes
from windlass.stores.protocol import Filter
from windlass.wire.events import (
    AuditEvent,
    CountsEvent,
    OutputEvent,
    PoolsEvent,
    ProgressEvent,
    TaskEvent,
    WorkflowEvent,
)
from windlass.wire.fields import Name, Text

route = Routes("events")


class StreamLength(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to stream."""

    seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """End the stream after this time. Without it, the stream ends when you disconnect."""


class StreamEvents(StreamLength, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to stream."""

    queue: Name | None = None
    pool: Name | None = None


class StreamWorkflow(StreamLength, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose workflow to stream."""

    tenant: Name | None = None
    """Needed only if several tenants have a workflow of this name."""


@route("GET", "/events", Scope.READ, headers=["Last-Event-ID"], errors=["unknown_queue"])
def stream_events(call: Call, query: StreamEvents) -> EventStream[CountsEvent | PoolsEvent | AuditEvent]:
    """Stream changes of queues and pools, and audit entries, as server-sent events.

    `counts` and `pools` carry the whole state: once at the start, then at most once per second when it has changed.
    `audit` carries one audit entry, whose number is the event's id. Reconnect with `Last-Event-ID` to get the entries
    you missed (the newest 1,000). A client that does not keep up is disconnected. A token limited to a tenant or a
    queue gets only the counts of its own tasks.
    """
    which = call.access.narrow(Filter(queue=query.queue))
    if which is None:
        raise UnknownQueue(str(query.queue))
    topic = Overview(tenant=which.tenant, queue=which.queue, pool=query.pool, unrestricted=not call.caller.limited)
    return EventStream(topic=topic, seconds=query.seconds)


@route("GET", "/tasks/{id}/events", Scope.READ, headers=["Last-Event-ID"], errors=["unknown_task"])
def stream_task_events(
    call: Call, id: UUID, query: StreamLength
) -> EventStream[TaskEvent | ProgressEvent | OutputEvent | AuditEvent]:
    """Stream changes of one task as server-sent events.

    `task` and `progress` carry the whole state: once at the start, then at most once per second when it has changed.
    So does `output`, for the latest attempt with output, running or not, and cut to its last 1,000 lines. `audit`
    carries one audit entry about the task, whose number is the event's id, and resumes as in `/events`; tokens
    limited to a tenant or a queue do not get it. The stream ends when the task is deleted.
    """
    task = call.access.task(TaskId(id))
    return EventStream(topic=TaskTopic(task=task.id, unrestricted=not call.caller.limited), seconds=query.seconds)


@route(
    "GET",
    "/workflows/{name}/events",
    Scope.READ,
    headers=["Last-Event-ID"],
    errors=["unknown_workflow", "invalid_task"],
)
def stream_workflow_events(call: Call, name: Text, query: StreamWorkflow) -> EventStream[WorkflowEvent | AuditEvent]:
    """Stream changes of one workflow as server-sent events.

    `workflow` carries the number of its tasks by state: once at the start, then at most once per second when it has
    changed; less often for a workflow of many thousand tasks. `audit` carries one audit entry about the workflow, whose
    number is the event's id, and resumes as in `/events`; tokens limited to a tenant or a queue do not get it. The
    stream ends when the workflow is deleted, or gets a task in a queue that the token may not see.
    """
    tenant = find_tenant(call.access, name, query.tenant)
    caller = call.caller
    topic = WorkflowTopic(name=name, tenant=tenant, queue=caller.queue, unrestricted=not caller.limited)
    return EventStream(topic=topic, seconds=query.seconds)
