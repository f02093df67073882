"""Nodes and their worker processes in JSON, for HTTP and `windlass workers ls --json`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from windlass.core.payload import json_object
from windlass.core.times import to_datetime
from windlass.core.worker_list import WorkerList, WorkerProcess, decode_workers
from windlass.redaction import redact
from windlass.stores.protocol import Session


class RunningTaskShape(Struct, frozen=True, kw_only=True):
    """A task that a worker process runs."""

    id: UUID
    handler: str
    since: datetime
    """When the worker began it, on the node's clock."""


class WorkerShape(Struct, frozen=True, kw_only=True):
    """One worker process of a node."""

    number: int
    """Unique on its node, in the order in which workers were started."""
    pid: int | None
    """None while the process is being started."""
    pool: str
    state: str
    """starting, idle, busy or draining."""
    since: datetime
    """When it entered that state, on the node's clock."""
    memory_bytes: int | None
    """Resident memory, in steps of 1 MiB; None if the node's system does not tell."""
    tasks_run: int
    running: int
    """How many tasks it runs now."""
    tasks: list[RunningTaskShape]
    """Those tasks, the longest-running first; a node with very many lists only some."""


class NodeShape(Struct, frozen=True, kw_only=True):
    """A node's session."""

    session: UUID
    node: str
    about: dict[str, Any]
    """What it says of itself: its pools, queues, tags, handlers."""
    age_seconds: float
    """How long ago it was heard of last."""
    lost: bool
    workers: list[WorkerShape]
    """Its worker processes as of then, at most 256; empty for a client of the HTTP API."""
    workers_not_listed: int
    """How many more worker processes it has."""


def node_shape(session: Session) -> NodeShape:
    """A node's session, and its workers if they were read with it."""
    listed = WorkerList() if session.lost else decode_workers(session.workers)
    return NodeShape(
        session=session.id,
        node=session.node,
        about=redact(json_object(session.about)),
        age_seconds=session.age.total_seconds(),
        lost=session.lost,
        workers=[_worker_shape(worker) for worker in listed.workers],
        workers_not_listed=listed.more,
    )


def _worker_shape(worker: WorkerProcess) -> WorkerShape:
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
    )
