"""What people do to tasks and workflows, over SQL. Over many tasks a verb goes in steps, a transaction each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from uuid import UUID

from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.task import TaskId
from windlass.core.times import span
from windlass.errors import NotAllowed, UnknownTask
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Selection
from windlass.stores.sql import bulk
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.bulk import BulkOperation
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.find import find
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.rows import uuids
from windlass.stores.sql.sweep import forget
from windlass.stores.sql.task_actions import Done, bring_back, cancel_some, until_still


def cancel(db: Database, which: Selection, reason: str, grace: timedelta, entries: Sequence[Entry]) -> int:
    """Cancel unfinished tasks; leased ones are asked to stop."""
    patience, act = span(grace, "grace"), AuditedChange(db, entries)
    few, pages = _counted(db, which)
    if few is None:
        many = BulkOperation.begin(db, bulk.CANCEL, reason, patience)
        many.choose(pages)
        return many.run(act)
    return _once(db, act, lambda tx: cancel_some(db, tx, few, reason, patience, announce=True))


def retry(db: Database, which: Selection, entries: Sequence[Entry], *, dependents: bool, dry_run: bool) -> int:
    """Bring tasks that ended badly back, and with `dependents` what they have taken down."""
    act = AuditedChange(db, entries)
    few, pages = _counted(db, which)
    if few is None or dependents or dry_run:
        many = BulkOperation.begin(db, bulk.RETRY)
        many.choose(pages, dependents=dependents)
        if not dry_run:
            return many.run(act)
        count = many.chosen()
        many.drop()
        return count
    return until_still(lambda: _once(db, act, lambda tx: bring_back(db, tx, few)))


def purge(db: Database, which: Selection, entries: Sequence[Entry]) -> int:
    """Remove finished tasks for good, once those that waited for them have been told."""
    removed, act = 0, AuditedChange(db, entries)
    for ids in chosen(db, which):
        db.notify(resolve(db, ids))
        count = db.transact(lambda tx, ids=ids: _remove(db, tx, ids, act))
        act.committed(count)
        removed += count
    return removed


def open_workflow(
    db: Database, workflow: str, tenant: str, *, sealed: bool, forward: timedelta | None, entries: Sequence[Entry]
) -> None:
    """Prepare a workflow."""
    limit = None if forward is None else span(forward, "forward")
    id, act = workflow_id(tenant, workflow), AuditedChange(db, entries)

    def work(tx: Transaction) -> None:
        opened = tx.query("open_workflow", id=id, tenant=tenant, name=workflow, sealed=sealed, forward=limit)
        act.note(tx, opened.rows())

    db.transact(work)


def seal_workflow(db: Database, workflow: str, tenant: str, *, missing: bool, entries: Sequence[Entry]) -> None:
    """Let a workflow run, and end its open forward references if that is wanted."""
    id, act = workflow_id(tenant, workflow), AuditedChange(db, entries)

    def work(tx: Transaction) -> list[UUID]:
        known = tx.query("lock_workflows", [(id,)]).rows()
        if not known:
            raise UnknownTask(f"workflow {workflow!r} of tenant {tenant!r}")
        open_ends = uuids(db, tx.query("workflow_placeholders", workflow=id).rows())
        if open_ends and not missing:
            raise NotAllowed(f"workflow {workflow!r} has {len(open_ends)} open forward references; submit them first")
        tx.execute("seal_workflow", id=id)
        _, was_sealed, _ = known[0]
        act.note(tx, open_ends or not was_sealed)
        tx.execute("fill_placeholders", [(end,) for end in open_ends])
        ends = [(id, End.SEALED.value), *((end, End.MISSING.value) for end in open_ends)]
        return uuids(db, tx.query("announce", sorted(ends)).rows())

    db.notify(resolve(db, db.transact(work)))


def raise_epoch(db: Database) -> int:
    """Make every later fence greater than all before."""
    return db.transact(lambda tx: tx.query("raise_epoch").rows()[0][0])


def chosen(db: Database, which: Selection) -> Iterator[list[TaskId]]:
    """The tasks that are meant, so many at a time as one transaction takes."""
    if not isinstance(which, Filter):
        ids = list(dict.fromkeys(which))
        yield from (ids[start : start + bulk.CHUNK] for start in range(0, len(ids), bulk.CHUNK))
        return
    after = None
    while True:
        page = find(db, which, bulk.CHUNK, after)
        if page.tasks:
            yield [task.id for task in page.tasks]
        after = page.after
        if after is None:
            return


def _counted(db: Database, which: Selection) -> tuple[list[TaskId] | None, Iterable[list[TaskId]]]:
    """All the tasks that are meant, or None if one transaction does not take them; and the same in pages."""
    pages, first = chosen(db, which), list[list[TaskId]]()
    for page in pages:
        first.append(page)
        if sum(map(len, first)) > bulk.CHUNK:
            return None, chain(first, pages)
    return [id for page in first for id in page], first


def _once(db: Database, act: AuditedChange, step: Callable[[Transaction], Done]) -> int:
    """Do something to tasks in one transaction, and tell those that wait if it ends them."""

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
