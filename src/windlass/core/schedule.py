"""When a cron fires: cron expressions, aliases such as `@daily`, and intervals such as `every 90s`.

An expression is read in the time zone of the cron. A time that does not exist on the day the clocks go forward fires
when it would have been reached; one that occurs twice in autumn fires once, the first time. An interval is elapsed
time: its times are `start`, or else 1970, plus a multiple of its length. So they do not drift, and all nodes agree.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, takewhile
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from windlass.core.manifest import CronInfo, CronState
from windlass.core.names import check_name, check_text, shorten
from windlass.core.retry import storable
from windlass.core.times import (
    EARLIEST,
    LATEST,
    LONGEST,
    Micros,
    duration,
    format_duration,
    micros,
    to_datetime,
    to_instant,
)
from windlass.core.validation import check_priority
from windlass.errors import Conflict, CronExists, InvalidTask, NotAllowed, UnknownCron

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

MISFIRES = ("last", "skip", "all")

_EVERY = re.compile(r"every\s+(\S.*)", re.IGNORECASE)
_FORMS = 'Give five fields as in "30 2 * * *", an alias as in "@daily", or an interval as in "every 90s".'
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def parse(schedule: str) -> str | Micros:
    """Return the cron expression of a schedule, or the length of an interval. Raise `InvalidTask` if it is neither."""
    check_text("schedule", schedule)
    text = schedule.strip()
    if match := _EVERY.fullmatch(text):
        return _interval(schedule, match[1])
    expression = ALIASES.get(text.lower(), text)
    try:
        next(CronSim(expression, _SOME_DAY))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it never fires"
        raise InvalidTask(f"schedule={schedule!r} is not a schedule ({reason}). {_FORMS}") from None
    return expression


def _interval(schedule: str, text: str) -> Micros:
    length = duration(text, "schedule")
    if not timedelta(seconds=1) <= length <= LONGEST or length.microseconds:
        raise InvalidTask(f"schedule={schedule!r}: an interval has whole seconds, at least one and at most ten years.")
    return micros(length)


def check_schedule(schedule: str, tz: str, misfire: str) -> None:
    """Raise `InvalidTask` if the schedule, the time zone or the misfire policy is invalid."""
    parse(schedule)
    check_text("tz", tz)
    if misfire not in MISFIRES:
        raise InvalidTask(f"misfire={shorten(misfire)} is unknown. Use last, skip or all.")
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTask(f"tz={tz!r} is not a time zone. Give a name such as Europe/Berlin.") from None


def explain(schedule: str) -> str:
    """Return a schedule in words."""
    parsed = parse(schedule)
    if isinstance(parsed, str):
        return CronSim(parsed, _SOME_DAY).explain()
    return f"Every {format_duration(parsed)}"


def find_times(cron: CronInfo, after: Micros) -> Iterator[Micros]:
    """Yield the times at which a cron fires, later than `after` and within its start and end."""
    if cron.start is not None:
        after = max(after, cron.start - 1)
    end = LATEST if cron.end is None else cron.end
    parsed = parse(cron.schedule)
    times = _repeat(cron, parsed, after) if isinstance(parsed, int) else _expand(cron, parsed, after)
    return takewhile(lambda moment: moment <= end, times)


def next_time(cron: CronInfo, after: Micros) -> Micros | None:
    """Return when a cron fires next after a time; None if never."""
    return next(find_times(cron, after), None)


def find_missed(cron: CronInfo, after: Micros, until: Micros, most: int) -> list[Micros]:
    """Return the last times at which a cron should have fired after one time and not after another, at most `most`."""
    parsed = parse(cron.schedule)
    if isinstance(parsed, int):
        after = max(after, until - most * parsed)
    return list(deque(takewhile(lambda moment: moment <= until, find_times(cron, after)), maxlen=most))


def _repeat(cron: CronInfo, length: Micros, after: Micros) -> Iterator[Micros]:
    anchor = EARLIEST if cron.start is None else cron.start
    return (anchor + nth * length for nth in count(max(0, (after - anchor) // length + 1)))


def _expand(cron: CronInfo, expression: str, after: Micros) -> Iterator[Micros]:
    for moment in CronSim(expression, to_datetime(after).astimezone(ZoneInfo(cron.timezone))):
        instant = to_instant(moment)
        if instant > after:
            yield instant


def check_cron(cron: CronInfo) -> CronInfo:
    """Return a cron of run time as a store keeps it. Raise `InvalidTask` if it could not fire."""
    check_text("cron", cron.name)
    check_name("handler", cron.handler)
    check_schedule(cron.schedule, cron.timezone, cron.misfire)
    for field in ("queue", "tenant"):
        if getattr(cron, field) is not None:
            check_name(field, getattr(cron, field))
    if cron.priority is not None:
        check_priority(cron.priority)
    for field in ("start", "end"):
        at = getattr(cron, field)
        if at is not None and (type(at) is not int or not EARLIEST <= at <= LATEST):
            raise InvalidTask(f"{field}={shorten(at)} is not a time from 1970 to the year 9999.")
    if cron.start is not None and cron.end is not None and cron.end < cron.start:
        raise InvalidTask(f"end={to_datetime(cron.end)} is before start={to_datetime(cron.start)}.")
    if next_time(cron, EARLIEST) is None:
        raise InvalidTask(f"schedule={cron.schedule!r} has no time before end={to_datetime(cron.end or 0)}.")
    try:
        msgspec.json.decode(cron.args, type=dict[str, Any])
    except (msgspec.DecodeError, TypeError):
        raise InvalidTask(f"args={shorten(cron.args)} is not a JSON object of arguments by name.") from None
    return replace(cron, args=storable(cron.args))


def put_cron(
    before: CronState | None, cron: CronInfo, expect: int, now: Micros, pause: tuple[str, str] | None
) -> CronState:
    """Return a cron as `put_cron` of a store writes it. Times before its creation or last change do not fire.

    With `pause`, by whom and why, a new one is paused.
    """
    if before is None:
        if expect:
            raise UnknownCron(cron.name)
        by, why = (None, None) if pause is None else map(storable, pause)
        new = CronState(info=cron, at_run_time=True, version=now, fired=now, due=next_time(cron, now))
        return replace(new, paused=pause is not None, paused_by=by, paused_why=why)
    if not expect:
        raise CronExists(cron.name)
    check_version(before, expect)
    if not before.at_run_time:
        raise NotAllowed(f"Cron {cron.name!r} is in the code of an app. Change it there; here it can be paused.")
    if before.info == cron:
        return before
    after = replace(before, info=cron, version=next_version(before, now))
    same = _timing(before.info) == _timing(cron)
    return after if same else replace(after, fired=now, due=next_time(cron, now))


def check_version(cron: CronState, expect: int | None) -> None:
    """Raise `Conflict` if a cron is not in the version that its caller expects; None allows any."""
    if expect not in (None, cron.version):
        raise Conflict(f"cron {cron.info.name}")


def next_version(before: CronState, now: Micros) -> int:
    """Return the version of a cron after a change.

    Versions start with the time of their creation. So a cron that is removed and created again has no earlier version.
    """
    return max(before.version + 1, now)


def _timing(cron: CronInfo) -> tuple[object, ...]:
    return cron.schedule, cron.timezone, cron.start, cron.end
