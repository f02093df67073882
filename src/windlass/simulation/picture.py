"""A run as one SVG picture: load, size and waits over the same time.

Nothing in it moves, runs or asks for anything outside of itself, and it follows the reader's light or dark scheme. No
meaning rests on colour alone: lines differ in stroke and are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from windlass.simulation.drawing import LEFT, RIGHT, Panel, reduce_points, draw_line_key, mean, round_scale, draw_area_key, draw_text, draw_time_axis
from windlass.simulation.results import SimulationResult, Timeline

WIDTH, HEIGHT = 960, 640
LOAD, SIZE, WAITS = (116, 216), (268, 436), (488, 596)
"""The top and bottom of each panel."""
CUT = 4.0
"""Waits beyond so many goals are cut off, or nothing else could be seen."""

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


def draw_svg(result: SimulationResult, number: int = 0) -> str:
    """The whole picture. Those of one page are numbered, so that none borrows a name of another."""
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
    """The numbers of the run in one line."""
    recovery = "" if result.recovery is None else f" · recovery {result.recovery:.0f} s"
    return (
        f"{result.late:.2%} of {result.tasks:,} tasks late · p99 wait {result.wait_p99:.1f} s · "
        f"cost {result.cost:.2f} × the clairvoyant bound · {result.resizes_per_hour:.0f} resizes an hour{recovery}"
    )


def draw_panels(result: SimulationResult, number: int) -> list[str]:
    """Load, size and waits: the cards and the time first, the lines above them."""
    line = result.timeline
    arrivals = reduce_points(line.arrivals, mean)
    load = Panel(round_scale(max([1e-9, *arrivals])), *LOAD)
    alive = [ready + starting for ready, starting in zip(line.ready, line.starting, strict=True)]
    size = Panel(round_scale(1.02 * max([1.0, *alive, *line.needed])), *SIZE)
    waits = Panel(round_scale(max(1.3 * result.goal, min(max([0.0, *line.waits]), CUT * result.goal))), *WAITS)
    return [
        *(part for panel in (load, size, waits) for part in panel.draw_frame()),
        *draw_time_axis(max(1, len(line.ready)), (load, size, waits)),
        draw_text(LEFT, LOAD[0] - 10, "Load, tasks a second", "h"),
        load.draw_area(arrivals, "la"),
        load.draw_line(arrivals, "ll"),
        *draw_sizes(size, line, alive),
        *draw_waits(waits, line.waits, result.goal, number),
    ]


def draw_sizes(panel: Panel, line: Timeline, alive: Sequence[int]) -> list[str]:
    """How many workers there were, were starting, and would have been enough."""
    ready, y = reduce_points(line.ready, max), panel.top - 10
    return [
        panel.draw_between(reduce_points(alive, max), ready, "sa"),
        panel.draw_line(ready, "sl"),
        panel.draw_line(reduce_points(line.needed, mean), "nl"),
        draw_text(LEFT, y, "Workers", "h"),
        *draw_line_key(LEFT + 72, y, "sl", "ready"),
        *draw_area_key(LEFT + 148, y, "sa", "starting"),
        *draw_line_key(LEFT + 238, y, "nl", "needed, had every task been known ahead"),
    ]


def draw_waits(panel: Panel, waits: Sequence[float], goal: float, number: int) -> list[str]:
    """How long tasks waited, and the goal; what is above it stands out."""
    values, longest = reduce_points(waits, max), max([0.0, *waits])
    at, y = panel.get_y(goal), panel.top - 10
    cut = ", beyond the picture" if longest > panel.most else ""
    return [
        *clip(f"below-{number}", at, panel.bottom, [panel.draw_area(values, "wa"), panel.draw_line(values, "wl")]),
        *clip(f"above-{number}", panel.top - 1, at, [panel.draw_area(values, "ba"), panel.draw_line(values, "bl")]),
        f'<path class="gl" d="M{LEFT} {at:.1f}H{RIGHT}"/>',
        draw_text(RIGHT - 6, at - 7, f"goal {goal:g} s", "g halo", "end"),
        draw_text(LEFT, y, "Longest wait, seconds", "h"),
        draw_text(RIGHT, y, f"the longest of all {longest:.1f} s{cut}", side="end"),
    ]


def clip(name: str, top: float, bottom: float, parts: Sequence[str]) -> list[str]:
    """The parts as far as they lie between two heights."""
    box = f'<rect x="{LEFT}" y="{top:.1f}" width="{RIGHT - LEFT}" height="{bottom - top:.1f}"/>'
    return [f'<clipPath id="{name}">{box}</clipPath>', f'<g clip-path="url(#{name})">', *parts, "</g>"]
