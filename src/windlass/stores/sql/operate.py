"""What people do to tasks and workflows, over SQL. Over many tasks a verb goes in passes, a transaction each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.amend import brought_back
from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros, span
from windlass.errors import NotAllowed, UnknownTask
from windlass.stores.protocol import Filter, Which
from windlass.stores.sql.acts import Act
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.find import find
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.rows import Moves, Row, rows_from, uuids
from windlass.stores.sql.sweep import forget
from windlass.stores.steering import Entry

CHUNK = 500


def cancel(db: Database, which: Which, reason: str, grace: timedelta, entries: Sequence[Entry]) -> int:
    """Cancel unfinished tasks; leased ones are asked to stop."""
    patience = span(grace, "grace")

    def step(moves: Moves, row: Row, now: Micros) -> bool:
        if row.state.final or row.cancel_requested:
            return False
        if row.state is State.LEASED:
            moves.move(row, row.state, cancel_requested=True, cancel_by=now + patience, reason=reason)
        else:
            moves.move(row, State.CANCELLED, finished=now, reason=reason)
        return True

    return _each(db, which, step, Act(db, entries), ends=State.CANCELLED)


def retry(db: Database, which: Which, entries: Sequence[Entry]) -> int:
    """Bring tasks that ended badly back, the oldest first: prerequisites before what waits for them."""
    brought_back, act = 0, Act(db, entries)
    for ids in reversed(list(chosen(db, which))):
        count, wake = db.transact(lambda tx, ids=ids: _bring_back(db, tx, ids, act))
        act.committed(count)
        db.ring(wake)
        brought_back += count
    return brought_back


def purge(db: Database, which: Which, entries: Sequence[Entry]) -> int:
    """Remove finished tasks for good, once those that waited for them have been told."""
    removed, act = 0, Act(db, entries)
    for ids in chosen(db, which):
        db.ring(resolve(db, ids))
        count = db.transact(lambda tx, ids=ids: _remove(db, tx, ids, act))
        act.committed(count)
        removed += count
    return removed


def open_workflow(
    db: Database, workflow: str, tenant: str, *, sealed: bool, forward: timedelta | None, entries: Sequence[Entry]
) -> None:
    """Prepare a workflow."""
    limit = None if forward is None else span(forward, "forward")
    id, act = workflow_id(tenant, workflow), Act(db, entries)

    def work(tx: Transaction) -> None:
        opened = tx.ask("open_workflow", id=id, tenant=tenant, name=workflow, sealed=sealed, forward=limit)
        act.note(tx, opened.rows())

    db.transact(work)


def seal_workflow(db: Database, workflow: str, tenant: str, *, missing: bool, entries: Sequence[Entry]) -> None:
    """Let a workflow run, and end its open forward references if that is wanted."""
    id, act = workflow_id(tenant, workflow), Act(db, entries)

    def work(tx: Transaction) -> list[UUID]:
        known = tx.ask("lock_workflows", [(id,)]).rows()
        if not known:
            raise UnknownTask(f"workflow {workflow!r} of tenant {tenant!r}")
        open_ends = uuids(db, tx.ask("workflow_placeholders", workflow=id).rows())
        if open_ends and not missing:
            raise NotAllowed(f"workflow {workflow!r} has {len(open_ends)} open forward references; submit them first")
        tx.tell("seal_workflow", id=id)
        _, was_sealed, _ = known[0]
        act.note(tx, open_ends or not was_sealed)
        tx.tell("fill_placeholders", [(end,) for end in open_ends])
        ends = [(id, End.SEALED.value), *((end, End.MISSING.value) for end in open_ends)]
        return uuids(db, tx.ask("announce", sorted(ends)).rows())

    db.ring(resolve(db, db.transact(work)))


def raise_epoch(db: Database) -> int:
    """Make every later fence greater than all before."""
    return db.transact(lambda tx: tx.ask("raise_epoch").rows()[0][0])


def chosen(db: Database, which: Which) -> Iterator[list[TaskId]]:
    """The tasks that are meant, so many at a time as one transaction takes."""
    if not isinstance(which, Filter):
        ids = list(dict.fromkeys(which))
        yield from (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
        return
    after = None
    while True:
        page = find(db, which, CHUNK, after)
        if page.tasks:
            yield [task.id for task in page.tasks]
        after = page.after
        if after is None:
            return


def _each(
    db: Database,
    which: Which,
    step: Callable[[Moves, Row, Micros], bool],
    act: Act,
    *,
    ends: State | None = None,
) -> int:
    """Take a step with each of the tasks, and tell those that wait if the step ends them."""
    changed = 0
    for ids in chosen(db, which):
        count, ended, wake = db.transact(lambda tx, ids=ids: _step_all(db, tx, ids, step, ends, act))
        act.committed(count)
        db.ring(wake | resolve(db, ended))
        changed += count
    return changed


def _step_all(
    db: Database,
    tx: Transaction,
    ids: Sequence[UUID],
    step: Callable[[Moves, Row, Micros], bool],
    ends: State | None,
    act: Act,
) -> tuple[int, list[UUID], set[str]]:
    asked = tx.ask("now", now=db.now())
    held = tx.ask("hold", [(id,) for id in sorted(set(ids))])
    [(now,)] = asked.rows()
    moves = Moves()
    changed = [row for row in rows_from(db, held.rows()) if step(moves, row, now)]
    moves.write(tx)
    act.note(tx, changed)
    ended = [(row.id, ends.value) for row in changed if ends is not None and row.state is not State.LEASED]
    announced = uuids(db, tx.ask("announce", ended).rows()) if ended else []
    return len(changed), announced, moves.counts.wake


def _bring_back(db: Database, tx: Transaction, ids: Sequence[TaskId], act: Act) -> tuple[int, set[str]]:
    """Prerequisites that are unfinished, or are just being brought back, are waited for again.

    They are locked together with the tasks themselves, in one set and in id order.
    """
    asked = tx.ask("now", now=db.now())
    pending = tx.ask("take_ended", [(id,) for id in sorted(ids)])
    told = tx.ask("resolved_edges", [(id,) for id in sorted(ids)])
    [(now,)] = asked.rows()
    edges = [(TaskId(db.uuid(child)), TaskId(db.uuid(parent))) for child, parent in told.rows()]
    held = tx.ask("hold", [(id,) for id in sorted({*ids, *(parent for _, parent in edges)})])
    rows = {row.id: row for row in rows_from(db, held.rows())}
    back = [rows[id] for id in ids if id in rows and rows[id].state.ended_badly]
    unfinished = {row.id for row in back} | {row.id for row in rows.values() if not row.state.final}
    reopened = [(child, parent) for child, parent in edges if parent in unfinished]
    more = Counter(child for child, _ in reopened)
    moves = Moves()
    for row in back:
        moves.move(row, **brought_back(row, row.waiting + more[row.id], now))
    coming = {row.id for row in back}
    tx.tell("reopen_edges", sorted(edge for edge in reopened if edge[0] in coming))
    # What had not been told of the old end waits for the new one instead.
    tx.tell("close_ended", [(parent,) for parent in uuids(db, pending.rows()) if parent in coming])
    moves.write(tx)
    act.note(tx, back)
    return len(back), moves.counts.wake


def _remove(db: Database, tx: Transaction, ids: Sequence[TaskId], act: Act) -> int:
    gone = forget(db, tx, ids)
    act.note(tx, gone)
    return gone
