"""Schedules, checked when they are written. Firing them is the node's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

from windlass.core.names import check_text, shorten
from windlass.errors import InvalidTask

Misfire: TypeAlias = Literal["last", "skip", "all"]
"""What becomes of the times that passed while no node was there: the last one is made good, none, or all of them."""


def check_schedule(schedule: str, tz: str, misfire: str) -> None:
    """Refuse a schedule that cannot be kept, saying what is wrong with it."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from cronsim import CronSim, CronSimError

    check_text("schedule", schedule)
    check_text("tz", tz)
    if misfire not in get_args(Misfire):
        raise InvalidTask(f"misfire={shorten(misfire)} is unknown; use last, skip or all")
    try:
        next(CronSim(schedule, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it names a time that never comes"
        raise InvalidTask(f"schedule={schedule!r} is not a cron expression ({reason}); give five fields") from None
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTask(f"tz={tz!r} is not a time zone; give a name such as Europe/Berlin") from None
