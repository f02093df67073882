"""Queues, pools, nodes and groups of failed tasks as Python programs get them: times are a `datetime` in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from windlass.client.notebook import html_table
from windlass.core.lifecycle import State
from windlass.core.ordering import Strategy
from windlass.core.retry import Error
from windlass.core.stop_requests import StopRequest
from windlass.core.times import Micros, to_datetime
from windlass.core.worker_list import WorkerProcess
from windlass.operations.nodes import NodeView
from windlass.operations.pools import PoolView
from windlass.operations.queues import QueueView
from windlass.stores.dead_letters import DeadGroup as StoredGroup


class QueueInfo(Struct, frozen=True, kw_only=True):
    """A queue as it was when it was read: its settings, its pause and its tasks."""

    name: str
    tasks: Mapping[State, int]
    """The number of tasks in each state that occurs."""
    oldest: datetime | None
    """When the runnable task that has waited longest became due."""
    paused: bool
    paused_by: str | None
    paused_why: str | None
    paused_until: datetime | None
    """None if the pause lasts until the queue is resumed."""
    strategy: Strategy
    horizon: timedelta
    step: timedelta
    max_waiting: int | None
    weight: int
    fair: bool

    def numbers(self) -> tuple[int, int, int]:
        """Return the numbers of runnable, running and failed tasks."""
        runnable, running, failed = (self.tasks.get(state, 0) for state in (State.RUNNABLE, State.LEASED, State.FAILED))
        return runnable, running, failed

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        numbers = ", ".join(f"{number:,} {state.value}" for state, number in self.tasks.items())
        pause = f"by {self.paused_by or 'an operator'}" + (f": {self.paused_why}" if self.paused_why else "")
        facts = [
            ("tasks", numbers or "none"),
            ("oldest", self.oldest),
            ("paused", pause if self.paused else None),
            ("until", self.paused_until),
            ("strategy", self.strategy.value),
            ("max_waiting", self.max_waiting),
            ("weight", self.weight),
        ]
        return html_table(f"Queue {self.name}", facts)


class PoolOverride(Struct, frozen=True, kw_only=True):
    """A size, or a range of sizes, that a person has set for some time."""

    min: int
    max: int
    until: datetime
    by: str
    why: str


class PoolPause(Struct, frozen=True, kw_only=True):
    """Who paused a pool, when and why."""

    by: str
    at: datetime
    why: str


class PoolInfo(Struct, frozen=True, kw_only=True):
    """A pool over all nodes, as it was when it was read. Sizes are workers."""

    name: str
    queues: tuple[str, ...]
    fixed: bool
    """Whether its nodes were given a size; otherwise it sizes itself."""
    target: int
    """How many workers it should have. `live` is how many it has."""
    live: int
    ready: int
    running: int
    """Running tasks."""
    starting: int
    draining: int
    asleep: int
    threads: int
    min: int
    max: int
    wait: float
    """The goal: the longest time that a task may wait, in seconds."""
    runnable: int
    leased: int
    oldest: float
    """How many seconds the oldest runnable task has waited."""
    needs: float
    sentence: str
    """The latest decision in one line."""
    reasons: tuple[str, ...]
    alerts: tuple[str, ...]
    decided_at: datetime | None
    decided_by: str
    override: PoolOverride | None
    paused: PoolPause | None
    tuned: Mapping[str, Any]
    degraded: str

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        facts = [
            ("queues", ", ".join(self.queues)),
            ("workers", f"{self.ready} of {self.target}"),
            ("bounds", f"{self.min} to {self.max}"),
            ("running", self.running),
            ("runnable", self.runnable),
            ("decision", self.sentence),
            ("set by", None if self.override is None else f"{self.override.by}: {self.override.why}"),
            ("paused by", None if self.paused is None else f"{self.paused.by}: {self.paused.why}"),
            ("alerts", ", ".join(self.alerts)),
        ]
        return html_table(f"Pool {self.name}", facts)


class StopInfo(Struct, frozen=True, kw_only=True):
    """A request to drain or stop a worker or a node: who made it, when and why."""

    verb: Literal["drain", "stop"]
    grace: timedelta | None
    """How long running tasks may take to end; None for a drain."""
    by: str
    at: datetime
    why: str


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker process, as its node last reported it."""

    number: int
    """Unique on its node."""
    pid: int | None
    """None while the process is being started."""
    pool: str
    state: str
    """starting, idle, busy or draining."""
    since: datetime
    """When it entered that state."""
    memory: int | None
    """Resident memory in bytes; None if the system does not report it."""
    tasks_run: int
    running: int
    """How many tasks it runs."""
    tasks: tuple[UUID, ...]
    """The ids of those tasks; a node with very many lists only some."""
    request: StopInfo | None
    """The request to drain or stop it."""


class NodeInfo(Struct, frozen=True, kw_only=True):
    """A node, as it was when it was read."""

    name: str
    session: UUID
    lost: bool
    age: timedelta
    """How long ago it renewed its session."""
    workers: tuple[WorkerInfo, ...]
    workers_not_listed: int
    """How many more workers it has."""
    stuck: tuple[int, ...]
    """The ids of processes that were killed and do not end, as in uninterruptible sleep."""
    request: StopInfo | None
    """The request to drain or stop the whole node."""

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        facts = [
            ("session", self.session),
            ("state", "lost" if self.lost else "running"),
            ("workers", ", ".join(f"{each.number} {each.state}" for each in self.workers)),
            ("request", None if self.request is None else f"{self.request.verb} by {self.request.by}"),
        ]
        return html_table(f"Node {self.name}", facts)


class DeadGroup(Struct, frozen=True, kw_only=True):
    """The failed tasks that ended with one error."""

    id: str
    count: int
    error: Error
    """The newest one."""
    first: datetime
    """When the first of the tasks failed."""
    last: datetime
    handlers: tuple[str, ...]
    tenants: tuple[str, ...]
    newest: tuple[UUID, ...]
    """The ids of some of the newest tasks, newest first."""


def view_queue(view: QueueView) -> QueueInfo:
    """Convert a queue."""
    queue = view.settings
    return QueueInfo(
        name=queue.name,
        tasks=view.tasks,
        oldest=_datetime(view.oldest),
        paused=queue.paused,
        paused_by=queue.paused_by,
        paused_why=queue.paused_why,
        paused_until=_datetime(queue.paused_until),
        strategy=queue.strategy,
        horizon=queue.horizon,
        step=queue.step,
        max_waiting=queue.max_waiting,
        weight=queue.weight,
        fair=queue.fair,
    )


def view_pool(view: PoolView) -> PoolInfo:
    """Convert a pool."""
    override, paused = view.override, view.paused
    same = set(PoolInfo.__struct_fields__) - {"override", "paused", "decided_at"}
    return PoolInfo(
        **{name: getattr(view, name) for name in same},
        decided_at=to_datetime(view.decided_at * 1_000_000) if view.decided_at else None,
        override=override
        and PoolOverride(
            min=override.min,
            max=override.max,
            until=to_datetime(int(override.until * 1e6)),
            by=override.author,
            why=override.why,
        ),
        paused=paused and PoolPause(by=paused.by, at=to_datetime(paused.at), why=paused.why),
    )


def view_node(view: NodeView) -> NodeInfo:
    """Convert a node."""
    session = view.session
    return NodeInfo(
        name=session.node,
        session=session.id,
        lost=session.lost,
        age=session.age,
        workers=tuple(_view_worker(each, view.find_request(each.number)) for each in view.workers.workers),
        workers_not_listed=view.workers.more,
        stuck=tuple(each.pid for each in view.workers.stuck),
        request=_view_request(view.find_request()),
    )


def _view_worker(worker: WorkerProcess, request: StopRequest | None) -> WorkerInfo:
    return WorkerInfo(
        number=worker.number,
        pid=worker.pid or None,
        pool=worker.pool,
        state=worker.state,
        since=to_datetime(worker.since),
        memory=worker.memory or None,
        tasks_run=worker.tasks_run,
        running=worker.running,
        tasks=tuple(UUID(task.id) for task in worker.tasks),
        request=_view_request(request),
    )


def _view_request(request: StopRequest | None) -> StopInfo | None:
    return request and StopInfo(
        verb=request.verb,
        grace=None if request.grace is None else timedelta(seconds=request.grace),
        by=request.by,
        at=to_datetime(request.at),
        why=request.why,
    )


def view_group(group: StoredGroup) -> DeadGroup:
    """Convert a group of failed tasks."""
    return DeadGroup(
        id=group.id,
        count=group.count,
        error=group.error,
        first=to_datetime(group.first),
        last=to_datetime(group.last),
        handlers=tuple(group.handlers),
        tenants=tuple(group.tenants),
        newest=tuple(group.newest),
    )


def _datetime(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
