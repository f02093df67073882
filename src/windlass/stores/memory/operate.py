"""What operators do to tasks in the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.names import check_text
from windlass.core.task import Task, TaskId
from windlass.core.task_update import restored_fields, retried_fields
from windlass.core.times import span
from windlass.errors import CYCLE_REASON
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.graph import resolve, taken_down_by
from windlass.stores.operator import check_which
from windlass.stores.protocol import CANCEL_GRACE, Filter, Selection


class MemoryOperate(MemoryBase):
    """Cancel, retry and purge tasks, and raise the epoch."""

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        check_text("reason", reason)
        check_which(which)
        patience, checked = span(grace, "grace"), check_entries(entries)
        with self._lock:
            now = self._clock.now()
            every = self._with_added(self._chosen(which))
            chosen = [task for task in every if not task.state.final and not task.cancel_requested]
            for task in chosen:
                if task.state is State.LEASED:
                    self._tables.change(task.id, cancel_requested=True, reason=reason)
                    self._tables.cancel_by[task.id] = now + patience
                else:
                    self._tables.move(task.id, State.CANCELLED, finished=now, reason=reason)
            resolve(self._tables, [task.id for task in chosen if task.state is not State.LEASED], now)
            self._tables.note(checked if chosen else [], now)
            return len(chosen)

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
        checked = check_entries(entries)
        with self._lock:
            now = self._clock.now()
            retried = {task.id for task in self._chosen(which) if task.state.ended_badly}
            if dependents:
                retried |= taken_down_by(self._tables, retried)
            if dry_run:
                return len(retried)
            for id in retried:
                task = self._tables.tasks[id]
                waiting = task.waiting + self._reopen_edges(id, retried)
                if task.workflow is not None and (task.reason or "").startswith(CYCLE_REASON):
                    self._tables.workflows[workflow_id(task.tenant, task.workflow)].check_later = True
                fields = restored_fields if restore else retried_fields
                self._tables.move(id, **fields(task, waiting, now))
            self._tables.note(checked if retried else [], now)
            self._work.notify_all()
            return len(retried)

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        check_which(which)
        checked = check_entries(entries)
        with self._lock:
            chosen = [task.id for task in self._chosen(which) if task.state.final]
            for id in chosen:
                self._tables.remove(id)
            self._tables.note(checked if chosen else [], self._clock.now())
            return len(chosen)

    def raise_epoch(self, *, entries: Sequence[Entry] = ()) -> int:
        checked = check_entries(entries)
        with self._lock:
            self._tables.epoch += 1
            self._tables.note(checked, self._clock.now())
            return self._tables.epoch

    def _chosen(self, which: Selection) -> list[Task]:
        tasks = self._tables.tasks
        if isinstance(which, Filter):
            now = self._clock.now()
            return [task for task in tasks.values() if which.matches(task, now)]
        return [tasks[id] for id in dict.fromkeys(which) if id in tasks]

    def _with_added(self, tasks: list[Task]) -> list[Task]:
        """Return tasks with the steps that they have added and wait for, and those of the steps."""
        whole = {task.id: task for task in tasks}
        for task in tasks:  # It grows in the loop.
            for above, resolved in self._tables.prerequisites.get(task.id, {}).items():
                step = self._tables.tasks.get(TaskId(above))
                origin = None if step is None or task.state is not State.WAITING else step.rules.origin
                if step and origin and origin.task == task.id and not resolved and step.id not in whole:
                    whole[step.id] = step
                    tasks.append(step)
        return list(whole.values())

    def _reopen_edges(self, id: TaskId, retried: set[TaskId]) -> int:
        """Make a task wait again for its prerequisites that are unfinished or retried too, and for the seal of its
        workflow. Return their number."""
        edges, tasks = self._tables.prerequisites.setdefault(id, {}), self._tables.tasks
        reopened = [
            above
            for above, resolved in edges.items()
            if resolved and (above in retried or (above in tasks and not tasks[TaskId(above)].state.final))
        ]
        seal = self._unsealed(tasks[id])
        if seal is not None and seal not in edges:  # The prerequisites that waited for the seal may be gone.
            self._tables.dependents[seal].append(id)
            reopened.append(seal)
        edges.update(dict.fromkeys(reopened, False))
        return len(reopened)

    def _unsealed(self, task: Task) -> UUID | None:
        """Return the workflow of a task if it is not sealed."""
        id = workflow_id(task.tenant, task.workflow or "")
        opened = self._tables.workflows.get(id)
        return None if task.workflow is None or opened is None or opened.sealed else id
