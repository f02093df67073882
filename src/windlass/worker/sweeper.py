"""The thread that applies what time does to tasks: due → runnable, lost → runnable, late → expired, old → pruned.

Every node runs one; several do no harm. It waits until something is due, but never for long, because it does not see
what is submitted meanwhile.
"""

from __future__ import annotations

from windlass.clock import Clock, jitter
from windlass.errors import StoreError
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import Store, Swept

MOST_SECONDS, LEAST_SECONDS = 0.5, 0.01
CLOCKS_DIFFER_SECONDS = 1.0


class Sweeper:
    """Sweeps one store."""

    def __init__(self, store: Store, events: Events, clock: Clock) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self.wake = store.unresolved
        """Ends the wait of `step`: the store has work for a sweep, or the node closes."""

    def step(self) -> None:
        """Sweep, then wait for the next sweep."""
        self.wake.clear()
        try:
            wait = self._pause(self._store.sweep())
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="sweep", error=str(error)))
            wait = MOST_SECONDS
        if wait:
            self._clock.wait(self.wake, wait)

    def _pause(self, swept: Swept) -> float:
        """Return how long to wait: until the next task is due, at most half a second."""
        if not swept.quiet:
            return 0.0
        if swept.next_due is None:
            return MOST_SECONDS * jitter(0.8, 1.0)
        wait = (swept.next_due - self._clock.now()) / 1e6
        if wait < -CLOCKS_DIFFER_SECONDS:  # The store did not find it due, so our clock is ahead of the store's.
            return MOST_SECONDS
        return min(MOST_SECONDS, max(LEAST_SECONDS, wait))
