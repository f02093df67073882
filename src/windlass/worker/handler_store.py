"""The store as a node lets its handlers use it: a short list of calls, each limited to the caller's tenant.

The caller is the attempt that makes the call. A thread that belongs to no attempt, such as the one that waits for
results, may do what any attempt of its worker process may do, because they share that process anyway. While the process
runs nothing, as in a start hook, it acts for the tenant `default`.

Reads are limited to the caller's tenant, and so are changes, with one exception: a task of the tenant `default` may
submit tasks for every tenant, so that a cron can start work for all of them. It does not see them afterwards. Tasks of
other tenants do not exist for a handler. What concerns all tenants, such as controls, tokens, the audit log, nodes and
the settings of queues, is not on the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.payload import encode_args
from windlass.core.query import parse
from windlass.core.references import referenced_ids
from windlass.core.task import Attempt, Change, Lease, NewTask, Task, TaskId
from windlass.core.task_update import Version
from windlass.core.why import Why
from windlass.errors import InvalidPayload, InvalidTask, NotAllowed, StaleLease, UnknownTask
from windlass.operations.access import Access
from windlass.operations.admission import check_admission
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.operations.events import set_event
from windlass.operations.explain import explain
from windlass.stores.dead_letters import DeadCursor, DeadGroups, DeadIds, DeadPage
from windlass.stores.operator import CANCEL_GRACE, EventSet, Receipt
from windlass.stores.protocol import Count, Cursor, Filter, Log, Neighbourhood, Page, ProgressSeen, Selection, Store
from windlass.stores.totals import COUNTED, Total
from windlass.stores.workflow_reads import (
    SCANNED,
    EdgeCursor,
    EdgePage,
    GroupPage,
    StepCursor,
    StepPage,
    WorkflowCursor,
    WorkflowPage,
)
from windlass.worker.call_queue import CallScope

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of the largest answer to a call of a handler."""
MAX_TASKS = 1_000
"""Tasks that one read of a handler may name or ask for."""
MAX_CHANGED = 10_000
"""Tasks that one change of a handler may name."""
_AT_ONCE = 50
"""Tasks that are read with their arguments and results before their size is checked."""
DEFAULT = "default"


class HandlerStore:
    """The store for one call of a handler. Its public methods are all that handlers may call."""

    def __init__(self, store: Store, scope: CallScope) -> None:
        self._store = store
        self._scope = scope
        calling = [] if scope.lease is None else [scope.tenants[scope.lease]]
        self._tenants = frozenset(calling or scope.tenants.values() or [DEFAULT])

    # Changes

    def submit(self, tasks: Sequence[NewTask], *, lease: Lease | None = None) -> list[Receipt]:
        """Submit tasks under the lease of the caller."""
        lease = lease or self._scope.lease
        if lease is not None and lease not in self._scope.tenants:
            raise StaleLease(lease)
        tenants = self._tenants if lease is None else {self._scope.tenants[lease]}
        for task in tasks:
            _check_submit(task, tenants)
        return self._store.submit(tasks, lease=lease)

    def cancel(self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE) -> int:
        """Cancel tasks of the caller's tenant."""
        return self._store.cancel(self._narrow(which), reason=reason, grace=grace)

    def retry(self, which: Selection, *, dependents: bool = False, dry_run: bool = False) -> int:
        """Retry tasks of the caller's tenant."""
        return self._store.retry(self._narrow(which), dependents=dependents, dry_run=dry_run)

    def update(self, task: TaskId, change: Change, *, expect: Version | None = None) -> Task:
        """Change a task of the caller's tenant."""
        if not self._visible([task]):
            raise UnknownTask(task)
        return self._store.update(task, change, expect=expect)

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = DEFAULT,
        sealed: bool = True,
        forward: timedelta | None = None,
        tasks: Sequence[NewTask] = (),
    ) -> list[Receipt]:
        """Open a workflow of a tenant for which the caller may submit."""
        for task in tasks:
            _check_submit(task, self._tenants)
        _check_tenant(tenant, self._tenants)
        return self._store.open_workflow(workflow, tenant=tenant, sealed=sealed, forward=forward, tasks=tasks)

    def seal_workflow(self, workflow: str, *, tenant: str = DEFAULT, missing: bool = False) -> None:
        """Seal a workflow of a tenant for which the caller may submit."""
        _check_tenant(tenant, self._tenants)
        self._store.seal_workflow(workflow, tenant=tenant, missing=missing)

    def set_event(
        self,
        workflow: str,
        event: str,
        value: str | None = None,
        *,
        tenant: str | None = None,
        by: str = "",
        why: str = "",
    ) -> EventSet:
        """Set an event of a workflow of the caller's tenant. `value` is JSON text. The audit log names the task."""
        lease, tenant = self._scope.lease, self._one_tenant(tenant)
        author = Author("handler" if lease is None else f"task {lease.task}", why, by)
        decoded = None if value is None else msgspec.json.decode(value)
        return set_event(Access(self._store), workflow, event, decoded, author, tenant=tenant)

    # Reads

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        """Return tasks by id; None for an unknown one."""
        _check_number(len(tasks), MAX_TASKS)
        found: list[Task | None] = []
        left = MAX_ANSWER
        for part in _parts(tasks, _AT_ONCE):
            seen = [task if self._can_see(task) else None for task in self._store.get(part)]
            left -= sum(_size(task) for task in seen if task is not None)
            if left < 0:
                raise InvalidPayload(f"get: these tasks have more than {MAX_ANSWER:,} bytes. Ask for fewer of them.")
            found += seen
        return found

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        """Return a page of tasks. It is shorter than asked for if it would be too large."""
        _check_number(limit, MAX_TASKS)
        narrowed, found, left = self._narrow_filter(filter), list[Task](), MAX_ANSWER
        while True:
            page = self._store.find(narrowed, limit=min(_AT_ONCE, limit - len(found)), after=after)
            for task in page.tasks:
                left -= _size(task)
                if left < 0 and found:
                    return Page(found, Cursor(found[-1].submitted, found[-1].id))
                found.append(task)
            after = page.after
            if after is None or len(found) >= limit or not page.tasks:
                return Page(found, after)

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        """Count tasks."""
        return self._store.count(self._narrow_filter(filter), limit=min(limit, COUNTED))

    def counts(self) -> list[Count]:
        """Count the tasks of the caller's tenant by queue and state."""
        return [count for count in self._store.counts() if count.tenant in self._tenants]

    def attempts(self, task: TaskId) -> list[Attempt]:
        """Return the finished attempts of a task."""
        return self._store.attempts(task) if self._visible([task]) else []

    def logs(self, task: TaskId) -> list[Log]:
        """Return the output of a task."""
        return self._store.logs(task) if self._visible([task]) else []

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        """Return the latest progress of tasks."""
        _check_number(len(tasks), MAX_TASKS)
        visible = self._visible(tasks)
        found = self._store.progress_of(tasks)
        return [seen if task in visible else None for task, seen in zip(tasks, found, strict=True)]

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        """Return the prerequisites and dependents of a task; the store lets no edge connect two tenants."""
        visible = self._visible([task])
        return self._store.neighbourhood(task, limit=min(limit, SCANNED)) if visible else Neighbourhood([], [])

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int | None:
        """Return how many tasks are before one in its queue."""
        return self._store.ahead(task, limit=min(limit, SCANNED)) if self._visible([task]) else 0

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        """Return a page of workflows."""
        return self._store.workflows(tenant=self._one_tenant(tenant), limit=limit, after=after)

    def workflow_steps(
        self,
        workflow: str,
        *,
        tenant: str,
        states: Collection[State] = (),
        limit: int = 1_000,
        after: StepCursor | None = None,
    ) -> StepPage:
        """Return a page of the steps of a workflow."""
        tenant = self._one_tenant(tenant)
        return self._store.workflow_steps(workflow, tenant=tenant, states=states, limit=limit, after=after)

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        """Count the steps of a workflow."""
        return self._store.workflow_groups(workflow, tenant=self._one_tenant(tenant), limit=limit, after=after)

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        """Return a page of the edges of a workflow."""
        return self._store.workflow_edges(workflow, tenant=self._one_tenant(tenant), limit=limit, after=after)

    def dead_groups(self, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED) -> DeadGroups:
        """Group failed tasks by error."""
        return self._store.dead_groups(queue=queue, tenant=self._one_tenant(tenant), limit=min(limit, COUNTED))

    def dead_letters(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = _AT_ONCE,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        """Return a page of the failed tasks of a group, of at most 50 tasks."""
        limit = min(limit, _AT_ONCE)
        return self._store.dead_letters(group, queue=queue, tenant=self._one_tenant(tenant), limit=limit, after=after)

    def dead_ids(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadIds:
        """Return a page of the ids of the failed tasks of a group."""
        return self._store.dead_ids(group, queue=queue, tenant=self._one_tenant(tenant), limit=limit, after=after)

    # What operations answer, because it concerns all tenants

    def check_admission(self, tasks: Sequence[NewTask]) -> None:
        """Raise `DeadlineUnreachable` for a task with `admit="strict"` whose queue cannot make its deadline."""
        for task in tasks:
            _check_tenant(task.tenant, self._tenants)
        check_admission(self._store, tasks)

    def explain(self, task: TaskId) -> Why:
        """Explain why a task is not running."""
        [found] = self.get([task])
        if found is None:
            raise UnknownTask(task)
        return explain(self._store, found, Caller(name="handler", scopes=frozenset(), tenant=found.tenant))

    # Limits

    def _can_see(self, task: Task | None) -> bool:
        return task is not None and task.tenant in self._tenants

    def _visible(self, tasks: Sequence[TaskId]) -> set[TaskId]:
        """Return those of these tasks that the caller may see."""
        found = (task for part in _parts(tasks, _AT_ONCE) for task in self._store.get(part))
        return {task.id for task in found if task is not None and self._can_see(task)}

    def _narrow(self, which: Selection) -> Selection:
        if isinstance(which, Filter):
            return self._narrow_filter(which)
        _check_number(len(which), MAX_CHANGED)
        visible = self._visible(which)
        return [task for task in which if task in visible]

    def _narrow_filter(self, filter: Filter) -> Filter:
        """Limit a filter to the caller's tenant. Its conditions are parsed again, because a handler can make any."""
        query = None if filter.query is None else parse(str(filter.query))
        return replace(filter, tenant=self._one_tenant(filter.tenant), query=query)

    def _one_tenant(self, wanted: str | None) -> str:
        if wanted is None and len(self._tenants) == 1:
            return next(iter(self._tenants))
        if wanted is None:
            names = ", ".join(sorted(self._tenants))
            raise NotAllowed(f"Tasks of several tenants run in this process ({names}). Name one of them.")
        if wanted not in self._tenants:
            raise NotAllowed(f"tenant={wanted!r:.150}: a handler reads and changes tasks of its own tenant only.")
        return wanted


METHODS = frozenset(name for name in vars(HandlerStore) if not name.startswith("_"))
"""The names of the calls that handlers may make."""


def _check_submit(task: NewTask, tenants: Collection[str]) -> None:
    _check_tenant(task.tenant, tenants)
    named = {
        keyed_id(task.tenant, task.workflow, each) if isinstance(each, str) else TaskId(each)
        for each in task.prerequisites
    }
    foreign = [id for id in referenced_ids(encode_args(task.args)) if id not in named]
    if foreign:  # The store compares the tenants of prerequisites only.
        raise InvalidPayload(f"args: {foreign[0]} is referenced but is not a prerequisite. Name it in `after`.")


def _check_tenant(tenant: object, tenants: Collection[str]) -> None:
    if tenant not in tenants and DEFAULT not in tenants:
        own = " or ".join(sorted(tenants))
        raise NotAllowed(f"tenant={tenant!r:.150}: a task of the tenant {own} may submit tasks for that tenant only.")


def _check_number(number: int, most: int) -> None:
    if type(number) is not int or number > most:
        raise InvalidTask(f"A handler may ask for at most {most:,} tasks in one call, not {number!r:.50}.")


def _parts(tasks: Sequence[TaskId], size: int) -> Iterator[Sequence[TaskId]]:
    return (tasks[start : start + size] for start in range(0, len(tasks), size))


def _size(task: Task) -> int:
    """Return about how many bytes a task has."""
    return 500 + len(task.args) + len(task.result or "") + len(task.reason or "")
