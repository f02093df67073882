"""Work that continues after the answer to the request that started it. It ends with the server, and is not resumed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread

from windlass.clock import monotonic
from windlass.errors import Refused

MOST = 32
"""How many threads may run at the same time."""
CLOSE_SECONDS = 5.0
"""How long a server that stops waits for the steps that are running."""


class BackgroundThreads:
    """The threads of a server that work without a request. Each of them checks `stopping` between two steps."""

    def __init__(self) -> None:
        self.stopping = Event()
        """Set when the server stops."""
        self._lock = Lock()
        self._threads: set[Thread] = set()

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Run `work` in a thread of its own. Refused when too many are running, or the server is stopping."""
        thread = Thread(target=self._run, args=(work,), name=name, daemon=True)
        with self._lock:
            if len(self._threads) >= MOST or self.stopping.is_set():
                raise Refused(
                    "overloaded", f"{len(self._threads)} long actions are running on this server. Retry later."
                )
            self._threads.add(thread)
        thread.start()

    def close(self) -> None:
        """Let every thread end after its current step, and wait for them, but not longer than some seconds."""
        self.stopping.set()
        end = monotonic() + CLOSE_SECONDS
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - monotonic()))

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            with self._lock:
                self._threads.discard(current_thread())
