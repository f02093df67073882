"""Updates of tasks and queues in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.names import check_name
from windlass.core.ordering import Queue, check_queue, place
from windlass.core.task import Change, Task, TaskId
from windlass.core.task_update import Version, update_fields, version_of
from windlass.core.validation import check_change, check_id
from windlass.errors import Conflict, UnknownTask
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.base import MemoryBase
from windlass.stores.operator import check_removable


class MemoryUpdate(MemoryBase):
    """Update a task and configure a queue."""

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        check_id(task)
        check_change(change)
        checked = check_entries(entries)
        with self._lock:
            now = self._clock.now()
            old = self._tables.tasks.get(task)
            if old is None:
                raise UnknownTask(task)
            if expect not in (None, version_of(old)):
                raise Conflict(f"task {task}")
            first_due = self._tables.first_due[task]
            new = update_fields(old, first_due, self._tables.queue(old.queue), change, now)
            self._tables.note(checked if new.differs(old, first_due) else [], now)
            self._tables.first_due[task] = new.first_due
            self._tables.places[task] = new.place
            updated = self._tables.move(
                task, new.state, priority=new.priority, deadline=new.deadline, due=new.due, expires=new.expires
            )
            self._work.notify_all()
            return updated

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        check_queue(queue)
        checked = check_entries(entries)
        with self._lock:
            before = self._tables.queue(queue.name)
            if expect not in (None, before):
                raise Conflict(f"queue {queue.name!r}")
            self._tables.note(checked if queue != before else [], self._clock.now())
            self._tables.queues[queue.name] = queue
            for task in [*self._tables.tasks.values()]:
                if task.queue == queue.name and not task.state.final:
                    due = self._tables.first_due[task.id]
                    self._tables.change(task.id, place(queue, priority=task.priority, deadline=task.deadline, due=due))
            self._work.notify_all()

    def remove_queue(self, name: str, *, entries: Sequence[Entry] = ()) -> bool:
        check_name("queue", name)
        checked = check_entries(entries)
        with self._lock:
            unfinished = sum(task.queue == name and not task.state.final for task in self._tables.tasks.values())
            check_removable(name, unfinished)
            removed = self._tables.queues.pop(name, None) is not None
            self._tables.note(checked if removed else [], self._clock.now())
            return removed
