"""Find runs of a cron that a change of the clocks skips, moves or repeats.

When the clocks go forward, some local times do not exist; when they go back, some occur twice. The runs come from the
library that also fires crons, so they cannot differ from what happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import takewhile

from cronsim import CronSim
from msgspec import Struct

from windlass.operations.presentation import format_few

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


class ClockChange(Struct, frozen=True, kw_only=True):
    """One change of the clocks and its effect on a cron."""

    day: date
    kind: str
    """`missing` or `twice`."""
    changed: str
    """The local times before and after the change."""
    times: list[str]
    """The local times of the schedule that do not exist or occur twice."""
    runs: list[datetime]
    """When the cron runs instead."""
    text: str


def find_clock_changes(schedule: str, zone: tzinfo, start: datetime, years: int) -> list[ClockChange]:
    """Return the changes of the clocks that affect the schedule, in order."""
    found = (_affect(schedule, zone, moment) for moment in _transitions(zone, start, start + years * 365 * _DAY))
    return [each for each in found if each is not None]


def _transitions(zone: tzinfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield when the offset of the zone changes: search day by day, then by bisection to the minute."""
    low = start.astimezone(UTC).replace(second=0, microsecond=0)
    while low < end:
        high = low + _DAY
        if _offset(low, zone) != _offset(high, zone):
            yield _bisect(low, high, zone)
        low = high


def _bisect(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    before = _offset(low, zone)
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
    return high


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _affect(schedule: str, zone: tzinfo, moment: datetime) -> ClockChange | None:
    before, after = _offset(moment - _MINUTE, zone), _offset(moment, zone)
    width = abs(after - before)
    # The local times from here on, for the width of the change, either do not exist or occur twice.
    first = moment.replace(tzinfo=None) + min(before, after)
    hit = list(takewhile(lambda each: each < first + width, CronSim(schedule, first - timedelta(seconds=1))))
    if not hit:
        return None
    forward = after > before
    begin = moment if forward else moment - width
    runs = _runs(schedule, zone, begin, moment + width)
    old, new = (moment.replace(tzinfo=None) + offset for offset in (before, after))
    times = [f"{each:%H:%M}" for each in hit]
    return ClockChange(
        day=old.date(),
        kind="missing" if forward else "twice",
        changed=f"{old:%H:%M} → {new:%H:%M}",
        times=times,
        runs=runs,
        text=_missing(times, runs) if forward else _twice(times, runs),
    )


def _runs(schedule: str, zone: tzinfo, begin: datetime, end: datetime) -> list[datetime]:
    """Return when the schedule runs between two times."""
    start = (begin - timedelta(seconds=1)).astimezone(zone)
    return list(takewhile(lambda each: each < end, CronSim(schedule, start)))


def _missing(times: list[str], runs: list[datetime]) -> str:
    verb = "does" if len(times) == 1 else "do"
    head = f"{format_few(times, 6)} {verb} not exist"
    return f"{head}: it runs at {format_few([_format(each) for each in runs], 6)}" if runs else f"{head} and is skipped"


def _twice(times: list[str], runs: list[datetime]) -> str:
    head = f"{format_few(times, 6)} {'occurs' if len(times) == 1 else 'occur'} twice"
    how = "once" if len(runs) <= len(times) else "both times"
    return f"{head}: it runs {how}, at {format_few([_format(each) for each in runs], 6)}"


def _format(moment: datetime) -> str:
    offset = moment.strftime("%z")
    return f"{moment:%H:%M} {offset[:3]}:{offset[3:5]}"
