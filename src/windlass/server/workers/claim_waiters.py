"""Where claims wait for work: one thread listens to the store for all of them.

A hint wakes the first who waits for some set of queues; whoever finds something wakes the next, and whoever finds
nothing goes to the end of the line. So what a hint costs the store does not grow with the number of those who wait; nor
does the poll of every second by which nothing is missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Event, Lock, Thread

from windlass.clock import sleep
from windlass.errors import StoreError
from windlass.stores.protocol import TaskStore

POLL = timedelta(seconds=1)
BRISK = timedelta(milliseconds=50)
"""How long is listened at first, because a hint may have come just before."""

Queues = tuple[str, ...]


class ClaimWaiters:
    """Those who wait, by the queues for which they do. Used from the loop alone, but for its own thread."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._lines: dict[Queues, deque[asyncio.Future[None]]] = {}
        self._lock = Lock()
        self.listening: Thread | None = None
        """Who listens to the store, while somebody waits."""
        self._brisk = Event()
        self.closed = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    async def wait(self, queues: Sequence[str], seconds: float) -> None:
        """Sleep until there may be something in one of the queues, or the time is up."""
        if self.closed:
            return
        line, loop = self._lines.setdefault(tuple(queues), deque()), asyncio.get_running_loop()
        place = loop.create_future()
        line.append(place)
        self._listen(loop)
        try:
            with suppress(TimeoutError):  # The time is up: the caller looks once more.
                async with asyncio.timeout(seconds):
                    await place
        finally:
            self._leave(tuple(queues), place)

    def next(self, queues: Sequence[str]) -> None:
        """Wake the next who waits for the same queues: there may be more."""
        for place in self._lines.get(tuple(queues), ()):
            if not place.done():
                place.set_result(None)
                return

    def close(self) -> None:
        """Wake everybody, and let nobody wait any more."""
        self.closed = True
        for place in [place for line in self._lines.values() for place in line]:
            if not place.done():
                place.set_result(None)

    def _leave(self, queues: Queues, place: asyncio.Future[None]) -> None:
        line = self._lines[queues]
        line.remove(place)
        if not line:
            del self._lines[queues]

    def _wake(self) -> None:
        for queues in list(self._lines):
            self.next(queues)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._brisk.set()
        with self._lock:
            if self.listening is None:
                self.listening = Thread(target=self._on_work, args=(loop,), name="windlass-hall", daemon=True)
                self.listening.start()

    def _on_work(self, loop: asyncio.AbstractEventLoop) -> None:
        """In its own thread, for as long as somebody waits."""
        while True:
            with self._lock:
                queues = sorted({queue for line in list(self._lines) for queue in line})
                if not queues or self.closed:
                    self.listening = None
                    return
            brisk = self._brisk.is_set()
            self._brisk.clear()
            try:
                self._store.wait_for_work(queues, BRISK if brisk else POLL)
            except StoreError:  # Those who wait will meet it themselves, and say so.
                sleep(POLL.total_seconds())
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # The loop has ended, and with it everybody who waited.
                with self._lock:
                    self.listening = None
                return
