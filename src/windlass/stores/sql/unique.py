"""Locks of unique tasks in a SQL store.

A submit inserts or locks the rows of `unique_lock` first, in id order, and then their tasks. So of concurrent submits
of equal tasks one creates a task, and the others wait for its transaction and find it. A task that is found stays as it
is until this transaction ends: it is not claimed before the caller's own rows are committed. One that has started is
not locked, because its end must not wait for a caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from uuid import UUID

from windlass.core.lifecycle import QUEUED, State
from windlass.core.ordering import Queue
from windlass.core.submission import Draft
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.core.unique import NOTHING, Holder, Matched, match, put_off, until
from windlass.stores.sql.database import Dialect, Transaction
from windlass.stores.sql.locks import known_from, lock_tasks
from windlass.stores.sql.rows import Moves, Row, first_due_of, task_from


class UniqueTasks:
    """The unique tasks of one submit."""

    def __init__(self, db: Dialect, tx: Transaction, drafts: Sequence[Draft], *, joined: bool) -> None:
        self._db, self._tx, self._joined = db, tx, joined
        self._drafts = [one for one in drafts if one.lock is not None]
        self._rows: dict[TaskId, Row] = {}
        self._holders: dict[UUID, Holder] = {}
        self._inserted: dict[UUID, TaskId] = {}
        """The locks that nobody held, each with the task that was written into its row."""
        self.states: dict[TaskId, State] = {}
        """The states of the stored tasks that stand for tasks of the batch."""

    def lock(self) -> None:
        """Lock the rows of all groups, and the queued tasks that hold them."""
        if not self._drafts:
            return
        first = {one.lock: one for one in reversed(self._drafts) if one.lock is not None}
        batch = [(lock, first[lock].id, _period(first[lock])) for lock in sorted(first)]
        held: dict[UUID, tuple[TaskId, Micros]] = {}
        for lock, task, end, inserted in self._tx.query("hold_unique", batch, now=self._db.now()).rows():
            if inserted:
                self._inserted[self._db.uuid(lock)] = TaskId(self._db.uuid(task))
            else:
                held[self._db.uuid(lock)] = TaskId(self._db.uuid(task)), end
        states = self._lock_queued({task for task, _ in held.values()}) if held else {}
        self._holders = {lock: Holder(task, end, states.get(task)) for lock, (task, end) in held.items()}

    def _lock_queued(self, tasks: Collection[TaskId]) -> dict[TaskId, State]:
        """Lock the queued ones of these tasks. Return the states of all that are stored."""
        while True:
            lines = self._tx.query("peek_parents", [(id,) for id in sorted(tasks)]).rows()
            states = {one.id: one.state for one in known_from(self._db, lines)}
            queued = [id for id, state in states.items() if state in QUEUED]
            if not queued:
                return states
            if self._joined:
                self._tx.execute("mark_savepoint")
            rows = lock_tasks(self._db, self._tx, queued)
            # One that was claimed just now is unlocked again, so that its end does not wait for the caller.
            again = self._joined and any(row.state not in QUEUED for row in rows)
            if again:
                self._tx.execute("undo_to_savepoint")
            if self._joined:
                self._tx.execute("release_savepoint")
            if not again:
                self._rows = {row.id: row for row in rows}
                return {id: state for id, state in states.items() if state not in QUEUED} | {
                    row.id: row.state for row in rows
                }

    def match(self, known: Container[TaskId], now: Micros) -> Matched:
        """Compare the tasks with those that hold their locks."""
        if not self._drafts:
            return NOTHING
        self.states = {holder.task: holder.state for holder in self._holders.values() if holder.state is not None}
        return match(self._drafts, self._holders, known, now)

    def write(self, matched: Matched, queues: Mapping[str, Queue], now: Micros, *, sees_commits: bool) -> None:
        """Give locks to new tasks, and put off those that are queued."""
        if not self._drafts:
            return
        taken = [
            (lock, one.id, until(one.new.unique, now))
            for lock, one in sorted(matched.takes.items())
            if one.new.unique is not None and self._inserted.get(lock) != one.id
        ]
        self._tx.execute("take_unique", taken)
        # What is stored already is not created again, so it takes no lock.
        self._tx.execute("forget_unique", [(lock,) for lock in sorted(self._inserted.keys() - matched.takes.keys())])
        if matched.put_off:
            self._put_off(matched, queues, now, sees_commits=sees_commits)

    def _put_off(self, matched: Matched, queues: Mapping[str, Queue], now: Micros, *, sees_commits: bool) -> None:
        moves = Moves()
        lines = self._tx.query("get", [(id,) for id in sorted(matched.put_off)]).rows()
        for line in lines:
            task, one = task_from(self._db, line), matched.put_off[TaskId(self._db.uuid(line[0]))]
            row, unique = self._rows[task.id], one.new.unique
            assert unique is not None
            new = put_off(task, first_due_of(line), queues.get(task.queue) or Queue(name=task.queue), unique, now)
            # A claim whose snapshot has the old arguments must not see the task: it is removed and added again.
            state = new.state if sees_commits or new.state is not State.RUNNABLE else State.SCHEDULED
            moves.place(row, new.place)
            moves.move(row, state, due=new.due)
            self.states[task.id] = state
            args = one.args if unique.replace_args else task.args
            self._tx.execute("put_off", task=task.id, first_due=new.first_due, args=args)
        moves.write(self._tx)


def _period(one: Draft) -> Micros:
    return 0 if one.new.unique is None else micros(one.new.unique.period)
