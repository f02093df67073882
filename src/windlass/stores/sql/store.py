"""The SQL stores: every contract of `protocol`, handed on to the module that keeps it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from threading import Event

from windlass.clock import SystemClock, entropy
from windlass.core.lifecycle import State
from windlass.core.manifest import CronState, HandlerSeen, Manifest
from windlass.core.names import check_name, check_text
from windlass.core.ordering import Queue, check_queue
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import Settlement
from windlass.core.submission import Draft, chunks, draft
from windlass.core.task import Attempt, Change, Claim, Lease, NewTask, Progress, SessionId, Task, TaskId
from windlass.core.task_update import Version
from windlass.core.times import Micros, micros
from windlass.core.validation import check_change, check_flag, check_id, check_ids
from windlass.stores.coordination import Control, Entry, EntrySeen, Look
from windlass.stores.operator import check_filter, check_which
from windlass.stores.protocol import (
    CANCEL_GRACE,
    SESSION_TTL,
    Count,
    Cursor,
    Filter,
    Log,
    Neighbourhood,
    Page,
    ProgressSeen,
    Receipt,
    Selection,
    Session,
    Signal,
    Swept,
    Verdict,
    check_limit,
)
from windlass.stores.sql import attempts, coordination, operate, read, updates
from windlass.stores.sql import manifest as manifests
from windlass.stores.sql import workflows as workflow_pages
from windlass.stores.sql.claims import Claims
from windlass.stores.sql.count import count
from windlass.stores.sql.database import Database, Values
from windlass.stores.sql.find import find
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.submit import Fire, Submit, Submitted
from windlass.stores.sql.sweep import Sweep
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


class SqlStore:
    """A store over a database."""

    def __init__(self, db: Database, retention: timedelta) -> None:
        self._db = db
        self._claims = Claims(db)
        self._sweep = Sweep(db, micros(retention))
        self.unresolved: Signal = Event()

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        drafts, notes = self._drafts(tasks), coordination.lines(entries)
        if not drafts:
            return []
        if conn is not None:
            return self._db.join(conn, Submit(self._db, drafts, joined=True, lease=lease, notes=notes)).receipts
        return self._after(self.submit_drafts(drafts, lease, notes))

    def submit_drafts(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted:
        """Write a checked batch in a transaction of its own. A dialect may know a shorter way for some."""
        return self._db.transact(Submit(self._db, drafts, joined=False, lease=lease, notes=notes))

    def fire(self, cron: str, nominal: Micros, tasks: Sequence[NewTask]) -> list[Receipt] | None:
        fired = self._db.transact(Fire(self._db, self._drafts(tasks), cron, nominal))
        return None if fired is None else self._after(fired)

    def _drafts(self, tasks: Sequence[NewTask]) -> list[Draft]:
        """The ids are made once, before the first try: whatever a lost answer leaves unknown, the next try finds."""
        return draft(tasks, self._db.now() or SystemClock().now(), entropy)

    def _after(self, submitted: Submitted) -> list[Receipt]:
        """What follows the commit of a batch: those that wait are told, and nodes are woken."""
        self._db.notify(submitted.wake | resolve(self._db, submitted.announced))
        return self._as_resolved(submitted.receipts) if submitted.announced else submitted.receipts

    def _as_resolved(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        """Receipts of a batch in which some tasks ended others as they were born."""
        return [
            Receipt(old.id, old.created, task.state if task else old.state)
            for some in chunks(receipts)
            for old, task in zip(some, self.get([receipt.id for receipt in some]), strict=True)
        ]

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        check_text("node", node)
        return attempts.open_session(self._db, node, ttl, about)

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        return attempts.renew(self._db, session, about, workers)

    def close_session(self, session: SessionId) -> None:
        attempts.close_session(self._db, session)

    def claim(
        self,
        session: SessionId,
        queues: Sequence[str],
        limit: int,
        *,
        serves: Serves = EVERYTHING,
        merge: bool = False,
    ) -> list[Claim]:
        return self._claims(session, queues, limit, serves, merge=merge)

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        verdicts, left = attempts.settle(self._db, reports)
        if left:
            self.unresolved.set()
        return verdicts

    def progress(self, reports: Sequence[Progress]) -> list[Lease]:
        return manifests.progress(self._db, reports)

    def sweep(self) -> Swept:
        return self._sweep()

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._db.wait(queues, timeout)

    def close(self) -> None:
        self._db.close()

    def report(self, session: SessionId, text: str) -> None:
        coordination.report(self._db, session, text)

    def look(self, queues: Sequence[str], *, ahead: timedelta) -> Look:
        return coordination.look(self._db, queues, ahead)

    def put_control(
        self, kind: str, name: str, value: str | None, *, expect: int, entries: Sequence[Entry] = ()
    ) -> bool:
        return coordination.put_control(self._db, kind, name, value, expect, entries)

    def note(self, entries: Sequence[Entry]) -> None:
        coordination.note(self._db, entries)

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        check_text("reason", reason)
        check_which(which)
        return operate.cancel(self._db, which, reason, grace, entries)

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        check_id(task)
        check_change(change)
        return updates.update(self._db, task, change, expect, entries)

    def retry(
        self, which: Selection, *, dependents: bool = False, dry_run: bool = False, entries: Sequence[Entry] = ()
    ) -> int:
        check_which(which)
        return operate.retry(self._db, which, entries, dependents=dependents, dry_run=dry_run)

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        check_which(which)
        return operate.purge(self._db, which, entries)

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        check_queue(queue)
        updates.configure(self._db, queue, expect, entries)

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = "default",
        sealed: bool = True,
        forward: timedelta | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("sealed", sealed)
        operate.open_workflow(self._db, workflow, tenant, sealed=sealed, forward=forward, entries=entries)

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("missing", missing)
        operate.seal_workflow(self._db, workflow, tenant, missing=missing, entries=entries)

    def publish(self, manifest: Manifest, *, entries: Sequence[Entry] = ()) -> None:
        manifests.publish(self._db, manifest, entries)

    def pause_cron(
        self, name: str, paused: bool, *, by: str = "", why: str = "", entries: Sequence[Entry] = ()
    ) -> None:
        check_text("cron", name)
        check_flag("paused", paused)
        manifests.pause_cron(self._db, name, paused, by, why, entries)

    def raise_epoch(self) -> int:
        return operate.raise_epoch(self._db)

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        check_ids(tasks)
        return read.get(self._db, tasks)

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        check_filter(filter)
        return find(self._db, filter, limit, after)

    def counts(self) -> list[Count]:
        return read.counts(self._db)

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        check_filter(filter)
        check_limit(limit)
        return count(self._db, filter, limit)

    def attempts(self, task: TaskId) -> list[Attempt]:
        check_id(task)
        return read.attempts(self._db, task)

    def logs(self, task: TaskId) -> list[Log]:
        check_id(task)
        return read.logs(self._db, task)

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        check_ids(tasks)
        return read.progress_of(self._db, tasks)

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        check_id(task)
        check_limit(limit)
        return read.neighbourhood(self._db, task, limit)

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        check_limit(limit)
        return workflow_pages.workflows(self._db, tenant, limit, after)

    def workflow_tenants(self, workflow: str, *, limit: int = 100) -> list[str]:
        check_limit(limit)
        return workflow_pages.workflow_tenants(self._db, workflow, limit)

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
        return workflow_pages.workflow_steps(self._db, workflow, tenant, states, limit, after)

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        check_limit(limit)
        return workflow_pages.workflow_groups(self._db, workflow, tenant, limit, after)

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        check_limit(limit)
        return workflow_pages.workflow_edges(self._db, workflow, tenant, limit, after)

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int | None:
        check_id(task)
        check_limit(limit)
        return read.ahead(self._db, task, limit)

    def queues(self) -> list[Queue]:
        return read.queues(self._db)

    def sessions(self, *, workers: bool = False) -> list[Session]:
        return read.sessions(self._db, workers=workers)

    def handlers(self) -> list[HandlerSeen]:
        return read.handlers(self._db)

    def crons(self) -> list[CronState]:
        return read.crons(self._db)

    def controls(self, kind: str) -> list[Control]:
        return coordination.controls(self._db, kind)

    def audit(self, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> list[EntrySeen]:
        return coordination.audit(self._db, subject, limit, before)
