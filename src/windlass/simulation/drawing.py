"""Lines, areas and scales of a chart as SVG text. Numbers in, text out; whatever is written is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, log10

from msgspec import Struct

LEFT, RIGHT = 56, 936
POINTS = 440
"""How many points a line has: one for two pixels."""
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds that may lie between two marks of the time axis."""


class Panel(Struct, frozen=True):
    """Values from 0 to `most`, drawn from `bottom` up to `top`."""

    most: float
    top: int
    bottom: int

    def get_y(self, value: float) -> float:
        """The height of a value; what is too large is cut off at the top."""
        return self.bottom - (self.bottom - self.top) * min(value, self.most) / self.most

    def draw_frame(self) -> list[str]:
        """The card, and marks at the top and at the middle of the scale."""
        wide, high = RIGHT - LEFT, self.bottom - self.top
        return [
            f'<rect class="card" x="{LEFT}" y="{self.top}" width="{wide}" height="{high}" rx="4"/>',
            f'<path class="grid" d="M{LEFT} {self.get_y(self.most / 2):.1f}H{RIGHT}"/>',
            *(draw_text(LEFT - 8, self.get_y(each) + 4, f"{each:g}", side="end") for each in (0, self.most / 2, self.most)),
        ]

    def place_points(self, values: Sequence[float]) -> list[tuple[float, float]]:
        """Where the values lie; each stands over the time that it is about."""
        wide = (RIGHT - LEFT) / max(1, len(values))
        return [(LEFT + at * wide, self.get_y(value)) for at, value in enumerate(values)]

    def draw_line(self, values: Sequence[float], look: str) -> str:
        """The values as a staircase."""
        return f'<path class="{look}" d="{draw_stairs(self.place_points(values))}"/>'

    def draw_area(self, values: Sequence[float], look: str) -> str:
        """What lies below them."""
        return f'<path class="{look}" d="{draw_stairs(self.place_points(values))}V{self.bottom}H{LEFT}Z"/>'

    def draw_between(self, upper: Sequence[float], lower: Sequence[float], look: str) -> str:
        """What lies between two staircases."""
        rects: list[str] = []
        wide = (RIGHT - LEFT) / max(1, len(upper))
        for (x, high), (_, low) in zip(self.place_points(upper), self.place_points(lower), strict=True):
            if low - high > 0.05:
                rects.append(f"M{x:.1f} {high:.1f}h{wide:.2f}V{low:.1f}h{-wide:.2f}Z")
        return f'<path class="{look}" d="{"".join(rects)}"/>'


def draw_stairs(points: Sequence[tuple[float, float]]) -> str:
    """A path that stays on each value until the next one begins; a value that does not change needs no point."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"] if points else [f"M{LEFT} 0"]
    last = points[0][1] if points else 0.0
    for x, y in points[1:]:
        if abs(y - last) >= 0.05:
            path.append(f"H{x:.1f}V{y:.1f}")
            last = y
    return "".join(path) + f"H{RIGHT}"


def draw_text(x: float, y: float, words: str, look: str = "", side: str = "start") -> str:
    """Words at a place."""
    marks = (f' class="{look}"' if look else "") + (f' text-anchor="{side}"' if side != "start" else "")
    return f'<text x="{x:g}" y="{y:.1f}"{marks}>{escape(words)}</text>'


def draw_line_key(x: float, y: float, look: str, words: str) -> list[str]:
    """A piece of a line, and what it is."""
    return [f'<path class="{look}" d="M{x:g} {y - 4:g}h24"/>', draw_text(x + 30, y, words)]


def draw_area_key(x: float, y: float, look: str, words: str) -> list[str]:
    """A piece of an area, and what it is."""
    return [f'<rect class="{look}" x="{x:g}" y="{y - 9:g}" width="24" height="10"/>', draw_text(x + 30, y, words)]


def draw_time_axis(length: int, panels: Sequence[Panel]) -> list[str]:
    """Round times from the beginning of the run, as lines through all panels and as words below the last."""
    step = next((each for each in TICKS if length / each <= 10), TICKS[-1] * ceil(length / TICKS[-1] / 10))
    parts: list[str] = []
    for second in range(0, length + 1, step):
        x = LEFT + (RIGHT - LEFT) * second / length
        if 0 < second < length:
            lines = "".join(f"M{x:.1f} {panel.top}V{panel.bottom}" for panel in panels)
            parts.append(f'<path class="grid" d="{lines}"/>')
        parts.append(draw_text(round(x, 1), panels[-1].bottom + 20, format_clock(second), side="middle"))
    return parts


def format_clock(second: int) -> str:
    """Hours and minutes since the beginning."""
    return f"{second // 3600}:{second // 60 % 60:02}"


def reduce_points(values: Sequence[float], of: Callable[[Sequence[float]], float]) -> list[float]:
    """As many values as can be told apart."""
    step = max(1, ceil(len(values) / POINTS))
    return [of(values[at : at + step]) for at in range(0, len(values), step)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def round_scale(most: float) -> float:
    """The next larger round number, for the top of a scale."""
    power = 10.0 ** (ceil(log10(most)) - 1)
    return next(step * power for step in (1, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10, 20) if step * power >= most * 0.9999)
