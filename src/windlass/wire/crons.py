"""The JSON shapes of crons."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.core.payload import json_object
from windlass.operations.crons import CronView
from windlass.wire.fields import Moment, as_datetime


class CronShape(Struct, frozen=True, kw_only=True):
    """A cron: a handler and when it runs."""

    name: str
    handler: str
    schedule: str
    timezone: str
    misfire: str
    args: dict[str, Any]
    fired: Moment | None
    """The latest scheduled time for which it was fired, or skipped."""
    next: Moment | None
    """When it runs next; null while it is paused, or if it is no longer in the code."""
    in_code: bool | None
    """Whether the app of a live node has it; null if no live node says which crons it has."""
    paused: bool
    paused_by: str | None
    paused_why: str | None


class NextTimes(Struct, frozen=True, kw_only=True):
    """When a cron runs next, in its own time zone. While it is paused it does not run at these times."""

    cron: str
    paused: bool
    times: list[Moment]


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
        in_code=view.in_code,
        paused=state.paused,
        paused_by=state.paused_by,
        paused_why=state.paused_why,
    )
