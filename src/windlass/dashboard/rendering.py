"""Renders templates: whole pages, and the regions of a page that live updates replace.

A region is a block whose name begins with `live_`, inside an element with the same id. Templates get `visit`, `page`
(what the page's function returned) and `site`; what is used everywhere is defined here and in `parts.html`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from windlass.core.lifecycle import State
from windlass.core.limit_text import describe_amounts, describe_scope
from windlass.core.times import Micros, format_duration, micros, to_datetime
from windlass.dashboard.svg.bars import draw_share, draw_sparkline
from windlass.dashboard.svg.scales import format_rate
from windlass.dashboard.svg.timeline import draw_timeline
from windlass.dashboard.visit import Visit
from windlass.operations.presentation import escape_controls, format_attempts, format_few, format_span, shorten_handler

LIVE = "live_"
_ICON = Markup('<svg class="icon" aria-hidden="true"><use href="#i-{}"/></svg>')
_STATE = Markup('<span class="state s-{0}"><svg class="icon" aria-hidden="true"><use href="#i-{0}"/></svg>{1}</span>')
_TIME = Markup('<time datetime="{}" data-at="{}">{}<span class="ago"> · {}</span></time>')


@cache
def environment() -> Environment:
    """Return the Jinja environment. Everything that templates print is escaped."""
    found = Environment(
        loader=PackageLoader("windlass.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    names: dict[str, Any] = {"icon": icon, "state": state, "State": State, "percent": format_percent}
    names |= {"attempts_of": format_attempts, "draw_timeline": draw_timeline}
    names |= {
        "few": format_few,
        "duration": duration,
        "iso": format_iso,
        "pace": format_rate,
        "draw_share": draw_share,
        "draw_sparkline": draw_sparkline,
    }
    names |= {"describe_scope": describe_scope, "describe_amounts": describe_amounts}
    found.globals.update(names)
    filters: dict[str, Any] = {"span": span, "number": format_number, "time": format_time, "plain": plain}
    found.filters.update({**filters, "seconds": format_seconds, "percent": format_percent, "short": shorten_handler})
    # Regions are rendered alone, without the imports of their template, so the macros are known everywhere.
    found.globals.update(
        (name, value)
        for name, value in found.get_template("parts.html").module.__dict__.items()
        if not name.startswith("_")
    )
    return found


def render_page(template: str, context: Mapping[str, Any]) -> str:
    """Render a whole page."""
    return environment().get_template(template).render(context)


def render_regions(template: str, context: Mapping[str, Any]) -> dict[str, str]:
    """Render each region of a page by its id."""
    found = environment().get_template(template)
    base = environment().get_template("base.html")
    return {**_regions(base, context), **_regions(found, context)}


def _regions(template: Template, context: Mapping[str, Any]) -> dict[str, str]:
    values = template.new_context(dict(context))
    return {name: "".join(block(values)) for name, block in template.blocks.items() if name.startswith(LIVE)}


def icon(name: str) -> Markup:
    """Return an icon of the sprite in `base.html`. It says nothing that the text next to it does not."""
    return _ICON.format(name)


def state(value: State | str, count: int | None = None) -> Markup:
    """Return the glyph and the name of a state, with a number of tasks if one is given."""
    name = State(value).value
    return _STATE.format(name, name if count is None else f"{format_number(count)} {name}")


@pass_context
def format_time(context: Context, at: Micros | None) -> Markup | str:
    """Return a moment as a clock time and an age, which the browser keeps up to date. Not for use in macros."""
    if at is None:
        return "–"
    times = context["visit"].times
    moment = to_datetime(at).astimezone(UTC).isoformat()
    return _TIME.format(moment, at // 1_000, times.format_clock(at), times.format_age(at))


def span(value: Micros | None) -> str:
    """Return a duration in its largest unit."""
    return "–" if value is None else format_span(max(0, value))


def format_seconds(value: float | None) -> str:
    """Return a number of seconds as a duration in its largest unit."""
    return "–" if value is None else format_span(max(0, round(value * 1_000_000)))


def format_number(value: float | None) -> str:
    """Return a number with separators; one decimal if it is small and not whole."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if abs(value) < 10 and value % 1 else f"{value:,.0f}"


def format_iso(at: Micros) -> str:
    """Return a moment as forms take it."""
    return to_datetime(at).isoformat(sep=" ", timespec="seconds")


def duration(value: timedelta) -> str:
    """Return a duration as forms take it, such as 1h30m."""
    return format_duration(micros(value))


def format_percent(value: float | None) -> str:
    """Return a share as a percentage."""
    return "–" if value is None else f"{value:.0%}"


def plain(text: object) -> Markup:
    """Return text of tasks with control characters as escapes, so that they cannot reorder what is read."""
    return escape(escape_controls(str(text)))


def context_of(visit: Visit, page: Any, site: Any, **more: Any) -> dict[str, Any]:
    """Return what a template can use."""
    return {"visit": visit, "page": page, "site": site, **more}
