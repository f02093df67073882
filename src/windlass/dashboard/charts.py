"""Layers of time charts from what a store records about queues: rates, failures and waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from windlass.core.times import Micros
from windlass.dashboard.svg.time_chart import Line, Ticks
from windlass.stores.series import SECONDS_KEPT, Point, Resolution

MOST_POINTS = 120


def choose_resolution(last: timedelta) -> Resolution:
    """Return the finest resolution that a store keeps for so long."""
    return Resolution.SECOND if last <= SECONDS_KEPT else Resolution.MINUTE


class Buckets:
    """The points of a series, added up so that at most `MOST_POINTS` cover the time from `start` to `end`.

    The store leaves out points in which nothing happened. Here they count as 0. The last bucket is left out until it is
    over, because it would always look too low.
    """

    def __init__(self, points: Iterable[Point], resolution: Resolution, start: Micros, end: Micros) -> None:
        steps = max(1, -(-(end - start) // (resolution * MOST_POINTS)))
        self.width: Micros = steps * resolution
        first, last = start // self.width + 1, end // self.width
        self._sums = [Point(at=number * self.width) for number in range(first, last)]
        for point in points:
            place = point.at // self.width - first
            if 0 <= place < len(self._sums):
                self._sums[place].add(point)

    def __len__(self) -> int:
        return len(self._sums)

    def rates(self, value: Callable[[Point], int]) -> list[tuple[Micros, float | None]]:
        """Return a number per second for each bucket, in its middle."""
        seconds = self.width / 1_000_000
        return [(each.at + self.width // 2, value(each) / seconds) for each in self._sums]

    def waits(self, value: Callable[[Point], Micros | None]) -> list[tuple[Micros, float | None]]:
        """Return a time in seconds for each bucket; a gap where nothing started."""
        return [
            (each.at + self.width // 2, None if not each.started else (value(each) or 0) / 1_000_000)
            for each in self._sums
        ]

    def counts(self, value: Callable[[Point], int]) -> list[tuple[Micros, int]]:
        """Return a number for each bucket."""
        return [(each.at + self.width // 2, value(each)) for each in self._sums]


def rate_layers(buckets: Buckets) -> Sequence[Line | Ticks]:
    """Return arrivals and completions per second, and failures."""
    return (
        Line(label="arrivals", look="arrivals", unit="/s", points=buckets.rates(lambda each: each.arrived)),
        Line(label="completions", look="completions", unit="/s", points=buckets.rates(lambda each: each.completed)),
        Ticks(label="failures", look="failures", points=buckets.counts(lambda each: each.failed)),
    )


def wait_layers(buckets: Buckets) -> Sequence[Line]:
    """Return how long tasks waited before they started: the longest, and the mean."""
    return (
        Line(label="longest wait", look="waits", unit="s", points=buckets.waits(lambda each: each.longest_wait)),
        Line(label="mean wait", look="before", unit="s", points=buckets.waits(lambda each: each.mean_wait)),
    )
