"""Wake-ups over LISTEN and NOTIFY. They are hints: polling finds the work if one is lost.

A queue is notified at most once in `QUIET` seconds, because a commit with NOTIFY takes a lock on the whole server. A
claimer polls for longer than that after it has found work, so it finds what a suppressed wake-up was for.

The payload is the name of the queue, and after a slash the sender, if it has woken up its own threads already.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import psycopg

from windlass.clock import entropy, jitter, monotonic
from windlass.errors import WindlassError

QUIET = 0.015
"""Seconds. Short enough that a task every 20 ms is still notified at once; a busier queue is polled anyway."""

log = logging.getLogger(__name__)


class Notifications:
    """Sends wake-ups of a store, and receives them in one thread for all waiting threads of this process."""

    def __init__(self, listen_url: str | None, notify: Callable[[Collection[str]], None]) -> None:
        self._listen_url = listen_url
        self._notify = notify
        self._sender = f"{entropy(1)():x}"
        self._notified_at: dict[str, float] = {}
        self._received: dict[str, int] = {}
        self._woken = threading.Condition()
        self._thread = threading.local()
        self._listener: threading.Thread | None = None
        self._closed = threading.Event()

    def notify(self, queues: Collection[str]) -> None:
        """Notify those of the queues that were not notified recently. A failure is only logged.

        Waiting threads of this store are woken up at once, without the server.
        """
        for queue in queues:
            self._wake(queue)
        due = self.unnotified(queues)
        self.mark_notified(due)
        if due:
            try:
                self._notify([f"{queue}/{self._sender}" for queue in due])
            except (psycopg.Error, WindlassError) as error:
                log.warning("could not send a wake-up, polling will find the work: %s", error)

    def unnotified(self, queues: Collection[str]) -> list[str]:
        """Return those of the queues that were not notified recently."""
        now = monotonic()
        return [queue for queue in queues if now - self._notified_at.get(queue, 0.0) >= QUIET]

    def mark_notified(self, queues: Collection[str]) -> None:
        """Record that these queues were notified now."""
        self._notified_at.update(dict.fromkeys(queues, monotonic()))

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Wait until one of the queues is notified. Return False after `timeout`.

        A wake-up that arrived since this thread last woke up counts too: it may be for a task that was submitted after
        the thread looked and found nothing.
        """
        self._listen()
        with self._woken:
            seen: dict[str, int] = self._thread.__dict__.setdefault("seen", self._received.copy())
            woken = self._woken.wait_for(
                lambda: (
                    self._closed.is_set() or any(self._received.get(queue, 0) != seen.get(queue, 0) for queue in queues)
                ),
                timeout.total_seconds(),
            )
            seen.update({queue: self._received.get(queue, 0) for queue in queues})
            return woken

    def close(self) -> None:
        """Stop the listening thread."""
        self._closed.set()
        with self._woken:
            self._woken.notify_all()
        if self._listener is not None:
            self._listener.join(timeout=5)

    def _listen(self) -> None:
        with self._woken:
            if self._listen_url is None or self._listener is not None:
                return
            self._listener = threading.Thread(target=self._run, name="windlass-listen", daemon=True)
            self._listener.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._receive()
            except Exception as error:  # noqa: BLE001 - nothing would restart this thread
                log.warning("the wake-up connection was lost, polling continues: %s", error)
                self._closed.wait(jitter(0.5, 2.0))

    def _receive(self) -> None:
        assert self._listen_url is not None
        with psycopg.connect(self._listen_url, autocommit=True, application_name="windlass-listen") as connection:
            connection.execute("LISTEN windlass")
            self._wake_all()  # For wake-ups that were missed before the LISTEN.
            while not self._closed.is_set():
                for hint in connection.notifies(timeout=0.5, stop_after=1):
                    queue, _, sender = hint.payload.partition("/")
                    if sender != self._sender:  # Our own would wake up a thread a second time, for nothing.
                        self._wake(queue)

    def _wake(self, queue: str) -> None:
        with self._woken:
            self._received[queue] = self._received.get(queue, 0) + 1
            self._woken.notify_all()

    def _wake_all(self) -> None:
        with self._woken:
            for queue in self._received:
                self._received[queue] += 1
            self._woken.notify_all()
