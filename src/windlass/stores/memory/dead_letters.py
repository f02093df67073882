"""Failed tasks by error, in the memory store."""

from __future__ import annotations

from windlass.core.fingerprint import ended_without_error
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.stores.dead_letters import MOST_GROUPS, NEWEST, DeadCursor, DeadGroup, DeadGroups, DeadIds, DeadPage
from windlass.stores.memory.base import MemoryBase
from windlass.stores.protocol import check_limit
from windlass.stores.totals import COUNTED


class MemoryDeadLetters(MemoryBase):
    """Read failed tasks by error."""

    def dead_groups(self, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED) -> DeadGroups:
        check_limit(limit)
        with self._lock:
            failed = self._failed()
            found: dict[str, list[Task]] = {}
            for task in failed[:limit]:
                if queue in (None, task.queue) and tenant in (None, task.tenant):
                    found.setdefault(self._tables.error_groups[task.id], []).append(task)
            largest = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_GROUPS]
            groups = [self._dead_group(id, tasks) for id, tasks in largest]
            return DeadGroups(groups, complete=len(failed) <= limit and len(found) <= MOST_GROUPS)

    def dead_letters(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        return self._dead_page(group, queue, tenant, limit, after)

    def dead_ids(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadIds:
        page = self._dead_page(group, queue, tenant, limit, after)
        return DeadIds([task.id for task in page.tasks], page.after)

    def _dead_page(
        self, group: str, queue: str | None, tenant: str | None, limit: int, after: DeadCursor | None
    ) -> DeadPage:
        check_limit(limit)
        with self._lock:
            tasks = [
                task
                for task in self._failed()
                if (after is None or _key(task) < (after.finished, after.id))
                and self._tables.error_groups[task.id] == group
                and queue in (None, task.queue)
                and tenant in (None, task.tenant)
            ]
        page = tasks[:limit]
        return DeadPage(page, DeadCursor(*_key(page[-1])) if len(tasks) > limit else None)

    def _failed(self) -> list[Task]:
        """Return all failed tasks, newest first."""
        return sorted((t for t in self._tables.tasks.values() if t.state is State.FAILED), key=_key, reverse=True)

    def _dead_group(self, id: str, tasks: list[Task]) -> DeadGroup:
        return DeadGroup(
            id=id,
            count=len(tasks),
            error=self._last_error(tasks[0]),
            first=_key(tasks[-1])[0],
            last=_key(tasks[0])[0],
            handlers=sorted({task.handler for task in tasks}),
            tenants=sorted({task.tenant for task in tasks}),
            newest=[task.id for task in tasks[:NEWEST]],
        )

    def _last_error(self, task: Task) -> Error:
        attempts = self._tables.attempts.get(task.id, ())
        errors = [attempt.error for attempt in attempts if attempt.error and attempt.ended == task.finished]
        return errors[-1] if errors else ended_without_error(task.reason)


def _key(task: Task) -> tuple[Micros, TaskId]:
    assert task.finished is not None
    return task.finished, task.id
