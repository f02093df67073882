"""The weights of a pool's queues: those of the pool's settings, or else those of the queues in the store."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.clock import Clock
from windlass.config import PoolSettings
from windlass.errors import StoreUnavailable
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import TaskReader

REFRESH_SECONDS = 2.0
"""After how many seconds the weights are read again."""


class QueueWeights:
    """The weights of queues, read again at intervals, and only when asked for."""

    def __init__(self, store: TaskReader, events: Events, clock: Clock) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self._weights: dict[str, int] = {}
        self._read_at: float | None = None

    def refresh(self) -> None:
        """Read the weights from the store, if it is time. A store that is unavailable leaves them as they are."""
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = now
        try:
            self._weights = {queue.name: queue.weight for queue in self._store.queues()}
        except StoreUnavailable as error:
            self._events.emit(StoreCallFailed(doing="read the weights of queues", error=str(error)))

    def get(self, settings: PoolSettings) -> Mapping[str, int]:
        """Return the weight of each queue of a pool, in the order of its settings."""
        if settings.weights:
            return dict(zip(settings.queues, settings.weights, strict=True))
        return {queue: self._weights.get(queue, 1) for queue in settings.queues}
