"""Reads of whole workflows, in pages, over SQL."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import FOREVER
from windlass.stores.sql.database import Database, Transaction, Values
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

_STATES = {state.value: state for state in State}
_FIRST, _LAST = TaskId(UUID(int=0)), TaskId(UUID(int=2**128 - 1))
_START, _END = StepCursor(-1, _FIRST), StepCursor(FOREVER, _LAST)


def workflows(db: Database, tenant: str | None, limit: int, after: WorkflowCursor | None) -> WorkflowPage:
    """A page of workflows: the index is walked from submit to submit, and each workflow counts at its latest one."""
    limit = min(limit, SCANNED)
    start, left = after or WorkflowCursor(FOREVER, "", ""), SCANNED
    found: list[WorkflowSeen] = []
    while left > 0:
        # Without repeated submits to one workflow the first walk fills the page; with them the next ones are longer.
        number = min(left, limit + 1 if left == SCANNED else SCANNED // 10)
        rows = _submits(db, start, number)
        for submitted, workflow, of_tenant, is_latest, first in rows:
            if is_latest and tenant in (None, of_tenant):
                if len(found) == limit:
                    return WorkflowPage(found, start)
                found.append(_seen(db, workflow, of_tenant, first, submitted))
            start = WorkflowCursor(submitted, workflow, of_tenant)
        if len(rows) < number:
            return WorkflowPage(found, None)
        left -= number
    return WorkflowPage(found, start)


def workflow_tenants(db: Database, workflow: str, limit: int) -> list[str]:
    """Who has a workflow of this name."""
    return [
        tenant for (tenant,) in db.read(lambda tx: tx.query("workflow_tenants", workflow=workflow, limit=limit).rows())
    ]


def workflow_steps(
    db: Database, workflow: str, tenant: str, states: Collection[State], limit: int, after: StepCursor | None
) -> StepPage:
    """A page of steps. Where states are chosen it is found first how far this call looks."""
    limit, start = min(limit, SCANNED), after or _START
    wanted = sorted(state.value for state in states) or None

    def work(tx: Transaction) -> tuple[list[Values], StepCursor | None]:
        end = None if wanted is None else _end(db, tx, workflow, tenant, start, SCANNED)
        rows = tx.query(
            "step_list",
            None,
            **_window(workflow, tenant, start, end),
            states=wanted,
            limit=limit + 1,
        ).rows()
        return list(rows), end

    rows, end = db.read(work)
    steps = [_step(db, row) for row in rows[:limit]]
    if len(rows) > limit:
        return StepPage(steps, StepCursor(steps[-1].submitted, steps[-1].id))
    return StepPage(steps, end)


def workflow_groups(db: Database, workflow: str, tenant: str, limit: int, after: StepCursor | None) -> GroupPage:
    """The next steps, counted."""

    def work(tx: Transaction) -> tuple[list[Values], StepCursor | None]:
        start = after or _START
        end = _end(db, tx, workflow, tenant, start, min(limit, SCANNED))
        return list(tx.query("step_groups", None, **_window(workflow, tenant, start, end)).rows()), end

    rows, end = db.read(work)
    return GroupPage(sorted(map(_group, rows), key=lambda group: (group.queue, group.handler, group.state)), end)


def workflow_edges(db: Database, workflow: str, tenant: str, limit: int, after: EdgeCursor | None) -> EdgePage:
    """A page of edges. Every row counts for the limit, those of steps without an edge too."""
    limit, start = min(limit, SCANNED), after or EdgeCursor(-1, _FIRST, None)
    rows = db.read(
        lambda tx: tx.query(
            "step_edges",
            workflow=workflow,
            tenant=tenant,
            submitted=start.submitted,
            child=start.child,
            parent=start.parent,
            limit=limit,
        ).rows()
    )
    edges = [Edge(TaskId(db.uuid(parent)), TaskId(db.uuid(child))) for _, child, parent in rows if parent is not None]
    if len(rows) < limit:
        return EdgePage(edges, None)
    submitted, child, parent = rows[-1]
    last = None if parent is None else TaskId(db.uuid(parent))
    return EdgePage(edges, EdgeCursor(submitted, TaskId(db.uuid(child)), last))


def _submits(db: Database, start: WorkflowCursor, number: int) -> list[Values]:
    at, workflow, tenant = start.submitted, start.workflow, start.tenant
    return list(
        db.read(
            lambda tx: tx.query("workflow_list", submitted=at, workflow=workflow, tenant=tenant, limit=number).rows()
        )
    )


def _seen(db: Database, workflow: str, tenant: str, first: int, latest: int) -> WorkflowSeen:
    page = workflow_groups(db, workflow, tenant, SCANNED, None)
    return WorkflowSeen(
        workflow=workflow,
        tenant=tenant,
        submitted=first,
        latest=latest,
        groups=page.groups,
        complete=page.after is None,
    )


def _end(
    db: Database, tx: Transaction, workflow: str, tenant: str, start: StepCursor, number: int
) -> StepCursor | None:
    """The last of the next `number` steps, if there are more behind it."""
    rows = tx.query(
        "step_scanned",
        workflow=workflow,
        tenant=tenant,
        submitted=start.submitted,
        id=start.id,
        skip=number - 1,
    ).rows()
    return StepCursor(rows[0][0], TaskId(db.uuid(rows[0][1]))) if len(rows) > 1 else None


def _window(workflow: str, tenant: str, start: StepCursor, end: StepCursor | None) -> dict[str, object]:
    last = end or _END
    return {
        "workflow": workflow,
        "tenant": tenant,
        "submitted": start.submitted,
        "id": start.id,
        "end": last.submitted,
        "end_id": last.id,
    }


def _step(db: Database, values: Values) -> Step:
    id, key, handler, queue, state, submitted, claimed, finished, reason = values
    return Step(
        id=TaskId(db.uuid(id)),
        key=key,
        handler=handler,
        queue=queue,
        state=_STATES[state],
        submitted=submitted,
        claimed=claimed,
        finished=finished,
        reason=reason,
    )


def _group(values: Values) -> StepGroup:
    queue, handler, state, tasks, submitted, claimed, finished = values
    return StepGroup(
        queue=queue,
        handler=handler,
        state=_STATES[state],
        tasks=tasks,
        submitted=submitted,
        claimed=claimed,
        finished=finished,
    )
