"""What people order of a pool: a size for some time, a freeze, a pause, other settings; and the end of all that.

Each is written with its author and reason in the audit log, in the same transaction; the nodes follow within a second
or two. One place for the command line, the HTTP API and the dashboard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from windlass.autoscale import pool_tick
from windlass.autoscale.controller import Override
from windlass.autoscale.observe import SECOND
from windlass.autoscale.settings import TIME_SETTINGS, Settings, find_setting_errors
from windlass.autoscale.stored_state import OVERRIDES, PauseRequest, PoolOverrides, encode_document
from windlass.core.names import check_author
from windlass.core.times import Duration, duration
from windlass.errors import ChangedMeanwhile, InvalidTask
from windlass.operations.legacy_pools import known_pool, look_at, pool
from windlass.stores.coordination import Entry, Look
from windlass.stores.protocol import Store

TRIES = 5
FOR_EVER = timedelta(days=3_650)
LARGEST = 10_000


def pin(
    store: Store,
    name: str,
    least: int,
    most: int | None = None,
    *,
    by: str,
    why: str = "",
    lasts: Duration | None = "1h",
) -> PoolOverrides:
    """Overrule the controller: this size, or one up to `most`, for some time; None for until it is resumed."""
    check_author(by, why)
    most = least if most is None else most
    if not 0 <= least <= most <= LARGEST:
        raise InvalidTask(f"size={least}..{most} is no size; give 0 to {LARGEST}, the smaller number first")
    length = FOR_EVER if lasts is None else duration(lasts, "for")
    if not timedelta(0) < length <= FOR_EVER:
        raise InvalidTask(f"for={lasts!r} is out of range; give something like 30m, and no more than ten years")

    def change(order: PoolOverrides, look: Look) -> PoolOverrides:
        until = look.now / SECOND + length.total_seconds()
        return replace(order, override=Override(least=least, most=most, until=until, author=by, why=why))

    size = f"{least}" if least == most else f"{least} to {most}"
    until = "until it is resumed" if lasts is None else f"for {length}"
    return _order(store, name, change, "set", f"set to {size} by {by} {until}{_because(why)}", by)


def freeze(store: Store, name: str, *, by: str, why: str = "", lasts: Duration | None = None) -> PoolOverrides:
    """Keep the size that it has now."""
    return pin(store, name, pool(store, name).target, by=by, why=why or "frozen", lasts=lasts)


def pause(store: Store, name: str, *, by: str, why: str = "") -> PoolOverrides:
    """Size 0: what runs ends, nothing new starts, the queue fills. Until it is resumed."""
    check_author(by, why)
    return _order(
        store,
        name,
        lambda order, look: replace(order, paused=PauseRequest(by=by, at=look.now, why=why)),
        "paused",
        f"paused by {by}{_because(why)}",
        by,
    )


def resume(store: Store, name: str, *, by: str, why: str = "") -> PoolOverrides:
    """Let it size itself again: no pause, no override."""
    check_author(by, why)
    return _order(
        store,
        name,
        lambda order, _: replace(order, paused=None, override=None),
        "resumed",
        f"resumed by {by}{_because(why)}",
        by,
    )


def tune(store: Store, name: str, changes: Mapping[str, Any], *, by: str, why: str = "") -> PoolOverrides:
    """Change settings of a pool while it runs; None puts one back to what the nodes' files say.

    The names are those of `windlass.autoscale.settings.Settings`; `floor` and `ceiling` are workers over all nodes.
    """
    check_author(by, why)
    known = {field.name for field in fields(Settings)}
    for field in changes:
        if field not in known:
            raise InvalidTask(f"{field} is no setting of a pool; give some of {', '.join(sorted(known))}")
    given = {field: _plain(field, value) for field, value in changes.items()}

    def change(order: PoolOverrides, _: Look) -> PoolOverrides:
        tuned = {field: value for field, value in {**order.tuned, **given}.items() if value is not None}
        changed = replace(order, tuned=tuned)
        _check(changed)
        return changed

    told = ", ".join(f"{field} = {'as the nodes say' if value is None else value}" for field, value in given.items())
    return _order(store, name, change, "tuned", f"{told} by {by}{_because(why)}", by)


def _check(order: PoolOverrides) -> None:
    settings = order.tune(Settings())
    found = find_setting_errors(settings)
    if "floor" in order.tuned and "ceiling" in order.tuned and settings.floor > settings.ceiling:
        found.append(f"floor={settings.floor} is above ceiling={settings.ceiling}")
    if not 0 <= settings.floor <= LARGEST or not 0 <= settings.ceiling <= LARGEST:
        found.append(f"floor={settings.floor}, ceiling={settings.ceiling} is out of range; give 0 to {LARGEST}")
    if found:
        raise InvalidTask("pool: " + "; ".join(found))


def _plain(field: str, value: Any) -> Any:
    """A setting as it is stored: times in seconds. None, which takes one back, fits all."""
    if field in TIME_SETTINGS and isinstance(value, str | timedelta):
        return duration(value, field).total_seconds()
    try:
        msgspec.convert({} if value is None else {field: value}, Settings)
    except msgspec.ValidationError as error:
        raise InvalidTask(f"{field}={value!r} is not taken: {error}") from error
    return value


def _order(
    store: Store, name: str, change: Callable[[PoolOverrides, Look], PoolOverrides], action: str, text: str, by: str
) -> PoolOverrides:
    """Write a change of what people want, with its line in the ledger."""
    for _ in range(TRIES):
        look = look_at(store)
        known_pool(look, name)
        order, version = pool_tick.read_overrides(look, name)
        changed = change(order, look)
        data = encode_document(changed)
        entry = Entry(subject=f"pool/{name}", action=action, text=text, by=by, data=data)
        if store.put_control(OVERRIDES, name, data, expect=version, entries=[entry]):
            return changed
    raise ChangedMeanwhile(f"the order for the pool {name}")


def _because(why: str) -> str:
    return f": {why}" if why else ""
