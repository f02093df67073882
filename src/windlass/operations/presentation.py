"""How states and times look to people, wherever they are shown: glyphs, the colours of light and dark, moments.

Colour never stands alone: glyph and word are always there. A moment is always shown both ways, in a zone and by how
long ago it was. Pure, so that the command line, the terminal pages and the dashboard say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import tzinfo

from msgspec import Struct

from windlass.core.lifecycle import State
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


class Palette(Struct, frozen=True, kw_only=True):
    """Colours that were computed to stay readable and apart, for all kinds of sight. Brass is for what decides."""

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
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Times(Struct, frozen=True, kw_only=True):
    """One moment to count from, and the zone to show others in; None is the machine's own."""

    now: Micros
    zone: tzinfo | None = None

    def both(self, instant: Micros | None) -> str:
        """A moment, absolute and relative, as in `14:02:11 +01:00 · 3 min ago`; with its date if that is not today."""
        if instant is None:
            return "–"
        return f"{self.at(instant)} · {self.ago(instant)}"

    def at(self, instant: Micros) -> str:
        """A moment in the zone."""
        moment, today = (to_datetime(each).astimezone(self.zone) for each in (instant, self.now))
        date = "" if moment.date() == today.date() else f"{moment:%Y-%m-%d} "
        offset = moment.strftime("%z")
        return f"{date}{moment:%H:%M:%S} {offset[:3]}:{offset[3:5]}"

    def ago(self, instant: Micros) -> str:
        """How far away a moment is, in words."""
        distance = self.now - instant
        if abs(distance) < 1_000_000:
            return "now"
        return f"{length(abs(distance))} ago" if distance > 0 else f"in {length(-distance)}"


def length(span: Micros) -> str:
    """A length of time in its largest unit.

    >>> length(90_000_000), length(250_000)
    ('1.5 min', '0.25 s')
    """
    seconds = span / 1_000_000
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds / size < 10 else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.2g} s"


def sparkline(values: list[float]) -> str:
    """Numbers as bars, the largest as the highest; nothing at all is the lowest line.

    >>> sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    top = max(values, default=0)
    return "".join(_BARS[min(7, int(value / top * 7 + 0.5)) if top > 0 else 0] for value in values)


def tame(text: str) -> str:
    """What others have written, without what would steer a terminal."""
    return _CONTROL.sub("�", text)
