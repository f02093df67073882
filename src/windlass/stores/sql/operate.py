"""What people change by hand, over SQL. A verb that takes a filter goes through its pages, a transaction each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.amend import amend, brought_back
from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import UNFINISHED, State
from windlass.core.ordering import Queue, place
from windlass.core.task import Change, Task, TaskId
from windlass.core.times import Micros, span
from windlass.errors import NotAllowed, UnknownTask
from windlass.stores.protocol import Filter, Which
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.find import find
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.rows import Moves, Row, first_due_of, queue_from, queue_values, rows_from, task_from, uuids
from windlass.stores.sql.sweep import forget

CHUNK = 500


def cancel(db: Database, which: Which, reason: str, grace: timedelta) -> int:
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

    return _each(db, which, step, ends=State.CANCELLED)


def retry(db: Database, which: Which) -> int:
    """Bring tasks that ended badly back, the oldest first: prerequisites before what waits for them."""
    brought_back = 0
    for ids in reversed(list(_chosen(db, which))):
        count, wake = db.transact(lambda tx, ids=ids: _bring_back(db, tx, ids))
        db.ring(wake)
        brought_back += count
    return brought_back


def purge(db: Database, which: Which) -> int:
    """Remove finished tasks for good, once those that waited for them have been told."""
    removed = 0
    for ids in _chosen(db, which):
        db.ring(resolve(db, ids))
        removed += db.transact(lambda tx, ids=ids: forget(db, tx, ids))
    return removed


def update(db: Database, id: TaskId, change: Change) -> Task:
    """Change an unfinished task and its place."""

    def work(tx: Transaction) -> set[str]:
        asked = tx.ask("now", now=db.now())
        held = tx.ask("hold", [(id,)])
        whole = tx.ask("get", [(id,)])
        [(now,)] = asked.rows()
        rows, found = rows_from(db, held.rows()), whole.rows()
        if not rows or not found:
            raise UnknownTask(id)
        task, row = task_from(db, found[0]), rows[0]
        new = amend(task, first_due_of(found[0]), _queue(tx, task.queue), change, now)
        moves = Moves()
        moves.move(row, new.state, due=new.due, expires=new.expires)
        moves.write(tx)
        tx.tell("amend_body", task=id, priority=new.priority, deadline=new.deadline, first_due=new.first_due)
        tx.tell("place", [(id, *new.place)])
        return moves.counts.wake

    db.ring(db.transact(work))
    found = db.read(lambda tx: tx.ask("get", [(id,)]).rows())
    return task_from(db, found[0])


def configure(db: Database, queue: Queue) -> None:
    """Set a queue's settings and give its tasks their places. A submit under way meanwhile keeps its old place."""
    db.transact(lambda tx: tx.tell("configure", **queue_values(queue)))
    for ids in _chosen(db, Filter(queue=queue.name, states=UNFINISHED)):
        db.transact(lambda tx, ids=ids: _rank(db, tx, queue, ids))
    db.ring([queue.name])


def open_workflow(db: Database, workflow: str, tenant: str, *, sealed: bool, forward: timedelta | None) -> None:
    """Prepare a workflow."""
    limit = None if forward is None else span(forward, "forward")
    id = workflow_id(tenant, workflow)
    db.transact(lambda tx: tx.tell("open_workflow", id=id, tenant=tenant, name=workflow, sealed=sealed, forward=limit))


def seal_workflow(db: Database, workflow: str, tenant: str, *, missing: bool) -> None:
    """Let a workflow run, and end its open forward references if that is wanted."""
    id = workflow_id(tenant, workflow)

    def work(tx: Transaction) -> list[UUID]:
        if not tx.ask("lock_workflows", [(id,)]).rows():
            raise UnknownTask(f"workflow {workflow!r} of tenant {tenant!r}")
        open_ends = uuids(db, tx.ask("workflow_placeholders", workflow=id).rows())
        if open_ends and not missing:
            raise NotAllowed(f"workflow {workflow!r} has {len(open_ends)} open forward references; submit them first")
        tx.tell("seal_workflow", id=id)
        tx.tell("fill_placeholders", [(end,) for end in open_ends])
        ends = [(id, End.SEALED.value), *((end, End.MISSING.value) for end in open_ends)]
        return uuids(db, tx.ask("announce", sorted(ends)).rows())

    db.ring(resolve(db, db.transact(work)))


def raise_epoch(db: Database) -> int:
    """Make every later fence greater than all before."""
    return db.transact(lambda tx: tx.ask("raise_epoch").rows()[0][0])


def _each(db: Database, which: Which, step: Callable[[Moves, Row, Micros], bool], *, ends: State | None = None) -> int:
    """Take a step with each of the tasks, and tell those that wait if the step ends them."""
    changed = 0
    for ids in _chosen(db, which):
        count, ended, wake = db.transact(lambda tx, ids=ids: _step_all(db, tx, ids, step, ends))
        db.ring(wake | resolve(db, ended))
        changed += count
    return changed


def _step_all(
    db: Database, tx: Transaction, ids: Sequence[UUID], step: Callable[[Moves, Row, Micros], bool], ends: State | None
) -> tuple[int, list[UUID], set[str]]:
    asked = tx.ask("now", now=db.now())
    held = tx.ask("hold", [(id,) for id in sorted(set(ids))])
    [(now,)] = asked.rows()
    moves = Moves()
    changed = [row for row in rows_from(db, held.rows()) if step(moves, row, now)]
    moves.write(tx)
    ended = [(row.id, ends.value) for row in changed if ends is not None and row.state is not State.LEASED]
    announced = uuids(db, tx.ask("announce", ended).rows()) if ended else []
    return len(changed), announced, moves.counts.wake


def _bring_back(db: Database, tx: Transaction, ids: Sequence[TaskId]) -> tuple[int, set[str]]:
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
    return len(back), moves.counts.wake


def _chosen(db: Database, which: Which) -> Iterator[list[TaskId]]:
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


def _queue(tx: Transaction, name: str) -> Queue:
    settings = (queue_from(line) for line in tx.ask("queues").rows() if line[0] == name)
    return next(settings, Queue(name=name))


def _rank(db: Database, tx: Transaction, queue: Queue, ids: Sequence[TaskId]) -> None:
    """The rows are locked first: an update of the same task must come wholly before or after."""
    batch = [(id,) for id in sorted(ids)]
    tx.ask("hold", batch).rows()
    places: list[tuple[object, ...]] = []
    for line in tx.ask("get", batch).rows():
        task, due = task_from(db, line), first_due_of(line)
        places.append((task.id, *place(queue, priority=task.priority, deadline=task.deadline, due=due)))
    tx.tell("place", places)
