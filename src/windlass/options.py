"""The options of a task as people write them, and the fields of a `NewTask` that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict
from uuid import UUID

from msgspec.structs import replace

from windlass.core.names import shown
from windlass.core.retry import Retry
from windlass.core.submission import check_once, draft
from windlass.core.task import NewTask, OnFailure
from windlass.core.times import Duration, duration, moment
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
        fields["retry"] = replace(fields.get("retry", Retry()), retries=options["retries"])
    if fields.get("at_most_once") is True and "retry" in fields:  # Here it was said; a `NewTask` always has one.
        check_once(fields["retry"])
    if "requires" in options:
        fields["requires"] = tuple(options["requires"])
    if "after" in options:
        fields["prerequisites"] = tuple(map(prerequisite, options["after"]))
    return fields


def prerequisite(named: object) -> UUID | str:
    """A prerequisite as a store takes it: a task's id, or its key."""
    found: object = getattr(named, "id", named)
    if isinstance(found, UUID | str):
        return found
    raise InvalidTask(f"after={shown(named)} names no task; give a handle, a step, a task id or a key")


def checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The same, refused now if a store would refuse them later."""
    draft([NewTask(**fields)], 0, lambda: 0)
    return fields
