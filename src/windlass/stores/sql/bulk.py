"""An operator's verb over more tasks than one transaction takes.

First its tasks are written down, page by page and with nothing changed. Then, in one small transaction, it is decided,
and from there on it happens whole: if the process dies, a sweep carries it out. An operation that was never decided is
dropped. See docs/decisions/0012-bulk-operations.md.

Every step is one transaction that first locks the operation's own row, so steps never run at the same time, and that
takes what to do from the tables, so a step whose answer was lost can simply be tried again.
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
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.rows import uuids
from windlass.stores.sql.task_actions import CAME, COMING, announce_cancelled, bring_back, cancel_some, until_still

T = TypeVar("T")

CHUNK = 500
"""How many tasks one transaction takes."""
PATIENCE = micros(timedelta(minutes=1))
"""For how long nobody may have worked at an operation before a sweep takes it over."""
FIND, FIND_MOST = 5_000, 100_000
"""How many tasks one look further down may find; it changes none of them. The number doubles while a look does not see
everything below its page, because such a page is read again: a fan-out of a million stays nearly linear."""
FEW = 4
"""How many of the smaller steps one transaction takes."""
ROUNDS = 20
"""How many steps one sweep takes."""
RETRY, CANCEL, DROP = "retry", "cancel", "drop"
_WALK, _FOUND, _IN, _OUT, _LEFT, _DONE, _TOLD = "walk", "found", COMING, "out", "left", CAME, "told"
_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)


class OperationDropped(CommitUnknown):
    """An operation stood still for so long that a node has taken it over, and ended it."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"this {action} stood still for over {PATIENCE // 1_000_000} s, so a node has finished or dropped it; "
            "check the tasks, and repeat it if needed"
        )


class BulkOperation:
    """One operation."""

    def __init__(
        self, db: Database, id: UUID, action: str, reason: str = "", grace: Micros = 0, *, patience: Micros = PATIENCE
    ) -> None:
        self._db = db
        self._patience = patience
        self._id = id
        self._action = action
        self._reason = reason
        self._grace = grace

    @classmethod
    def begin(cls, db: Database, action: str, reason: str = "", grace: Micros = 0) -> BulkOperation:
        """A fresh one."""
        bulk = cls(db, fresh_id(SystemClock().now(), entropy(1)()), action, reason, grace)
        row: dict[str, object] = {"action": action, "reason": reason, "grace": grace, "patience": PATIENCE}
        db.transact(lambda tx: tx.execute("open_bulk", None, bulk=bulk._id, now=db.now(), **row))
        return bulk

    def choose(self, pages: Iterable[Collection[TaskId]], *, dependents: bool = False) -> None:
        """Write down which tasks it is about: these, and with `dependents` what they have taken down."""
        about: dict[str, object] = {"stage": _WALK if dependents else _IN, "unfinished": self._action == CANCEL}
        for ids in pages:
            batch = [(id,) for id in sorted(ids)]
            self._step(lambda tx, batch=batch: self._tell(tx, "add_to_bulk", batch, **about))
        if not dependents:
            return
        self._walk_all("add_taken_down", _WALK, _IN)
        after: UUID | None = _FIRST
        while after is not None:
            after = self._step(lambda tx, after=after: self._take_out(tx, after))
        self._walk_all("take_out_below", _OUT, _LEFT)

    def chosen(self) -> int:
        """How many tasks it is about."""
        return self._step(lambda tx: self._count(tx, _IN))

    def run(self, act: AuditedChange) -> int:
        """Decide it and carry it out; how many tasks it has changed."""
        self._step(lambda tx: self._decide(tx, act))
        while self.carry_on():
            pass
        done = self._step(lambda tx: self._count(tx, _DONE) + self._count(tx, _TOLD))
        self.drop()
        return done

    def carry_on(self) -> bool:
        """One step of what was decided; whether there may be more."""
        changed, announced, wake = until_still(lambda: self._step(self._carry_on))
        self._db.notify(wake | resolve(self._db, announced))
        return changed

    def drop(self) -> None:
        """Forget it. A task without its operation would be dropped by nobody, so the operation goes last."""
        with suppress(OperationDropped):
            self._repeat(lambda tx: bool(self._ask(tx, "drop_bulk_tasks", limit=CHUNK)))
            self._db.transact(lambda tx: tx.execute("drop_bulk", bulk=self._id))

    def drop_overdue(self, *, decided: bool) -> None:
        """Forget what its owner has left. From the first moment on the owner, should it come back, gets `Gone`."""

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

    def _carry_on(self, tx: Transaction) -> tuple[bool, list[UUID], set[str]]:
        ids = self._page(tx, _IN)
        if not ids:
            return self._tell_some(tx) if self._action == CANCEL else (False, [], set())
        if self._action == CANCEL:
            done = cancel_some(self._db, tx, ids, self._reason, self._grace, announce=False)
        else:
            done = bring_back(self._db, tx, ids, self._stages)
        changed = {row.id for row in done.changed}
        self._mark(tx, changed, _DONE)
        self._mark(tx, set(ids) - changed, _LEFT)
        return True, done.announced, done.wake

    def _tell_some(self, tx: Transaction) -> tuple[bool, list[UUID], set[str]]:
        """Once all are cancelled: whoever waits for them is told, and not before, so each has the reason given."""
        ids = self._page(tx, _DONE)
        announced = announce_cancelled(self._db, tx, ids) if ids else []
        self._mark(tx, ids, _TOLD)
        return bool(ids), announced, set()

    def _walk_all(self, statement: str, old: str, new: str) -> None:
        """Follow the edges down from every task at a stage, to the end, a few looks in a transaction."""

        def some(tx: Transaction, most: int | None) -> int | None:
            for _ in range(FEW):
                most = most and self._walk(tx, statement, old, new, most)
            return most

        most: int | None = FIND
        while most:
            most = self._step(lambda tx, most=most: some(tx, most))

    def _walk(self, tx: Transaction, statement: str, old: str, new: str, most: int) -> int | None:
        """Look what is below some tasks; how much to look for the next time, None if that was all."""
        page = self._page(tx, old)
        if not page:
            return None
        found = self._ask(tx, statement, last=page[-1], limit=most)
        seen_all = len(found) < most
        if seen_all:  # That was all there is below them, and below what was found.
            self._tell(tx, "advance_bulk", old=old, stage=new, last=page[-1])
        self._tell(tx, "advance_bulk", old=_FOUND, stage=new if seen_all else old, last=_LAST)
        return FIND if seen_all else min(2 * most, FIND_MOST)

    def _take_out(self, tx: Transaction, after: UUID) -> UUID | None:
        """Take out some tasks that a prerequisite keeps down; the last that was looked at."""
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
        """Do something until there is nothing left to do, a few times in a transaction."""
        while self._step(lambda tx: all(work(tx) for _ in range(FEW))):
            pass

    def _page(self, tx: Transaction, stage: str) -> list[UUID]:
        return self._ask(tx, "bulk_page", stage=stage, limit=CHUNK)

    def _count(self, tx: Transaction, stage: str) -> int:
        return self._rows(tx, "count_bulk", stage=stage)[0][0]

    def _mark(self, tx: Transaction, ids: Collection[UUID], stage: str) -> None:
        self._tell(tx, "mark_bulk_tasks", [(id,) for id in sorted(ids)], stage=stage)

    def _ask(self, tx: Transaction, statement: str, **scalars: object) -> list[UUID]:
        return uuids(self._db, self._rows(tx, statement, **scalars))

    def _rows(self, tx: Transaction, statement: str, **scalars: object) -> Sequence[Values]:
        return tx.query(statement, None, bulk=self._id, **scalars).rows()

    def _tell(
        self, tx: Transaction, statement: str, batch: Sequence[tuple[UUID]] | None = None, **scalars: object
    ) -> None:
        tx.execute(statement, batch, bulk=self._id, **scalars)


def finish_overdue(db: Database, now: Micros) -> int:
    """Carry out what somebody has decided and not finished, and drop what was never decided; how many steps."""
    steps = 0
    for id, action, decided, reason, grace in db.read(lambda tx: tx.query("overdue_bulks", now=now, limit=1).rows()):
        bulk = BulkOperation(db, db.uuid(id), action, reason, grace, patience=0)
        with suppress(OperationDropped):
            while decided and action != DROP and bulk.carry_on():
                steps += 1
                if steps == ROUNDS:
                    return steps
            bulk.drop_overdue(decided=bool(decided))
        steps += 1
    return steps
