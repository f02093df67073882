"""Time series in a SQL store.

Every transaction appends what happened together with its count deltas. The sweep folds those rows into seconds of
`series`, and old seconds into minutes. A read adds up all three, so it does not depend on when the last sweep ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.stores.protocol import check_limit
from windlass.stores.series import Point, RecentWait, Resolution, check_series, join_points
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.sql.rows import Counts

FOLDED = 100_000
"""How many rows one fold or roll-up takes."""
Points: TypeAlias = dict[tuple[str, Micros], Point]
"""By queue and start."""


class SqlSeries(SqlBase):
    """Read what happened in each second or minute."""

    def series(self, queue: str | None, resolution: Resolution, since: Micros) -> list[Point]:
        check_series(queue, resolution)
        asked: dict[str, Any] = {"since": resolution.start(since), "width": int(resolution)}
        asked["widths"] = [int(each) for each in Resolution if each <= resolution]
        now, folded, recent = self._db.snapshot(
            [
                ("now", {"now": self._db.now()}),
                ("series", asked) if queue is None else ("series_of", {**asked, "queue": queue}),
                ("unfolded_series", {"since": asked["since"], "queue": queue}),
            ]
        )
        points = [*map(_point, folded), *(_happened(at, State(state), *rest) for at, state, *rest in recent)]
        oldest = now[0][0] - resolution.kept(self._series_kept)
        return join_points(points, resolution, max(since, oldest))

    def recent_waits(self, since: Micros, *, limit: int) -> list[RecentWait]:
        check_limit(limit)
        rows = self._db.read(lambda tx: tx.query("recent_waits", since=since, limit=limit).rows())
        return [RecentWait(queue, waited) for queue, waited in rows]


def fold_counts(tx: Transaction) -> None:
    """Replace deltas of the counts by their sums, and add what happened to the time series."""
    counts, points = Counts(), Points()
    for queue, tenant, text, tasks, at, arrived, waited, longest in tx.query("fold", limit=FOLDED).rows():
        state = State(text)
        counts.add(queue, tenant, state, tasks)
        if at is not None:
            happened = _happened(at, state, arrived or 0, tasks, waited or 0, longest or 0)
            _add(points, queue, Resolution.SECOND, happened)
    counts.write(tx)
    _record(tx, points, Resolution.SECOND)


def roll_up(tx: Transaction, now: Micros, series_kept: Micros) -> bool:
    """Add up seconds that are no longer kept into minutes, and remove old minutes. Return False if some are left."""
    minute = Resolution.MINUTE
    old, gone = (
        tx.query(
            "roll_up_series", width=int(width), before=minute.start(now - width.kept(series_kept)), limit=FOLDED
        ).rows()
        for width in Resolution
    )
    points = Points()
    for queue, *values in old:
        _add(points, queue, minute, _point(values))
    _record(tx, points, minute)
    return len(old) < FOLDED and len(gone) < FOLDED


def _happened(at: Micros, state: State, arrived: int, tasks: int, waited: Micros, longest: Micros) -> Point:
    point = Point(at=at, arrived=arrived, waited=waited, longest_wait=longest)
    point.count_moves(state, tasks)
    return point


def _point(values: Sequence[Any]) -> Point:
    """Read a point from a row: when it starts, then its numbers in the order of the columns."""
    at, arrived, started, completed, failed, retried, waited, longest = values
    return Point(
        at=at,
        arrived=arrived,
        started=started,
        completed=completed,
        failed=failed,
        retried=retried,
        waited=waited,
        longest_wait=longest,
    )


def _add(points: Points, queue: str, width: Resolution, point: Point) -> None:
    at = width.start(point.at)
    points.setdefault((queue, at), Point(at=at)).add(point)


def _record(tx: Transaction, points: Mapping[tuple[str, Micros], Point], width: Resolution) -> None:
    tx.execute("record_series", [_row(queue, width, point) for (queue, _), point in sorted(points.items())])


def _row(queue: str, width: Resolution, point: Point) -> Values:
    moves = point.started, point.completed, point.failed, point.retried
    return queue, int(width), point.at, point.arrived, *moves, point.waited, point.longest_wait
