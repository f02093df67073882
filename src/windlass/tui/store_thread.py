"""A thread that reads and changes the store, so that a slow store never blocks a key.

The thread also opens the store, at the first request: a store that is unavailable at the start is shown as a banner,
like one that becomes unavailable later.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from windlass.operations.access import Access
from windlass.stores.protocol import Store

T = TypeVar("T")

CLOSE_SECONDS = 2.0
"""How long `close` waits for a request that is running."""


class StoreThread:
    """Runs requests to the store, one after the other."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._access: Access | None = None
        self._requests: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="windlass-top", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, request: Callable[[Access], T], then: Callable[[T | Exception], None]) -> None:
        """Run a request in the thread and call `then` there with its result or its error."""

        def run() -> None:
            try:
                result = request(self._open())
            except Exception as error:  # noqa: BLE001 - the pages show any error
                then(error)
            else:
                then(result)

        self._requests.put(run)

    def close(self) -> None:
        """Run the waiting requests and close the store. Do not wait for a store that hangs."""
        self._requests.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _open(self) -> Access:
        if self._access is None:
            self._access = Access(self._open_store())
        return self._access

    def _run(self) -> None:
        while (run := self._requests.get()) is not None:
            run()
        if self._access is not None:
            self._access.store.close()
