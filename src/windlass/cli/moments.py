"""Times as people read them: always both, the moment in a zone and how long ago it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click
from msgspec import Struct

from windlass.cli.stores import clock
from windlass.core.times import Micros, duration, to_datetime, to_instant
from windlass.errors import InvalidTask

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


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


def _zone(_context: click.Context, _option: click.Parameter, value: str | None) -> Times:
    return Times(now=clock().now(), zone=None if value is None else named_zone(value))


def named_zone(name: str) -> tzinfo:
    """A time zone by its name, or a refusal that says what one looks like."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTask(f"tz={name!r} is not a time zone; give a name such as Europe/Berlin") from None


tz_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--tz",
    "times",
    metavar="ZONE",
    envvar="WINDLASS_TZ",
    callback=_zone,
    help="Show times in this zone, as in Europe/Berlin.  [default: the machine's]",
)


def when(text: str, field: str) -> datetime | timedelta:
    """A moment as people write it: ISO 8601, in this machine's zone if it names none; or a time from now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return duration(text, field)
    return moment if moment.tzinfo is not None else moment.astimezone()


def since(text: str, now: Micros) -> Micros:
    """Where to begin: so long ago, or a moment."""
    found = when(text, "since")
    return to_instant(found) if isinstance(found, datetime) else now - found // timedelta(microseconds=1)
