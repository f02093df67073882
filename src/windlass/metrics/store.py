"""How things stand in the store, read when Prometheus asks.

One reading serves everybody for two seconds, runs in a thread of its own and is waited for only so long: a store that
is away or hangs is `windlass_up 0`, and neither a hanging scrape nor a heap of threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol, runtime_checkable

from prometheus_client.metrics_core import Metric

from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.errors import WindlassError
from windlass.metrics import pools as pool_metrics
from windlass.metrics.families import Family, Sample, exposed
from windlass.operations.breakers import read_breakers
from windlass.operations.pools import look_at
from windlass.stores.coordination import Look
from windlass.stores.protocol import Count, Session, Store

FRESH_SECONDS = 2.0
PATIENCE = 5.0
"""Seconds that a scrape waits for the store; Prometheus itself waits for ten."""
SECOND = 1_000_000

UP = Family("windlass_up", "Whether the store answered this scrape.")
LATENCY = Family("windlass_store_latency_seconds", "How long the store took to answer this scrape.")
TASKS = Family("windlass_queue_tasks", "Tasks by queue and state.", ("queue", "state"))
TENANTS = Family("windlass_queue_tenant_tasks", "Tasks by queue, tenant and state.", ("queue", "tenant", "state"))
OLDEST = Family(
    "windlass_queue_oldest_ready_seconds", "How long the runnable task that waits longest has waited.", ("queue",)
)
PAUSED = Family("windlass_queue_paused", "Whether the queue is paused.", ("queue",))
DEAD = Family("windlass_dead_letters", "Failed tasks that are kept.", ("queue",))
NODES = Family("windlass_nodes", "Sessions of nodes: alive, or gone within a day.", ("state",))
BREAKER = Family("windlass_breaker_state", "1 for the state that a breaker is in.", ("downstream", "state"))
HORIZON = Family("windlass_store_xmin_age_seconds", "Age of the transaction that keeps PostgreSQL from cleaning up.")

FAMILIES = (UP, LATENCY, TASKS, TENANTS, OLDEST, PAUSED, DEAD, NODES, BREAKER, HORIZON, *pool_metrics.FAMILIES)


@runtime_checkable
class HasHorizon(Protocol):
    """A store that somebody's open transaction can slow down."""

    def horizon_age(self) -> float:
        """For how many seconds the oldest such transaction has been open."""
        ...


class StoreMetrics:
    """A collector for any Prometheus registry. Tenants have series of their own only if that is asked for."""

    def __init__(self, store: Store, *, tenants: bool = False, patience: float = PATIENCE) -> None:
        self._store = store
        self._tenants = tenants
        self._patience = patience
        self._lock = threading.Lock()
        self._under_way: Future[list[Sample]] | None = None
        self._samples: list[Sample] = []
        self._fresh_until = 0.0

    def collect(self) -> list[Metric]:
        """All families, as of a moment ago."""
        with self._lock:
            if monotonic() >= self._fresh_until:
                self._samples = self._read()
                self._fresh_until = monotonic() + FRESH_SECONDS
            return exposed(FAMILIES, self._samples)

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry need not read the store to take this collector."""
        return ()

    def _read(self) -> list[Sample]:
        """What the store says; that it is down, if it does not say so in time. One that is late is let be."""
        if self._under_way is None or self._under_way.done():
            self._under_way = Future()
            args = (self._store, self._under_way, self._tenants)
            threading.Thread(target=_answer, args=args, name="windlass-metrics", daemon=True).start()
        with suppress(WindlassError, TimeoutError):
            return self._under_way.result(self._patience)
        return [Sample(UP, 0.0)]


def _answer(store: Store, future: Future[list[Sample]], tenants: bool) -> None:
    begun = monotonic()
    try:
        found = samples(store, tenants=tenants)
    except Exception as error:  # noqa: BLE001 whatever it is, who waits is to have it
        future.set_exception(error)
    else:
        future.set_result([Sample(UP, 1.0), Sample(LATENCY, monotonic() - begun), *found])


def samples(store: Store, *, tenants: bool = False) -> list[Sample]:
    """All that is read, in a handful of calls whose cost does not grow with the backlog."""
    counts = store.counts()
    look = look_at(store, counts)
    found = [*_tasks(counts), *_queues(look), *_nodes(store.sessions()), *_breakers(store, look)]
    if tenants:
        found += [Sample(TENANTS, each.tasks, (each.queue, each.tenant, each.state)) for each in counts]
    if isinstance(store, HasHorizon):
        found.append(Sample(HORIZON, store.horizon_age()))
    return [*found, *pool_metrics.samples(look)]


def _tasks(counts: Sequence[Count]) -> list[Sample]:
    found: Counter[tuple[str, State]] = Counter()
    for each in counts:
        found[each.queue, each.state] += each.tasks
    dead = {each.queue: found[each.queue, State.FAILED] for each in counts}
    return [
        *(Sample(TASKS, number, (queue, state)) for (queue, state), number in found.items()),
        *(Sample(DEAD, number, (queue,)) for queue, number in dead.items()),
    ]


def _queues(look: Look) -> Iterable[Sample]:
    for each in look.queues:
        waited = 0.0 if each.oldest is None else max(0.0, (look.now - each.oldest) / SECOND)
        yield Sample(OLDEST, waited, (each.queue,))
        yield Sample(PAUSED, each.paused, (each.queue,))


def _nodes(sessions: Sequence[Session]) -> list[Sample]:
    gone = sum(session.lost for session in sessions)
    return [Sample(NODES, len(sessions) - gone, ("alive",)), Sample(NODES, gone, ("gone",))]


def _breakers(store: Store, look: Look) -> Iterable[Sample]:
    for each in read_breakers(store, look.now):
        for state in type(each.breaker.state):
            yield Sample(BREAKER, each.breaker.state is state, (each.name, state))
