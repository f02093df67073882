"""Reads of failed tasks by error: one group for each bug, and the tasks of a group.

A failed task belongs to the group of the error that ended it (`core.fingerprint.error_group`). A store keeps the group
with the task when the task fails.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from windlass.core.retry import Error
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.stores.totals import COUNTED

NEWEST = 10
"""How many task ids a group has at most."""
MOST_GROUPS = 1_000
"""How many groups one call returns at most."""


class DeadGroup(Struct, frozen=True, kw_only=True):
    """The failed tasks that ended with one error, of those that were looked at."""

    id: str
    """The fingerprint of the error."""
    count: int
    error: Error
    """The newest one."""
    first: Micros
    """When the first of the tasks failed."""
    last: Micros
    """When the last of the tasks failed."""
    handlers: list[str]
    """In alphabetical order, as are the tenants."""
    tenants: list[str]
    newest: list[TaskId]
    """The newest tasks, up to `NEWEST`, newest first."""


class DeadGroups(Struct, frozen=True):
    """Groups, the largest first. If `complete` is False, there are more failed tasks or groups than these."""

    groups: list[DeadGroup]
    complete: bool


class DeadCursor(Struct, frozen=True):
    """Where a page of dead letters ended: when the last task that was looked at failed, and its id."""

    finished: Micros
    id: TaskId


class DeadPage(Struct, frozen=True):
    """Failed tasks, newest first. `after` is None on the last page; a page before it may be short, or empty."""

    tasks: list[Task]
    after: DeadCursor | None


class DeadIds(Struct, frozen=True):
    """The ids of failed tasks, newest first. `after` is None on the last page, as in `DeadPage`."""

    ids: list[TaskId]
    after: DeadCursor | None


class DeadLetterReader(Protocol):
    """What people ask about failed tasks."""

    def dead_groups(self, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED) -> DeadGroups:
        """Group the newest `limit` failed tasks by error. The number of statements does not grow with the tasks."""
        ...

    def dead_letters(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        """Return a page of the failed tasks of a group, newest first.

        One call looks at no more than `SCANNED` failed tasks.
        """
        ...

    def dead_ids(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadIds:
        """Return the page of `dead_letters` as ids, without reading the tasks."""
        ...
