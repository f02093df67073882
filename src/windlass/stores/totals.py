"""Counting the tasks that a filter matches: the answer, and when `counts()` is enough for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from windlass.core.filter import STATE
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.stores.operator import Filter

COUNTED = 100_000
"""How many tasks one `count` looks at by default."""
_GROUPED = frozenset({STATE, "queue", "tenant"})
_NO_ID = TaskId(UUID(int=0))


class Total(Struct, frozen=True):
    """How many tasks match. If `exact` is False, at least this many match."""

    tasks: int
    exact: bool


class GroupCount(Protocol):
    """The number of tasks of one queue, tenant and state."""

    @property
    def queue(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def tasks(self) -> int: ...


def is_grouped(filter: Filter) -> bool:
    """Return True if the filter looks at nothing but queue, tenant and state, so that `counts()` has the answer."""
    conditions = () if filter.query is None else filter.query.conditions
    return filter.workflow is None and filter.handler is None and all(each.field in _GROUPED for each in conditions)


def sum_groups(filter: Filter, counts: Iterable[GroupCount]) -> int:
    """Add up the counts that a grouped filter matches. A group matches if each of its tasks does."""
    return sum(group.tasks for group in counts if filter.matches(_member(group), 0))


def _member(group: GroupCount) -> Task:
    return Task(
        id=_NO_ID, handler="", args="", state=group.state, queue=group.queue, tenant=group.tenant, due=0, submitted=0
    )
