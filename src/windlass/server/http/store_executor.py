"""Runs store calls in a few threads, with a bounded backlog and a time limit for each call.

Stores are synchronous, and the event loop must never wait for one. A call that times out continues in its thread until
the store answers. A store that hangs can therefore occupy all threads, but nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from windlass.errors import Refused

T = TypeVar("T")


class StoreExecutor:
    """Runs synchronous calls for the event loop."""

    def __init__(self, threads: int, backlog: int, seconds: float, name: str = "windlass-http") -> None:
        self._threads, self._name = threads, name
        self._executor: ThreadPoolExecutor | None = None
        self._max_calls, self._seconds = threads + backlog, seconds
        self._lock = Lock()
        self._calls = 0

    async def run(self, action: Callable[[], T], seconds: float | None = None) -> T:
        """Run `action` in a thread. Refused when the backlog is full or the call takes too long."""
        limit = self._seconds if seconds is None else seconds
        future = self.start(action)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                return future.result()
            raise Refused(
                "timed_out",
                f"The store did not answer within {limit:g} s. The operation may still complete. "
                "Requests with a key are safe to retry.",
            ) from None

    @property
    def is_idle(self) -> bool:
        """Return True if no call is running or queued."""
        return self._calls == 0

    def start(self, action: Callable[[], T]) -> Future[T]:
        """Start `action` in a thread without waiting for it. Refused when the backlog is full."""
        with self._lock:
            if self._calls >= self._max_calls:
                raise Refused("overloaded", f"{self._calls:,} requests are waiting for the store. Retry later.")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            future = self._executor.submit(action)
            self._calls += 1
        future.add_done_callback(self._finish)
        return future

    def close(self) -> None:
        """Cancel queued calls; running ones continue. The next call starts new threads."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _finish(self, _: Future[Any]) -> None:
        with self._lock:
            self._calls -= 1
