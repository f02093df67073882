"""The JSON shapes of limits."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.core.limits import MAX_KEY, MAX_RUNNING, Limit, format_rate, parse_rate
from windlass.operations.limits import LimitView
from windlass.wire.fields import Length, Moment, Name, Reason, Text, as_datetime

Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]
RateText = Annotated[str, Meta(description='Tasks that may start per period, such as "100/1m" or "5/s".')]


class LimitScope(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a limit is on: a queue, a tenant, a tenant in a queue, a handler, or a key that tasks declare."""

    queue: Name | None = None
    tenant: Name | None = None
    handler: Text | None = None
    key: Key | None = None


class SetLimit(LimitScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit on the tasks of a queue, a tenant, a tenant in a queue, a handler, or a key. Give an amount or both."""

    max_running: Annotated[int, Meta(ge=0, le=MAX_RUNNING)] | None = None
    """How many may run at once."""
    rate: RateText | None = None
    lasts: Length | None = None
    """null: until it is removed."""
    create: bool = False
    """Accept a queue, tenant or handler that is not known yet."""


class LimitShape(Struct, frozen=True, kw_only=True):
    """A limit, what is used of it, and who set it."""

    name: str
    """Its scope in one text, such as "queue=bulk,tenant=acme"."""
    queue: str | None
    tenant: str | None
    handler: str | None
    key: str | None
    max_running: int | None
    rate: str | None
    running: int
    """The tasks that run in its scope."""
    next_start: Moment | None
    """When its rate allows the next task; null: now."""
    blocks: bool
    """Whether no task in its scope may start now."""
    held: int | None
    """The runnable tasks in its scope, if none may start; null for a handler or key, whose tasks are not counted."""
    by: str | None
    why: str | None
    since: Moment | None
    until: Moment | None
    """null: until it is removed."""


def scope_of(given: LimitScope) -> Limit:
    """Return the scope as a limit without amounts."""
    return Limit(queue=given.queue, tenant=given.tenant, handler=given.handler, key=given.key)


def limit_of(given: SetLimit) -> Limit:
    """Return the requested limit. Raise `InvalidTask` for an invalid rate."""
    return Limit(
        queue=given.queue,
        tenant=given.tenant,
        handler=given.handler,
        key=given.key,
        max_running=given.max_running,
        rate=None if given.rate is None else parse_rate(given.rate),
    )


def limit_shape(view: LimitView) -> LimitShape:
    """Convert a limit."""
    limit, set_by = view.limit, view.limit.set_by
    return LimitShape(
        name=limit.name,
        queue=limit.queue,
        tenant=limit.tenant,
        handler=limit.handler,
        key=limit.key,
        max_running=limit.max_running,
        rate=None if limit.rate is None else format_rate(limit.rate),
        running=view.running,
        next_start=as_datetime(view.next_token),
        blocks=view.blocks,
        held=view.held,
        by=None if set_by is None else set_by.by,
        why=None if set_by is None else set_by.why or None,
        since=None if set_by is None else as_datetime(set_by.at),
        until=None if set_by is None else as_datetime(set_by.until),
    )
