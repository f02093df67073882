"""Where calls to the store are made: a few threads, a bounded queue before them, and a time limit for each.

Stores are synchronous; the loop that serves sockets must never wait for one. A call that is given up goes on in its
thread until the store answers, and holds that thread: a store that hangs can fill the threads, but no more than that.
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
    """Runs synchronous calls for the loop."""

    def __init__(self, number: int, backlog: int, seconds: float, name: str = "windlass-http") -> None:
        self._number, self._name = number, name
        self._executor: ThreadPoolExecutor | None = None
        self._most, self._seconds = number + backlog, seconds
        self._lock = Lock()
        self._under_way = 0

    async def run(self, deed: Callable[[], T], seconds: float | None = None) -> T:
        """Do it in a thread. Refused when too many wait already, or when it takes too long."""
        limit = self._seconds if seconds is None else seconds
        future = self.begin(deed)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                return future.result()
            raise Refused(
                "timed_out",
                f"the store did not answer within {limit:g} s; what was asked for may still happen: with a key it is "
                "safe to ask again",
            ) from None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._under_way == 0

    def close(self) -> None:
        """Give up what has not begun; what has may end. Used again, it begins anew."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def begin(self, deed: Callable[[], T]) -> Future[T]:
        """Do it in a thread, and wait for nothing. Refused when too many wait already."""
        with self._lock:
            if self._under_way >= self._most:
                raise Refused("overloaded", f"{self._under_way:,} requests wait for the store already; try again")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._number, thread_name_prefix=self._name)
            future = self._executor.submit(deed)
            self._under_way += 1
        future.add_done_callback(self._end)
        return future

    def _end(self, _: Future[Any]) -> None:
        with self._lock:
            self._under_way -= 1
