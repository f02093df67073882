"""Draw the steps of a workflow over time: waiting hatched, working solid, and a line for the deadline.

Like `time_chart`, it fills the width of its place: bars are placed by percentages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.dashboard.svg.elements import Markup, element
from windlass.dashboard.svg.graph import cut_text, shorten_name
from windlass.dashboard.svg.scales import find_span_ticks
from windlass.operations.presentation import GLYPHS, format_span
from windlass.operations.workflow_rows import Bar

ROW, TOP, BAR = 30, 28, 8
"""The height of a row, of the axis above, and of a bar. The name of a step is above its bar."""
NAME = 22
"""How many characters of a name are shown."""
LEAST = 0.3
"""The smallest bar that is still visible, in percent."""


def draw_gantt(
    bars: Sequence[Bar],
    *,
    start: Micros,
    end: Micros,
    title: str,
    deadline: Micros | None = None,
    link: Callable[[Bar], str | None] = lambda _: None,
) -> Markup:
    """Draw a bar for each row. The axis shows the time since `start`."""
    last = max(end, start + 1)
    if deadline is not None and deadline <= last + (last - start):  # One far ahead would squeeze the bars.
        last = max(last, deadline)
    span = last - start
    height = TOP + ROW * len(bars) + 8

    def percent(moment: Micros) -> float:
        return min(100.0, max(0.0, (moment - start) * 100 / span))

    parts = [element("title", title), element("desc", _describe(bars, start)), _hatch()]
    for tick in find_span_ticks(span, count=5):
        x = tick * 100 / span
        if tick:
            parts.append(_line(x, "gantt-grid", height))
        side = "end" if x > 92 else None if x < 1 else "middle"
        label = format_span(tick) if tick else "0"
        if deadline is None or abs(x - percent(deadline)) > 12:
            parts.append(element("text", label, class_="gantt-time", x=f"{x:.2f}%", y=14, text_anchor=side))
    for index, bar in enumerate(bars):
        parts.append(_row(bar, TOP + ROW * index, percent, link(bar)))
    if deadline is not None and deadline <= last:
        x = percent(deadline)
        parts.append(_line(x, "gantt-deadline", height))
        side = "end" if x > 50 else "start"
        shift = -4 if x > 50 else 4
        label = element(
            "text", "deadline", class_="gantt-deadline-label", x=f"{x:.2f}%", dx=shift, y=14, text_anchor=side
        )
        parts.append(label)
    return element("svg", *parts, class_="gantt", width="100%", height=height, role="group")


def _row(bar: Bar, y: float, percent: Callable[[Micros], float], href: str | None) -> Markup:
    ready, ended = percent(bar.ready), percent(bar.ended)
    began = ended if bar.began is None else percent(bar.began)
    words = f"{bar.name}: {bar.state.value}, {_times(bar)}" + (", on the critical path" if bar.critical else "")
    side = "end" if ready > 60 else None
    name = f"{GLYPHS[bar.state]} {cut_text(shorten_name(bar.name, NAME), NAME)}"
    parts = [
        element("title", words),
        element("rect", class_="gantt-row", x=0, y=y, width="100%", height=ROW),
        element(
            "text",
            name,
            element("tspan", f"  {_took(bar)}", class_="gantt-took"),
            class_="gantt-name",
            x=f"{max(ended, began):.2f}%" if side else f"{ready:.2f}%",
            y=y + 12,
            text_anchor=side,
        ),
    ]
    if began > ready:
        parts.append(_bar(ready, began, y, "gantt-waited"))
    if bar.began is not None:
        parts.append(_bar(began, max(ended, began + LEAST), y, f"gantt-worked state-{bar.state.value}"))
    look = "gantt-step critical" if bar.critical else "gantt-step"
    return element("a", *parts, class_=look, href=href) if href else element("g", *parts, class_=look)


def _bar(left: float, right: float, y: float, look: str) -> Markup:
    left = min(left, 100 - LEAST)
    width = max(LEAST, min(right, 100) - left)
    return element("rect", class_=look, x=f"{left:.2f}%", y=y + 17, width=f"{width:.2f}%", height=BAR, rx=1)


def _line(x: float, look: str, height: float) -> Markup:
    return element("line", class_=look, x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=TOP - 8, y2=height)


def _hatch() -> Markup:
    stripe = element("path", class_="gantt-stripe", d="M-1 1l2 -2M0 6l6 -6M5 7l2 -2")
    pattern = element("pattern", stripe, id="gantt-hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def _took(bar: Bar) -> str:
    if bar.began is not None:
        return format_span(bar.worked)
    return "" if bar.state is State.WAITING else bar.state.value


def _times(bar: Bar) -> str:
    if bar.began is None:
        return "has not run"
    return f"waited {format_span(max(0, bar.began - bar.ready))}, worked {format_span(bar.worked)}"


def _describe(bars: Sequence[Bar], start: Micros) -> str:
    listed = [f"{bar.name} from {format_span(max(0, bar.ready - start))}: {_times(bar)}" for bar in bars[:20]]
    more = f"; and {len(bars) - 20} more" if len(bars) > 20 else ""
    return "; ".join(listed) + more
