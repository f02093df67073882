"""What the pages show, read from the store in one step. Pages read nothing while they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from windlass.core.fairness import SetBy
from windlass.core.lifecycle import State
from windlass.core.query import Query
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import UnknownTask
from windlass.operations import audit, breakers, crons, limits, nodes, pools, queues, tasks, tenants
from windlass.operations.access import Access
from windlass.operations.breakers import BreakerView
from windlass.operations.crons import CronView
from windlass.operations.limits import LimitView
from windlass.operations.nodes import NodeView
from windlass.operations.pools import PoolView
from windlass.operations.queues import QueueView
from windlass.operations.shares import TenantShare
from windlass.operations.tasks import TaskDetails
from windlass.operations.tenants import TenantView
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Filter

MOST_TASKS = 200
MOST_TENANTS = 500
"""The tenants with the most tasks to run."""
LATEST_ENTRIES = 12
POOL_ENTRIES = 100


class Page(StrEnum):
    """The pages."""

    NOW = "now"
    TASKS = "tasks"
    QUEUES = "queues"
    POOL = "pool"
    NODES = "nodes"
    TENANTS = "tenants"
    CRONS = "crons"


class Snapshot(Struct, frozen=True, kw_only=True):
    """What one page shows, and what all pages show, as of one moment."""

    page: Page
    """The page for which it was read."""
    now: Micros
    """The time of the store's clock."""
    counts: Mapping[State, int]
    queues: list[QueueView]
    pools: list[PoolView]
    paused_tenants: Mapping[str, SetBy] = {}
    nodes: list[NodeView] = []
    breakers: list[BreakerView] = []
    entries: list[EntrySeen] = []
    """On the page Now the latest entries, on the page Pool the latest entries about pools."""
    tasks: list[Task] = []
    more_tasks: bool = False
    tenants: list[TenantView] = []
    limits: list[LimitView] = []
    shares: list[TenantShare] = []
    crons: list[CronView] = []


class TaskSnapshot(Struct, frozen=True, kw_only=True):
    """One task as of one moment."""

    now: Micros
    details: TaskDetails


def read_snapshot(access: Access, page: Page, query: Query) -> Snapshot:
    """Read what a page needs."""
    counts = access.counts()
    look = pools.look_at(access.whole_store, counts)
    states = dict.fromkeys(State, 0)
    for count in counts:
        states[count.state] += count.tasks
    return Snapshot(
        page=page,
        now=look.now,
        counts=states,
        queues=queues.get_all(access),
        pools=pools.describe_all(look),
        paused_tenants=tenants.get_paused(access),
        **_read_page(access, page, query),
    )


def _read_page(access: Access, page: Page, query: Query) -> dict[str, Any]:
    match page:
        case Page.NOW:
            entries = audit.find(access, limit=LATEST_ENTRIES).entries
            return {"breakers": breakers.get_all(access), "entries": entries, "nodes": nodes.get_all(access)}
        case Page.TASKS:
            found = tasks.find(access, Filter(query=query), limit=MOST_TASKS)
            return {"tasks": found.tasks, "more_tasks": found.after is not None}
        case Page.POOL:
            return {"entries": audit.find(access, "pool/", limit=POOL_ENTRIES).entries}
        case Page.NODES:
            return {"nodes": nodes.get_all(access)}
        case Page.TENANTS:
            return {
                "tenants": _busiest(tenants.get_all(access)),
                "limits": limits.get_all(access),
                "shares": tenants.get_all_shares(access),
            }
        case Page.CRONS:
            return {"crons": crons.get_all(access)}
        case Page.QUEUES:
            return {}


def _busiest(found: list[TenantView]) -> list[TenantView]:
    """Return the tenants with the most tasks to run, by name."""
    order = sorted(found, key=lambda each: -each.tasks.get(State.RUNNABLE, 0) - each.tasks.get(State.LEASED, 0))
    return sorted(order[:MOST_TENANTS], key=lambda each: each.name)


def read_task(access: Access, id: TaskId) -> TaskSnapshot | None:
    """Read all about one task; None if it no longer exists."""
    try:
        found = tasks.details(access, id)
    except UnknownTask:
        return None
    return TaskSnapshot(now=pools.look_at(access.whole_store, []).now, details=found)
