"""Time series per queue: how many tasks arrived, started and ended in each second or minute, and how long they waited.

A store counts what happens in the transaction in which it happens, so the numbers are exact. It keeps seconds for
`SECONDS_KEPT` and minutes for as long as `series_kept` says; the sweep adds up and removes what is older.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import IntEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.names import check_name, check_type
from windlass.core.times import Micros, micros

SECONDS_KEPT = timedelta(minutes=15)
SERIES_KEPT = timedelta(days=2)
_SECONDS = micros(SECONDS_KEPT)


class Resolution(IntEnum):
    """The length of the time that one point covers, in microseconds."""

    SECOND = 1_000_000
    MINUTE = 60_000_000

    def start(self, at: Micros) -> Micros:
        """Return when the point that covers this moment starts."""
        return at // self * self

    def kept(self, series_kept: Micros) -> Micros:
        """Return how long points of this resolution are kept by a store that keeps the series for so long."""
        return min(series_kept, _SECONDS) if self is Resolution.SECOND else series_kept


class Point(Struct, kw_only=True):
    """What happened to the tasks of a queue, or of all queues, in one second or minute."""

    at: Micros
    """When it starts."""
    arrived: int = 0
    """Tasks that were submitted."""
    started: int = 0
    """Attempts that were claimed."""
    completed: int = 0
    """Tasks that completed."""
    failed: int = 0
    """Tasks that failed for good."""
    retried: int = 0
    """Attempts that failed and will be retried."""
    waited: Micros = 0
    """How long the started tasks had waited since they were due, added up."""
    longest_wait: Micros = 0

    @property
    def mean_wait(self) -> Micros | None:
        """How long a started task had waited on average; None if none started."""
        return self.waited // self.started if self.started else None

    def add(self, other: Point) -> None:
        """Add what another point counts."""
        self.arrived += other.arrived
        self.started += other.started
        self.completed += other.completed
        self.failed += other.failed
        self.retried += other.retried
        self.waited += other.waited
        self.longest_wait = max(self.longest_wait, other.longest_wait)

    def count_moves(self, state: State, tasks: int) -> None:
        """Count tasks that came into a state. A negative number left it, which is not counted."""
        if tasks <= 0:
            return
        match state:
            case State.LEASED:
                self.started += tasks
            case State.COMPLETED:
                self.completed += tasks
            case State.FAILED:
                self.failed += tasks
            case State.RETRYING:
                self.retried += tasks
            case _:
                pass


class RecentWait(NamedTuple):
    """How long a completed task had waited since it was due, until its last attempt was claimed."""

    queue: str
    waited: Micros


class SeriesReader(Protocol):
    """Reads of the time series."""

    def series(self, queue: str | None, resolution: Resolution, since: Micros) -> list[Point]:
        """Return the points of a queue, or of all queues added up, from the one that covers `since` on.

        The oldest comes first. A point in which nothing happened is left out, and so is what is no longer kept.
        """
        ...

    def recent_waits(self, since: Micros, *, limit: int) -> list[RecentWait]:
        """Return how long the latest `limit` tasks that completed since a time had waited, in any order.

        Sleeps and events are left out. The cost depends on `limit` alone, not on the number of tasks.
        """
        ...


def check_series(queue: str | None, resolution: Resolution) -> None:
    """Refuse a queue or resolution that cannot be."""
    if queue is not None:
        check_name("queue", queue)
    check_type("resolution", resolution, Resolution, "pass a Resolution")


def join_points(points: Iterable[Point], resolution: Resolution, since: Micros) -> list[Point]:
    """Add up points into points of a resolution, oldest first, without those that end before `since`."""
    first = resolution.start(since)
    found: dict[Micros, Point] = {}
    for point in points:
        at = resolution.start(point.at)
        if at >= first and point != Point(at=point.at):
            found.setdefault(at, Point(at=at)).add(point)
    return [found[at] for at in sorted(found)]
