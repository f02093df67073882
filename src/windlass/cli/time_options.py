"""Times as people read them: always both, the moment in a zone and how long ago it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click

from windlass.cli.stores import clock
from windlass.core.times import Micros, duration, to_instant
from windlass.errors import InvalidTask
from windlass.operations.presentation import Times, length

__all__ = ["Times", "length", "named_zone", "since", "tz_option", "when"]


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
