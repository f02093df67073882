"""The options of a task as people write them, and the fields of a `NewTask` that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, cast
from uuid import UUID

from msgspec.structs import replace

from windlass.core.names import shorten
from windlass.core.retry import Retry
from windlass.core.task import NewTask, OnFailure
from windlass.core.times import Duration, duration, moment
from windlass.core.validation import check_labels, check_once, check_task
from windlass.errors import InvalidTask

When: TypeAlias = Duration | datetime
"""A point in time: a `datetime` with a zone, or a length of time from now."""


class TaskOptions(TypedDict, total=False):
    """What a handler says about all of its tasks, and a caller about one."""

    queue: str
    priority: int
    tenant: str
    retries: int
    """How many further attempts; short for `retry=Retry(retries=…)`."""
    retry: Retry
    max_crashes: int
    """After how many deaths of its worker process it still runs again."""
    at_most_once: bool
    """Fail instead of running again once an attempt may have begun. Without retries."""
    timeout: Duration | None
    """Hard: the attempt's process is killed."""
    soft_timeout: Duration | None
    """Soft: `SoftTimeout` is raised in the handler."""
    heartbeat_timeout: Duration | None
    """The longest silence between two calls of `current().progress()`."""
    slots: int
    requires: Iterable[str]
    downstream: str | None


class UsingOptions(TaskOptions, total=False):
    """What only a caller can say, about one task."""

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
    """The caller's own connection to the store's PostgreSQL: the task commits with its transaction."""


_LIMITS = ("timeout", "soft_timeout", "heartbeat_timeout", "delay")
_MOMENTS = ("deadline", "expires", "at")
_AS_THEY_ARE = (
    "queue",
    "priority",
    "tenant",
    "slots",
    "downstream",
    "key",
    "workflow",
    "on_failure",
    "retry",
    "max_crashes",
    "at_most_once",
)
_KNOWN = {*_LIMITS, *_MOMENTS, *_AS_THEY_ARE, "requires", "after", "retries"}


def fields_of(options: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `NewTask` that these options set, on top of those that were set before."""
    unknown = options.keys() - _KNOWN
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}; there are {', '.join(sorted({*_KNOWN, 'conn'}))}")
    fields = {**before, **{name: options[name] for name in _AS_THEY_ARE if name in options}}
    for name in _LIMITS:
        if name in options:
            fields[name] = None if options[name] is None else duration(options[name], name)
    for name in _MOMENTS:
        if name in options:
            fields[name] = None if options[name] is None else moment(options[name], name)
    if "retries" in options:
        policy = fields.get("retry", Retry())
        if isinstance(policy, Retry):  # Anything else is refused, with its own name, when the task is checked.
            fields["retry"] = replace(policy, retries=options["retries"])
    if fields.get("at_most_once") is True and isinstance(fields.get("retry"), Retry):
        check_once(fields["retry"])  # Only an explicit policy is refused; a `NewTask` always has one.
    if "requires" in options:
        fields["requires"] = check_labels(options["requires"])
    if "after" in options:
        fields["prerequisites"] = prerequisites(options["after"])
    return fields


def prerequisites(after: Any) -> tuple[UUID | str, ...]:
    """Return the prerequisites that `after` lists as stores take them: task ids and keys."""
    if isinstance(after, str | bytes | Mapping) or not isinstance(after, Iterable):
        given = cast("object", after)
        raise InvalidTask(f"after={shorten(given)} is not a list; pass a list of handles, steps, task ids or keys")
    return tuple(map(_prerequisite, cast("Iterable[object]", after)))


def _prerequisite(named: object) -> UUID | str:
    found: object = getattr(named, "id", named)
    if isinstance(found, UUID | str):
        return found
    raise InvalidTask(f"after: {shorten(named)} does not name a task; pass a handle, a step, a task id or a key")


def checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The same, refused now if a store would refuse them later."""
    check_task(NewTask(**fields))
    return fields
