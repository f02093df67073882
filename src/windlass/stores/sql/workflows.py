"""Workflows in a SQL store: open and seal them, and read them in pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.admission import check_seal
from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.names import check_name, check_text
from windlass.core.task import NewTask, TaskId
from windlass.core.times import FOREVER, span
from windlass.core.validation import check_flag
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Receipt, check_limit
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.placeholders import ends_of
from windlass.stores.sql.rows import uuids
from windlass.stores.sql.step_windows import START, find_end, make_window
from windlass.stores.sql.submit import SqlSubmit, Submit, Submitted
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


class SqlWorkflows(SqlSubmit):
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
        db = self._db
        limit = None if forward is None else span(forward, "forward")
        id, act = workflow_id(tenant, workflow), AuditedChange(db, entries)

        drafts = self._drafts(tasks)
        submit = Submit(db, drafts, joined=False)

        def work(tx: Transaction) -> Submitted:
            opened = tx.query("open_workflow", id=id, tenant=tenant, name=workflow, sealed=sealed, forward=limit)
            act.note(tx, opened.rows())
            return submit(tx) if drafts else Submitted([], [], set())

        return self._after(db.transact(work))

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("missing", missing)
        db = self._db
        id, act = workflow_id(tenant, workflow), AuditedChange(db, entries)

        def work(tx: Transaction) -> list[UUID]:
            known = tx.query("lock_workflows", [(id,)]).rows()
            open_ends = uuids(db, tx.query("workflow_placeholders", workflow=id).rows())
            ends = ends_of(db, tx, id, open_ends)
            missing_tasks = sum(end is End.MISSING for end in ends.values())
            check_seal(workflow, tenant, missing_tasks, opened=bool(known), missing=missing)
            tx.execute("seal_workflow", id=id)
            _, was_sealed, _ = known[0]
            act.note(tx, missing_tasks or not was_sealed)
            tx.execute("fill_placeholders", [(end,) for end in open_ends])
            ended = [(above, end.value) for above, end in ends.items() if end is not None]
            return uuids(db, tx.query("announce", sorted([(id, End.SEALED.value), *ended])).rows())

        db.notify(resolve(db, db.transact(work)))

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        check_limit(limit)
        limit = min(limit, SCANNED)
        start, left = after or WorkflowCursor(FOREVER, "", ""), SCANNED
        found: list[WorkflowSeen] = []
        while left > 0:
            # The first read fills the page unless a workflow was submitted in parts; later reads are longer.
            number = min(left, limit + 1 if left == SCANNED else SCANNED // 10)
            rows = _submits(self._db, start, number)
            for submitted, workflow, of_tenant, is_latest, first in rows:
                if is_latest and tenant in (None, of_tenant):
                    if len(found) == limit:
                        return WorkflowPage(found, start)
                    found.append(self._seen(workflow, of_tenant, first, submitted))
                start = WorkflowCursor(submitted, workflow, of_tenant)
            if len(rows) < number:
                return WorkflowPage(found, None)
            left -= number
        return WorkflowPage(found, start)

    def workflow_tenants(self, workflow: str, *, limit: int = 100) -> list[str]:
        check_limit(limit)
        rows = self._db.read(lambda tx: tx.query("workflow_tenants", workflow=workflow, limit=limit).rows())
        return [tenant for (tenant,) in rows]

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
        db = self._db
        limit, start = min(limit, SCANNED), after or START
        wanted = sorted(state.value for state in states) or None

        def work(tx: Transaction) -> tuple[list[Values], StepCursor | None]:
            end = None if wanted is None else find_end(db, tx, workflow, tenant, start, SCANNED)
            rows = tx.query(
                "step_list",
                None,
                **make_window(workflow, tenant, start, end),
                states=wanted,
                limit=limit + 1,
            ).rows()
            return list(rows), end

        rows, end = db.read(work)
        steps = [_step(db, row) for row in rows[:limit]]
        if len(rows) > limit:
            return StepPage(steps, StepCursor(steps[-1].submitted, steps[-1].id))
        return StepPage(steps, end)

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        check_limit(limit)
        db = self._db

        def work(tx: Transaction) -> tuple[list[Values], StepCursor | None]:
            start = after or START
            end = find_end(db, tx, workflow, tenant, start, min(limit, SCANNED))
            return list(tx.query("step_groups", None, **make_window(workflow, tenant, start, end)).rows()), end

        rows, end = db.read(work)
        return GroupPage(sorted(map(_group, rows), key=lambda group: (group.queue, group.handler, group.state)), end)

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        check_limit(limit)
        db = self._db
        limit, start = min(limit, SCANNED), after or EdgeCursor(START.submitted, START.id, None)
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
        edges = [
            Edge(TaskId(db.uuid(parent)), TaskId(db.uuid(child))) for _, child, parent in rows if parent is not None
        ]
        if len(rows) < limit:
            return EdgePage(edges, None)
        submitted, child, parent = rows[-1]
        last = None if parent is None else TaskId(db.uuid(parent))
        return EdgePage(edges, EdgeCursor(submitted, TaskId(db.uuid(child)), last))

    def _seen(self, workflow: str, tenant: str, first: int, latest: int) -> WorkflowSeen:
        page = self.workflow_groups(workflow, tenant=tenant)
        return WorkflowSeen(
            workflow=workflow,
            tenant=tenant,
            submitted=first,
            latest=latest,
            groups=page.groups,
            complete=page.after is None,
        )


def _submits(db: Database, start: WorkflowCursor, number: int) -> list[Values]:
    at, workflow, tenant = start.submitted, start.workflow, start.tenant
    return list(
        db.read(
            lambda tx: tx.query("workflow_list", submitted=at, workflow=workflow, tenant=tenant, limit=number).rows()
        )
    )


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
