"""Tenants as people see and change them: tasks, weight, pause, and what each got of the fair queues.

A weight and a pause hold in all queues, so only a caller who is limited to no queue and no tenant changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.fairness import MAX_WEIGHT, TENANT, SetBy, Tenant, decode_tenant, encode_tenant
from windlass.core.lifecycle import State
from windlass.core.names import check_name, shorten
from windlass.core.times import Duration, Micros, duration, format_duration, micros
from windlass.errors import InvalidTask, UnknownTenant
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.redact import redact_set_by
from windlass.operations.reversal import Reversal, compare_fields, restore_control, to_fields
from windlass.operations.shares import TenantShare, read_shares, read_tenants

CREATE = "To set it before its first task, pass create (--create)."


class TenantView(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, the queues in which it has any, and its settings."""

    name: str
    tasks: Mapping[State, int]
    queues: list[str]
    settings: Tenant = Tenant()
    """As of now: without what has expired."""


def get_all(access: Access) -> list[TenantView]:
    """Return every tenant that has tasks or settings, by name."""
    tasks: dict[str, dict[State, int]] = {}
    queues: dict[str, set[str]] = {}
    for count in access.counts():
        if count.tasks <= 0:  # A sum of deltas may be passing through zero.
            continue
        states = tasks.setdefault(count.tenant, {})
        states[count.state] = states.get(count.state, 0) + count.tasks
        queues.setdefault(count.tenant, set()).add(count.queue)
    settings = _read_settings(access)
    names = tasks.keys() if access.caller.queue is not None else tasks.keys() | settings.keys()
    return [
        TenantView(
            name=name,
            tasks=tasks.get(name, {}),
            queues=sorted(queues.get(name, ())),
            settings=settings.get(name, Tenant()),
        )
        for name in sorted(names)
        if access.caller.tenant in (None, name)
    ]


def get(access: Access, name: str) -> TenantView:
    """Return one tenant. Raise `UnknownTenant` if it has no tasks, no settings and used no fair queue recently."""
    found = next((view for view in get_all(access) if view.name == name), None)
    if found is None:
        if not _has_account(access, name):
            raise UnknownTenant(name)
        return TenantView(name=name, tasks={}, queues=[])
    return found


def get_shares(access: Access, name: str) -> list[TenantShare]:
    """Return what a tenant should get of each fair queue and what it got, by queue.

    A caller who is limited to a tenant sees run times and no shares, which depend on what other tenants use.
    """
    get(access, name)
    found = read_shares(access.store, access.store.counts(), _now(access))
    own = [one for one in found if one.tenant == name and access.caller.queue in (None, one.queue)]
    return own if access.caller.tenant is None else [replace(one, minute=None, hour=None) for one in own]


def get_all_shares(access: Access) -> list[TenantShare]:
    """Return the shares of all tenants in all fair queues, by queue and tenant."""
    store = access.whole_store
    return read_shares(store, store.counts(), _now(access))


def get_visible_shares(access: Access, queue: str | None = None) -> list[TenantShare]:
    """Return the shares that a caller may see, of all fair queues or one of them, by queue and tenant.

    A caller who is limited to a tenant sees its run times and no shares, as `get_shares` returns them.
    """
    if access.caller.tenant is not None:
        found = get_shares(access, access.caller.tenant) if is_known(access, access.caller.tenant) else []
        return [one for one in found if queue in (None, one.queue)]
    found = read_shares(access.store, access.store.counts(), _now(access), access.caller.queue or queue)
    return [one for one in found if queue in (None, one.queue)]


def get_paused(access: Access) -> dict[str, SetBy]:
    """Return the tenants that are paused, with who paused them and why."""
    found = {name: tenant.paused for name, tenant in _read_settings(access).items()}
    return {name: paused for name, paused in found.items() if paused and access.caller.tenant in (None, name)}


def set_weight(
    access: Access,
    name: str,
    weight: int | None,
    author: Author,
    *,
    lasts: Duration | None = None,
    create: bool = False,
) -> TenantView:
    """Set the weight of a tenant in all fair queues, for some time or until it is changed. None restores 1."""
    if weight is not None and (type(weight) is not int or not 1 <= weight <= MAX_WEIGHT):
        raise InvalidTask(f"weight={shorten(weight)} is not an integer from 1 to {MAX_WEIGHT:,}")
    if weight is None and lasts is not None:
        raise InvalidTask(f"for={shorten(lasts)} has no effect without a weight")

    def change(before: Tenant, set_by: SetBy) -> Tenant:
        return replace(before, weight=weight or 1, weight_set_by=None if weight is None else set_by)

    text = f"{'reset' if weight is None else 'set'} the weight of tenant {name} to {weight or 1}{_for(lasts)}"
    return _change(access, name, change, author, "weighted", text, lasts, create)


def pause(
    access: Access, name: str, author: Author, *, lasts: Duration | None = None, create: bool = False
) -> TenantView:
    """Start no tasks of a tenant, for some time or until it is resumed; running tasks continue."""

    def change(before: Tenant, set_by: SetBy) -> Tenant:
        return replace(before, paused=set_by)

    return _change(access, name, change, author, "paused", f"paused tenant {name}{_for(lasts)}", lasts, create)


def resume(access: Access, name: str, author: Author) -> TenantView:
    """Start tasks of a tenant again."""

    def change(before: Tenant, _: SetBy) -> Tenant:
        return replace(before, paused=None)

    return _change(access, name, change, author, "resumed", f"resumed tenant {name}")


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo a change of the settings of a tenant."""
    restore_control(access.whole_store, TENANT, name, reversal)


def is_known(access: Access, name: str) -> bool:
    """Return True if a tenant has tasks or settings, or used a fair queue recently."""
    return any(view.name == name for view in get_all(access)) or _has_account(access, name)


def _change(
    access: Access,
    name: str,
    change: Callable[[Tenant, SetBy], Tenant],
    author: Author,
    action: str,
    text: str,
    lasts: Duration | None = None,
    create: bool | None = None,
) -> TenantView:
    """Write a change of the settings of a tenant, with its audit entry. What is set already is not written again."""
    check_name("tenant", name)
    store = access.whole_store
    if not create and not is_known(access, name):
        raise UnknownTenant(name, "" if create is None else CREATE)

    def attempt() -> None:
        now = _now(access)
        control = find_control(store, TENANT, name)
        before = Tenant() if control is None else _at(decode_tenant(control.value), now)
        after = change(before, author.set_by(now, lasts))
        if not _is_same(before, after):
            value = None if after == Tenant() else encode_tenant(after)
            version = 0 if control is None else control.version
            undo = compare_fields(to_fields(before), to_fields(after))
            entry = author.entry(f"tenant/{name}", action, text, undo=undo)
            write_control(store, TENANT, name, value, version=version, entries=[entry])

    retry_on_conflict(f"tenant {name}", attempt)
    return next((view for view in get_all(access) if view.name == name), TenantView(name=name, tasks={}, queues=[]))


def _is_same(before: Tenant, after: Tenant) -> bool:
    """Return True if only the times at which something was set differ."""

    def timeless(set_by: SetBy | None) -> SetBy | None:
        return None if set_by is None else replace(set_by, at=0)

    return (before.weight, timeless(before.weight_set_by), timeless(before.paused)) == (
        after.weight,
        timeless(after.weight_set_by),
        timeless(after.paused),
    )


def _read_settings(access: Access) -> dict[str, Tenant]:
    now = _now(access)
    found = {name: _redact(_at(tenant, now)) for name, tenant in read_tenants(access.store).items()}
    return {name: tenant for name, tenant in found.items() if tenant != Tenant()}


def _at(tenant: Tenant, now: Micros) -> Tenant:
    """Return the settings at this time: without what has expired."""
    holds = tenant.weight_set_by is None or tenant.weight_set_by.holds(now)
    return Tenant(
        weight=tenant.get_weight(now),
        weight_set_by=tenant.weight_set_by if holds else None,
        paused=tenant.paused if tenant.is_paused(now) else None,
    )


def _redact(tenant: Tenant) -> Tenant:
    return replace(tenant, weight_set_by=redact_set_by(tenant.weight_set_by), paused=redact_set_by(tenant.paused))


def _has_account(access: Access, name: str) -> bool:
    """Return True if a tenant used a fair queue recently, and the caller may know that."""
    if access.caller.limited:
        return False
    return any(account.tenant == name for account in access.store.accounts())


def _now(access: Access) -> Micros:
    return access.store.look([], ahead=timedelta(0)).now


def _for(lasts: Duration | None) -> str:
    return "" if lasts is None else f" for {format_duration(micros(duration(lasts, 'for')))}"
