"""Which runs of a cron fall into a change of the clocks, and what happens to them then. Pure, but for the zone's data.

On the day the clocks go forward some local times do not exist; on the day they go back some come twice. What is told
here is not a rule written a second time: the same library that fires crons is asked for the days in question.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import takewhile

from cronsim import CronSim
from msgspec import Struct

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


class Change(Struct, frozen=True, kw_only=True):
    """One change of the clocks, and what it does to a schedule."""

    day: date
    kind: str
    """`missing` or `twice`."""
    changed: str
    """From when to when the clocks go."""
    times: list[str]
    """The local times of the schedule that do not exist, or come twice."""
    runs: list[datetime]
    """When it runs in their place."""
    text: str


def changes(schedule: str, zone: tzinfo, start: datetime, years: int) -> list[Change]:
    """Every change of the clocks that touches the schedule, in order."""
    found = (_touched(schedule, zone, moment) for moment in _turns(zone, start, start + years * 365 * _DAY))
    return [each for each in found if each is not None]


def _turns(zone: tzinfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The moments at which the zone's offset changes: found by days, then by halving down to the minute."""
    low = start.astimezone(UTC).replace(second=0, microsecond=0)
    while low < end:
        high = low + _DAY
        if _offset(low, zone) != _offset(high, zone):
            yield _turn(low, high, zone)
        low = high


def _turn(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    before = _offset(low, zone)
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
    return high


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _touched(schedule: str, zone: tzinfo, moment: datetime) -> Change | None:
    before, after = _offset(moment - _MINUTE, zone), _offset(moment, zone)
    width = abs(after - before)
    # By the wall clock: what is between these two either never comes or comes twice.
    first = moment.replace(tzinfo=None) + min(before, after)
    hit = list(takewhile(lambda each: each < first + width, CronSim(schedule, first - timedelta(seconds=1))))
    if not hit:
        return None
    forward = after > before
    begin = moment if forward else moment - width
    runs = _runs(schedule, zone, begin, moment + width)
    stands, goes = (moment.replace(tzinfo=None) + offset for offset in (before, after))
    times = [f"{each:%H:%M}" for each in hit]
    return Change(
        day=stands.date(),
        kind="missing" if forward else "twice",
        changed=f"{stands:%H:%M} → {goes:%H:%M}",
        times=times,
        runs=runs,
        text=_missing(times, runs) if forward else _twice(times, runs),
    )


def _runs(schedule: str, zone: tzinfo, begin: datetime, end: datetime) -> list[datetime]:
    """When the schedule really runs within some time."""
    start = (begin - timedelta(seconds=1)).astimezone(zone)
    return list(takewhile(lambda each: each < end, CronSim(schedule, start)))


def _missing(times: list[str], runs: list[datetime]) -> str:
    verb = "does" if len(times) == 1 else "do"
    head = f"{few(times)} {verb} not exist"
    return f"{head}: it runs at {few([_shown(each) for each in runs])}" if runs else f"{head}, and is left out"


def _twice(times: list[str], runs: list[datetime]) -> str:
    head = f"{few(times)} {'comes' if len(times) == 1 else 'come'} twice"
    how = "once" if len(runs) <= len(times) else "both times"
    return f"{head}: it runs {how}, at {few([_shown(each) for each in runs])}"


def _shown(moment: datetime) -> str:
    offset = moment.strftime("%z")
    return f"{moment:%H:%M} {offset[:3]}:{offset[3:5]}"


def few(words: list[str]) -> str:
    """Some of them, and how many more there are."""
    return ", ".join(words[:6]) + (f" and {len(words) - 6} more" if len(words) > 6 else "")
