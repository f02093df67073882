"""The options of tasks and schedules, checked and converted to the fields of a `NewTask`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args
from uuid import UUID

from msgspec.structs import replace

from windlass.core.limits import parse_rate
from windlass.core.names import check_text, shorten
from windlass.core.retry import Retry
from windlass.core.task import NewTask, OnFailure, Rate
from windlass.core.times import Duration, duration, moment
from windlass.core.validation import check_labels, check_once, check_task
from windlass.errors import InvalidTask

When: TypeAlias = Duration | datetime
"""A point in time: a `datetime` with a zone, or a duration from now."""

Misfire: TypeAlias = Literal["last", "skip", "all"]
"""Which of the times missed while no node was running are made up for: the last one, none, or all."""


class TaskOptions(TypedDict, total=False):
    """Options that a handler sets for all of its tasks, or a caller for one task."""

    queue: str
    priority: int
    tenant: str
    retries: int
    """Number of further attempts; short for `retry=Retry(retries=…)`."""
    retry: Retry
    max_crashes: int
    """How many times the task runs again after its worker process died."""
    at_most_once: bool
    """Fail instead of running again once an attempt may have started. Excludes retries."""
    timeout: Duration | None
    """Hard limit: the attempt's process is killed."""
    soft_timeout: Duration | None
    """Soft limit: `SoftTimeout` is raised in the handler."""
    heartbeat_timeout: Duration | None
    """Maximum time between two calls of `current().progress()`."""
    slots: int
    """How many of the `threads` of a worker it takes."""
    memory: int | None
    """The bytes of memory that it needs, of those that its pool has."""
    requires: Iterable[str]
    downstream: str | None
    limit: str | None
    """A key, with arguments as in "customer:{customer_id}": of the tasks with the same one, at most `max_running` run
    at once, and start at most at `rate`, over all nodes. None removes all three."""
    max_running: int | None
    rate: Rate | str | None
    """Tasks per period, such as "10/1m"."""
    raise_prerequisites: bool
    """False: prerequisites do not inherit its priority and deadline."""
    admit: Literal["strict"] | None
    """`strict`: refuse a task whose queue cannot make its deadline at the present rate (`DeadlineUnreachable`)."""


class UsingOptions(TaskOptions, total=False):
    """Options that only a caller can set, for one task."""

    deadline: When | None
    expires: When | None
    delay: Duration | None
    at: datetime | None
    key: str | None
    workflow: str | None
    after: Iterable[Any]
    """Prerequisites: handles, steps, task ids, or keys of the same workflow."""
    on_failure: OnFailure | Literal["cancel", "run"]
    conn: Any
    """The caller's connection to the store's PostgreSQL; the task commits with its transaction."""


_LIMITS = ("timeout", "soft_timeout", "heartbeat_timeout", "delay")
_MOMENTS = ("deadline", "expires", "at")
_UNCHANGED = (
    "queue",
    "priority",
    "tenant",
    "slots",
    "memory",
    "downstream",
    "limit",
    "max_running",
    "raise_prerequisites",
    "admit",
    "key",
    "workflow",
    "on_failure",
    "retry",
    "max_crashes",
    "at_most_once",
)
_KNOWN = {*_LIMITS, *_MOMENTS, *_UNCHANGED, "requires", "after", "retries", "rate"}


def task_fields(options: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `NewTask` that these options set, on top of the fields set before."""
    unknown = options.keys() - _KNOWN
    if unknown:
        raise TypeError(f"Unknown option {min(unknown)!r}. The options are {', '.join(sorted({*_KNOWN, 'conn'}))}.")
    if options.get("limit", "") is None:  # What it allowed goes with it.
        before = {**before, "max_running": None, "rate": None}
    fields = {**before, **{name: options[name] for name in _UNCHANGED if name in options}}
    for name in _LIMITS:
        if name in options:
            fields[name] = None if options[name] is None else duration(options[name], name)
    for name in _MOMENTS:
        if name in options:
            fields[name] = None if options[name] is None else moment(options[name], name)
    if "retries" in options:
        policy = fields.get("retry", Retry())
        if isinstance(policy, Retry):  # Anything else is rejected when the task is checked.
            fields["retry"] = replace(policy, retries=options["retries"])
    if fields.get("at_most_once") is True and isinstance(fields.get("retry"), Retry):
        check_once(fields["retry"])  # Only an explicit policy is rejected; a `NewTask` always has one.
    if "rate" in options:
        rate = options["rate"]
        fields["rate"] = parse_rate(rate) if isinstance(rate, str) else rate
    if "requires" in options:
        fields["requires"] = check_labels(options["requires"])
    if "after" in options:
        fields["prerequisites"] = prerequisites(options["after"])
    return fields


def prerequisites(after: Any) -> tuple[UUID | str, ...]:
    """Return the task ids and keys that `after` names."""
    if isinstance(after, str | bytes | Mapping) or not isinstance(after, Iterable):
        given = cast("object", after)
        raise InvalidTask(f"after={shorten(given)} is not a list. Pass a list of handles, steps, task ids or keys.")
    return tuple(map(_prerequisite, cast("Iterable[object]", after)))


def _prerequisite(named: object) -> UUID | str:
    found: object = getattr(named, "id", named)
    if isinstance(found, UUID | str):
        return found
    raise InvalidTask(f"after: {shorten(named)} does not name a task. Pass a handle, a step, a task id or a key.")


def check_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields, or raise `InvalidTask` now if a store would later."""
    check_task(NewTask(**fields))
    return fields


def check_schedule(schedule: str, tz: str, misfire: str) -> None:
    """Raise `InvalidTask` if the schedule, the time zone or the misfire policy is invalid."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from cronsim import CronSim, CronSimError

    check_text("schedule", schedule)
    check_text("tz", tz)
    if misfire not in get_args(Misfire):
        raise InvalidTask(f"misfire={shorten(misfire)} is unknown. Use last, skip or all.")
    try:
        next(CronSim(schedule, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it never fires"
        raise InvalidTask(f"schedule={schedule!r} is not a cron expression ({reason}). Give five fields.") from None
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTask(f"tz={tz!r} is not a time zone. Give a name such as Europe/Berlin.") from None
