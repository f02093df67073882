"""Draw the result of a simulation: an SVG chart, or an HTML page with a chart, numbers and ledger for each policy.

The files need no scripts, fonts or requests, and follow the reader's light or dark color scheme. Lines differ in stroke
and have labels, so that no meaning depends on color alone. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, log10
from pathlib import Path

from msgspec import Struct

from windlass.simulation.load import InvalidLoad
from windlass.simulation.run import Resize, SimulationResult, Timeline

LEFT, RIGHT = 56, 936
POINTS = 440
"""Points of a line: one for every two pixels."""
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Possible distances between two marks of the time axis, in seconds."""
WIDTH, HEIGHT = 960, 640
LOAD, SIZE, WAITS = (116, 216), (268, 436), (488, 596)
"""The top and bottom of each panel."""
CUT = 4.0
"""Waits are cut off at this multiple of the goal, so that the rest stays visible."""
SVG_STYLE = """
.w{color-scheme:light dark;--ground:#F7F6F2;--card:#FFFFFF;--ink:#14212B;--quiet:#52616B;--line:#DAD7CE;
--brass:#8A5A00;--load:#1463D0;--size:#0B18C0;--good:#0D7A52;--bad:#801C0C;background:var(--ground);
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums}
@media (prefers-color-scheme:dark){.w{--ground:#0E171E;--card:#15222B;--ink:#E8EEF1;--quiet:#9DB0BB;--line:#2A3B46;
--brass:#E0A83A;--load:#50E6F0;--size:#8395FF;--good:#A3E8C4;--bad:#F07A52}}
.w text{font-size:12px;fill:var(--quiet)}.w .t{font-size:19px;font-weight:600;fill:var(--ink)}
.w .h{font-size:13px;font-weight:600;fill:var(--ink)}.w .n{font-size:13px}.w .g{fill:var(--brass);font-weight:600}
.w .ground{fill:var(--ground)}.w .card{fill:var(--card)}.w path{fill:none;stroke-linejoin:round}
.w .grid{stroke:var(--line)}.w path.la{fill:var(--load);fill-opacity:.14}.w .ll{stroke:var(--load);stroke-width:1.2}
.w .sl{stroke:var(--size);stroke-width:2}.w .sa{fill:var(--size);fill-opacity:.25}
.w .nl{stroke:var(--ink);stroke-width:1.6;stroke-dasharray:.1 3.6;stroke-linecap:round}
.w path.wa{fill:var(--good);fill-opacity:.16}.w .wl{stroke:var(--good);stroke-width:1.2}
.w path.ba{fill:var(--bad);fill-opacity:.35}.w .bl{stroke:var(--bad);stroke-width:1.6}
.w .gl{stroke:var(--brass);stroke-width:1.6;stroke-dasharray:7 4}.w .halo{stroke:var(--card);stroke-width:4;
paint-order:stroke;stroke-linejoin:round}
"""
MOST_LINES = 500
"""Ledger lines on a page."""
HEADS = ("policy", "setting", "late", "p50 wait", "p99 wait", "longest wait", "cost", "resizes/h", "recovery", "score")
PAGE_STYLE = """
:root{color-scheme:light dark;--ground:#F7F6F2;--card:#FFFFFF;--ink:#14212B;--quiet:#52616B;--line:#DAD7CE}
@media (prefers-color-scheme:dark){:root{--ground:#0E171E;--card:#15222B;--ink:#E8EEF1;--quiet:#9DB0BB;--line:#2A3B46}}
body{margin:0 auto;max-width:1040px;padding:24px;background:var(--ground);color:var(--ink);
font:14px/20px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums}
h1{font-size:20px;line-height:28px}figure{margin:32px 0 8px}svg{display:block;width:100%;height:auto}
.wide{overflow-x:auto}table{border-collapse:collapse;background:var(--card)}
th,td{padding:4px 12px;border:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--quiet);font-weight:600}td:first-child,th:first-child,.why{text-align:left}
summary{cursor:pointer;color:var(--quiet);padding:8px 0}p{color:var(--quiet)}
"""


class Panel(Struct, frozen=True):
    """A panel of the chart: values from 0 to `most`, drawn from `bottom` to `top`."""

    most: float
    top: int
    bottom: int

    def get_y(self, value: float) -> float:
        """Return the y position of a value. Values above `most` are cut off at the top."""
        return self.bottom - (self.bottom - self.top) * min(value, self.most) / self.most

    def draw_frame(self) -> list[str]:
        """Draw the background, and marks at the top and middle of the scale."""
        wide, high = RIGHT - LEFT, self.bottom - self.top
        return [
            f'<rect class="card" x="{LEFT}" y="{self.top}" width="{wide}" height="{high}" rx="4"/>',
            f'<path class="grid" d="M{LEFT} {self.get_y(self.most / 2):.1f}H{RIGHT}"/>',
            *(
                draw_text(LEFT - 8, self.get_y(each) + 4, f"{each:g}", side="end")
                for each in (0, self.most / 2, self.most)
            ),
        ]

    def place_points(self, values: Sequence[float]) -> list[tuple[float, float]]:
        """Return the position of each value, at the start of its time."""
        wide = (RIGHT - LEFT) / max(1, len(values))
        return [(LEFT + at * wide, self.get_y(value)) for at, value in enumerate(values)]

    def draw_line(self, values: Sequence[float], look: str) -> str:
        """Draw the values as a stepped line."""
        return f'<path class="{look}" d="{draw_stairs(self.place_points(values))}"/>'

    def draw_area(self, values: Sequence[float], look: str) -> str:
        """Fill the area below the values."""
        return f'<path class="{look}" d="{draw_stairs(self.place_points(values))}V{self.bottom}H{LEFT}Z"/>'

    def draw_between(self, upper: Sequence[float], lower: Sequence[float], look: str) -> str:
        """Fill the area between two stepped lines."""
        rects: list[str] = []
        wide = (RIGHT - LEFT) / max(1, len(upper))
        for (x, high), (_, low) in zip(self.place_points(upper), self.place_points(lower), strict=True):
            if low - high > 0.05:
                rects.append(f"M{x:.1f} {high:.1f}h{wide:.2f}V{low:.1f}h{-wide:.2f}Z")
        return f'<path class="{look}" d="{"".join(rects)}"/>'


def draw_stairs(points: Sequence[tuple[float, float]]) -> str:
    """Return the path of a stepped line. Equal values in a row share one point."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"] if points else [f"M{LEFT} 0"]
    last = points[0][1] if points else 0.0
    for x, y in points[1:]:
        if abs(y - last) >= 0.05:
            path.append(f"H{x:.1f}V{y:.1f}")
            last = y
    return "".join(path) + f"H{RIGHT}"


def draw_text(x: float, y: float, words: str, look: str = "", side: str = "start") -> str:
    """Draw text at a position."""
    marks = (f' class="{look}"' if look else "") + (f' text-anchor="{side}"' if side != "start" else "")
    return f'<text x="{x:g}" y="{y:.1f}"{marks}>{escape(words)}</text>'


def draw_line_key(x: float, y: float, look: str, words: str) -> list[str]:
    """Draw the legend of a line."""
    return [f'<path class="{look}" d="M{x:g} {y - 4:g}h24"/>', draw_text(x + 30, y, words)]


def draw_area_key(x: float, y: float, look: str, words: str) -> list[str]:
    """Draw the legend of an area."""
    return [f'<rect class="{look}" x="{x:g}" y="{y - 9:g}" width="24" height="10"/>', draw_text(x + 30, y, words)]


def draw_time_axis(length: int, panels: Sequence[Panel]) -> list[str]:
    """Draw round times since the start: lines through all panels, and labels below the last one."""
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
    """Format a second of the run as hours and minutes."""
    return f"{second // 3600}:{second // 60 % 60:02}"


def reduce_points(values: Sequence[float], of: Callable[[Sequence[float]], float]) -> list[float]:
    """Reduce the values to the points of a line."""
    step = max(1, ceil(len(values) / POINTS))
    return [of(values[at : at + step]) for at in range(0, len(values), step)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def round_scale(most: float) -> float:
    """Return the next larger round number, for the top of a scale."""
    power = 10.0 ** (ceil(log10(most)) - 1)
    return next(step * power for step in (1, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10, 20) if step * power >= most * 0.9999)


def draw_svg(result: SimulationResult, number: int = 0) -> str:
    """Draw the whole chart. `number` makes its element ids unique on a page."""
    title = " ".join(f"{result.load} · {result.policy} {result.setting}".split())
    numbers = summarize(result)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="w" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title}: {numbers}")}">',
        f"<style>{SVG_STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        draw_text(LEFT, 40, title, "t"),
        draw_text(LEFT, 64, numbers, "n"),
        *draw_panels(result, number),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def summarize(result: SimulationResult) -> str:
    """Return the numbers of the run in one line."""
    recovery = "" if result.recovery is None else f" · recovery {result.recovery:.0f} s"
    return (
        f"{result.late:.2%} of {result.tasks:,} tasks late · p99 wait {result.wait_p99:.1f} s · "
        f"cost {result.cost:.2f} × the clairvoyant bound · {result.resizes_per_hour:.0f} resizes per hour{recovery}"
    )


def draw_panels(result: SimulationResult, number: int) -> list[str]:
    """Draw the panels for load, size and waits. Backgrounds come first, so that the lines are on top."""
    line = result.timeline
    arrivals = reduce_points(line.arrivals, mean)
    load = Panel(round_scale(max([1e-9, *arrivals])), *LOAD)
    alive = [ready + starting for ready, starting in zip(line.ready, line.starting, strict=True)]
    size = Panel(round_scale(1.02 * max([1.0, *alive, *line.needed])), *SIZE)
    waits = Panel(round_scale(max(1.3 * result.goal, min(max([0.0, *line.waits]), CUT * result.goal))), *WAITS)
    return [
        *(part for panel in (load, size, waits) for part in panel.draw_frame()),
        *draw_time_axis(max(1, len(line.ready)), (load, size, waits)),
        draw_text(LEFT, LOAD[0] - 10, "Load, tasks per second", "h"),
        load.draw_area(arrivals, "la"),
        load.draw_line(arrivals, "ll"),
        *draw_sizes(size, line, alive),
        *draw_waits(waits, line.waits, result.goal, number),
    ]


def draw_sizes(panel: Panel, line: Timeline, alive: Sequence[int]) -> list[str]:
    """Draw the workers that were ready, starting and needed."""
    ready, y = reduce_points(line.ready, max), panel.top - 10
    return [
        panel.draw_between(reduce_points(alive, max), ready, "sa"),
        panel.draw_line(ready, "sl"),
        panel.draw_line(reduce_points(line.needed, mean), "nl"),
        draw_text(LEFT, y, "Workers", "h"),
        *draw_line_key(LEFT + 72, y, "sl", "ready"),
        *draw_area_key(LEFT + 148, y, "sa", "starting"),
        *draw_line_key(LEFT + 238, y, "nl", "needed, if every task were known in advance"),
    ]


def draw_waits(panel: Panel, waits: Sequence[float], goal: float, number: int) -> list[str]:
    """Draw the waits and the goal. Waits above the goal have another color."""
    values, longest = reduce_points(waits, max), max([0.0, *waits])
    at, y = panel.get_y(goal), panel.top - 10
    cut = ", above the chart" if longest > panel.most else ""
    return [
        *clip(f"below-{number}", at, panel.bottom, [panel.draw_area(values, "wa"), panel.draw_line(values, "wl")]),
        *clip(f"above-{number}", panel.top - 1, at, [panel.draw_area(values, "ba"), panel.draw_line(values, "bl")]),
        f'<path class="gl" d="M{LEFT} {at:.1f}H{RIGHT}"/>',
        draw_text(RIGHT - 6, at - 7, f"goal {goal:g} s", "g halo", "end"),
        draw_text(LEFT, y, "Longest wait, seconds", "h"),
        draw_text(RIGHT, y, f"maximum {longest:.1f} s{cut}", side="end"),
    ]


def clip(name: str, top: float, bottom: float, parts: Sequence[str]) -> list[str]:
    """Clip these parts to the space between two heights."""
    box = f'<rect x="{LEFT}" y="{top:.1f}" width="{RIGHT - LEFT}" height="{bottom - top:.1f}"/>'
    return [f'<clipPath id="{name}">{box}</clipPath>', f'<g clip-path="url(#{name})">', *parts, "</g>"]


def write_chart(path: Path, results: Sequence[SimulationResult]) -> None:
    """Write a chart file: `.svg` shows the first result, `.html` all of them."""
    if path.suffix not in (".svg", ".html"):
        raise InvalidLoad(f"Unknown file type chart={str(path)!r}. Use a name that ends in .svg or .html.")
    content = draw_svg(results[0]) if path.suffix == ".svg" else render_page(results)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InvalidLoad(f"Cannot write chart={str(path)!r}: {error}") from None


def render_page(results: Sequence[SimulationResult]) -> str:
    """Return an HTML page that needs no other file."""
    title = escape(f"{results[0].load}: {len(results)} {'policy' if len(results) == 1 else 'policies'}")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{title} · windlass pool simulate</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>",
            f"<h1>{title}</h1>",
            render_table(HEADS, [format_cells(result) for result in results]),
            "<p>Cost is relative to the clairvoyant bound; a score of 1 is the limit.</p>",
            *(
                f"<figure>{draw_svg(each, at)}</figure>\n{render_ledger(each.ledger)}"
                for at, each in enumerate(results)
            ),
            "</body>\n</html>\n",
        ]
    )


def format_cells(result: SimulationResult) -> list[str]:
    """Return one row of the table."""
    return [
        result.policy,
        result.setting,
        f"{result.late:.2%}",
        f"{result.wait_p50:.1f} s",
        f"{result.wait_p99:.1f} s",
        f"{result.wait_max:.1f} s",
        f"{result.cost:.2f}",
        f"{result.resizes_per_hour:.1f}",
        format_seconds(result.recovery),
        f"{result.score:.2f}",
    ]


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with these rows."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def render_ledger(resizes: Sequence[Resize]) -> str:
    """Return a folded list of every change of size with its reason."""
    rows = "".join(
        f"<tr><td>{at.second // 3600}:{at.second // 60 % 60:02}:{at.second % 60:02}</td><td>{at.before}→{at.after}</td>"
        f'<td class="why">{escape(at.why)}</td></tr>\n'
        for at in resizes[:MOST_LINES]
    )
    more = f"<p>and {len(resizes) - MOST_LINES:,} more</p>" if len(resizes) > MOST_LINES else ""
    return f"<details><summary>{len(resizes):,} resizes</summary>\n<table>\n{rows}</table>{more}</details>"


def format_seconds(value: float | None) -> str:
    """Format seconds, or a dash for None."""
    return "–" if value is None else f"{value:.0f} s"
