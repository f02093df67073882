"""Runs store calls in a few threads, with a bounded backlog and a time limit for each call.

Stores are synchronous, and the event loop must never wait for one. A call that times out continues in its thread until
the store answers; one that only reads is canceled (`windlass.call_limits`). Calls of different importance have threads
of their own (`StoreLanes`), so that expensive reads delay neither workers nor operators nor health checks.

While the store is unavailable, calls are refused at once, except for one per second that finds out whether it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from windlass.call_limits import CallLimits, limited
from windlass.clock import monotonic
from windlass.errors import Refused, StoreUnavailable

T = TypeVar("T")

PATIENCE = 2.0
"""How many seconds a call waits for a database that does not answer. A client can repeat its request."""
FAILURES = 3
"""After how many failures in a row the store counts as unavailable."""
PROBE_SECONDS = 1.0
"""How often a call may try an unavailable store."""


class Outage:
    """Whether the store is unavailable, as the latest calls found it. All threads of a server share it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._failures = 0
        self._probed = 0.0

    def check(self) -> None:
        """Raise `StoreUnavailable` if the store is known to be unavailable and it is not time to try again."""
        with self._lock:
            if self._failures >= FAILURES:
                if self._clock() - self._probed < PROBE_SECONDS:
                    raise StoreUnavailable("the store did not answer the latest calls")
                self._probed = self._clock()

    def note(self, error: BaseException | None) -> None:
        """Note how a call ended."""
        with self._lock:
            if error is None:
                self._failures = 0
            elif isinstance(error, StoreUnavailable):
                self._failures += 1
                self._probed = self._clock()


class StoreExecutor:
    """Runs synchronous calls for the event loop."""

    def __init__(
        self, threads: int, backlog: int, seconds: float, name: str = "windlass-http", outage: Outage | None = None
    ) -> None:
        self._threads, self._name = threads, name
        self._executor: ThreadPoolExecutor | None = None
        self._max_calls, self._seconds = threads + backlog, seconds
        self._outage = outage or Outage()
        self._lock = Lock()
        self._calls = 0

    async def run(
        self, action: Callable[[], T], seconds: float | None = None, *, reads: bool = False, always: bool = False
    ) -> T:
        """Run `action` in a thread. Refused when the backlog is full or the call takes too long.

        A call that only `reads` is canceled when it times out or its client disconnects. One that runs `always` is not
        refused while the store is unavailable.
        """
        if not always:
            self._outage.check()
        limit = self._seconds if seconds is None else seconds
        limits = CallLimits(patience=PATIENCE)
        future = self.start(action, limits)
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
        finally:
            limits.canceled = reads

    @property
    def is_idle(self) -> bool:
        """Return True if no call is running or queued."""
        return self._calls == 0

    def start(self, action: Callable[[], T], limits: CallLimits | None = None) -> Future[T]:
        """Start `action` in a thread without waiting for it. Refused when the backlog is full."""
        limits = limits or CallLimits(patience=PATIENCE)
        with self._lock:
            if self._calls >= self._max_calls:
                raise Refused("overloaded", f"{self._calls:,} requests are waiting for the store. Retry later.")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            future = self._executor.submit(_call, action, limits)
            self._calls += 1
        future.add_done_callback(self._finish)
        return future

    def close(self) -> None:
        """Cancel queued calls; running ones continue. The next call starts new threads."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _finish(self, future: Future[Any]) -> None:
        with self._lock:
            self._calls -= 1
        if not future.cancelled():
            self._outage.note(future.exception())


class StoreLanes:
    """The threads of a server: for work and submits, for reads, and for operators and health checks."""

    def __init__(self, threads: int, backlog: int, seconds: float) -> None:
        outage = Outage()
        self.work = StoreExecutor(threads, backlog, seconds, "windlass-http", outage)
        # Fewer than the connections of a PostgreSQL store, so that reads cannot take all of them.
        self.reads = StoreExecutor(max(1, threads // 4), backlog, seconds, "windlass-http-read", outage)
        self.operators = StoreExecutor(max(1, threads // 4), backlog, seconds, "windlass-http-operate", outage)

    def close(self) -> None:
        """Cancel queued calls."""
        for each in (self.work, self.reads, self.operators):
            each.close()


def _call(action: Callable[[], T], limits: CallLimits) -> T:
    with limited(limits):
        return action()
