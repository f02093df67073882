"""What fair queues and limits must know about leases that have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from windlass.core.fairness import Usage, add_usage
from windlass.core.times import Micros
from windlass.stores.sql.database import Transaction, Values


class EndedLease(NamedTuple):
    """A lease that was removed and counts for a limit or a fair queue."""

    id: Any
    queue: str
    tenant: str
    claimed: Micros
    charge: int | None
    handler: str
    limit_key: str | None
    limited: bool


class EndedTurn(NamedTuple):
    """A completed attempt of a fair queue."""

    id: str
    """In hexadecimal."""
    queue: str
    tenant: str
    claimed: Micros
    charge: int


def record_completed(
    tx: Transaction,
    turns: Iterable[Values],
    scopes: Iterable[Values],
    ran: Mapping[str, Micros | None],
    now: Micros,
) -> set[str]:
    """Write how long completed attempts ran, by id, and in which scopes limits have room again.

    Return the queues to wake up.
    """
    used: dict[tuple[str, str], Usage] = {}
    for id, queue, tenant, claimed, charge in (EndedTurn(*line) for line in turns):
        measured = ran[id]
        usage = Usage(tenant, max(0, now - claimed) if measured is None else measured, charge, 1, now)
        used[queue, tenant] = add_usage(used.get((queue, tenant)), usage)
    return _write(tx, used, {tuple(scope) for scope in scopes})


def record_ended(
    tx: Transaction,
    leases: Sequence[Values],
    get_run: Callable[[EndedLease], tuple[Micros, int]],
    now: Micros,
) -> set[str]:
    """Write how long attempts ran, and that limits have room again. Return the queues to wake up.

    `get_run` returns the run time of an attempt, and 1 if it counts as one.
    """
    used: dict[tuple[str, str], Usage] = {}
    freed: set[Values] = set()
    for lease in (EndedLease(*line) for line in leases):
        if lease.charge is not None:
            ran, attempts = get_run(lease)
            usage = Usage(lease.tenant, ran, lease.charge, attempts, now)
            used[lease.queue, lease.tenant] = add_usage(used.get((lease.queue, lease.tenant)), usage)
        if lease.limited:
            freed.add((lease.queue, lease.tenant, lease.handler, lease.limit_key))
    return _write(tx, used, freed)


def _write(tx: Transaction, used: Mapping[tuple[str, str], Usage], freed: set[Values]) -> set[str]:
    tx.execute("record_usage", [(queue, *usage) for (queue, _), usage in sorted(used.items())])
    tx.execute("record_freed", sorted(freed, key=lambda scope: (*scope[:3], scope[3] or "")))
    return {scope[0] for scope in freed}
