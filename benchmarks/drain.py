"""Claim and settle tasks in a loop, in one process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import NamedTuple, TypeAlias

from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Store

QUEUE = "default"
LONG = timedelta(hours=1)
"""The TTL of a session. Nothing renews it, and a sweep may run."""

WARM_UP = 6
"""Cycles before the measurement. psycopg prepares a statement after it was sent five times."""

Cycle: TypeAlias = Callable[[int], int]
"""Claims and settles at most this many tasks, and returns their number."""


class DrainResult(NamedTuple):
    """The tasks and seconds of one process."""

    tasks: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.tasks / self.seconds if self.seconds else 0.0


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


def drain(cycle: Cycle, batch: int, *, seconds: float = float("inf"), tasks: float = float("inf")) -> DrainResult:
    """Run cycles until the time is up, this many tasks are done, or none are left."""
    done, start = 0, perf_counter()
    last = start
    while last - start < seconds and done < tasks:
        found = cycle(batch)
        if not found:
            break
        done += found
        last = perf_counter()
    return DrainResult(done, last - start)
