"""Claim and settle, over and over, in one process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import NamedTuple, TypeAlias

from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Store

QUEUE = "default"
LONG = timedelta(hours=1)
"""How long a session lives here, because nobody renews it and somebody may sweep."""

WARM_UP = 6
"""Cycles before the clock starts: psycopg prepares a statement when it has been sent five times."""

Cycle: TypeAlias = Callable[[int], int]
"""One claim of at most so many tasks and the settling of them; how many they were."""


class Drained(NamedTuple):
    """What one process did."""

    tasks: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds if self.seconds else 0.0


def through(store: Store) -> Cycle:
    """Cycles through a store, in a session of their own."""
    session = store.open_session("benchmark", ttl=LONG)

    def cycle(batch: int) -> int:
        claims = store.claim(session, [QUEUE], batch)
        store.settle([(claim.lease, COMPLETED) for claim in claims])
        return len(claims)

    return cycle


def warm_up(cycle: Cycle) -> None:
    """Let caches fill and statements be prepared."""
    for _ in range(WARM_UP):
        cycle(1)


def drain(cycle: Cycle, batch: int, *, seconds: float = float("inf"), tasks: float = float("inf")) -> Drained:
    """Go on until the time is up, so many tasks are done, or nothing is left."""
    done, start = 0, perf_counter()
    last = start
    while last - start < seconds and done < tasks:
        found = cycle(batch)
        if not found:
            break
        done += found
        last = perf_counter()
    return Drained(done, last - start)
