"""Updates of tasks and queues in a SQL store, with an optional check of the version that the caller has seen.

The version is compared while the row is locked. If the answer to a commit is lost, the next try looks for what that
commit wrote. If someone has changed the row since, the outcome is unknown and `CommitUnknown` is raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.lifecycle import UNFINISHED, State
from windlass.core.names import check_name
from windlass.core.ordering import Queue, check_queue, place
from windlass.core.task import Change, Task, TaskId
from windlass.core.task_update import Version, update_fields, version_of
from windlass.core.validation import check_change, check_id
from windlass.errors import UnknownTask
from windlass.stores.coordination import Entry
from windlass.stores.operator import Filter, check_removable
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.operate import chosen
from windlass.stores.sql.rows import Moves, first_due_of, queue_from, queue_values, task_from


class SqlUpdate(SqlBase):
    """Update a task and configure a queue."""

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        check_id(task)
        check_change(change)
        db, act = self._db, AuditedChange(self._db, entries)
        tried: list[Version] = []

        def work(tx: Transaction) -> set[str]:
            asked = tx.query("now", now=db.now())
            rows, found = lock_tasks(db, tx, [task]), tx.query("get", [(task,)]).rows()
            [(now,)] = asked.rows()
            if not rows or not found:
                raise UnknownTask(task)
            old, row, first_due = task_from(db, found[0]), rows[0], first_due_of(found[0])
            seen = version_of(old)
            if act.unsure and seen in tried:
                return set()
            if expect not in (None, seen):
                raise act.conflict(f"task {task}")
            new = update_fields(old, first_due, _queue(tx, old.queue), change, now)
            tried[:] = [new.version(old)] if new.version(old) != seen else []
            moves = Moves()
            moves.move(row, new.state, due=new.due, expires=new.expires)
            moves.place(row, new.place)
            moves.write(tx)
            tx.execute("amend", task=task, priority=new.priority, deadline=new.deadline, first_due=new.first_due)
            act.note(tx, new.differs(old, first_due))
            return moves.counts.wake

        db.notify(db.transact(work, recover=act.recover))
        found = db.read(lambda tx: tx.query("get", [(task,)]).rows())
        return task_from(db, found[0])

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        check_queue(queue)
        db = self._db
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> Queue:
            [line] = tx.query("hold_queue", **queue_values(Queue(name=queue.name))).rows()
            before = queue_from(line)
            if expect not in (None, before) and not (act.unsure and before == queue):
                raise act.conflict(f"queue {queue.name!r}")
            tx.execute("configure", **queue_values(queue))
            if before.fair and not queue.fair:  # Claims move the tasks out of the lanes of their tenants.
                tx.execute("put_parked", [(queue.name, "", "", 0, None)])
            act.note(tx, before != queue)
            return before

        before = db.transact(work, recover=act.recover)
        # Pausing a long queue must not wait for places that stay the same. Setting the same settings again repairs
        # the places that an interrupted call left behind.
        if before == queue or not queue.orders_like(before):
            for ids in chosen(db, Filter(queue=queue.name, states=UNFINISHED)):
                db.transact(lambda tx, ids=ids: _rank(db, tx, queue, ids))
        db.notify([queue.name])

    def remove_queue(self, name: str, *, entries: Sequence[Entry] = ()) -> bool:
        check_name("queue", name)
        db = self._db
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> bool:
            [(unfinished,)] = tx.query("count_unfinished", queue=name).rows()
            check_removable(name, unfinished)
            removed = tx.query("remove_queue", name=name).rows()
            act.note(tx, removed)
            return bool(removed)

        return db.transact(work, recover=act.recover) or act.unsure


def _queue(tx: Transaction, name: str) -> Queue:
    settings = (queue_from(line) for line in tx.query("queues").rows() if line[0] == name)
    return next(settings, Queue(name=name))


def _rank(db: Database, tx: Transaction, queue: Queue, ids: Sequence[TaskId]) -> None:
    """Recompute the places of some tasks. They are locked first, so that an update comes before or after this."""
    rows = {row.id: row for row in lock_tasks(db, tx, ids)}
    moves = Moves()
    for line in tx.query("get", [(id,) for id in sorted(rows)]).rows():
        task, due = task_from(db, line), first_due_of(line)
        row = rows[task.id]
        moves.place(row, place(queue, priority=task.priority, deadline=task.deadline, due=due))
        if row.state is State.RUNNABLE:
            moves.move(row, row.state)
    moves.write(tx)
