"""What operators do to tasks in a SQL store.

An operation on more tasks than fit into one transaction runs as a series of transactions: see `bulk`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain

from windlass.core.names import check_text
from windlass.core.submission import decode_rules
from windlass.core.task import TaskId
from windlass.core.times import span
from windlass.stores.coordination import Entry
from windlass.stores.operator import check_which
from windlass.stores.protocol import CANCEL_GRACE, Filter, Selection
from windlass.stores.sql import bulk
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.bulk import BulkOperation
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.find import find_ids
from windlass.stores.sql.graph import resolve, until_still
from windlass.stores.sql.sweep import forget
from windlass.stores.sql.task_actions import Done, cancel_some, retry_some


class SqlOperate(SqlBase):
    """Cancel, retry and purge tasks, and raise the epoch."""

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        check_text("reason", reason)
        check_which(which)
        db = self._db
        patience, act = span(grace, "grace"), AuditedChange(db, entries)
        few, pages = _counted(_with_added(db, chosen(db, which)))
        if few is None:
            many = BulkOperation.begin(db, bulk.CANCEL, reason, patience)
            many.choose(pages)
            return many.run(act)
        return _once(db, act, lambda tx: cancel_some(db, tx, few, reason, patience, announce=True))

    def retry(
        self,
        which: Selection,
        *,
        dependents: bool = False,
        restore: bool = False,
        dry_run: bool = False,
        entries: Sequence[Entry] = (),
    ) -> int:
        check_which(which)
        db = self._db
        act = AuditedChange(db, entries)
        few, pages = _counted(chosen(db, which))
        if few is None or dependents or dry_run:
            many = BulkOperation.begin(db, bulk.RETRY, bulk.RESTORE if restore else "")
            many.choose(pages, dependents=dependents)
            if not dry_run:
                return many.run(act)
            count = many.count_chosen()
            many.drop()
            return count
        return until_still(lambda: _once(db, act, lambda tx: retry_some(db, tx, few, restore=restore)))

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        check_which(which)
        db = self._db
        removed, act = 0, AuditedChange(db, entries)
        for ids in chosen(db, which):
            db.notify(resolve(db, ids))
            count = db.transact(lambda tx, ids=ids: _remove(db, tx, ids, act))
            act.committed(count)
            removed += count
        return removed

    def raise_epoch(self, *, entries: Sequence[Entry] = ()) -> int:
        act = AuditedChange(self._db, entries)

        def work(tx: Transaction) -> int:
            [(epoch,)] = tx.query("raise_epoch").rows()
            act.note(tx, epoch)
            return epoch

        return self._db.transact(work)


def chosen(db: Database, which: Selection) -> Iterator[list[TaskId]]:
    """Yield the ids of the selected tasks, as many at a time as one transaction handles."""
    if not isinstance(which, Filter):
        ids = list(dict.fromkeys(which))
        yield from (ids[start : start + bulk.CHUNK] for start in range(0, len(ids), bulk.CHUNK))
        return
    yield from find_ids(db, which)


def _with_added(db: Database, pages: Iterable[list[TaskId]]) -> Iterator[list[TaskId]]:
    """Yield pages of tasks, each with the steps that these tasks have added and wait for, and those of the steps."""
    for page in pages:
        whole, todo = dict.fromkeys(page), page
        while todo:
            lines = db.read(lambda tx, todo=todo: tx.query("added_steps", [(id,) for id in sorted(todo)]).rows())
            found = [(db.uuid(task), TaskId(db.uuid(step)), decode_rules(rules).origin) for task, step, rules in lines]
            todo = [step for task, step, origin in found if origin and origin.task == task and step not in whole]
            whole |= dict.fromkeys(todo)
        ids = list(whole)
        yield from (ids[start : start + bulk.CHUNK] for start in range(0, len(ids), bulk.CHUNK))


def _counted(pages: Iterator[list[TaskId]]) -> tuple[list[TaskId] | None, Iterable[list[TaskId]]]:
    """Return the ids of the selected tasks (None if there are too many for one transaction), and all ids in pages."""
    first = list[list[TaskId]]()
    for page in pages:
        first.append(page)
        if sum(map(len, first)) > bulk.CHUNK:
            return None, chain(first, pages)
    return [id for page in first for id in page], first


def _once(db: Database, act: AuditedChange, step: Callable[[Transaction], Done]) -> int:
    """Run a step in one transaction and resolve the edges of tasks that it ends. Return how many tasks changed."""

    def work(tx: Transaction) -> Done:
        done = step(tx)
        act.note(tx, done.changed)
        return done

    done = db.transact(work)
    db.notify(done.wake | resolve(db, done.announced))
    return len(done.changed)


def _remove(db: Database, tx: Transaction, ids: Sequence[TaskId], act: AuditedChange) -> int:
    gone = forget(db, tx, ids)
    act.note(tx, gone)
    return gone
