"""Lets claims wait for work: one thread waits for notifications of the store on behalf of all of them.

A notification wakes the first claim that waits for a set of queues. A claim that finds work wakes the next one; a claim
that finds none goes to the end of its queue. The cost of a notification to the store therefore does not grow with the
number of waiting claims. A poll every second makes sure that no work is missed.
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
FIRST_POLL = timedelta(milliseconds=50)
"""The first wait after a claim joins: work may have arrived just before the thread started to wait."""

Queues = tuple[str, ...]


class ClaimWaiters:
    """Waiting claims by the queues they wait for. Use it in the event loop only."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._waiters: dict[Queues, deque[asyncio.Future[None]]] = {}
        self._lock = Lock()
        self.thread: Thread | None = None
        """Waits for the store while any claim waits."""
        self._joined = Event()
        self.closed = False

    @property
    def waiting(self) -> int:
        """Return the number of waiting claims."""
        return sum(map(len, self._waiters.values()))

    async def wait(self, queues: Sequence[str], seconds: float) -> None:
        """Wait until one of the queues may have work, or the time is up."""
        if self.closed:
            return
        key, loop = tuple(queues), asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.setdefault(key, deque()).append(waiter)
        self._start_thread(loop)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiter
        finally:
            self._waiters[key].remove(waiter)
            if not self._waiters[key]:
                del self._waiters[key]

    def wake_next(self, queues: Sequence[str]) -> None:
        """Wake the next claim that waits for the same queues: there may be more work."""
        for waiter in self._waiters.get(tuple(queues), ()):
            if not waiter.done():
                waiter.set_result(None)
                return

    def close(self) -> None:
        """Wake all claims, and let none wait from now on."""
        self.closed = True
        for waiter in [waiter for waiters in self._waiters.values() for waiter in waiters]:
            if not waiter.done():
                waiter.set_result(None)

    def _wake_first(self) -> None:
        for queues in list(self._waiters):
            self.wake_next(queues)

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._joined.set()
        with self._lock:
            if self.thread is None:
                self.thread = Thread(target=self._wait_for_work, args=(loop,), name="windlass-claims", daemon=True)
                self.thread.start()

    def _wait_for_work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake claims when the store has work. Runs in its own thread while any claim waits."""
        while True:
            with self._lock:
                queues = sorted({queue for key in list(self._waiters) for queue in key})
                if not queues or self.closed:
                    self.thread = None
                    return
            joined = self._joined.is_set()
            self._joined.clear()
            try:
                self._store.wait_for_work(queues, FIRST_POLL if joined else POLL)
            except StoreError:  # The woken claims get the same error and report it.
                sleep(POLL.total_seconds())
            try:
                loop.call_soon_threadsafe(self._wake_first)
            except RuntimeError:  # The event loop is closed, so no claim waits any longer.
                with self._lock:
                    self.thread = None
                return
