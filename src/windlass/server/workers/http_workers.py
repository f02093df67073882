"""Support for workers that speak HTTP: runs the sweeper for them and caches their capabilities.

The store owns sessions and leases; nothing here does. Any server can serve any session.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Event, Lock, Thread

import msgspec
from msgspec import Struct

from windlass.clock import SystemClock
from windlass.core.serving import Serves
from windlass.core.task import SessionId
from windlass.events import Events
from windlass.server.workers.claim_waiters import ClaimWaiters
from windlass.stores.protocol import Store
from windlass.worker.sweeper import Sweeper

logger = logging.getLogger("windlass.server")
MAX_CACHED = 10_000
"""How many sessions' capabilities are cached."""
PAUSE_SECONDS = 1.0
"""The pause after a sweep that failed."""
JOIN_SECONDS = 2.0


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a worker can run, as stored with its session. A field that is left out restricts nothing."""

    queues: tuple[str, ...] = ()
    pools: dict[str, dict[str, list[str]]] | None = None
    handlers: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    slots: int = 1
    memory: int | None = None
    owner: str = ""
    """The name of the token that opened the session; empty for the session of a node, which no token may use."""

    @property
    def serves(self) -> Serves:
        """Return the claim restrictions of the worker."""
        return Serves(handlers=self.handlers, labels=self.tags, slots=self.slots, memory=self.memory)


class HttpWorkers:
    """The workers of one server."""

    def __init__(self, store: Store) -> None:
        self.waiters = ClaimWaiters(store)
        self._store = store
        self._sweeper = Sweeper(store, Events(), SystemClock())
        self._capabilities: OrderedDict[SessionId, Capabilities] = OrderedDict()
        self._lock = Lock()
        self._closing = Event()
        self._thread: Thread | None = None

    def start_sweeper(self) -> None:
        """Start the sweeper if it does not run yet. If all workers speak HTTP, no node runs one."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = Thread(target=self._sweep, name="windlass-sweep", daemon=True)
                self._thread.start()

    def cache(self, session: SessionId, capabilities: Capabilities) -> None:
        """Cache the capabilities of a worker."""
        with self._lock:
            self._capabilities[session] = capabilities
            if len(self._capabilities) > MAX_CACHED:
                self._capabilities.popitem(last=False)

    def capabilities(self, session: SessionId) -> Capabilities | None:
        """Return the capabilities of a worker; None if there is no such session.

        The store has those of sessions that another server opened.
        """
        with self._lock:
            found = self._capabilities.get(session)
        if found is None:
            about = next((each.about for each in self._store.sessions() if each.id == session), None)
            if about is not None:
                found = _decode(about)
                self.cache(session, found)
        return found

    def forget(self, session: SessionId) -> None:
        """Drop a closed session from the cache."""
        with self._lock:
            self._capabilities.pop(session, None)

    def close(self) -> None:
        """Answer the waiting claims and stop the sweeper. Call it in the event loop."""
        self._closing.set()
        self._sweeper.wake.set()
        self.waiters.close()

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the threads to end, so that the store can be closed. A store that hangs is not waited for."""
        for thread in (self._thread, self.waiters.thread):
            if thread is not None:
                thread.join(seconds)

    def _sweep(self) -> None:
        while not self._closing.is_set():
            try:
                self._sweeper.step()
            except Exception:  # One failed sweep must not stop the sweeper.
                logger.exception("sweep failed")
                self._closing.wait(PAUSE_SECONDS)


def _decode(about: str) -> Capabilities:
    try:
        return msgspec.json.decode(about or "{}", type=Capabilities)
    except msgspec.DecodeError:
        return Capabilities()
