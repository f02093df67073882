"""Time series in the memory store."""

from __future__ import annotations

from heapq import nlargest

from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import check_limit
from windlass.stores.series import Point, RecentWait, Resolution, check_series, join_points


class MemorySeries(MemoryBase):
    """Read what happened in each second or minute."""

    def series(self, queue: str | None, resolution: Resolution, since: Micros) -> list[Point]:
        check_series(queue, resolution)
        with self._lock:
            points = (
                point
                for (name, width, _), point in self._tables.series.items()
                if queue in (None, name) and width <= resolution
            )
            oldest = self._clock.now() - resolution.kept(self._series_kept)
            return join_points(points, resolution, max(since, oldest))

    def recent_waits(self, since: Micros, *, limit: int) -> list[RecentWait]:
        check_limit(limit)
        with self._lock:
            ended = [task for task in self._tables.tasks.values() if task.state is State.COMPLETED]
        recent = nlargest(limit, ended, key=lambda task: task.finished or 0)
        return [
            RecentWait(task.queue, max(0, (task.claimed or 0) - task.due))
            for task in recent
            if (task.finished or 0) >= since and task.wait is None
        ]


def roll_up(tables: Tables, now: Micros, series_kept: Micros) -> None:
    """Once a minute, add up seconds that are no longer kept into minutes, and remove old minutes."""
    second, minute = Resolution.SECOND, Resolution.MINUTE
    if tables.rolled_up == minute.start(now):
        return
    tables.rolled_up = minute.start(now)
    for (queue, width, at), point in sorted(tables.series.items()):
        if at < minute.start(now - Resolution(width).kept(series_kept)):
            del tables.series[queue, width, at]
            if width == second:
                at_minute = minute.start(at)
                tables.series.setdefault((queue, minute, at_minute), Point(at=at_minute)).add(point)
