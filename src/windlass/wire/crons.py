"""The JSON shapes of crons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from windlass.core.payload import json_object
from windlass.core.schedule import explain
from windlass.operations.crons import CHANGEABLE, CronView, NewCron
from windlass.wire.fields import Moment, Name, Priority, Reason, Text, When, as_datetime
from windlass.wire.tasks import parse_when

ScheduleText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        description='Five cron fields, an alias such as "@daily", or an interval such as "every 90s".',
    ),
]
Misfire = Literal["last", "skip", "all"]


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
    """When it runs next; null while it is paused, or if no node fires it."""
    in_code: bool | None
    """Whether the app of a live node has it; null if no live node says which crons it has, or for `at_run_time`."""
    paused: bool
    paused_by: str | None
    paused_why: str | None
    at_run_time: bool
    """Whether it was created at run time, not in the code of an app."""
    in_words: str
    """The schedule in words."""
    problem: str | None
    """Why no node fires it, if it is not paused."""
    queue: str | None
    """The queue of its tasks; null for that of the handler."""
    tenant: str | None
    priority: int | None
    start: Moment | None
    end: Moment | None
    version: int
    """Grows with every change."""


class CreateCron(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cron to create."""

    name: Text
    handler: Name
    schedule: ScheduleText
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    timezone: Text = "UTC"
    misfire: Misfire = "last"
    queue: Name | None = None
    """Null for the queue of the handler."""
    tenant: Name | None = None
    priority: Priority | None = None
    start: When | None = None
    """The first possible time, and the anchor of an interval."""
    end: When | None = None
    """The last possible time."""
    paused: bool = False


class ChangeCron(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to change. Fields that are left out stay; null removes an optional one. `args` replaces all arguments."""

    handler: Name | UnsetType = UNSET
    schedule: ScheduleText | UnsetType = UNSET
    args: dict[str, Any] | UnsetType = UNSET
    timezone: Text | UnsetType = UNSET
    misfire: Misfire | UnsetType = UNSET
    queue: Name | UnsetType | None = UNSET
    tenant: Name | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    start: When | UnsetType | None = UNSET
    end: When | UnsetType | None = UNSET


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
        at_run_time=state.at_run_time,
        in_words=explain(info.schedule),
        problem=view.problem,
        queue=info.queue,
        tenant=info.tenant,
        priority=info.priority,
        start=as_datetime(info.start),
        end=as_datetime(info.end),
        version=state.version,
    )


def new_cron(given: CreateCron) -> NewCron:
    """Return a cron to create."""
    fields: dict[str, Any] = {name: getattr(given, name) for name in NewCron.__struct_fields__}
    fields |= {name: parse_when(fields[name], name) for name in ("start", "end")}
    return NewCron(**fields)


def cron_changes(given: ChangeCron) -> dict[str, Any]:
    """Return the fields of a cron to change."""
    fields = {name: getattr(given, name) for name in CHANGEABLE}
    changes = {name: value for name, value in fields.items() if not isinstance(value, UnsetType)}
    return changes | {name: parse_when(changes[name], name) for name in ("start", "end") if name in changes}
