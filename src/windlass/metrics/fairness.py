"""Metrics of fair queues, limits and pauses of tenants.

The number of series is bounded: a fair queue has those of `TENANTS_SHOWN` tenants, and there are `LIMITS_SHOWN` limits.
Limits that tasks declare themselves have no series, because there may be as many as there are keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from windlass.core.fairness import Tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LimitUse, scope_names
from windlass.core.times import Micros
from windlass.metrics.families import Family, Sample
from windlass.operations.limits import read_room
from windlass.operations.shares import TenantShare, read_shares, read_tenants
from windlass.stores.protocol import Count, Store

TENANTS_SHOWN = 20
"""How many tenants of a fair queue have series: those that ran longest in the last hour."""
LIMITS_SHOWN = 200
"""How many limits have series: those that let no task start come first, then by name."""

DUE = Family("windlass_fair_share_due_ratio", "Share of a fair queue that a tenant should get.", ("queue", "tenant"))
GOT = Family(
    "windlass_fair_share_got_ratio", "Share of the run time that it got in about the last minute.", ("queue", "tenant")
)
MISSING = Family(
    "windlass_fair_share_missing_ratio",
    "Largest share that a tenant with tasks that may start was due and did not get, in both the last minute and hour.",
    ("queue",),
)
SHARING = Family("windlass_fair_tenants", "Tenants with tasks in a fair queue or with recent run time.", ("queue",))
RUNNING = Family("windlass_limit_running", "Running tasks in the scope of a limit.", ("limit",))
MAX_RUNNING = Family("windlass_limit_max_running", "Tasks that a limit allows to run at once.", ("limit",))
FULL = Family("windlass_limit_full", "Whether a limit lets no task start now.", ("limit",))
HELD = Family(
    "windlass_queue_held_tasks",
    "Runnable tasks that a paused tenant or a limit on it or its queue holds back.",
    ("queue",),
)
PAUSED = Family("windlass_tenants_paused", "Tenants that are paused.")

FAMILIES = (DUE, GOT, MISSING, SHARING, RUNNING, MAX_RUNNING, FULL, HELD, PAUSED)


def samples(store: Store, counts: Sequence[Count], now: Micros, *, all_tenants: bool = False) -> Iterable[Sample]:
    """Read the samples. Accounts are read only if there is a fair queue, and leases only if there is a limit."""
    settings, uses = read_tenants(store), read_room(store, now).get_all_uses()
    held = _find_held(counts, settings, [use for use in uses if use.blocks], now)
    yield Sample(PAUSED, sum(tenant.is_paused(now) for tenant in settings.values()))
    for queue, tasks in _count_held(counts, held).items():
        yield Sample(HELD, tasks, (queue,))
    for use in sorted(uses, key=lambda use: (not use.blocks, use.limit.name))[:LIMITS_SHOWN]:
        yield from _limit(use)
    for queue, shares in groupby(read_shares(store, counts, now), key=lambda share: share.queue):
        yield from _queue(queue, list(shares), held, None if all_tenants else TENANTS_SHOWN)


def _find_held(
    counts: Iterable[Count], settings: dict[str, Tenant], blocking: Sequence[LimitUse], now: Micros
) -> set[tuple[str, str]]:
    """Return the queues and tenants whose tasks may not start."""
    paused = {name for name, tenant in settings.items() if tenant.is_paused(now)}
    full = {use.limit.name for use in blocking}
    return {
        (each.queue, each.tenant)
        for each in counts
        if each.tenant in paused or not full.isdisjoint(scope_names(each.queue, each.tenant, "", None))
    }


def _count_held(counts: Iterable[Count], held: Collection[tuple[str, str]]) -> Counter[str]:
    """Return how many tasks are held back in each queue that has runnable tasks."""
    found: Counter[str] = Counter()
    for each in counts:
        if each.state is State.RUNNABLE:
            found[each.queue] += max(0, each.tasks) if (each.queue, each.tenant) in held else 0
    return found


def _limit(use: LimitUse) -> Iterable[Sample]:
    yield Sample(RUNNING, use.running, (use.limit.name,))
    yield Sample(FULL, use.blocks, (use.limit.name,))
    if use.limit.max_running is not None:
        yield Sample(MAX_RUNNING, use.limit.max_running, (use.limit.name,))


def _queue(
    queue: str, shares: Sequence[TenantShare], held: Collection[tuple[str, str]], most: int | None
) -> Iterable[Sample]:
    wanting = [share for share in shares if share.runnable and (queue, share.tenant) not in held]
    yield Sample(MISSING, max((_missing(share) for share in wanting), default=0.0), (queue,))
    yield Sample(SHARING, sum(share.hour is not None and share.hour.due > 0 for share in shares), (queue,))
    for share in sorted(shares, key=lambda share: (-share.last_hour, share.tenant))[:most]:
        if share.minute is not None:
            yield Sample(DUE, share.minute.due, (queue, share.tenant))
            yield Sample(GOT, share.minute.got or 0.0, (queue, share.tenant))


def _missing(share: TenantShare) -> float:
    """Return what a tenant did not get in either period: a new one lacks the hour, one with long tasks the minute."""
    return min((part.missing for part in (share.minute, share.hour) if part is not None), default=0.0)
