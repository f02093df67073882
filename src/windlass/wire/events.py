"""Shapes of the events in the event streams, with the field names of server-sent events: `event`, `id` and `data`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.operations.pools import PoolView
from windlass.wire.audit import EntryShape
from windlass.wire.tasks import LogShape, ProgressShape, TaskShape


class QueueCounts(Struct, frozen=True, kw_only=True):
    """The number of tasks by queue and state."""

    queues: dict[str, dict[str, int]]


class PoolStatus(Struct, frozen=True, kw_only=True):
    """A pool, without the values that change merely because time passes."""

    name: str
    target: int
    live: int
    ready: int
    running: int
    starting: int
    draining: int
    asleep: int
    sentence: str
    """The latest sizing decision in one line."""
    alerts: list[str]
    paused: bool


class PoolStatuses(Struct, frozen=True, kw_only=True):
    """All pools, or the one that the subscriber asked for."""

    pools: list[PoolStatus]


class WorkflowCounts(Struct, frozen=True, kw_only=True):
    """The number of tasks of a workflow by state."""

    workflow: str
    tenant: str
    tasks: dict[str, int]


class CountsEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="counts"):
    """The counts of the queues changed. Sent at most once per second, and when the stream starts."""

    data: QueueCounts


class PoolsEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="pools"):
    """The pools changed. Sent at most once per second, and when the stream starts."""

    data: PoolStatuses


class TaskEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="task"):
    """The task changed. Sent at most once per second, and when the stream starts."""

    data: TaskShape


class ProgressEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="progress"):
    """The task reported progress. Sent at most once per second, and when the stream starts."""

    data: ProgressShape


class OutputEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="output"):
    """The output of the latest attempt changed. Sent at most once per second, and when the stream starts.

    The text is the whole output up to its last 32,768 characters and 1,000 lines.
    """

    data: LogShape


class WorkflowEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="workflow"):
    """The counts of the workflow changed. Sent at most once per second, and when the stream starts."""

    data: WorkflowCounts


class AuditEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag="audit"):
    """A new audit entry. Send its id as `Last-Event-ID` to get the entries after it."""

    id: Annotated[str, Meta(pattern="^[0-9]+$")]
    data: EntryShape


Event = CountsEvent | PoolsEvent | TaskEvent | ProgressEvent | OutputEvent | WorkflowEvent | AuditEvent


def pool_status(view: PoolView) -> PoolStatus:
    """Return the status of a pool."""
    return PoolStatus(
        name=view.name,
        target=view.target,
        live=view.live,
        ready=view.ready,
        running=view.running,
        starting=view.starting,
        draining=view.draining,
        asleep=view.asleep,
        sentence=view.sentence,
        alerts=list(view.alerts),
        paused=view.paused is not None,
    )
