"""The JSON shapes of nodes and their worker processes."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from windlass.autoscale.observe import PoolReport
from windlass.core.payload import json_object
from windlass.core.stop_requests import StopRequest
from windlass.core.times import to_datetime
from windlass.core.worker_list import WorkerProcess
from windlass.operations.nodes import GRACE, NodeView
from windlass.wire.fields import Length, Moment, Reason


class RunningTaskShape(Struct, frozen=True, kw_only=True):
    """A task that a worker process runs."""

    id: UUID
    handler: str
    since: Moment
    """When the worker began it, on the node's clock."""


class StopRequestShape(Struct, frozen=True, kw_only=True):
    """A request to drain or stop a worker or a node."""

    verb: Literal["drain", "stop"]
    grace_seconds: float | None
    """Seconds that running tasks had when it was made; null for a drain."""
    by: str
    at: Moment
    why: str


class StuckProcessShape(Struct, frozen=True, kw_only=True):
    """A process that was killed and does not end."""

    pid: int
    since: Moment
    """When the node found it, on its clock."""


class Stop(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drain, and stop and release what still runs after some time."""

    grace: Length = GRACE.total_seconds()
    """How long running tasks may take to end, at most one day."""


class WorkerShape(Struct, frozen=True, kw_only=True):
    """One worker process of a node."""

    number: int
    """Unique on its node, in the order in which workers were started."""
    pid: int | None
    """None while the process is being started."""
    pool: str
    state: str
    """starting, idle, busy or draining."""
    since: Moment
    """When it entered that state, on the node's clock."""
    memory_bytes: int | None
    """Resident memory, in steps of 1 MiB; None if the node's system does not report it."""
    tasks_run: int
    running: int
    """How many tasks it runs now."""
    tasks: list[RunningTaskShape]
    """Those tasks, the longest-running first; a node with very many lists only some."""
    request: StopRequestShape | None
    """The request to drain or stop this worker, if there is one. The node follows within a second or two."""


class NodeShape(Struct, frozen=True, kw_only=True):
    """A node: its session, pools and worker processes."""

    session: UUID
    node: str
    about: dict[str, Any]
    """What it serves: its pools, queues, tags and handlers."""
    age_seconds: float
    """How long ago it renewed its session."""
    lost: bool
    workers: list[WorkerShape]
    """Its worker processes at that time, at most 256; empty for a client of the HTTP API."""
    workers_not_listed: int
    """How many more worker processes it has."""
    stuck: list[StuckProcessShape]
    """Processes of workers, and of what handlers had started, that were killed and do not end. They run nothing."""
    pools: dict[str, PoolReport]
    """Its pools as it reported them last; empty if it has not reported."""
    degraded: str
    """What is wrong with the node's autoscaler; empty if nothing."""
    request: StopRequestShape | None
    """The request to drain or stop the whole node, if there is one."""


def node_shape(view: NodeView) -> NodeShape:
    """Convert a node."""
    session, report = view.session, view.report
    return NodeShape(
        session=session.id,
        node=session.node,
        about=json_object(session.about),
        age_seconds=session.age.total_seconds(),
        lost=session.lost,
        workers=[_worker_shape(worker, view.find_request(worker.number)) for worker in view.workers.workers],
        workers_not_listed=view.workers.more,
        stuck=[StuckProcessShape(pid=each.pid, since=to_datetime(each.since)) for each in view.workers.stuck],
        pools={} if report is None else report.pools,
        degraded="" if report is None else report.degraded,
        request=_request_shape(view.find_request()),
    )


def _request_shape(request: StopRequest | None) -> StopRequestShape | None:
    if request is None:
        return None
    return StopRequestShape(
        verb=request.verb, grace_seconds=request.grace, by=request.by, at=to_datetime(request.at), why=request.why
    )


def _worker_shape(worker: WorkerProcess, request: StopRequest | None) -> WorkerShape:
    return WorkerShape(
        number=worker.number,
        pid=worker.pid or None,
        pool=worker.pool,
        state=worker.state,
        since=to_datetime(worker.since),
        memory_bytes=worker.memory or None,
        tasks_run=worker.tasks_run,
        running=worker.running,
        tasks=[
            RunningTaskShape(id=UUID(task.id), handler=task.handler, since=to_datetime(task.since))
            for task in worker.tasks
        ],
        request=_request_shape(request),
    )
