"""The JSON shapes of queues."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from windlass.core.ordering import Strategy
from windlass.core.times import to_datetime
from windlass.operations.queues import QueueView, Waits
from windlass.stores.series import Point, Resolution
from windlass.wire.fields import Length, Moment, Reason, Seconds, as_datetime


class SetQueue(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All settings of a queue. Fields that are left out get their defaults; a pause stays as it is."""

    strategy: Strategy = Strategy.PRIORITY
    horizon_seconds: Seconds = 3_600
    step_seconds: Seconds = 60
    max_waiting: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    weight: Annotated[int, Meta(ge=1, le=1_000)] = 1
    fair: bool = False
    create: bool = False
    """Accept a name that has no settings and no tasks, and that no handler or node uses."""


class PauseQueue(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop claiming tasks of a queue."""

    lasts: Length | None = None
    """null: until it is resumed."""
    create: bool = False
    """Accept a name that has no settings and no tasks, and that no handler or node uses."""


NOT_LIMITED = PauseQueue()


class WaitsShape(Struct, frozen=True, kw_only=True):
    """Wait times of this queue's tasks among the 1,000 that completed last, within 15 minutes."""

    tasks: int
    """How many tasks these are."""
    median_seconds: float
    p95_seconds: float


class QueueShape(Struct, frozen=True, kw_only=True):
    """A queue: its settings, and how many tasks it has in each state."""

    name: str
    strategy: Strategy
    horizon_seconds: float
    step_seconds: float
    paused: bool
    paused_by: str | None
    paused_why: str | None
    paused_until: Moment | None
    """null: until it is resumed."""
    max_waiting: int | None
    weight: int
    fair: bool
    tasks: dict[str, int]
    oldest: Moment | None
    """When the runnable task that has waited longest became due; null for a token that is limited to a tenant."""
    waits: WaitsShape | None
    """null if none completed, and for a token that is limited to a tenant."""


class Every(StrEnum):
    """How much time one point of a series covers."""

    SECOND = "second"
    MINUTE = "minute"

    @property
    def resolution(self) -> Resolution:
        """Return the resolution of this name."""
        return Resolution[self.name]


class PointShape(Struct, frozen=True, kw_only=True):
    """What happened to the tasks of a queue in one second or minute."""

    at: Moment
    """When it starts."""
    arrived: int
    """Tasks that were submitted."""
    started: int
    """Attempts that were claimed."""
    completed: int
    failed: int
    """Tasks that failed for good."""
    retried: int
    """Attempts that failed and will be retried."""
    mean_wait_seconds: float | None
    """How long the started tasks had waited since they were due; null if none started."""
    longest_wait_seconds: float


def point_shape(point: Point) -> PointShape:
    """Convert a point of a series."""
    return PointShape(
        at=to_datetime(point.at),
        arrived=point.arrived,
        started=point.started,
        completed=point.completed,
        failed=point.failed,
        retried=point.retried,
        mean_wait_seconds=None if point.mean_wait is None else point.mean_wait / 1_000_000,
        longest_wait_seconds=point.longest_wait / 1_000_000,
    )


def queue_settings(given: SetQueue) -> dict[str, Any]:
    """Return the requested settings by their names in `Queue`."""
    return {
        "strategy": given.strategy,
        "horizon": timedelta(seconds=given.horizon_seconds),
        "step": timedelta(seconds=given.step_seconds),
        "max_waiting": given.max_waiting,
        "weight": given.weight,
        "fair": given.fair,
    }


def queue_shape(view: QueueView) -> QueueShape:
    """Convert a queue."""
    queue = view.settings
    return QueueShape(
        name=queue.name,
        strategy=queue.strategy,
        horizon_seconds=queue.horizon.total_seconds(),
        step_seconds=queue.step.total_seconds(),
        paused=queue.paused,
        paused_by=queue.paused_by,
        paused_why=queue.paused_why,
        paused_until=as_datetime(queue.paused_until),
        max_waiting=queue.max_waiting,
        weight=queue.weight,
        fair=queue.fair,
        tasks={state.value: number for state, number in view.tasks.items()},
        oldest=as_datetime(view.oldest),
        waits=None if view.waits is None else _waits_shape(view.waits),
    )


def _waits_shape(waits: Waits) -> WaitsShape:
    return WaitsShape(tasks=waits.tasks, median_seconds=waits.median / 1_000_000, p95_seconds=waits.p95 / 1_000_000)
