"""The JSON shapes of crons."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from windlass.core.payload import json_object
from windlass.operations.crons import CronView
from windlass.wire.fields import as_datetime


class CronShape(Struct, frozen=True, kw_only=True):
    """A cron: a handler and when it runs."""

    name: str
    handler: str
    schedule: str
    timezone: str
    misfire: str
    args: dict[str, Any]
    fired: datetime | None
    """The latest scheduled time for which it was fired, or skipped."""
    next: datetime | None
    """When it runs next; null while it is paused."""
    paused: bool
    paused_by: str | None
    paused_why: str | None


class NextTimes(Struct, frozen=True, kw_only=True):
    """When a cron runs next, in its own time zone. While it is paused it does not run at these times."""

    cron: str
    paused: bool
    times: list[datetime]


def cron_shape(view: CronView) -> CronShape:
    """Convert a cron."""
    state, info = view.state, view.state.info
    return CronShape(
        name=info.name,
        handler=info.handler,
        schedule=info.schedule,
        timezone=info.timezone,
        misfire=info.misfire,
        args=json_object(info.args),
        fired=as_datetime(state.fired),
        next=view.next,
        paused=state.paused,
        paused_by=state.paused_by,
        paused_why=state.paused_why,
    )
