"""Charts of the load: arrivals, completions, failures and workers on one clock, and how long tasks waited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from enum import StrEnum

from windlass.core.filter import AGE, STATE, Condition, Op, Pattern, Query
from windlass.core.lifecycle import State
from windlass.core.times import Micros, micros
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.time_chart import Layer, Line, Link, Ticks, TimeChart, draw_time_chart
from windlass.dashboard.visit import Visit
from windlass.stores.series import Point, Resolution

SECOND = 1_000_000


class Span(StrEnum):
    """How far back the chart goes."""

    FIVE_MINUTES = "5m"
    QUARTER = "15m"
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    TWO_DAYS = "48h"

    @property
    def length(self) -> timedelta:
        """Return the time that the chart covers."""
        return {
            "5m": timedelta(minutes=5),
            "15m": timedelta(minutes=15),
            "1h": timedelta(hours=1),
            "6h": timedelta(hours=6),
            "24h": timedelta(days=1),
            "48h": timedelta(days=2),
        }[self.value]

    @property
    def bucket(self) -> Micros:
        """Return the time that one point of a line covers."""
        return {"5m": 5, "15m": 10, "1h": 60, "6h": 300, "24h": 900, "48h": 1_800}[self.value] * SECOND

    @property
    def resolution(self) -> Resolution:
        """Return which points of the store it is made from."""
        return Resolution.SECOND if self in (Span.FIVE_MINUTES, Span.QUARTER) else Resolution.MINUTE


def draw_load(
    points: Sequence[Point],
    span: Span,
    now: Micros,
    *,
    zone: tzinfo | None,
    sizes: Sequence[tuple[Micros, float | None]] = (),
    sizes_label: str = "workers",
    link: Link | None = None,
) -> Markup:
    """Draw what happened in a span. `sizes` are the workers of all pools, as steps."""
    start, end = find_ends(span, now)
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
        layers.append(Line(label=sizes_label, look="workers", points=sizes, steps=True, axis="right"))
    return draw_time_chart(
        TimeChart(
            title="Does work get done as fast as it arrives?",
            start=start,
            end=end,
            layers=layers,
            zone=zone,
            link=link,
        )
    )


def draw_waits(
    points: Sequence[Point], span: Span, now: Micros, *, zone: tzinfo | None, goal: float, link: Link | None = None
) -> Markup:
    """Draw how long tasks waited before they started, and the goal in seconds if it fits on the scale."""
    start, end = find_ends(span, now)
    started = [(at, found if found.started else None) for at, found in _join(points, span.bucket, start, end)]
    longest = [(at, None if found is None else found.longest_wait / SECOND) for at, found in started]
    mean = [(at, None if found is None else (found.mean_wait or 0) / SECOND) for at, found in started]
    near = max((value or 0.0 for _, value in longest), default=0.0) >= goal / 4
    return draw_time_chart(
        TimeChart(
            title=f"How long do tasks wait? The goal is {goal:g} s",
            start=start,
            end=end,
            layers=[
                Line(label="longest wait", look="waits", points=longest, unit="s"),
                Line(label="mean wait", look="before", points=mean, unit="s"),
            ],
            zone=zone,
            goal=goal if near else None,
            goal_label=f"goal {goal:g} s",
            link=link,
        )
    )


def link_tasks(visit: Visit, queues: Sequence[str] = ()) -> Link:
    """Return where the columns of a chart lead: to the tasks that were submitted then, of some queues or of all.

    Filters know when a task was submitted, not when it failed. So failures lead to the failed tasks that were submitted
    before the end of the column, newest first: those that failed in it are among them.
    """
    pattern = tuple(Pattern((name,)) for name in queues)
    among = (Condition(field="queue", op=Op.IS, values=pattern),) if queues else ()
    failed = Condition(field=STATE, op=Op.IS, values=(Pattern((State.FAILED.value,)),))

    def find(start: Micros, end: Micros, *, ticks: bool) -> str:
        after = _age(Op.AT_LEAST, visit.now - end)
        conditions = (failed, *among, after) if ticks else (*among, _age(Op.AT_MOST, visit.now - start), after)
        return visit.url("tasks", q=str(Query(conditions)))

    return find


def _age(op: Op, age: Micros) -> Condition:
    return Condition(field=AGE, op=op, values=(max(0, age // SECOND * SECOND),))


def find_ends(span: Span, now: Micros) -> tuple[Micros, Micros]:
    """Return the start and the end of a chart. A bucket that is not over would look too low, so it is left out."""
    end = now // span.bucket * span.bucket
    return end - micros(span.length), end


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
    changes = sorted(
        ((at, number, value) for number, steps in enumerate(histories) for at, value in steps),
        key=lambda change: change[0],
    )
    sizes: list[float | None] = [None] * len(histories)
    found: dict[Micros, float | None] = {}
    for at, number, value in changes:
        sizes[number] = value
        known = [size for size in sizes if size is not None]
        found[at] = sum(known) if len(known) == len(sizes) else None
    return list(found.items())
