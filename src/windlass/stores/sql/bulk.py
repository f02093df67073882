"""Bulk operations: cancel or retry more tasks than fit into one transaction.

The operation first records its tasks, page by page, without changing them. Then one small transaction marks it as
decided. From then on it will be completed: if the process dies, a sweep continues it. An operation that was never
decided is dropped. See docs/decisions/0012-bulk-operations.md.

Every step is one transaction that first locks the operation's row, so steps never run at the same time. It reads from
the tables what is left to do, so a step can be repeated if the answer to its commit is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.errors import CommitUnknown
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.graph import resolve, until_still
from windlass.stores.sql.rows import uuids
from windlass.stores.sql.task_actions import CAME, COMING, announce_cancelled, cancel_some, retry_some

T = TypeVar("T")

CHUNK = 500
"""The number of tasks that one transaction handles."""
PATIENCE = micros(timedelta(minutes=1))
"""A sweep takes over an operation that has made no progress for this long."""
FIND, FIND_MOST = 5_000, 100_000
"""The number of dependents that one step may find, at first and at most. It doubles while a step does not find all
dependents of its page, because that page is then read again. So a fan-out of a million takes nearly linear time."""
FEW = 4
"""The number of small steps in one transaction."""
ROUNDS = 20
"""The number of steps that one sweep runs."""
RETRY, CANCEL, DROP = "retry", "cancel", "drop"
RESTORE = "restore"
"""The reason of a retry whose tasks go back to where they were."""
_WALK, _FOUND, _IN, _OUT, _LEFT, _DONE, _ANNOUNCED = "walk", "found", COMING, "out", "left", CAME, "announced"
_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)


class OperationDropped(CommitUnknown):
    """A node has taken over an operation that made no progress, and has finished or dropped it."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"This {action} made no progress for over {PATIENCE // 1_000_000} s, so a node has finished or dropped it. "
            "Check the tasks, and repeat it if needed."
        )


class BulkOperation:
    """A bulk operation."""

    def __init__(
        self, db: Database, id: UUID, action: str, reason: str = "", grace: Micros = 0, *, patience: Micros = PATIENCE
    ) -> None:
        self._db = db
        self._patience = patience
        self._id = id
        self._action = action
        self._reason = reason
        self._grace = grace
        self._reached: dict[str, UUID | None] = {}
        """The last task that was taken from each stage; None if no task is left there."""

    @classmethod
    def begin(cls, db: Database, action: str, reason: str = "", grace: Micros = 0) -> BulkOperation:
        """Start a new operation."""
        bulk = cls(db, fresh_id(SystemClock().now(), entropy(1)()), action, reason, grace)
        row: dict[str, object] = {"action": action, "reason": reason, "grace": grace, "patience": PATIENCE}
        db.transact(lambda tx: tx.execute("open_bulk", None, bulk=bulk._id, now=db.now(), **row))
        return bulk

    def choose(self, pages: Iterable[Collection[TaskId]], *, dependents: bool = False) -> None:
        """Record the tasks of the operation: these, and with `dependents` those that were cancelled because of them."""
        about: dict[str, object] = {"stage": _WALK if dependents else _IN, "unfinished": self._action == CANCEL}
        for ids in pages:
            batch = [(id,) for id in sorted(ids)]
            self._step(lambda tx, batch=batch: self._execute(tx, "add_to_bulk", batch, **about))
        if not dependents:
            return
        self._walk_all("add_taken_down", _WALK, _IN)
        after: UUID | None = _FIRST
        while after is not None:
            after = self._step(lambda tx, after=after: self._take_out(tx, after))
        self._walk_all("take_out_below", _OUT, _LEFT)

    def count_chosen(self) -> int:
        """Return the number of recorded tasks."""
        return self._step(lambda tx: self._count(tx, _IN))

    def run(self, act: AuditedChange) -> int:
        """Decide and complete the operation. Return the number of tasks that it has changed."""
        self._step(lambda tx: self._decide(tx, act))
        while self.run_step():
            pass
        done = self._step(lambda tx: self._count(tx, _DONE) + self._count(tx, _ANNOUNCED))
        self.drop()
        return done

    def run_step(self) -> bool:
        """Run one step of a decided operation. Return True if there may be more."""
        changed, announced, wake = until_still(lambda: self._step(self._run_step))
        self._db.notify(wake | resolve(self._db, announced))
        return changed

    def drop(self) -> None:
        """Remove the operation: its tasks first, because nobody would remove tasks without an operation."""
        with suppress(OperationDropped):
            self._repeat(lambda tx: bool(self._ids(tx, "drop_bulk_tasks", limit=CHUNK)))
            self._db.transact(lambda tx: tx.execute("drop_bulk", bulk=self._id))

    def drop_overdue(self, *, decided: bool) -> None:
        """Remove an operation that its owner has abandoned. If the owner continues, it gets `OperationDropped`."""

        def work(tx: Transaction) -> None:
            left = tx.query("abandon_bulk", bulk=self._id, decided=decided, now=self._db.now()).rows()
            if not left:
                raise OperationDropped(self._action)

        self._db.transact(work)
        self._action = DROP
        self.drop()

    def _decide(self, tx: Transaction, act: AuditedChange) -> None:
        tx.execute("decide_bulk", bulk=self._id)
        act.note(tx, self._count(tx, _IN))

    def _run_step(self, tx: Transaction) -> tuple[bool, list[UUID], set[str]]:
        ids = self._take_page(tx, _IN)
        if not ids:
            return self._announce_some(tx) if self._action == CANCEL else (False, [], set())
        if self._action == CANCEL:
            done = cancel_some(self._db, tx, ids, self._reason, self._grace, announce=False)
        else:
            done = retry_some(self._db, tx, ids, self._stages, restore=self._reason == RESTORE)
        changed = {row.id for row in done.changed}
        self._mark(tx, changed, _DONE)
        self._mark(tx, set(ids) - changed, _LEFT)
        return True, done.announced, done.wake

    def _announce_some(self, tx: Transaction) -> tuple[bool, list[UUID], set[str]]:
        """Announce some cancelled tasks, once all are cancelled, so that each keeps the operator's reason."""
        ids = self._take_page(tx, _DONE)
        announced = announce_cancelled(self._db, tx, ids) if ids else []
        self._mark(tx, ids, _ANNOUNCED)
        return bool(ids), announced, set()

    def _walk_all(self, statement: str, old: str, new: str) -> None:
        """Follow the edges down from every task at a stage, with a few steps per transaction."""

        def some(tx: Transaction, most: int | None) -> int | None:
            for _ in range(FEW):
                most = most and self._walk(tx, statement, old, new, most)
            return most

        most: int | None = FIND
        while most:
            most = self._step(lambda tx, most=most: some(tx, most))

    def _walk(self, tx: Transaction, statement: str, old: str, new: str, most: int) -> int | None:
        """Find dependents of some tasks. Return the limit for the next step, or None if there are no more tasks."""
        page = self._page(tx, old)
        if not page:
            return None
        found = self._ids(tx, statement, last=page[-1], limit=most)
        seen_all = len(found) < most
        if seen_all:  # All dependents of the page were found, and all of theirs.
            self._execute(tx, "advance_bulk", old=old, stage=new, last=page[-1])
        self._execute(tx, "advance_bulk", old=_FOUND, stage=new if seen_all else old, last=_LAST)
        return FIND if seen_all else min(2 * most, FIND_MOST)

    def _take_out(self, tx: Transaction, after: UUID) -> UUID | None:
        """Exclude tasks with another prerequisite that stays failed. Return the last task checked, None at the end."""
        seen = [(self._db.uuid(id), bool(kept)) for id, kept in self._rows(tx, "kept_down", after=after, limit=CHUNK)]
        self._mark(tx, [id for id, kept in seen if kept], _OUT)
        return seen[-1][0] if len(seen) == CHUNK else None

    def _stages(self, tx: Transaction, ids: Collection[UUID]) -> Mapping[UUID, str]:
        batch = [(id,) for id in sorted(ids)]
        if not batch:
            return {}
        return {self._db.uuid(id): stage for id, stage in tx.query("bulk_stages", batch, bulk=self._id).rows()}

    def _step(self, work: Callable[[Transaction], T]) -> T:
        def alone(tx: Transaction) -> T:
            if not tx.query(
                "renew_bulk", bulk=self._id, action=self._action, now=self._db.now(), patience=self._patience
            ).rows():
                raise OperationDropped(self._action)
            return work(tx)

        return self._db.transact(alone)

    def _repeat(self, work: Callable[[Transaction], bool]) -> None:
        """Repeat a small step until it returns False, several times per transaction."""
        while self._step(lambda tx: all(work(tx) for _ in range(FEW))):
            pass

    def _take_page(self, tx: Transaction, stage: str) -> list[UUID]:
        """Return some tasks of a stage that gets no more tasks, after those that were taken before.

        PostgreSQL's index keeps the entries of tasks that have left the stage, so a search from the start would read
        all of them again. There is only one more, at the end, because a transaction may have been rolled back.
        """
        while (after := self._reached.get(stage, _FIRST)) is not None:
            ids = self._page(tx, stage, after)
            if ids:
                self._reached[stage] = ids[-1]
                return ids
            self._reached[stage] = None if after == _FIRST else _FIRST
        return []

    def _page(self, tx: Transaction, stage: str, after: UUID = _FIRST) -> list[UUID]:
        return self._ids(tx, "bulk_page", stage=stage, after=after, limit=CHUNK)

    def _count(self, tx: Transaction, stage: str) -> int:
        return self._rows(tx, "count_bulk", stage=stage)[0][0]

    def _mark(self, tx: Transaction, ids: Collection[UUID], stage: str) -> None:
        self._execute(tx, "mark_bulk_tasks", [(id,) for id in sorted(ids)], stage=stage)

    def _ids(self, tx: Transaction, statement: str, **scalars: object) -> list[UUID]:
        return uuids(self._db, self._rows(tx, statement, **scalars))

    def _rows(self, tx: Transaction, statement: str, **scalars: object) -> Sequence[Values]:
        return tx.query(statement, None, bulk=self._id, **scalars).rows()

    def _execute(
        self, tx: Transaction, statement: str, batch: Sequence[tuple[UUID]] | None = None, **scalars: object
    ) -> None:
        tx.execute(statement, batch, bulk=self._id, **scalars)


def finish_overdue(db: Database, now: Micros) -> int:
    """Continue abandoned operations that were decided, and drop those that were not. Return the number of steps."""
    steps = 0
    for id, action, decided, reason, grace in db.read(lambda tx: tx.query("overdue_bulks", now=now, limit=1).rows()):
        bulk = BulkOperation(db, db.uuid(id), action, reason, grace, patience=0)
        with suppress(OperationDropped):
            while decided and action != DROP and bulk.run_step():
                steps += 1
                if steps == ROUNDS:
                    return steps
            bulk.drop_overdue(decided=bool(decided))
        steps += 1
    return steps
