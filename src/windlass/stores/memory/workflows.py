"""Workflows in the memory store: open and seal them, and read them in pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from windlass.core.admission import check_seal
from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.names import check_name, check_text
from windlass.core.task import NewTask, Task, TaskId
from windlass.core.times import Micros, span
from windlass.core.validation import check_flag
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.graph import resolve_edges
from windlass.stores.memory.submit import MemorySubmit
from windlass.stores.memory.tables import StoredWorkflow
from windlass.stores.protocol import Receipt, check_limit
from windlass.stores.workflow_reads import (
    SCANNED,
    Edge,
    EdgeCursor,
    EdgePage,
    GroupPage,
    Step,
    StepCursor,
    StepGroup,
    StepPage,
    WorkflowCursor,
    WorkflowPage,
    WorkflowSeen,
)


class MemoryWorkflows(MemorySubmit):
    """Open, seal and read workflows."""

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = "default",
        sealed: bool = True,
        forward: timedelta | None = None,
        tasks: Sequence[NewTask] = (),
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("sealed", sealed)
        checked, id = check_entries(entries), workflow_id(tenant, workflow)
        limit = None if forward is None else span(forward, "forward")
        with self._lock:
            is_new = id not in self._tables.workflows
            if is_new:
                self._tables.workflows[id] = StoredWorkflow(sealed=sealed, forward=limit)
            try:
                receipts = self.submit(tasks)
            except BaseException:
                if is_new:
                    del self._tables.workflows[id]
                raise
            self._tables.note(checked if is_new else [], self._clock.now())
            return receipts

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("missing", missing)
        checked = check_entries(entries)
        with self._lock:
            id, now = workflow_id(tenant, workflow), self._clock.now()
            opened, placeholders = self._tables.workflows.get(id), self._tables.placeholders
            open_ends = [above for above, placeholder in placeholders.items() if placeholder.workflow == id]
            check_seal(workflow, tenant, len(open_ends), opened=opened is not None, missing=missing)
            assert opened is not None
            self._tables.note(checked if open_ends or not opened.sealed else [], now)
            opened.sealed = True
            for above in open_ends:
                del placeholders[above]
            resolve_edges(self._tables, [(above, End.MISSING) for above in open_ends] + [(id, End.SEALED)], now)
            self._work.notify_all()

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        check_limit(limit)
        with self._lock:
            found: dict[tuple[str, str], list[Micros]] = {}
            for task in self._tables.tasks.values():
                if task.workflow is not None and tenant in (None, task.tenant):
                    found.setdefault((task.workflow, task.tenant), []).append(task.submitted)
            newest = sorted(((max(times), *name, min(times)) for name, times in found.items()), reverse=True)
            if after is not None:
                start = (after.submitted, after.workflow, after.tenant)
                newest = [one for one in newest if one[:3] < start]
            cut = min(limit, SCANNED)
            seen = [self._seen(workflow, of, first, latest) for latest, workflow, of, first in newest[:cut]]
        last = WorkflowCursor(*newest[cut - 1][:3]) if len(newest) > cut else None
        return WorkflowPage(seen, last)

    def workflow_tenants(self, workflow: str, *, limit: int = 100) -> list[str]:
        check_limit(limit)
        with self._lock:
            return sorted({task.tenant for task in self._tables.tasks.values() if task.workflow == workflow})[:limit]

    def workflow_steps(
        self,
        workflow: str,
        *,
        tenant: str,
        states: Collection[State] = (),
        limit: int = 1_000,
        after: StepCursor | None = None,
    ) -> StepPage:
        check_limit(limit)
        tasks = [task for task in self._steps(workflow, tenant, after) if not states or task.state in states]
        cut = min(limit, SCANNED)
        return StepPage([_step(task) for task in tasks[:cut]], _cursor(tasks, cut))

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        check_limit(limit)
        tasks, cut = self._steps(workflow, tenant, after), min(limit, SCANNED)
        groups: dict[tuple[str, str, State], list[Task]] = {}
        for task in tasks[:cut]:
            groups.setdefault((task.queue, task.handler, task.state), []).append(task)
        return GroupPage([_group(*name, groups[name]) for name in sorted(groups)], _cursor(tasks, cut))

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        check_limit(limit)
        with self._lock:
            steps = self._steps(workflow, tenant, None)
            known = {task.id for task in steps}
            parents = {task.id: sorted(known & self._tables.prerequisites.get(task.id, {}).keys()) for task in steps}
        edges = [(task.submitted, task.id, parent) for task in steps for parent in parents[task.id]]
        if after is not None:
            start = (after.submitted, after.child)
            edges = [each for each in edges if each[:2] > start or (each[:2] == start and _behind(each[2], after))]
        cut = min(limit, SCANNED)
        last = EdgeCursor(*edges[cut - 1]) if len(edges) > cut else None
        return EdgePage([Edge(parent, child) for _, child, parent in edges[:cut]], last)

    def _steps(self, workflow: str, tenant: str, after: StepCursor | None) -> list[Task]:
        with self._lock:
            ids = self._tables.members.get(workflow_id(tenant, workflow), ())
            tasks = sorted((self._tables.tasks[id] for id in ids), key=lambda task: (task.submitted, task.id))
        if after is None:
            return tasks
        return [task for task in tasks if (task.submitted, task.id) > (after.submitted, after.id)]

    def _seen(self, workflow: str, tenant: str, first: Micros, latest: Micros) -> WorkflowSeen:
        page = self.workflow_groups(workflow, tenant=tenant)
        return WorkflowSeen(
            workflow=workflow,
            tenant=tenant,
            submitted=first,
            latest=latest,
            groups=page.groups,
            complete=page.after is None,
        )


def _behind(parent: TaskId, after: EdgeCursor) -> bool:
    return after.parent is not None and parent > after.parent


def _cursor(tasks: Sequence[Task], cut: int) -> StepCursor | None:
    return StepCursor(tasks[cut - 1].submitted, tasks[cut - 1].id) if len(tasks) > cut else None


def _step(task: Task) -> Step:
    return Step(
        id=task.id,
        key=task.key,
        handler=task.handler,
        queue=task.queue,
        state=task.state,
        submitted=task.submitted,
        claimed=task.claimed,
        finished=task.finished,
        reason=task.reason,
    )


def _group(queue: str, handler: str, state: State, tasks: Sequence[Task]) -> StepGroup:
    return StepGroup(
        queue=queue,
        handler=handler,
        state=state,
        tasks=len(tasks),
        submitted=min(task.submitted for task in tasks),
        claimed=min((task.claimed for task in tasks if task.claimed is not None), default=None),
        finished=max((task.finished for task in tasks if task.finished is not None), default=None),
    )
