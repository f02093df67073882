"""Reads of the memory store, except those of workflows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.manifest import CronState, DueCrons, HandlerSeen
from windlass.core.names import check_name
from windlass.core.ordering import Queue, place
from windlass.core.task import Attempt, Task, TaskId
from windlass.core.times import Micros
from windlass.core.validation import check_id, check_ids
from windlass.stores.memory.base import MemoryBase
from windlass.stores.operator import check_filter
from windlass.stores.protocol import (
    RECENT,
    Count,
    Cursor,
    Filter,
    Log,
    Neighbour,
    Neighbourhood,
    Page,
    ProgressSeen,
    check_limit,
)
from windlass.stores.totals import COUNTED, Total, is_grouped, sum_groups


class MemoryRead(MemoryBase):
    """Read tasks and what belongs to them, queues, handlers and crons."""

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        check_ids(tasks)
        with self._lock:
            return [self._tables.tasks.get(id) for id in tasks]

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        check_filter(filter)
        check_limit(limit)
        with self._lock:
            now = self._clock.now()
            matching = [task for task in self._tables.tasks.values() if filter.matches(task, now)]
        matching.sort(key=lambda task: (task.submitted, task.id), reverse=True)
        if after is not None:
            matching = [task for task in matching if (task.submitted, task.id) < (after.submitted, after.id)]
        tasks = matching[:limit]
        return Page(tasks, Cursor(tasks[-1].submitted, tasks[-1].id) if len(matching) > limit else None)

    def counts(self) -> list[Count]:
        with self._lock:
            return [Count(*key, tasks) for key, tasks in sorted(self._tables.counts.items()) if tasks]

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        check_filter(filter)
        check_limit(limit)
        with self._lock:
            if is_grouped(filter):
                return Total(sum_groups(filter, self.counts()), exact=True)
            now = self._clock.now()
            matching = sum(filter.matches(task, now) for task in self._tables.tasks.values())
            return Total(min(matching, limit), exact=matching <= limit)

    def attempts(self, task: TaskId) -> list[Attempt]:
        check_id(task)
        with self._lock:
            return list(self._tables.attempts.get(task, ()))[-RECENT:]

    def logs(self, task: TaskId) -> list[Log]:
        check_id(task)
        with self._lock:
            return self._logs(task)[-RECENT:]

    def latest_output(self, tasks: Sequence[TaskId]) -> list[Log | None]:
        check_ids(tasks)
        with self._lock:
            return [next(reversed(self._logs(task)), None) for task in tasks]

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        check_ids(tasks)
        with self._lock:
            return [self._tables.progress.get(id) for id in tasks]

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        check_id(task)
        check_limit(limit)
        with self._lock:
            above = self._tables.prerequisites.get(task, {})
            below = {id: self._tables.prerequisites[id][task] for id in self._tables.dependents.get(task, ())}
            return Neighbourhood(self._neighbours(above, limit), self._neighbours(below, limit))

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int:
        check_id(task)
        check_limit(limit)
        with self._lock:
            it = self._tables.tasks.get(task)
            if it is None or it.state is not State.RUNNABLE:
                return 0
            places, mine = self._tables.places, (*self._tables.places[task], task)
            others = (each for each in self._tables.tasks.values() if each.queue == it.queue)
            before = [each for each in others if each.state is State.RUNNABLE and (*places[each.id], each.id) < mine]
            return min(limit, len(before))

    def ahead_of_new(
        self, queue: str, *, due: Micros, priority: int = 0, deadline: Micros | None = None, limit: int = 10_000
    ) -> int:
        check_name("queue", queue)
        check_limit(limit)
        with self._lock:
            mine = place(self._tables.queue(queue), priority=priority, deadline=deadline, due=due)
            others = (each for each in self._tables.tasks.values() if each.queue == queue)
            before = [each for each in others if each.state is State.RUNNABLE and self._tables.places[each.id] <= mine]
            return min(limit, len(before))

    def queues(self) -> list[Queue]:
        with self._lock:
            return [self._tables.queues[name] for name in sorted(self._tables.queues)]

    def handlers(self) -> list[HandlerSeen]:
        with self._lock:
            return [self._tables.handlers[name] for name in sorted(self._tables.handlers)]

    def crons(self, name: str | None = None) -> list[CronState]:
        with self._lock:
            return [one for key, one in sorted(self._tables.crons.items()) if name in (None, key)]

    def crons_to_fire(self, handlers: Collection[str]) -> DueCrons:
        with self._lock:
            now = self._clock.now()
            crons = [one for _, one in sorted(self._tables.crons.items()) if one.info.handler in handlers]
            return DueCrons(now=now, crons=[one for one in crons if not one.at_run_time or _is_due(one, now)])

    def _logs(self, id: TaskId) -> list[Log]:
        task = self._tables.tasks.get(id)
        running = task.fence if task is not None and task.state is State.LEASED else None
        return [Log(fence, text, fence == running) for fence, text in self._tables.outputs.get(id, {}).items()]

    def _neighbours(self, edges: dict[UUID, bool] | dict[TaskId, bool], limit: int) -> list[Neighbour]:
        ids = sorted(TaskId(id) for id in edges if not self._is_workflow(id))[:limit]
        found = [(id, self._tables.tasks.get(id)) for id in ids]
        return [Neighbour(id, task.state if task else None, edges[id]) for id, task in found]

    def _is_workflow(self, id: UUID) -> bool:
        return id in self._tables.workflows


def _is_due(cron: CronState, now: Micros) -> bool:
    return cron.due is not None and cron.due <= now and not cron.paused
