"""What the pages show, read from the store in one go: no page asks for anything while it is drawn.

Every page gets what all need (counts, queues, pools, the store's time), and what it alone needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from windlass.autoscale.observe import NodeReport
from windlass.autoscale.pool_tick import read_reports
from windlass.core.query import Query
from windlass.core.task import Attempt, Task, TaskId
from windlass.core.times import Micros
from windlass.core.why import Why
from windlass.operations.explain import explain
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.legacy_breakers import Downstream, downstreams
from windlass.operations.legacy_pools import PoolView, look_at, pools_in
from windlass.stores.coordination import EntrySeen, QueueLook
from windlass.stores.protocol import Count, Filter, Log, Page, ProgressSeen, Session, Store
from windlass.wire.schemas import QueueShape
from windlass.wire.shapes import queue_shapes

SHOWN = 200
"""How many tasks the page of tasks has."""
LATEST = 12
LEDGER = 100


class Name(StrEnum):
    """The pages."""

    NOW = "now"
    TASKS = "tasks"
    QUEUES = "queues"
    POOL = "pool"
    NODES = "nodes"


class Snapshot(Struct, frozen=True, kw_only=True):
    """How things stood at one moment."""

    name: Name
    """For which page it was read."""
    now: Micros
    """By the store's clock."""
    counts: list[Count]
    queues: list[QueueShape]
    looks: Mapping[str, QueueLook]
    pools: list[PoolView]
    reports: Mapping[str, NodeReport]
    downstreams: list[Downstream] = []
    entries: list[EntrySeen] = []
    """Of the page Now: the latest of all; of the page Pool: the latest about pools."""
    sessions: list[Session] = []
    page: Page | None = None


class Details(Struct, frozen=True, kw_only=True):
    """All about one task."""

    now: Micros
    task: Task
    parameters: Mapping[str, Any]
    """The schema of its arguments, which may mark some as secret."""
    attempts: list[Attempt]
    logs: list[Log]
    progress: ProgressSeen | None
    why: Why


def read(store: Store, name: Name, query: Query) -> Snapshot:
    """What this page needs."""
    counts = store.counts()
    look = look_at(store, counts)
    common: dict[str, Any] = {
        "name": name,
        "now": look.now,
        "counts": counts,
        "queues": queue_shapes(store.queues(), counts),
        "looks": {each.queue: each for each in look.queues},
        "pools": pools_in(look),
        "reports": read_reports(look),
    }
    return Snapshot(**common, **_own(store, name, query, look.now))


def _own(store: Store, name: Name, query: Query, now: Micros) -> dict[str, Any]:
    match name:
        case Name.NOW:
            return {"downstreams": downstreams(store, now), "entries": store.audit(limit=LATEST)}
        case Name.TASKS:
            return {"page": store.find(Filter(query=query), limit=SHOWN)}
        case Name.POOL:
            return {"entries": store.audit("pool/", limit=LEDGER)}
        case Name.NODES:
            return {"sessions": store.sessions()}
        case Name.QUEUES:
            return {}


def details(store: Store, id: TaskId) -> Details | None:
    """All about a task; None when there is no such any more."""
    [task] = store.get([id])
    if task is None:
        return None
    [progress] = store.progress_of([id])
    return Details(
        now=store.look([], ahead=timedelta(0)).now,
        task=task,
        parameters=HandlerCatalog(store).parameters(task.handler),
        attempts=store.attempts(id),
        logs=store.logs(id),
        progress=progress,
        why=explain(store, task),
    )
