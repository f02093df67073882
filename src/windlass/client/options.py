"""The options of tasks and schedules, checked and converted to the fields of a `NewTask`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, cast
from uuid import UUID

from msgspec.structs import replace

from windlass.core.limits import parse_rate
from windlass.core.names import shorten
from windlass.core.retry import Retry
from windlass.core.task import NewTask, OnFailure, Rate, Unique
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
    unique_for: Duration | None
    """Return the equal task, if one is queued or was submitted within this time, instead of creating a second one. "0s"
    counts only queued ones; None removes this and what follows."""
    unique_key: str | None
    """What equal tasks have in common, with arguments as in "user:{user_id}"; None for all arguments."""
    debounce: Duration | None
    """Start this long after the latest equal call, instead of creating a second task."""
    max_wait: Duration | None
    """How long equal calls may put off a task with `debounce`; ten times that by default."""
    replace_args: bool
    """With `debounce`: run with the arguments of the latest equal call."""
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
_UNIQUE = {
    "unique_for": "period",
    "unique_key": "key",
    "debounce": "debounce",
    "max_wait": "max_wait",
    "replace_args": "replace_args",
}
"""Options of unique tasks, and their fields of `Unique`."""
_KNOWN = {*_UNIQUE, *_LIMITS, *_MOMENTS, *_UNCHANGED, "requires", "after", "retries", "rate"}


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
    if not _UNIQUE.keys().isdisjoint(options):
        fields["unique"] = _unique(options, fields.get("unique"))
    if "requires" in options:
        fields["requires"] = check_labels(options["requires"])
    if "after" in options:
        fields["prerequisites"] = prerequisites(options["after"])
    return fields


def _unique(options: Mapping[str, Any], before: Unique | None) -> Unique | None:
    """Return what makes a task unique, on top of what was set before."""
    given = {name: options[name] for name in _UNIQUE if name in options}
    if given.get("unique_for", "") is None:
        if any(value is not None for value in given.values()):
            raise InvalidTask("unique_for=None removes all options of unique tasks. Pass none of them, or a duration.")
        return None
    for name in ("unique_for", "debounce", "max_wait"):
        if given.get(name) is not None:
            given[name] = duration(given[name], name)
    if before is None and "unique_for" not in given and given.get("debounce") is None:
        if all(value is None for value in given.values()):
            return None
        name = next(iter(given))
        raise InvalidTask(f"{name} has no effect without unique_for or debounce. Pass one of them too.")
    return replace(before or Unique(), **{_UNIQUE[name]: value for name, value in given.items()})


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
