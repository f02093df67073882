"""Claim and settle tasks in a loop, in one process, and measure what it costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic_ns
from typing import TypeAlias

from benchmarks.cost import Mark
from benchmarks.usage import Roles, read_usage
from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Store

QUEUE = "default"
LONG = timedelta(hours=1)
"""The TTL of a session. Nothing renews it, and a sweep may run."""

WARM_UP = 6
"""Cycles before the measurement. psycopg prepares a statement after it was sent five times."""

Cycle: TypeAlias = Callable[[int], int]
"""Claims and settles at most this many tasks, and returns their number."""


def make_cycle(store: Store) -> Cycle:
    """Return a cycle through a store, with its own session."""
    session = store.open_session("benchmark", ttl=LONG)

    def cycle(batch: int) -> int:
        claims = store.claim(session, [QUEUE], batch)
        store.settle([(claim.lease, COMPLETED) for claim in claims])
        return len(claims)

    return cycle


def warm_up(cycle: Cycle) -> None:
    """Run some cycles to fill caches and prepare statements."""
    for _ in range(WARM_UP):
        cycle(1)


def drain(cycle: Cycle, batch: int, tasks: float = float("inf")) -> int:
    """Run cycles until this many tasks are done, or none are left. Return the number of tasks."""
    done = 0
    while done < tasks and (found := cycle(batch)):
        done += found
    return done


def mark(server_pid: int | None, tasks: int) -> Mark:
    """Return the CPU time used so far by this process and by the server, if there is one."""
    return Mark(tasks, monotonic_ns(), read_usage(Roles(server=server_pid), client=True))
