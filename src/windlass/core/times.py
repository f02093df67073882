"""Times inside Windlass are integers: microseconds since 1970, UTC.

An integer is exact, ordered, cheap, and the same in Python, SQLite and PostgreSQL. The public API takes `datetime` and
`timedelta`, which are converted here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from windlass.core.names import check_type, shorten
from windlass.errors import InvalidTask

Duration: TypeAlias = timedelta | float | str
"""A duration as callers write it: a `timedelta`, seconds, or text such as "30s", "10m", "1h30m"."""

Micros: TypeAlias = int
"""An instant (microseconds since 1970, UTC) or a duration in microseconds; the variable's name says which."""

FOREVER: Micros = 2**63 - 1
"""Later than every instant. The largest integer that both databases can store."""

EARLIEST: Micros = 0
"""The start of 1970. An earlier time counts as this one: whatever was due then is due now."""

LATEST: Micros = 253_402_300_799_999_999
"""The end of the year 9999. Later times are refused."""

LONGEST = timedelta(days=3_650)
"""The longest duration that a caller may give."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)"
_TEXT = re.compile(rf"\s*{_PART}(?:\s*{_PART})*\s*")


def micros(duration: timedelta) -> Micros:
    """Convert a duration to microseconds."""
    return duration // _MICROSECOND


def span(duration: timedelta, field: str) -> Micros:
    """Convert a duration to microseconds. Raise `InvalidTask` if it is out of range."""
    check_type(field, duration, timedelta, "pass a timedelta")
    if not timedelta(0) <= duration <= LONGEST:
        raise InvalidTask(f"{field}={duration!r} is out of range. Use zero to ten years.")
    return micros(duration)


def to_instant(moment: datetime) -> Micros:
    """Convert a `datetime` to microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(instant: Micros) -> datetime:
    """Convert microseconds since 1970 to a `datetime` in UTC.

    An instant outside `EARLIEST` to `LATEST`, which only a damaged database contains, becomes the nearest one inside.
    So it can be shown.
    """
    return _EPOCH + timedelta(microseconds=min(max(instant, EARLIEST), LATEST))


def when(moment: object, now: Micros, field: str) -> Micros | None:
    """Convert a caller's value of `field` to an instant: a `datetime` with a time zone, or a `timedelta` from now.

    The result is within `EARLIEST` and `LATEST`.
    """
    if moment is None:
        return None
    if isinstance(moment, timedelta):
        instant = now + moment // _MICROSECOND
    elif isinstance(moment, datetime) and moment.utcoffset() is not None:
        instant = to_instant(moment)
    else:
        raise InvalidTask(f"{field}={shorten(moment)} is not a time. Pass a timedelta or a datetime with a time zone.")
    if instant > LATEST:
        raise InvalidTask(f"{field}={shorten(moment)} is after the year 9999. Use an earlier time.")
    return max(instant, EARLIEST)


def duration(value: object, field: str) -> timedelta:
    """Convert a caller's duration to a `timedelta`: a `timedelta`, seconds, or text such as "30s" or "1h30m"."""
    if isinstance(value, timedelta):
        return value
    seconds: object = value
    if isinstance(value, str) and len(value) < 100 and _TEXT.fullmatch(value):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, value))
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and abs(seconds) < 1e12:
        return timedelta(seconds=seconds)
    raise InvalidTask(f'{field}={shorten(value)} is not a duration. Pass a timedelta, seconds, or text such as "30s".')


def format_duration(duration: Micros) -> str:
    """Format a duration as text that `duration` reads back exactly, such as "1h30m"."""
    seconds, rest = divmod(duration, 1_000_000)
    parts = [f"{rest / 1_000:g}ms"] if rest else []
    for unit, size in (("s", 60), ("m", 60), ("h", 24)):
        seconds, count = divmod(seconds, size)
        parts += [f"{count}{unit}"] if count else []
    parts += [f"{seconds}d"] if seconds else []
    return "".join(reversed(parts)) or "0s"


def moment(value: object, field: str) -> datetime | timedelta:
    """Convert a caller's time to an aware `datetime`: a `datetime` with a time zone, or a duration from now."""
    if not isinstance(value, datetime):
        length = duration(value, field)
        if length > LONGEST and not isinstance(value, timedelta):
            raise InvalidTask(
                f"{field}={shorten(value)} is more than ten years from now. Numbers are seconds from now; "
                "for a point in time, pass a datetime with a time zone."
            )
        return length
    if value.utcoffset() is None:
        raise InvalidTask(f"{field}={value!r} has no time zone. Pass a datetime with one.")
    return value
