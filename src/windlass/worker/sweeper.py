"""The pass of time: due → runnable, session lost → runnable, past `expires` → expired, old → pruned.

Every node has one; they do no harm to each other. It sleeps until something is due, but never for long, because a
sleeper does not see what is submitted meanwhile.
"""

from __future__ import annotations

from windlass.clock import SystemClock, jitter
from windlass.errors import StoreError
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import Store, Swept

MOST_SECONDS, LEAST_SECONDS = 0.5, 0.01
CLOCKS_DIFFER_SECONDS = 1.0


class Sweeper:
    """Sweeps one store."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self.turned = store.unresolved
        """Set when there is something to do, or to hear, before the next pass is due."""

    def step(self) -> None:
        """One pass, and the wait for the next."""
        self.turned.clear()
        try:
            wait = _pause(self._store.sweep())
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="sweep", error=str(error)))
            wait = MOST_SECONDS
        if wait:
            self.turned.wait(wait)


def _pause(swept: Swept) -> float:
    """How long nothing will happen: until the next task is due, half a second at the most."""
    if not swept.quiet:
        return 0.0
    if swept.next_due is None:
        return MOST_SECONDS * jitter(0.8, 1.0)
    wait = (swept.next_due - SystemClock().now()) / 1e6
    if wait < -CLOCKS_DIFFER_SECONDS:  # The store, whose clock decides, has just left it alone: ours is ahead of it.
        return MOST_SECONDS
    return min(MOST_SECONDS, max(LEAST_SECONDS, wait))
