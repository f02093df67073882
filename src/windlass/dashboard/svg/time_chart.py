"""Draw several series on one clock: lines, steps, a band, ticks and markers.

The chart fills the width of its place and keeps its height. Its shapes are in an inner coordinate system that is
stretched, its texts are placed by percentages, so the same markup is readable on a phone and on a wall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from windlass.core.times import Micros
from windlass.dashboard.svg.elements import Markup, element, number
from windlass.dashboard.svg.scales import (
    find_rate_unit,
    find_ticks,
    find_time_ticks,
    format_number,
    format_rate,
    format_tick,
)
from windlass.operations.presentation import Times

Axis: TypeAlias = Literal["left", "right"]
WIDTH, HEIGHT = 1000.0, 100.0
"""The inner coordinate system."""
TOP, BOTTOM = 20, 22
"""Pixels above and below the plot, for labels."""
MOST_POINTS = 500
"""A longer series is thinned to about this many points."""
BUCKETS = 48
"""How many times have a tooltip and a row in the table."""
TICK_HEIGHT = 7.0
EMPTY_HEIGHT = 110
RATE = "/s"
"""The unit of rates, which are shown per minute or per hour if they are low."""
NOTHING = "Nothing was recorded in this time."


class Line(Struct, frozen=True, kw_only=True):
    """A line through points in order of time. A value of None is a gap."""

    label: str
    look: str
    """The CSS class that gives it a color and a stroke."""
    points: Sequence[tuple[Micros, float | None]]
    unit: str = ""
    steps: bool = False
    """Whether each value holds until the next point."""
    axis: Axis = "left"
    area: bool = False
    """Whether the area below is filled."""


class Band(Struct, frozen=True, kw_only=True):
    """A range that changes over time, such as a forecast: (moment, lower value, upper value)."""

    label: str
    look: str
    points: Sequence[tuple[Micros, float, float]]
    unit: str = ""
    axis: Axis = "left"


class Ticks(Struct, frozen=True, kw_only=True):
    """Events that are counted, as ticks at the bottom: (moment, how many)."""

    label: str
    look: str
    points: Sequence[tuple[Micros, int]]


class Marker(Struct, frozen=True, kw_only=True):
    """A vertical line at one moment, with a label."""

    at: Micros
    label: str
    look: str = "marker"


Layer: TypeAlias = Line | Band | Ticks


class Link(Protocol):
    """Finds the rows behind a column of a chart."""

    def __call__(self, start: Micros, end: Micros, *, ticks: bool) -> str:
        """Return the address of the list of what happened then, or of the events if the column has `ticks`."""
        ...


class TimeChart(Struct, frozen=True, kw_only=True):
    """What a chart shows, from `start` to `end`."""

    title: str
    """The question that it answers."""
    start: Micros
    end: Micros
    layers: Sequence[Layer]
    markers: Sequence[Marker] = ()
    height: int = 220
    zone: tzinfo | None = None
    whole: bool = False
    """Whether the left axis counts things, so that its marks are whole numbers."""
    cap: float | None = None
    """The largest value that the left axis shows. What is above it is cut off at the top."""
    goal: float | None = None
    """A value of the left axis to mark with a line across."""
    goal_label: str = ""
    link: Link | None = None
    """Where a column leads."""


def draw_time_chart(chart: TimeChart) -> Markup:
    """Draw the chart with its legend, and its numbers as a table that opens below it."""
    drawing = _Drawing(chart)
    rows = drawing.rows()
    return element(
        "figure",
        element("figcaption", chart.title, class_="chart-title"),
        _legend(chart, drawing),
        drawing.svg(rows),
        _table(chart, rows),
        class_="chart",
    )


class _Drawing:
    """One chart with its scales."""

    def __init__(self, chart: TimeChart) -> None:
        self._chart = chart
        self._span = max(1, chart.end - chart.start)
        self._layers = [_thin(layer, chart.start, chart.end) for layer in chart.layers]
        self.empty = not any(_values(layer) for layer in self._layers)
        self._scales = {axis: self._scale(axis) for axis in ("left", "right")}

    def svg(self, rows: Sequence[tuple[Micros, list[str]]]) -> Markup:
        chart = self._chart
        height = min(chart.height, EMPTY_HEIGHT) if self.empty else chart.height
        inner = height - TOP - BOTTOM
        parts = [element("title", chart.title), element("desc", self.describe())]
        if self.empty:
            parts.append(_text("50%", TOP + inner / 2, NOTHING, "chart-empty", "middle"))
        else:
            parts += [
                self._shapes(inner, "chart-grid", self._grid()),
                self._shapes(inner, "chart-plot", self._plot()),
                self._shapes(inner, "chart-hits", self._hits(rows), hidden=False),
                *self._value_labels(inner),
                *self._marker_labels(),
            ]
        parts += self._time_labels(inner)
        role = "img" if self.empty else "group"  # The parts of an image would not be read.
        return element("svg", *parts, class_="chart-svg", width="100%", height=height, role=role)

    def describe(self) -> str:
        """Return the chart in words: the latest value of each series."""
        if self.empty:
            return NOTHING
        latest = [f"{layer.label}: {self.latest(layer)}" for layer in self._chart.layers]
        return f"From {self._clock(self._chart.start)} to {self._clock(self._chart.end)}. Latest values: " + "; ".join(
            latest
        )

    def latest(self, layer: Layer) -> str:
        """Format the latest value of a series; of ticks, their sum."""
        return _latest(layer)

    def rows(self) -> list[tuple[Micros, list[str]]]:
        """Return the values of all series at regular times."""
        if self.empty:
            return []
        width = self._span / BUCKETS
        edges = [self._chart.start + round(width * index) for index in range(BUCKETS + 1)]
        columns = [_sample(layer, edges) for layer in self._chart.layers]
        return [(edges[index], [column[index] for column in columns]) for index in range(BUCKETS)]

    def _scale(self, axis: str) -> list[float]:
        found = [value for layer in self._layers if _axis(layer) == axis for value in _values(layer)]
        if axis == "left" and self._chart.goal is not None:
            found.append(self._chart.goal)
        if not found:
            return []
        most = max(found) or 1.0
        if axis == "left" and self._chart.cap is not None:
            most = min(most, self._chart.cap)
        if self._unit(axis) == RATE:
            _, seconds = find_rate_unit(most)
            return [tick / seconds for tick in find_ticks(most * seconds, count=4)]
        if axis == "right":  # Steps at the very top would cross the labels.
            return find_ticks(most * 1.1, count=4, whole=True)
        return find_ticks(most, count=4, whole=self._chart.whole)

    def _x(self, at: Micros) -> float:
        return min(1.0, max(0.0, (at - self._chart.start) / self._span)) * WIDTH

    def _y(self, value: float, axis: str) -> float:
        scale = self._scales[axis]
        return HEIGHT - HEIGHT * min(1.0, max(0.0, value / scale[-1])) if scale else HEIGHT

    def _shapes(self, height: float, look: str, shapes: Sequence[Markup], *, hidden: bool = True) -> Markup:
        return element(
            "svg",
            *shapes,
            class_=look,
            y=TOP,
            width="100%",
            height=height,
            viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
            preserveAspectRatio="none",
            aria_hidden="true" if hidden else None,
        )

    def _grid(self) -> list[Markup]:
        axis = "left" if self._scales["left"] else "right"
        lines = "".join(f"M0 {number(self._y(tick, axis))}H{WIDTH:g}" for tick in self._scales[axis][1:])
        base = _path("chart-base", f"M0 {HEIGHT:g}H{WIDTH:g}")
        return [_path("chart-line", lines), base] if lines else [base]

    def _plot(self) -> list[Markup]:
        found: list[Markup] = []
        order = (Band, Line, Ticks)
        for layer in sorted(self._layers, key=lambda each: order.index(type(each))):
            if isinstance(layer, Band):
                found.append(self._band(layer))
            elif isinstance(layer, Line):
                found += self._line(layer)
            else:
                ticks = "".join(
                    f"M{number(self._x(at))} {HEIGHT:g}v{number(-TICK_HEIGHT)}" for at, count in layer.points if count
                )
                found.append(_path(f"chart-ticks {layer.look}", ticks))
        if self._chart.goal is not None:
            y = number(self._y(self._chart.goal, "left"))
            found.append(_path("chart-goal", f"M0 {y}H{WIDTH:g}"))
        for marker in self._chart.markers:
            found.append(_path(f"chart-marker {marker.look}", f"M{number(self._x(marker.at))} 0V{HEIGHT:g}"))
        return found

    def _line(self, layer: Line) -> list[Markup]:
        runs = _runs(layer.points, hold=layer.steps)
        open_end = bool(layer.points) and layer.points[-1][1] is not None
        stroke, fill = "", ""
        for run in runs:
            points = [(self._x(at), self._y(value, layer.axis)) for at, value in run]
            if layer.steps and open_end and run is runs[-1]:
                points.append((WIDTH, points[-1][1]))
            path = _steps(points) if layer.steps else _straight(points)
            stroke += path
            fill += f"{path}V{HEIGHT:g}H{number(points[0][0])}Z"
        kind = "chart-step" if layer.steps else "chart-run"
        drawn = [_path(f"{kind} {layer.look}", stroke)]
        return [_path(f"chart-area {layer.look}", fill), *drawn] if layer.area else drawn

    def _band(self, layer: Band) -> Markup:
        upper = [(self._x(at), self._y(high, layer.axis)) for at, _, high in layer.points]
        lower = [(self._x(at), self._y(low, layer.axis)) for at, low, _ in reversed(layer.points)]
        path = _straight(upper) + "L" + _straight(lower)[1:] + "Z" if upper else ""
        return _path(f"chart-band {layer.look}", path)

    def _hits(self, rows: Sequence[tuple[Micros, list[str]]]) -> list[Markup]:
        """Return the columns, which can be pointed at and have the focus: the last one at first, then by arrow keys."""
        width = WIDTH / max(1, len(rows))
        found: list[Markup] = []
        link = self._chart.link
        for index, (at, values) in enumerate(rows):
            known = [
                f"{layer.label} {value}"
                for layer, value in zip(self._chart.layers, values, strict=True)
                if value not in ("", "0")
            ]
            words = " · ".join([self._clock(at), *known])
            box = element("rect", x=index * width, y=0, width=width, height=HEIGHT)
            stop = 0 if index == len(rows) - 1 else -1
            if link is None:
                found.append(element("g", box, class_="chart-hit", tabindex=stop, role="img", aria_label=words))
                continue
            ticks = any(
                isinstance(layer, Ticks) and value not in ("", "0")
                for layer, value in zip(self._chart.layers, values, strict=True)
            )
            href = link(at, self._chart.start + round(self._span / BUCKETS * (index + 1)), ticks=ticks)
            found.append(element("a", box, class_="chart-hit", href=href, tabindex=stop, aria_label=words))
        return found

    def _value_labels(self, inner: float) -> list[Markup]:
        found: list[Markup] = []
        for axis, x, side in (("left", "0", "start"), ("right", "100%", "end")):
            unit = self._unit(axis)
            for index, tick in enumerate(self._scales[axis]):
                if not index:
                    continue
                label = _label(tick, unit, self._scales[axis][-1])
                y = TOP + inner * self._y(tick, axis) / HEIGHT - 4
                found.append(_text(x, y, label, "chart-value", side))
        if self._chart.goal is not None and self._chart.goal_label:
            y = TOP + inner * self._y(self._chart.goal, "left") / HEIGHT - 4
            found.append(_text("50%", y, self._chart.goal_label, "chart-goal-label", "middle"))
        return found

    def _unit(self, axis: str) -> str:
        """Return what an axis measures. A right axis without a unit counts what its only series is called."""
        own = [layer for layer in self._layers if _axis(layer) == axis]
        unit = next((_unit(layer) for layer in own if _unit(layer)), "")
        return own[0].label if not unit and axis == "right" and len(own) == 1 else unit

    def _marker_labels(self) -> list[Markup]:
        found: list[Markup] = []
        last = -1_000.0
        for marker in sorted(self._chart.markers, key=lambda each: each.at):
            x = self._x(marker.at)
            if x - last < WIDTH / 8:  # The line has no room for its label; the ledger lists it.
                continue
            side = "start" if x < WIDTH * 0.1 else "end" if x > WIDTH * 0.9 else "middle"
            found.append(_text(f"{number(x / 10)}%", 12, marker.label, f"chart-mark-label {marker.look}", side))
            last = x
        return found

    def _time_labels(self, inner: float) -> list[Markup]:
        ticks = find_time_ticks(self._chart.start, self._chart.end, zone=self._chart.zone)
        found: list[Markup] = []
        for tick in ticks:
            x = self._x(tick) / 10
            side = "start" if x < 4 else "end" if x > 96 else "middle"
            label = format_tick(tick, ticks, self._chart.zone)
            found.append(_text(f"{number(x)}%", TOP + inner + 16, label, "chart-time", side))
        return found

    def _clock(self, at: Micros) -> str:
        return Times(now=self._chart.end, zone=self._chart.zone).format_clock(at)


def _legend(chart: TimeChart, drawing: _Drawing) -> Markup:
    items: list[Markup] = []
    for layer in chart.layers:
        if isinstance(layer, Line):
            kind, shape = "chart-step" if layer.steps else "chart-run", "M0 6h24"
        elif isinstance(layer, Band):
            kind, shape = "chart-band", "M1 1h22v10h-22Z"
        else:
            kind, shape = "chart-ticks", "M12 2v8"
        swatch = element(
            "svg",
            _path(f"{kind} {layer.look}", shape),
            class_="chart-swatch",
            width=24,
            height=12,
            viewBox="0 0 24 12",
            aria_hidden="true",
        )
        latest = "" if drawing.empty else drawing.latest(layer)
        value = Markup("") if drawing.empty else element("b", latest, data_latest=latest)
        items.append(element("li", swatch, " ", layer.label, " ", value))
    # A script writes the moment that is pointed at here, and its values in place of the latest ones.
    items += [] if drawing.empty else [element("li", class_="chart-when")]
    return element("ul", *items, class_="chart-legend")


def _table(chart: TimeChart, rows: Sequence[tuple[Micros, list[str]]]) -> Markup:
    if not rows:
        return Markup("")
    times = Times(now=chart.end, zone=chart.zone)
    heads = [element("th", head, scope="col") for head in ("time", *(layer.label for layer in chart.layers))]
    body = [
        element(
            "tr",
            element("th", times.format_clock(at), scope="row"),
            *(element("td", value or "–") for value in values),
        )
        for at, values in rows
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body), class_="chart-table")
    scroll = element("div", table, class_="chart-scroll", tabindex=0, role="region", aria_label=chart.title)
    return element("details", element("summary", "Show as a table"), scroll, class_="chart-data")


def _sample(layer: Layer, edges: Sequence[Micros]) -> list[str]:
    """Return the value of a series in each bucket: its last one; the sum of ticks."""
    moments = [point[0] for point in layer.points]
    found: list[str] = []
    for start, end in pairwise(edges):
        first, last = bisect_left(moments, start), bisect_left(moments, end)
        if isinstance(layer, Ticks):
            found.append(format_number(sum(count for _, count in layer.points[first:last])))
        elif isinstance(layer, Line):
            inside = [value for _, value in layer.points[first:last] if value is not None]
            held = layer.points[last - 1][1] if layer.steps and last else None
            value = inside[-1] if inside else held
            found.append("" if value is None else _measure(value, layer.unit))
        else:
            found.append(_measure_range(layer, last - 1) if first < last else "")
    return found


def _latest(layer: Layer) -> str:
    if isinstance(layer, Ticks):
        return format_number(sum(count for _, count in layer.points))
    if isinstance(layer, Band):
        return _measure_range(layer, len(layer.points) - 1) if layer.points else ""
    known = [value for _, value in layer.points if value is not None]
    return _measure(known[-1], layer.unit) if known else ""


def _label(tick: float, unit: str, last: float) -> str:
    """Return the label of a mark. The last one has the unit."""
    if unit == RATE:
        name, seconds = find_rate_unit(last)
        return format_number(round(tick * seconds, 9)) + (name if tick == last else "")
    return format_number(tick) + (f" {unit}" if unit and tick == last else "")


def _measure(value: float, unit: str) -> str:
    if unit == RATE:
        return format_rate(value)
    return f"{format_number(round(value, 2))}{f' {unit}' if unit else ''}"


def _measure_range(layer: Band, index: int) -> str:
    _, low, high = layer.points[index]
    if layer.unit == RATE:
        return f"{format_rate(low)} to {format_rate(high)}"
    return f"{format_number(round(low, 1))} to {_measure(round(high, 1), layer.unit)}"


def _thin(layer: Layer, start: Micros, end: Micros) -> Layer:
    """Return a series with at most `MOST_POINTS` points: of each short time the largest value."""
    if len(layer.points) <= MOST_POINTS or not isinstance(layer, Line):
        return layer
    width = max(1, (end - start) // MOST_POINTS)
    kept: dict[int, tuple[Micros, float | None]] = {}
    for at, value in layer.points:
        bucket = (at - start) // width
        known = kept.get(bucket)
        if known is None or known[1] is None or (value is not None and value > known[1]):
            kept[bucket] = (at, value)
    points = [kept[bucket] for bucket in sorted(kept)]
    return Line(
        label=layer.label,
        look=layer.look,
        points=points,
        unit=layer.unit,
        steps=layer.steps,
        axis=layer.axis,
        area=layer.area,
    )


def _values(layer: Layer) -> list[float]:
    if isinstance(layer, Line):
        return [value for _, value in layer.points if value is not None]
    if isinstance(layer, Band):
        return [high for _, _, high in layer.points]
    return [count for _, count in layer.points if count]


def _axis(layer: Layer) -> str:
    return "" if isinstance(layer, Ticks) else layer.axis


def _unit(layer: Layer) -> str:
    return "" if isinstance(layer, Ticks) else layer.unit


def _runs(points: Sequence[tuple[Micros, float | None]], *, hold: bool) -> list[list[tuple[Micros, float]]]:
    """Split a series at its gaps. With `hold`, a value holds until the gap begins."""
    found: list[list[tuple[Micros, float]]] = []
    open_ = False
    for at, value in points:
        if value is None:
            if open_ and hold:
                found[-1].append((at, found[-1][-1][1]))
            open_ = False
            continue
        if not open_:
            found.append([])
            open_ = True
        found[-1].append((at, value))
    return found


def _straight(points: Sequence[tuple[float, float]]) -> str:
    if not points:
        return ""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return path if len(points) > 1 else path + "h0.1"  # A single point is drawn as a dot.


def _steps(points: Sequence[tuple[float, float]]) -> str:
    path = f"M{number(points[0][0])} {number(points[0][1])}"
    level = points[0][1]
    for x, y in points[1:]:
        path += f"H{number(x)}"
        if abs(y - level) >= 0.05:
            path += f"V{number(y)}"
            level = y
    return path


def _path(look: str, path: str) -> Markup:
    return element("path", class_=look.strip(), d=path)


def _text(x: str, y: float, words: str, look: str, side: str = "start") -> Markup:
    return element("text", words, x=x, y=y, class_=look, text_anchor=None if side == "start" else side)
