"""Metrics of the store's state, read when Prometheus scrapes.

Readings are shared for two seconds, run in their own thread and have a time limit: an unavailable or hanging store is
`windlass_up 0`, not a hanging scrape or a growing number of threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol, runtime_checkable

from prometheus_client.metrics_core import Metric

from windlass.call_limits import CallLimits, limited
from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.errors import WindlassError
from windlass.metrics import fairness as fairness_metrics
from windlass.metrics import pools as pool_metrics
from windlass.metrics.families import Family, Sample, group_samples
from windlass.operations.breakers import read_breakers
from windlass.operations.pools import look_at
from windlass.stores.coordination import Look
from windlass.stores.protocol import Count, Session, Store

FRESH_SECONDS = 2.0
TIMEOUT_SECONDS = 5.0
"""Seconds that a scrape waits for the store. Prometheus waits ten by default."""
PATIENCE = 2.0
"""Seconds that a scrape waits for a connection to the store."""
SECOND = 1_000_000

UP = Family("windlass_up", "Whether the store answered this scrape.")
LATENCY = Family("windlass_store_latency_seconds", "Time that the store took to answer this scrape.")
TASKS = Family("windlass_queue_tasks", "Tasks by queue and state.", ("queue", "state"))
TENANTS = Family("windlass_queue_tenant_tasks", "Tasks by queue, tenant and state.", ("queue", "tenant", "state"))
OLDEST = Family("windlass_queue_oldest_ready_seconds", "How long the oldest runnable task has waited.", ("queue",))
PAUSED = Family("windlass_queue_paused", "Whether the queue is paused.", ("queue",))
DEAD = Family("windlass_dead_letters", "Failed tasks.", ("queue",))
NODES = Family("windlass_nodes", "Sessions of nodes: alive, or lost within a day.", ("state",))
BREAKER = Family("windlass_breaker_state", "1 for the state that a breaker is in.", ("downstream", "state"))
HORIZON = Family(
    "windlass_store_xmin_age_seconds", "Age of the oldest transaction, which blocks cleanup in PostgreSQL."
)

FAMILIES = (
    *(UP, LATENCY, TASKS, TENANTS, OLDEST, PAUSED, DEAD, NODES, BREAKER, HORIZON),
    *fairness_metrics.FAMILIES,
    *pool_metrics.FAMILIES,
)


@runtime_checkable
class HasHorizon(Protocol):
    """A store that a long-running transaction slows down."""

    def horizon_age(self) -> float:
        """Return the age of the oldest open transaction in seconds."""
        ...


class StoreMetrics:
    """A Prometheus collector of a store's state. Series per tenant are optional."""

    def __init__(self, store: Store, *, tenants: bool = False, timeout: float = TIMEOUT_SECONDS) -> None:
        self._store = store
        self._tenants = tenants
        self._timeout = timeout
        self._lock = threading.Lock()
        self._reading: Future[list[Sample]] | None = None
        self._samples: list[Sample] = []
        self._fresh_until = 0.0

    def collect(self) -> list[Metric]:
        """Return all families; readings are up to two seconds old."""
        with self._lock:
            if monotonic() >= self._fresh_until:
                self._samples = self._read()
                self._fresh_until = monotonic() + FRESH_SECONDS
            return group_samples(FAMILIES, self._samples)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector does not read the store."""
        return ()

    def _read(self) -> list[Sample]:
        """Read the store, or return `windlass_up 0` on timeout. A late reading continues in its thread."""
        if self._reading is None or self._reading.done():
            self._reading = Future()
            args = (self._store, self._reading, self._tenants)
            threading.Thread(target=_read_into, args=args, name="windlass-metrics", daemon=True).start()
        with suppress(WindlassError, TimeoutError):
            return self._reading.result(self._timeout)
        return [Sample(UP, 0.0)]


def _read_into(store: Store, future: Future[list[Sample]], tenants: bool) -> None:
    started = monotonic()
    try:
        with limited(CallLimits(patience=PATIENCE)):
            found = samples(store, tenants=tenants)
    except Exception as error:  # noqa: BLE001 - raised in the waiting thread
        future.set_exception(error)
    else:
        future.set_result([Sample(UP, 1.0), Sample(LATENCY, monotonic() - started), *found])


def samples(store: Store, *, tenants: bool = False) -> list[Sample]:
    """Read all samples, in a few calls whose cost does not grow with the backlog."""
    counts = store.counts()
    look = look_at(store, counts)
    found = [*_tasks(counts), *_queues(look), *_nodes(store.sessions()), *_breakers(store, look)]
    if tenants:
        found += [Sample(TENANTS, each.tasks, (each.queue, each.tenant, each.state)) for each in counts]
    if isinstance(store, HasHorizon):
        found.append(Sample(HORIZON, store.horizon_age()))
    found += fairness_metrics.samples(store, counts, look.now, all_tenants=tenants)
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
