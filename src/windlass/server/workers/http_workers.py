"""What the server does for workers that speak HTTP alone: it lets time pass for them, and remembers what they can do.

Nothing here is the truth about anything: sessions and leases live in the store, and any server can serve any session.
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
REMEMBERED = 10_000
PAUSE_SECONDS = 1.0
LAST_SECONDS = 2.0


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a worker says it can do, as the session keeps it. What it does not say holds nothing back."""

    queues: tuple[str, ...] = ()
    pools: dict[str, dict[str, list[str]]] | None = None
    handlers: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    slots: int = 1

    @property
    def serves(self) -> Serves:
        """What the worker may be given."""
        return Serves(handlers=self.handlers, labels=self.tags, slots=self.slots)


class HttpWorkers:
    """The workers of one server."""

    def __init__(self, store: Store) -> None:
        self.hall = ClaimWaiters(store)
        self._store = store
        self._sweeper = Sweeper(store, Events(), SystemClock())
        self._skills: OrderedDict[SessionId, Capabilities] = OrderedDict()
        self._lock = Lock()
        self._over = Event()
        self._thread: Thread | None = None

    def sweep(self) -> None:
        """From now on let time pass here: where all workers speak HTTP, there may be no node to do it."""
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = Thread(target=self._sweep, name="windlass-sweep", daemon=True)
                self._thread.start()

    def learn(self, session: SessionId, skills: Capabilities) -> None:
        """Remember what a worker can do."""
        with self._lock:
            self._skills[session] = skills
            if len(self._skills) > REMEMBERED:
                self._skills.popitem(last=False)

    def skills(self, session: SessionId) -> Capabilities:
        """What a worker can do, by its own words; of a session that another server has opened, the store knows them."""
        with self._lock:
            found = self._skills.get(session)
        if found is None:
            about = next((each.about for each in self._store.sessions() if each.id == session), "")
            found = _read(about)
            self.learn(session, found)
        return found

    def forget(self, session: SessionId) -> None:
        """It has left."""
        with self._lock:
            self._skills.pop(session, None)

    def close(self) -> None:
        """Wait for nothing more. To be called from the loop."""
        self._over.set()
        self._sweeper.wake.set()
        self.hall.close()

    def join(self, seconds: float = LAST_SECONDS) -> None:
        """Wait for the threads to end, so that the store can be closed; a store that hangs is not waited for long."""
        for thread in (self._thread, self.hall.listening):
            if thread is not None:
                thread.join(seconds)

    def _sweep(self) -> None:
        while not self._over.is_set():
            try:
                self._sweeper.step()
            except Exception:  # What it is must be seen, but workers elsewhere must not wait for ever because of it.
                logger.exception("the sweep broke")
                self._over.wait(PAUSE_SECONDS)


def _read(about: str) -> Capabilities:
    try:
        return msgspec.json.decode(about or "{}", type=Capabilities)
    except msgspec.DecodeError:
        return Capabilities()
