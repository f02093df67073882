"""Limits as people see and change them: what each allows, what is used of it, and who set it.

A limit that is set replaces the one on the same scope. A caller who is limited to a queue changes the limits of that
queue. One who is limited to a tenant sees the limits of that tenant and changes none: operators set them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.limit_text import describe_amounts, describe_scope
from windlass.core.limits import LIMIT, Limit, LimitUse, Room, decode_limit, encode_limit
from windlass.core.times import Duration, Micros, duration, format_duration, micros
from windlass.errors import Refused, UnknownLimit, UnknownQueue, UnknownTenant
from windlass.operations import queues, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.redact import redact_set_by
from windlass.operations.reversal import Reversal, compare_fields, read_fields, restore_control
from windlass.operations.shares import read_tenants
from windlass.stores.protocol import Count, Store, TaskReader

CREATE = "To set it before the first task, pass create (--create)."


class LimitView(Struct, frozen=True, kw_only=True):
    """A limit, and what is used of it."""

    limit: Limit
    running: int
    """The tasks that run in its scope."""
    next_token: Micros | None
    """When its rate allows the next task, if that is not now."""
    blocks: bool
    """True if no task in its scope may start now."""
    held: int | None
    """The runnable tasks in its scope, if none of them may start. None if they are not counted: by handler or key."""


def get_all(access: Access) -> list[LimitView]:
    """Return the limits that the caller may see, by scope."""
    now = access.store.look([], ahead=timedelta(0)).now
    uses = [use for use in read_room(access.store, now).get_all_uses() if can_see(access.caller, use.limit)]
    counts = access.store.counts() if uses else []
    return [_view(use, counts) for use in uses]


def get(access: Access, scope: Limit) -> LimitView:
    """Return the limit on a scope. Raise `UnknownLimit` if there is none."""
    found = next((view for view in get_all(access) if view.limit.name == scope.name), None)
    if found is None:
        raise UnknownLimit(describe_scope(scope))
    return found


def put(
    access: Access, limit: Limit, author: Author, *, lasts: Duration | None = None, create: bool = False
) -> LimitView:
    """Set the limit on a scope, for some time or until it is removed. It replaces the one that is set.

    Without `create`, a queue, tenant or handler that nobody knows is refused: its name is probably misspelled.
    """
    limit.check()
    _check_change(access, limit)
    if not create:
        _check_known(access, limit)
    length = "" if lasts is None else f" for {format_duration(micros(duration(lasts, 'for')))}"
    text = f"limited {describe_scope(limit)} to {describe_amounts(limit)}{length}"

    def attempt() -> None:
        now = access.store.look([], ahead=timedelta(0)).now
        changed = replace(limit, set_by=author.set_by(now, lasts))
        control = find_control(access.store, LIMIT, limit.name)
        if control is None or not _is_same(decode_limit(control.value), changed):
            version, value = 0 if control is None else control.version, encode_limit(changed)
            undo = compare_fields(read_fields(control and control.value), read_fields(value))
            entry = author.entry(f"limit/{limit.name}", "limited", text, undo=undo)
            write_control(access.store, LIMIT, limit.name, value, version=version, entries=[entry])

    retry_on_conflict(f"the limit on {describe_scope(limit)}", attempt)
    return get(access, limit)


def remove(access: Access, scope: Limit, author: Author) -> LimitView:
    """Remove the limit on a scope, and return what it was. Raise `UnknownLimit` if there is none."""
    replace(scope, max_running=0, rate=None).check()  # Only the scope matters here.
    _check_change(access, scope)
    before = get(access, scope)
    text = f"removed the limit on {describe_scope(scope)}"

    def attempt() -> None:
        control = find_control(access.store, LIMIT, scope.name)
        if control is not None:
            undo = compare_fields(read_fields(control.value), {})
            entry = author.entry(f"limit/{scope.name}", "removed", text, undo=undo)
            write_control(access.store, LIMIT, scope.name, None, version=control.version, entries=[entry])

    retry_on_conflict(f"the limit on {describe_scope(scope)}", attempt)
    return before


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo a change of a limit. One that was set for the first time is removed."""
    control = find_control(access.store, LIMIT, name)
    known = reversal.change.before if control is None else read_fields(control.value)
    _check_change(access, msgspec.convert({field: value for field, value in known.items() if value is not None}, Limit))
    restore_control(access.store, LIMIT, name, reversal)


def read_room(store: Store, now: Micros) -> Room:
    """Read all limits, and what is used of them. Leases and buckets are read only if there is a limit."""
    limits = read_limits(store)
    running = store.running() if limits else []
    buckets = store.buckets([limit.name for limit in limits if limit.rate is not None]) if limits else {}
    return Room(limits, read_tenants(store), running, buckets, now)


def read_limits(store: TaskReader) -> list[Limit]:
    """Return the stored limits, with those that have expired."""
    return [decode_limit(control.value) for control in store.controls(LIMIT)]


def can_see(caller: Caller, limit: Limit) -> bool:
    """Return True if a caller may see a limit and what is used of it."""
    return caller.queue in (None, limit.queue) and caller.tenant in (None, limit.tenant)


def count_held(use: LimitUse, counts: Iterable[Count]) -> int | None:
    """Return how many runnable tasks a limit holds back; None for a handler or key, whose tasks are not counted."""
    limit = use.limit
    if limit.handler is not None or limit.key is not None:
        return None
    if not use.blocks:
        return 0
    return sum(
        max(0, each.tasks)
        for each in counts
        if each.state is State.RUNNABLE and limit.queue in (None, each.queue) and limit.tenant in (None, each.tenant)
    )


def _view(use: LimitUse, counts: Sequence[Count]) -> LimitView:
    return LimitView(
        limit=replace(use.limit, set_by=redact_set_by(use.limit.set_by)),
        running=use.running,
        next_token=use.next_token,
        blocks=use.blocks,
        held=count_held(use, counts),
    )


def _is_same(before: Limit, after: Limit) -> bool:
    """Return True if setting a limit changes nothing but the time at which it was set."""
    if before.set_by is None or after.set_by is None:
        return False
    return replace(before, set_by=replace(before.set_by, at=after.set_by.at)) == after


def _check_change(access: Access, limit: Limit) -> None:
    if access.caller.tenant is not None:
        raise Refused("forbidden", "Operators limit tenants, and this token is limited to one tenant.")
    if access.caller.queue not in (None, limit.queue):
        raise Refused("forbidden", f"This token is limited to queue {access.caller.queue}. Name it in the limit.")


def _check_known(access: Access, limit: Limit) -> None:
    if limit.queue is not None and not any(view.name == limit.queue for view in queues.get_all(access)):
        raise UnknownQueue(limit.queue, CREATE)
    if limit.tenant is not None and not tenants.is_known(access, limit.tenant):
        raise UnknownTenant(limit.tenant, CREATE)
    if limit.handler is not None:
        access.catalog.info(limit.handler)
