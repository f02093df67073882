"""Pools as people see and change them: what the store counts, what the nodes report, and what was decided.

Changes are a size for some time, a freeze, a pause, other settings, and the end of all that. The nodes follow within a
second or two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from windlass.autoscale import pool_tick
from windlass.autoscale.controller import Override, tick
from windlass.autoscale.observe import SECOND, PoolReport, compute_oldest_wait, observe, select_members
from windlass.autoscale.settings import TIME_SETTINGS, Settings, find_setting_errors
from windlass.autoscale.stored_state import (
    OVERRIDES,
    POOL,
    PauseRequest,
    PoolDecision,
    PoolOverrides,
    decode_document,
    encode_document,
)
from windlass.core.times import Duration, duration
from windlass.errors import InvalidTask, UnknownPool
from windlass.operations import audit
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import retry_on_conflict, write_control
from windlass.operations.redact import redact_data
from windlass.operations.reversal import Reversal, compare_fields, read_fields, restore_control, to_fields
from windlass.redaction import redact, redact_text
from windlass.stores.coordination import MAX_QUEUES, Look
from windlass.stores.protocol import Count, Store

FOREVER = timedelta(days=3_650)
MAX_WORKERS = 10_000
AHEAD = timedelta(seconds=330)
STALLED = 5
"""Seconds without a decision, while there is work, after which the controller counts as stalled."""


_ALERTS = {
    "at_max": "The goal needs more workers than the maximum allows.",
    "cost_capped": "The goal needs more workers than the cost limit allows.",
    "flapping": "The size goes up and down too often, so the pool changes it less.",
    "stalled": "Tasks wait and workers are ready, but nothing completes.",
    "crash_loop": "Workers die again and again, so the pool starts no more.",
    "signal_stale": "The pool has no data, so it keeps the size of the last half hour.",
    "autoscaler_stalled": "No node has decided about this pool for some seconds.",
}


def describe_alert(alert: str) -> str:
    """Return an alert of a pool as a sentence."""
    return _ALERTS.get(alert, f"Alert: {alert.replace('_', ' ')}.")


class Desired(Struct, frozen=True, kw_only=True):
    """How large a pool should be, over all nodes."""

    pool: str
    workers: int
    slots: int
    """How many tasks these workers run at once."""


class NodePart(Struct, frozen=True, kw_only=True):
    """The part of a pool that one node has."""

    node: str
    session: str
    target: int
    ready: int
    running: int
    starting: int
    draining: int
    asleep: int
    max: int


class PoolView(Struct, frozen=True, kw_only=True):
    """One pool over all nodes."""

    name: str
    queues: tuple[str, ...]
    fixed: bool
    """Whether its nodes were given a size; otherwise it sizes itself."""
    target: int
    """How many workers it should have. `live` is how many it has."""
    live: int
    ready: int
    running: int
    """Running tasks."""
    starting: int
    draining: int
    asleep: int
    threads: int
    min: int
    max: int
    wait: float
    """The goal, in seconds."""
    runnable: int
    leased: int
    oldest: float
    """How many seconds the oldest runnable task has waited."""
    needs: float
    sentence: str
    """The latest decision in one line."""
    reasons: tuple[str, ...]
    decided_at: int
    decided_by: str
    alerts: tuple[str, ...]
    override: Override | None
    paused: PauseRequest | None
    tuned: Mapping[str, Any]
    degraded: str
    nodes: tuple[NodePart, ...]


def get_all(access: Access) -> list[PoolView]:
    """Return every pool that a live node has or that was ever sized, by name."""
    return describe_all(look_at(access.whole_store))


def get(access: Access, name: str) -> PoolView:
    """Return one pool. Raise `UnknownPool` if no node has or had it."""
    return describe(look_at(access.whole_store), name)


def history(access: Access, name: str, *, limit: int = 50, before: int | None = None) -> audit.AuditPage:
    """Return a page of what was decided about a pool and what people changed, newest first."""
    check_pool(look_at(access.whole_store), name)
    return audit.find(access, f"pool/{name}", limit=limit, before=before)


def desired(access: Access, name: str) -> Desired:
    """Return how many workers a pool should have now, for software that starts machines."""
    look = look_at(access.whole_store)
    check_pool(look, name)
    return _desired(look, name)


def desired_all(access: Access) -> list[Desired]:
    """Return how many workers each pool should have now, by name."""
    look = look_at(access.whole_store)
    return [_desired(look, name) for name in _names(look)]


def set_size(
    access: Access,
    name: str,
    least: int,
    most: int | None = None,
    *,
    author: Author,
    lasts: Duration | None = "1h",
) -> PoolView:
    """Override the controller: this size, or one up to `most`, for some time; None means until it is resumed."""
    most = least if most is None else most
    if not 0 <= least <= most <= MAX_WORKERS:
        raise InvalidTask(f"size={least}..{most} is out of range. Use 0 to {MAX_WORKERS:,}, the smaller number first.")
    length = FOREVER if lasts is None else duration(lasts, "for")
    if not timedelta(0) < length <= FOREVER:
        raise InvalidTask(f"for={lasts!r} is out of range. Use a time such as 30m, at most ten years.")

    def change(current: PoolOverrides, look: Look) -> PoolOverrides:
        until = look.now / SECOND + length.total_seconds()
        return replace(current, override=Override(min=least, max=most, until=until, author=author.by, why=author.why))

    size = f"{least}" if least == most else f"{least} to {most}"
    until = "until it is resumed" if lasts is None else f"for {length}"
    return _change(access, name, change, author, "set", f"set to {size} by {author.by} {until}")


def freeze(access: Access, name: str, *, author: Author, lasts: Duration | None = None) -> PoolView:
    """Keep the size that a pool has now."""
    author = author if author.why else replace(author, why="frozen")
    return set_size(access, name, get(access, name).target, author=author, lasts=lasts)


def pause(access: Access, name: str, *, author: Author) -> PoolView:
    """Set a pool to 0 workers: running tasks end, nothing new starts, until it is resumed."""

    def change(current: PoolOverrides, look: Look) -> PoolOverrides:
        return replace(current, paused=PauseRequest(by=author.by, at=look.now, why=author.why))

    return _change(access, name, change, author, "paused", f"paused by {author.by}")


def resume(access: Access, name: str, *, author: Author) -> PoolView:
    """Let a pool size itself again: remove a pause and a set size."""

    def change(current: PoolOverrides, _: Look) -> PoolOverrides:
        return replace(current, paused=None, override=None)

    return _change(access, name, change, author, "resumed", f"resumed by {author.by}")


def tune(access: Access, name: str, changes: Mapping[str, Any], *, author: Author) -> PoolView:
    """Change settings of a pool while it runs. None restores what the nodes' own files say.

    The names are those of `windlass.autoscale.settings.Settings`; `min` and `max` are workers over all nodes.
    """
    known = {field.name for field in fields(Settings)}
    for field in changes:
        if field not in known:
            raise InvalidTask(f"{field} is not a setting of a pool. Use some of {', '.join(sorted(known))}.")
    given = {field: _as_stored(field, value) for field, value in changes.items()}

    def change(current: PoolOverrides, _: Look) -> PoolOverrides:
        tuned = {field: value for field, value in {**current.tuned, **given}.items() if value is not None}
        changed = replace(current, tuned=tuned)
        _check_settings(changed)
        return changed

    values = ", ".join(f"{field} = {'as the nodes say' if value is None else value}" for field, value in given.items())
    return _change(access, name, change, author, "tuned", f"{values} by {author.by}")


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo a change of what people want from a pool."""
    restore_control(access.whole_store, OVERRIDES, name, reversal)


def look_at(store: Store, counts: Sequence[Count] | None = None) -> Look:
    """Read what is needed to describe pools: all queues that a pool serves first, then others, up to `MAX_QUEUES`."""
    served = {
        queue for control in store.controls(POOL) for queue in decode_document(control.value, PoolDecision).queues
    }
    others = {each.queue for each in (store.counts() if counts is None else counts)} - served
    return store.look([*sorted(served), *sorted(others)][:MAX_QUEUES], ahead=AHEAD)


def describe_all(look: Look) -> list[PoolView]:
    """Return every pool in a look, by name."""
    return [_view(name, look) for name in _names(look)]


def describe(look: Look, name: str) -> PoolView:
    """Return one pool in a look. Raise `UnknownPool` if it is not there."""
    check_pool(look, name)
    return _view(name, look)


def count_desired(look: Look, name: str) -> int:
    """Return how many workers a pool in a look should have.

    Never fewer than run tasks now, so that no busy worker is taken away; more than the present nodes may have, if the
    load needs more. With no node alive the same rules decide from what the store alone knows, so that a pool can be
    started from nothing.
    """
    decision, _ = pool_tick.read_decision(look, name)
    here = select_members(pool_tick.read_reports(look), name)
    busy = ceil(sum(each.leased for each in look.queues if each.queue in _queues(look, name)) / decision.threads)
    if here:
        target = decision.target if decision.tick else sum(report.target for report in here.values())
        if _needs_nodes(decision, here):
            target = max(target, ceil(decision.needs / decision.threads))
        # A leased task may only be read ahead, so above the maximum only tasks that the nodes report as running count.
        running = sum(ceil(report.running / report.threads) for report in here.values())
        return max(target, running, min(busy, decision.settings.max // decision.threads))
    overrides, _ = pool_tick.read_overrides(look, name)
    seen, _ = observe(look, {"": PoolReport(queues=decision.queues, threads=decision.threads)}, decision.seen)
    found = tick(float(look.now // SECOND), seen, decision.apply_overrides(overrides), decision.settings)
    return max(busy, ceil(found.target / decision.threads))


def check_pool(look: Look, name: str) -> None:
    """Refuse the name of a pool that no node has or had."""
    known = _names(look)
    if name not in known:
        raise UnknownPool(name, known)


def _desired(look: Look, name: str) -> Desired:
    workers = count_desired(look, name)
    return Desired(pool=name, workers=workers, slots=workers * describe(look, name).threads)


def _change(
    access: Access,
    name: str,
    change: Callable[[PoolOverrides, Look], PoolOverrides],
    author: Author,
    action: str,
    text: str,
) -> PoolView:
    """Write a change of what people want from a pool, with its audit entry."""
    store = access.whole_store

    def attempt() -> None:
        look = look_at(store)
        check_pool(look, name)
        overrides, version = pool_tick.read_overrides(look, name)
        value = encode_document(change(overrides, look))
        present, changed = to_fields(overrides), read_fields(value)
        data = {**read_fields(redact_data(value)), "undo": compare_fields(present, changed)}
        entry = author.entry(f"pool/{name}", action, text, **data)
        write_control(store, OVERRIDES, name, value, version=version, entries=[entry])

    retry_on_conflict(f"the overrides of pool {name}", attempt)
    return get(access, name)


def _check_settings(overrides: PoolOverrides) -> None:
    settings = overrides.tune(Settings())
    found = find_setting_errors(settings)
    if "min" in overrides.tuned and "max" in overrides.tuned and settings.min > settings.max:
        found.append(f"min={settings.min} is above max={settings.max}")
    if not 0 <= settings.min <= MAX_WORKERS or not 0 <= settings.max <= MAX_WORKERS:
        found.append(f"min={settings.min}, max={settings.max} is out of range, use 0 to {MAX_WORKERS:,}")
    if found:
        raise InvalidTask("pool: " + "; ".join(found))


def _as_stored(field: str, value: Any) -> Any:
    """Return a setting as it is stored: times in seconds. None, which removes one, fits all."""
    if field in TIME_SETTINGS and isinstance(value, str | timedelta):
        return duration(value, field).total_seconds()
    try:
        msgspec.convert({} if value is None else {field: value}, Settings)
    except msgspec.ValidationError as error:
        raise InvalidTask(f"{field}={value!r} is not a valid setting: {error}") from error
    return value


def _needs_nodes(decision: PoolDecision, here: Mapping[str, PoolReport]) -> bool:
    """Return True if only the number of nodes limits the pool: no person, no downstream, no schedule."""
    room = sum(report.max for report in here.values()) * decision.threads
    return "at_max" in decision.alerts and decision.slots == decision.settings.max == room


def _names(look: Look) -> list[str]:
    decided = {control.name for control in look.controls if control.kind == POOL}
    return sorted(decided | {name for report in pool_tick.read_reports(look).values() for name in report.pools})


def _queues(look: Look, name: str) -> set[str]:
    decision, _ = pool_tick.read_decision(look, name)
    here = select_members(pool_tick.read_reports(look), name)
    return {*decision.queues, *(queue for report in here.values() for queue in report.queues)}


def _view(name: str, look: Look) -> PoolView:
    reports = pool_tick.read_reports(look)
    here = select_members(reports, name)
    decision, _ = pool_tick.read_decision(look, name)
    overrides, _ = pool_tick.read_overrides(look, name)
    override = overrides.override if overrides.override and overrides.override.is_active(look.now / SECOND) else None
    paused = overrides.paused
    queues = _queues(look, name)
    counts = [each for each in look.queues if each.queue in queues]
    settings = pool_tick.resolve_settings(here, overrides) if here else decision.settings
    nodes = {str(each.session): each.node for each in look.reports}
    parts = tuple(_part(nodes.get(session, ""), session, report) for session, report in here.items())
    late = look.now // SECOND - decision.tick > STALLED
    stalled = bool(here) and late and not decision.idle and not all(report.fixed for report in here.values())
    threads = decision.threads
    return PoolView(
        name=name,
        queues=tuple(sorted(queues)),
        fixed=bool(here) and all(report.fixed for report in here.values()),
        target=decision.target if decision.tick else sum(part.target for part in parts),
        live=sum(part.ready + part.starting + part.draining for part in parts),
        ready=sum(part.ready for part in parts),
        running=sum(part.running for part in parts),
        starting=sum(part.starting for part in parts),
        draining=sum(part.draining for part in parts),
        asleep=sum(part.asleep for part in parts),
        threads=threads,
        min=settings.min // threads,
        max=settings.max // threads,
        wait=settings.wait,
        runnable=sum(each.runnable for each in counts),
        leased=sum(each.leased for each in counts),
        oldest=compute_oldest_wait(look.now, [each.oldest for each in counts]),
        needs=decision.needs / threads,
        sentence=redact_text(decision.sentence),
        reasons=tuple(map(redact_text, decision.reasons)),
        decided_at=decision.tick,
        decided_by=decision.by,
        alerts=(*decision.alerts, *(("autoscaler_stalled",) if stalled else ())),
        override=override and replace(override, why=redact_text(override.why)),
        paused=paused and replace(paused, why=redact_text(paused.why)),
        tuned=redact(dict(overrides.tuned)),
        degraded=redact_text("; ".join(reports[session].degraded for session in here if reports[session].degraded)),
        nodes=parts,
    )


def _part(node: str, session: str, report: PoolReport) -> NodePart:
    shown: Sequence[str] = ("target", "ready", "running", "starting", "draining", "asleep", "max")
    return NodePart(node=node, session=session, **{field: getattr(report, field) for field in shown})
