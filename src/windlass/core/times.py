"""Time as the engine sees it: a whole number of microseconds since 1970, UTC.

One integer is exact, ordered, the same in Python, SQLite and PostgreSQL, and cheap enough for every row. People and
the public API say `datetime` and `timedelta`; they are converted here, once, at the edge.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from windlass.errors import InvalidTask

Micros: TypeAlias = int
"""An instant (microseconds since 1970, UTC) or a duration, as the name of the variable says."""

FOREVER: Micros = 2**63 - 1
"""Later than every instant; the largest integer both databases can hold."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(duration: timedelta) -> Micros:
    """A duration as microseconds."""
    return duration // _MICROSECOND


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
        return now + moment // _MICROSECOND
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return to_instant(moment)
    wanted = "a timedelta from now or a datetime with a time zone"
    raise InvalidTask(f"{field}={moment!r} is not a time; give {wanted}")
