"""What a subscriber can follow: all queues and pools, one task, or one workflow.

A topic says which audit entries belong to it, and `read_states` returns its current state as events. Topics are
values: all subscribers to the same topic share one read of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.payload import json_object
from windlass.core.task import Task, TaskId
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.pools import describe_all, look_at
from windlass.operations.redact import redact_log, redact_progress, redact_task
from windlass.operations.workflow_graph import Summary
from windlass.operations.workflows import count_groups
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Count, Log, ProgressSeen, Store
from windlass.wire.events import (
    CountsEvent,
    Event,
    OutputEvent,
    PoolsEvent,
    PoolStatuses,
    ProgressEvent,
    QueueCounts,
    TaskEvent,
    WorkflowCounts,
    WorkflowEvent,
    pool_status,
)
from windlass.wire.tasks import listed_shape, log_shape, progress_shape

CHUNK = 50
"""How many tasks are read at once: each may have arguments of 256 KB."""
MAX_CHARACTERS = 32_768
MAX_LINES = 1_000
"""How much of an output an event has at most: the end of it."""


class Overview(Struct, frozen=True, kw_only=True):
    """All queues and pools, or some of them."""

    tenant: str | None = None
    queue: str | None = None
    pool: str | None = None
    unrestricted: bool = True
    """True if the subscriber may see pools and audit entries, which concern all tenants and queues."""

    def includes(self, entry: EntrySeen) -> bool:
        """Return True if an audit entry belongs to the topic."""
        subjects = {f"queue/{self.queue}", f"pool/{self.pool}"}
        return self.unrestricted and (self.queue is self.pool is None or entry.subject in subjects)


class TaskTopic(Struct, frozen=True, kw_only=True):
    """One task."""

    task: TaskId
    unrestricted: bool = True

    def includes(self, entry: EntrySeen) -> bool:
        """Return True if an audit entry belongs to the topic."""
        return self.unrestricted and entry.subject == f"task/{self.task}"


class WorkflowTopic(Struct, frozen=True, kw_only=True):
    """One workflow of a tenant."""

    name: str
    tenant: str
    queue: str | None = None
    """The only queue that the subscriber may see; None for all."""
    unrestricted: bool = True

    def includes(self, entry: EntrySeen) -> bool:
        """Return True if an audit entry belongs to the topic. The tenant is in the data of the entry."""
        if not self.unrestricted or entry.subject != f"workflow/{self.name}":
            return False
        return json_object(entry.data).get("tenant") == self.tenant


Topic = Overview | TaskTopic | WorkflowTopic
States = Mapping[Topic, Sequence[Event]]
"""The current state of each topic, one event per kind. Empty if the task or workflow no longer exists."""


def read_states(store: Store, catalog: HandlerCatalog, topics: Collection[Topic]) -> States:
    """Read the state of all topics, with few store calls for any number of them."""
    found: dict[Topic, Sequence[Event]] = {}
    found |= _read_overviews(store, [each for each in topics if isinstance(each, Overview)])
    found |= _read_tasks(store, catalog, [each for each in topics if isinstance(each, TaskTopic)])
    for topic in topics:
        if isinstance(topic, WorkflowTopic):
            found[topic] = _read_workflow(store, topic)
    return found


def _read_overviews(store: Store, topics: Sequence[Overview]) -> dict[Overview, Sequence[Event]]:
    if not topics:
        return {}
    counts = store.counts()
    pools = describe_all(look_at(store, counts)) if any(topic.unrestricted for topic in topics) else []
    found: dict[Overview, Sequence[Event]] = {}
    for topic in topics:
        events: list[Event] = [CountsEvent(data=_queue_counts(topic, counts))]
        if topic.unrestricted:
            chosen = [pool_status(view) for view in pools if topic.pool in (None, view.name)]
            events.append(PoolsEvent(data=PoolStatuses(pools=chosen)))
        found[topic] = events
    return found


def _queue_counts(topic: Overview, counts: Sequence[Count]) -> QueueCounts:
    queues: dict[str, dict[str, int]] = {}
    for count in counts:
        if count.tasks > 0 and topic.tenant in (None, count.tenant) and topic.queue in (None, count.queue):
            states = queues.setdefault(count.queue, {})
            states[count.state.value] = states.get(count.state.value, 0) + count.tasks
    return QueueCounts(queues=queues)


def _read_tasks(store: Store, catalog: HandlerCatalog, topics: Sequence[TaskTopic]) -> dict[TaskTopic, Sequence[Event]]:
    if not topics:
        return {}
    found: dict[TaskTopic, Sequence[Event]] = {}
    for first in range(0, len(topics), CHUNK):
        chunk = topics[first : first + CHUNK]
        ids = [topic.task for topic in chunk]
        read = zip(chunk, store.get(ids), store.progress_of(ids), store.latest_output(ids), strict=True)
        for topic, task, progress, output in read:
            found[topic] = [] if task is None else _task_events(task, progress, output, catalog)
    return found


def _task_events(task: Task, progress: ProgressSeen | None, output: Log | None, catalog: HandlerCatalog) -> list[Event]:
    """Return the state of one task. Large values are cut, because events wait in memory for slow clients."""
    events: list[Event] = [TaskEvent(data=listed_shape(redact_task(task, catalog)))]
    if progress is not None:
        events.append(ProgressEvent(data=progress_shape(redact_progress(progress))))
    if output is not None:
        events.append(OutputEvent(data=log_shape(_cut(redact_log(output)))))
    return events


def _cut(log: Log) -> Log:
    lines = log.text[-MAX_CHARACTERS:].splitlines(keepends=True)
    return replace(log, text="".join(lines[-MAX_LINES:]))


def _read_workflow(store: Store, topic: WorkflowTopic) -> Sequence[Event]:
    groups = count_groups(store, topic.name, topic.tenant)
    if not groups or (topic.queue is not None and {group.queue for group in groups} != {topic.queue}):
        return []
    states = Summary(name=topic.name, tenant=topic.tenant, groups=groups).states
    tasks = {state.value: number for state, number in states.items()}
    return [WorkflowEvent(data=WorkflowCounts(workflow=topic.name, tenant=topic.tenant, tasks=tasks))]
