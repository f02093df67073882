"""What the workers of a queue can do, from what their nodes have measured."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from windlass.autoscale.observe import PoolReport
from windlass.autoscale.pool_tick import read_reports
from windlass.core.times import Micros
from windlass.stores.protocol import Store

MEASURED = 5
"""How many attempts must have ended before their mean run time is used."""
NOW = timedelta(0)


class Capacity(Struct, frozen=True, kw_only=True):
    """The pools that serve a queue, on all nodes."""

    now: Micros
    """By the store's clock."""
    slots: int
    """How many tasks they can run at once."""
    seconds: float | None
    """The mean run time of their tasks; None if it was not measured yet."""
    others: dict[str, int]
    """The runnable tasks of the other queues that they serve."""


def read_capacity(store: Store, queue: str) -> Capacity:
    """Read what the workers of a queue can do."""
    here = store.look([queue], ahead=NOW)
    pools = [pool for node in read_reports(here).values() for pool in node.pools.values() if queue in pool.queues]
    names = sorted({name for pool in pools for name in pool.queues} - {queue})
    others = store.look(names, ahead=NOW).queues if names else []
    return Capacity(
        now=here.now,
        slots=sum((pool.ready + pool.asleep + pool.starting) * pool.threads for pool in pools),
        seconds=_run_time(pools),
        others={other.queue: other.runnable for other in others if not other.paused},
    )


def estimate_added_seconds(store: Store, tasks: Mapping[str, int]) -> float | None:
    """Return how long the present workers need for this many more tasks of each queue; None if that is not known."""
    found: list[float] = []
    for queue, number in tasks.items():
        here = read_capacity(store, queue)
        if not here.slots or here.seconds is None:
            return None
        found.append(number * here.seconds / here.slots)
    return max(found, default=None)


def _run_time(pools: list[PoolReport]) -> float | None:
    ended = sum(pool.ended for pool in pools)
    return sum(pool.busy for pool in pools) / ended if ended >= MEASURED else None
