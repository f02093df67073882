"""Time as the engine sees it: a whole number of microseconds since 1970, UTC.

One integer is exact, ordered, the same in Python, SQLite and PostgreSQL, and cheap enough for every row. People and
the public API say `datetime` and `timedelta`; they are converted here, once, at the edge.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from windlass.core.names import check_type, shorten
from windlass.errors import InvalidTask

Duration: TypeAlias = timedelta | float | str
"""A length of time as people write it: a `timedelta`, seconds, or text such as "30s", "10m", "1h30m"."""

Micros: TypeAlias = int
"""An instant (microseconds since 1970, UTC) or a duration, as the name of the variable says."""

FOREVER: Micros = 2**63 - 1
"""Later than every instant; the largest integer both databases can hold."""

LATEST: Micros = 253_402_300_799_999_999
"""The last moment of the year 9999, beyond which no time is taken."""

LONGEST = timedelta(days=3_650)
"""The longest time that anything may be told to take."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)"
_TEXT = re.compile(rf"\s*{_PART}(?:\s*{_PART})*\s*")


def micros(duration: timedelta) -> Micros:
    """A duration as microseconds."""
    return duration // _MICROSECOND


def span(duration: timedelta, field: str) -> Micros:
    """What a caller wrote for a length of time, or a refusal that names it."""
    check_type(field, duration, timedelta, "pass a timedelta")
    if not timedelta(0) <= duration <= LONGEST:
        raise InvalidTask(f"{field}={duration!r} is out of range; give zero to ten years")
    return micros(duration)


def to_instant(moment: datetime) -> Micros:
    """A point in time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(instant: Micros) -> datetime:
    """The inverse of `to_instant`, in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def when(moment: object, now: Micros, field: str) -> Micros | None:
    """What a caller wrote for `field`, as an instant: a `datetime` with zone stands, a `timedelta` counts from now."""
    if moment is None:
        return None
    if isinstance(moment, timedelta):
        instant = now + moment // _MICROSECOND
    elif isinstance(moment, datetime) and moment.utcoffset() is not None:
        instant = to_instant(moment)
    else:
        raise InvalidTask(f"{field}={shorten(moment)} is not a time; pass a timedelta or a datetime with a time zone")
    if not -LATEST <= instant <= LATEST:
        raise InvalidTask(f"{field}={shorten(moment)} is beyond the year 9999; give a time that will come")
    return instant


def duration(value: object, field: str) -> timedelta:
    """What a caller wrote for a length of time: a `timedelta`, seconds, or text such as "30s" or "1h30m"."""
    if isinstance(value, timedelta):
        return value
    seconds: object = value
    if isinstance(value, str) and len(value) < 100 and _TEXT.fullmatch(value):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, value))
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and abs(seconds) < 1e12:
        return timedelta(seconds=seconds)
    raise InvalidTask(f'{field}={shorten(value)} is not a length of time; pass a timedelta, seconds, or text as "30s"')


def format_duration(duration: Micros) -> str:
    """A length of time as text that `duration` takes back exactly, such as "1h30m"."""
    seconds, rest = divmod(duration, 1_000_000)
    parts = [f"{rest / 1_000:g}ms"] if rest else []
    for unit, size in (("s", 60), ("m", 60), ("h", 24)):
        seconds, count = divmod(seconds, size)
        parts += [f"{count}{unit}"] if count else []
    parts += [f"{seconds}d"] if seconds else []
    return "".join(reversed(parts)) or "0s"


def moment(value: object, field: str) -> datetime | timedelta:
    """What a caller wrote for a point in time: a `datetime` with a zone, or a length of time from now."""
    if not isinstance(value, datetime):
        length = duration(value, field)
        if length > LONGEST and not isinstance(value, timedelta):
            raise InvalidTask(
                f"{field}={shorten(value)} is more than ten years from now; numbers count seconds from now: "
                "for a point in time pass a datetime with a time zone"
            )
        return length
    if value.utcoffset() is None:
        raise InvalidTask(f"{field}={value!r} has no time zone; give a datetime with one")
    return value
