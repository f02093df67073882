"""What tenants should get of the fair queues and what they got, over about the last minute and the last hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from windlass.core.fairness import TENANT, Tenant, decode_tenant
from windlass.core.lifecycle import State
from windlass.core.shares import Share, Used, compute_shares
from windlass.core.times import Micros
from windlass.stores.protocol import AccountSeen, Count, TaskReader

Accounts: TypeAlias = dict[str, AccountSeen]
"""The accounts of a queue, by tenant."""
Tasks: TypeAlias = dict[tuple[str, State], int]
"""The tasks of a queue, by tenant and state."""
_DEFAULT = Tenant()


class TenantShare(Struct, frozen=True, kw_only=True):
    """What a tenant got of a fair queue. Run times are in seconds."""

    queue: str
    tenant: str
    runnable: int
    leased: int
    last_minute: float
    last_hour: float
    minute: Share | None
    """None for a caller who may not see what other tenants used."""
    hour: Share | None


def read_tenants(store: TaskReader) -> dict[str, Tenant]:
    """Return the stored settings of tenants by name, with those that have expired."""
    return {control.name: decode_tenant(control.value) for control in store.controls(TENANT)}


def read_shares(store: TaskReader, counts: Sequence[Count], now: Micros, queue: str | None = None) -> list[TenantShare]:
    """Return the shares of all tenants that have tasks to run in a fair queue or used it, by queue and tenant."""
    fair = sorted(each.name for each in store.queues() if each.fair and queue in (None, each.name))
    if not fair:
        return []
    tenants, accounts, tasks = read_tenants(store), defaultdict[str, Accounts](dict), defaultdict[str, Tasks](dict)
    for account in store.accounts(queue):
        if account.tenant:
            accounts[account.queue][account.tenant] = account
    for count in counts:
        tasks[count.queue][count.tenant, count.state] = max(0, count.tasks)
    return [share for name in fair for share in _share_queue(name, accounts[name], tasks[name], tenants, now)]


def _share_queue(
    queue: str, accounts: Accounts, tasks: Tasks, tenants: Mapping[str, Tenant], now: Micros
) -> list[TenantShare]:
    def get_weight(tenant: str) -> int:
        return tenants.get(tenant, _DEFAULT).get_weight(now)

    wanting = _find_wanting(tasks, tenants, now)
    by_minute = [Used(one.tenant, one.last_minute, one.mean) for one in accounts.values()]
    by_hour = [Used(one.tenant, one.last_hour, one.mean) for one in accounts.values()]
    minute, hour = (compute_shares(used, wanting, get_weight) for used in (by_minute, by_hour))
    return [
        TenantShare(
            queue=queue,
            tenant=tenant,
            runnable=tasks.get((tenant, State.RUNNABLE), 0),
            leased=tasks.get((tenant, State.LEASED), 0),
            last_minute=accounts[tenant].last_minute if tenant in accounts else 0.0,
            last_hour=accounts[tenant].last_hour if tenant in accounts else 0.0,
            minute=minute[tenant],
            hour=hour[tenant],
        )
        for tenant in sorted(minute)
    ]


def _find_wanting(tasks: Tasks, tenants: Mapping[str, Tenant], now: Micros) -> set[str]:
    """Return the tenants with running tasks, or with runnable ones and no pause."""
    return {
        tenant
        for (tenant, state), number in tasks.items()
        if number
        and (state is State.LEASED or (state is State.RUNNABLE and not tenants.get(tenant, _DEFAULT).is_paused(now)))
    }
