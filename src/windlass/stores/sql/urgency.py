"""Let stored prerequisites inherit the urgency of new tasks (`core.urgency`), in the transaction of their submit.

A submit waits for the locks of one set of tasks, in id order. So it first finds out without locks which stored tasks it
may raise, and locks these together with its prerequisites. Then it decides again by what it has locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, place
from windlass.core.submission import Urgency
from windlass.core.task import TaskId
from windlass.core.urgency import Above, find_raised
from windlass.stores.sql.database import Dialect, Transaction
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.rows import Moves, Row, first_due_of, queue_from, task_from


class StoredUrgency:
    """The stored tasks that one submit may raise."""

    def __init__(self, db: Dialect, tx: Transaction) -> None:
        self._db = db
        self._tx = tx
        self._locked: dict[TaskId, Row] = {}

    def lock(self, lent: Mapping[TaskId, Urgency], others: Iterable[TaskId]) -> None:
        """Lock the tasks that may be raised, and the others that the submit will lock. Nothing if none is raised."""
        raised = find_raised(lent, self._look)
        if raised:
            self._locked = {row.id: row for row in lock_tasks(self._db, self._tx, {*raised, *others})}

    def raise_tasks(self, lent: Mapping[TaskId, Urgency]) -> None:
        """Raise the locked tasks by what the new tasks lend them."""
        raised = find_raised(lent, self._look) if self._locked else {}
        rows = {id: self._locked[id] for id in sorted(raised) if id in self._locked}
        if not rows:
            return
        queues = {line[0]: queue_from(line) for line in self._tx.query("queues").rows()}
        moves = Moves()
        for line in self._tx.query("get", [(id,) for id in rows]).rows():
            task, due = task_from(self._db, line), first_due_of(line)
            row, (priority, deadline) = rows[task.id], raised[task.id]
            queue = queues.get(task.queue, Queue(name=task.queue))
            moves.place(row, place(queue, priority=priority, deadline=deadline, due=due))
            if row.state is State.RUNNABLE:
                moves.move(row, row.state)
            self._tx.execute("amend", task=task.id, priority=priority, deadline=deadline, first_due=due)
        moves.write(self._tx)

    def _look(self, ids: Sequence[TaskId]) -> dict[TaskId, Above]:
        batch = [(id,) for id in ids]
        lines, edges = self._tx.query("get", batch), self._tx.query("edges_above", batch)
        tasks = [task_from(self._db, line) for line in lines.rows()]
        above: dict[TaskId, list[TaskId]] = {task.id: [] for task in tasks}
        for child, parent in edges.rows():
            above.setdefault(TaskId(self._db.uuid(child)), []).append(TaskId(self._db.uuid(parent)))
        return {task.id: Above(task.state, Urgency(task.priority, task.deadline), above[task.id]) for task in tasks}
