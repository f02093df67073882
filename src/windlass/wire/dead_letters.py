"""The JSON shapes of dead letters: failed tasks, grouped by bug."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from windlass.core.task import TaskId
from windlass.core.times import to_datetime
from windlass.stores.dead_letters import DeadGroup
from windlass.wire.fields import Length, Moment, Reason
from windlass.wire.tasks import ErrorShape, error_shape


class DeadGroupShape(Struct, frozen=True, kw_only=True):
    """One bug: the failed tasks whose last errors differ only in numbers, names and addresses."""

    group: str
    error: ErrorShape
    """The newest."""
    count: int
    handlers: list[str]
    tenants: list[str]
    first: Moment
    last: Moment
    tasks: list[UUID]
    """The newest first; at most three in a list of groups, and at most 1,000 in one group."""


class RetryGroup(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to retry the tasks of a group."""

    canary: bool = False
    """Retry one task first, then ten, then all of them; stop if the bug is still there."""
    patience: Length = "10m"
    """How long a step of the canary may take."""


class Dropped(Struct, frozen=True, kw_only=True):
    """How many tasks were removed."""

    group: str
    dropped: int


def group_shape(group: DeadGroup, tasks: Sequence[TaskId]) -> DeadGroupShape:
    """Convert a group, with its newest tasks."""
    return DeadGroupShape(
        group=group.id,
        error=error_shape(group.error),
        count=group.count,
        handlers=group.handlers,
        tenants=group.tenants,
        first=to_datetime(group.first),
        last=to_datetime(group.last),
        tasks=[*tasks],
    )
