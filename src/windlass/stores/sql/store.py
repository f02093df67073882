"""The SQL stores: every contract of `protocol`, handed on to the module that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.clock import SystemClock, entropy
from windlass.core.names import check_name, check_text
from windlass.core.ordering import Queue
from windlass.core.settlement import Settlement
from windlass.core.submission import draft
from windlass.core.task import Attempt, Change, Claim, Lease, NewTask, SessionId, Task, TaskId
from windlass.core.times import micros
from windlass.stores.protocol import (
    CANCEL_GRACE,
    SESSION_TTL,
    Count,
    Cursor,
    Filter,
    Neighbourhood,
    Page,
    Receipt,
    Swept,
    Verdict,
    Which,
)
from windlass.stores.sql import attempts, operate, read
from windlass.stores.sql.database import Database
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.submit import Submit
from windlass.stores.sql.sweep import Sweep


class SqlStore:
    """A store over a database."""

    def __init__(self, db: Database, retention: timedelta) -> None:
        self._db = db
        self._sweep = Sweep(db, micros(retention))

    def submit(self, tasks: Sequence[NewTask], *, conn: object | None = None) -> list[Receipt]:
        # The ids are made once, before the first try: whatever a lost answer leaves unknown, the next try finds.
        drafts = draft(tasks, self._db.now() or SystemClock().now(), entropy(len(tasks)))
        if not drafts:
            return []
        if conn is not None:
            return self._db.join(conn, Submit(self._db, drafts, joined=True)).receipts
        submitted = self._db.transact(Submit(self._db, drafts, joined=False))
        self._db.ring(submitted.wake | resolve(self._db, submitted.announced))
        return self._as_resolved(submitted.receipts) if submitted.announced else submitted.receipts

    def _as_resolved(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        """Receipts of a batch in which some tasks ended others as they were born."""
        tasks = self.get([receipt.id for receipt in receipts])
        pairs = zip(receipts, tasks, strict=True)
        return [Receipt(old.id, old.created, task.state if task else old.state) for old, task in pairs]

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL) -> SessionId:
        check_text("node", node)
        return attempts.open_session(self._db, node, ttl)

    def renew(self, session: SessionId) -> list[Lease]:
        return attempts.renew(self._db, session)

    def close_session(self, session: SessionId) -> None:
        attempts.close_session(self._db, session)

    def claim(self, session: SessionId, queues: Sequence[str], limit: int) -> list[Claim]:
        return attempts.claim(self._db, session, queues, limit)

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        return attempts.settle(self._db, reports)

    def sweep(self) -> Swept:
        return self._sweep()

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._db.wait(queues, timeout)

    def close(self) -> None:
        self._db.close()

    def cancel(self, which: Which, *, reason: str, grace: timedelta = CANCEL_GRACE) -> int:
        check_text("reason", reason)
        return operate.cancel(self._db, which, reason, grace)

    def update(self, task: TaskId, change: Change) -> Task:
        return operate.update(self._db, task, change)

    def retry(self, which: Which) -> int:
        return operate.retry(self._db, which)

    def purge(self, which: Which) -> int:
        return operate.purge(self._db, which)

    def configure(self, queue: Queue) -> None:
        queue.check()
        operate.configure(self._db, queue)

    def open_workflow(
        self, workflow: str, *, tenant: str = "default", sealed: bool = True, forward: timedelta | None = None
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        operate.open_workflow(self._db, workflow, tenant, sealed=sealed, forward=forward)

    def seal_workflow(self, workflow: str, *, tenant: str = "default", missing: bool = False) -> None:
        operate.seal_workflow(self._db, workflow, tenant, missing=missing)

    def raise_epoch(self) -> int:
        return operate.raise_epoch(self._db)

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        return read.get(self._db, tasks)

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        return read.find(self._db, filter, limit, after)

    def counts(self) -> list[Count]:
        return read.counts(self._db)

    def attempts(self, task: TaskId) -> list[Attempt]:
        return read.attempts(self._db, task)

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        return read.neighbourhood(self._db, task, limit)

    def queues(self) -> list[Queue]:
        return read.queues(self._db)
