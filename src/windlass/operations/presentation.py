"""Glyphs, colors and time formats that the command line, the terminal UI and the dashboard share.

A color never carries meaning alone: the glyph and the word are always there. A time is always shown as a clock time and
as an age. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.times import Micros, to_datetime

GLYPHS: Mapping[State, str] = {
    State.WAITING: "◇",
    State.SCHEDULED: "◷",
    State.RUNNABLE: "▸",
    State.LEASED: "▶",
    State.RETRYING: "↻",
    State.COMPLETED: "✓",
    State.FAILED: "✗",
    State.CANCELLED: "–",
    State.EXPIRED: "⧗",
}


ANSI: Mapping[State, str] = {
    State.WAITING: "white",
    State.SCHEDULED: "blue",
    State.RUNNABLE: "cyan",
    State.LEASED: "bright_blue",
    State.RETRYING: "yellow",
    State.COMPLETED: "green",
    State.FAILED: "red",
    State.CANCELLED: "bright_black",
    State.EXPIRED: "magenta",
}
"""The color of each state by its ANSI name, for output whose background is unknown."""


class Palette(Struct, frozen=True, kw_only=True):
    """Colors that stay readable and distinct with impaired color vision. Brass marks what is selected."""

    ground: str
    card: str
    ink: str
    quiet: str
    line: str
    brass: str
    states: Mapping[State, str]


LIGHT = Palette(
    ground="#F7F6F2",
    card="#FFFFFF",
    ink="#14212B",
    quiet="#52616B",
    line="#DAD7CE",
    brass="#8A5A00",
    states={
        State.WAITING: "#332C26",
        State.SCHEDULED: "#2C3270",
        State.RUNNABLE: "#1463D0",
        State.LEASED: "#0B18C0",
        State.RETRYING: "#A85506",
        State.COMPLETED: "#0D7A52",
        State.FAILED: "#801C0C",
        State.CANCELLED: "#565C6C",
        State.EXPIRED: "#B01BA2",
    },
)
DARK = Palette(
    ground="#0E171E",
    card="#15222B",
    ink="#E8EEF1",
    quiet="#9DB0BB",
    line="#2A3B46",
    brass="#E0A83A",
    states={
        State.WAITING: "#A99C7A",
        State.SCHEDULED: "#B3B8FF",
        State.RUNNABLE: "#50E6F0",
        State.LEASED: "#8395FF",
        State.RETRYING: "#F6BC0C",
        State.COMPLETED: "#A3E8C4",
        State.FAILED: "#F07A52",
        State.CANCELLED: "#9CAAAB",
        State.EXPIRED: "#DB72C6",
    },
)

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_BARS = "▁▂▃▄▅▆▇█"
_DIRECTION = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_HARMFUL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTION}]")


class Times(Struct, frozen=True, kw_only=True):
    """Formats times relative to `now`, in a zone; None is the zone of this machine."""

    now: Micros
    zone: tzinfo | None = None

    def format(self, instant: Micros | None) -> str:
        """Return the clock time and the age, as in `14:02:11 +01:00 · 3 min ago`; with the date unless it is today."""
        if instant is None:
            return "–"
        return f"{self.format_clock(instant)} · {self.format_age(instant)}"

    def format_clock(self, instant: Micros) -> str:
        """Return the clock time in the zone."""
        moment, today = (to_datetime(each).astimezone(self.zone) for each in (instant, self.now))
        date = "" if moment.date() == today.date() else f"{moment:%Y-%m-%d} "
        offset = moment.strftime("%z")
        return f"{date}{moment:%H:%M:%S} {offset[:3]}:{offset[3:5]}"

    def format_age(self, instant: Micros) -> str:
        """Return how long ago an instant was, or in how long it will be."""
        distance = self.now - instant
        if abs(distance) < 1_000_000:
            return "now"
        return f"{format_span(abs(distance))} ago" if distance > 0 else f"in {format_span(-distance)}"


def format_span(span: Micros) -> str:
    """Format a duration in its largest unit.

    >>> format_span(90_000_000), format_span(250_000), format_span(860)
    ('1.5 min', '0.25 s', '0.86 ms')
    """
    seconds = span / 1_000_000
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds / size < 10 else f"{seconds / size:,.0f} {unit}"
    if 0 < span < 100_000:
        return f"{span / 1_000:.2g} ms" if span < 10_000 else f"{span / 1_000:.0f} ms"
    return f"{seconds:.2g} s"


def shorten_handler(name: str) -> str:
    """Return the last part of a dotted name, which is what people call a handler.

    >>> shorten_handler("shop.orders.pack"), shorten_handler("pack")
    ('pack', 'pack')
    """
    return name.rpartition(".")[2] or name


def format_attempts(task: Task) -> str:
    """Format how often a task ran: its attempts, and the runs that ended with a crash or a lost node, if any."""
    parts = [
        f"{number} {one if number == 1 else more}"
        for number, one, more in ((task.crashes, "crash", "crashes"), (task.losses, "lost node", "lost nodes"))
        if number
    ]
    return f"{task.attempts}" + (f", plus {' and '.join(parts)}" if parts else "")


def format_few(names: Sequence[str], limit: int = 5) -> str:
    """Join the first names, and say how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def draw_sparkline(values: list[float]) -> str:
    """Draw numbers as bars. The largest gets the tallest bar, zero the shortest.

    >>> draw_sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    top = max(values, default=0)
    return "".join(_BARS[min(7, int(value / top * 7 + 0.5)) if top > 0 else 0] for value in values)


def replace_controls(text: str) -> str:
    """Replace control characters, which could move the cursor or recolor the terminal."""
    return _HARMFUL.sub("�", text)


def escape_controls(text: str) -> str:
    """Write control characters, and those that change the direction of text, as escapes. Keep newlines and tabs."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_line(text: str) -> str:
    """Write a text in one line, as `escape_controls` does, with newlines as escapes too."""
    return escape_controls(text).replace("\n", "\\n")


def escape_json(text: str) -> str:
    """Escape the same characters in JSON text, where they can stand in strings only. The value stays the same."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
