"""The chart of the page Now: arrivals, completions, failures and workers on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from enum import StrEnum

from windlass.core.times import Micros, micros
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.time_chart import Layer, Line, Ticks, TimeChart, draw_time_chart
from windlass.stores.series import Point, Resolution

SECOND = 1_000_000


class Span(StrEnum):
    """How far back the chart goes."""

    QUARTER = "15m"
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    TWO_DAYS = "48h"

    @property
    def length(self) -> timedelta:
        """Return the time that the chart covers."""
        return {
            "15m": timedelta(minutes=15),
            "1h": timedelta(hours=1),
            "6h": timedelta(hours=6),
            "24h": timedelta(days=1),
            "48h": timedelta(days=2),
        }[self.value]

    @property
    def bucket(self) -> Micros:
        """Return the time that one point of a line covers."""
        return {"15m": 10, "1h": 60, "6h": 300, "24h": 900, "48h": 1_800}[self.value] * SECOND

    @property
    def resolution(self) -> Resolution:
        """Return which points of the store it is made from."""
        return Resolution.SECOND if self is Span.QUARTER else Resolution.MINUTE


def draw_load(
    points: Sequence[Point],
    span: Span,
    now: Micros,
    *,
    zone: tzinfo | None,
    sizes: Sequence[tuple[Micros, float | None]] = (),
) -> Markup:
    """Draw what happened in a span. `sizes` are the workers of all pools, as steps."""
    end = now // span.bucket * span.bucket
    start = end - micros(span.length)
    buckets = _join(points, span.bucket, start, end)
    seconds = span.bucket / SECOND
    layers: list[Layer] = [
        Line(
            label="arrived",
            look="arrivals",
            points=[(at, found.arrived / seconds) for at, found in buckets],
            unit="/s",
        ),
        Line(
            label="completed",
            look="completions",
            points=[(at, found.completed / seconds) for at, found in buckets],
            unit="/s",
            area=True,
        ),
        Ticks(label="failed", look="failures", points=[(at, found.failed) for at, found in buckets if found.failed]),
    ]
    if sizes:
        layers.append(Line(label="workers", look="workers", points=sizes, steps=True, axis="right"))
    return draw_time_chart(
        TimeChart(title="Does work get done as fast as it arrives?", start=start, end=end, layers=layers, zone=zone)
    )


def _join(points: Sequence[Point], bucket: Micros, start: Micros, end: Micros) -> list[tuple[Micros, Point]]:
    """Return every bucket between the two moments with what happened in it. The store leaves out empty points."""
    found = {at: Point(at=at) for at in range(start, end, bucket)}
    for point in points:
        at = point.at // bucket * bucket
        if at in found:
            found[at].add(point)
    return list(found.items())


def add_steps(histories: Sequence[Sequence[tuple[Micros, float | None]]]) -> list[tuple[Micros, float | None]]:
    """Add up the sizes of several pools, each as steps, into those of all of them. None is an unknown size."""
    moments = sorted({at for steps in histories for at, _ in steps})
    found: list[tuple[Micros, float | None]] = []
    for moment in moments:
        sizes = [_value_at(steps, moment) for steps in histories]
        known = [size for size in sizes if size is not None]
        found.append((moment, sum(known) if len(known) == len(sizes) else None))
    return found


def _value_at(steps: Sequence[tuple[Micros, float | None]], moment: Micros) -> float | None:
    return next((value for at, value in reversed(steps) if at <= moment), None)
