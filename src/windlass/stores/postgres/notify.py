"""Wake-up over LISTEN and NOTIFY: hints only. The first after a silence goes out at once, then at most one a queue in
`QUIET` seconds, in a small transaction of its own, because a commit that notifies holds a lock of the whole server.

A claimer polls for longer than `QUIET` after it has found work, so what a suppressed hint would have told is found.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import psycopg

from windlass.clock import jitter, monotonic
from windlass.errors import WindlassError

QUIET = 0.015
"""Short enough that a task every 20 ms is still told of at once; a busier queue is polled anyway."""

log = logging.getLogger(__name__)


class Notifications:
    """Sends hints for a store, and hears them in one thread for everyone in this process who waits."""

    def __init__(self, listen_url: str | None, notify: Callable[[Collection[str]], None]) -> None:
        self._listen_url = listen_url
        self._notify = notify
        self._rung: dict[str, float] = {}
        self._heard: dict[str, int] = {}
        self._news = threading.Condition()
        self._thread = threading.local()
        self._listener: threading.Thread | None = None
        self._closed = threading.Event()

    def notify(self, queues: Collection[str]) -> None:
        """Send a hint for each of the queues that has been silent. A hint that cannot be sent is only logged.

        Whoever waits in this process hears it at once, with or without a server that can notify.
        """
        for queue in queues:
            self._tell(queue)
        silent = self.silent(queues)
        self.notified(silent)
        if silent:
            try:
                self._notify(silent)
            except (psycopg.Error, WindlassError) as error:
                log.warning("could not send a wake-up hint, polling will find the work: %s", error)

    def silent(self, queues: Collection[str]) -> list[str]:
        """Those of the queues about which nothing was said for a while."""
        now = monotonic()
        return [queue for queue in queues if now - self._rung.get(queue, 0.0) >= QUIET]

    def notified(self, queues: Collection[str]) -> None:
        """A hint has gone out for these."""
        self._rung.update(dict.fromkeys(queues, monotonic()))

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Sleep until a hint for one of the queues is heard, or the time is up.

        A hint that came since this thread last woke up counts too: it may be about what was submitted just after the
        thread had looked and found nothing.
        """
        self._listen()
        with self._news:
            seen: dict[str, int] = self._thread.__dict__.setdefault("seen", self._heard.copy())
            heard = self._news.wait_for(
                lambda: (
                    self._closed.is_set() or any(self._heard.get(queue, 0) != seen.get(queue, 0) for queue in queues)
                ),
                timeout.total_seconds(),
            )
            seen.update({queue: self._heard.get(queue, 0) for queue in queues})
            return heard

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with self._news:
            self._news.notify_all()
        if self._listener is not None:
            self._listener.join(timeout=5)

    def _listen(self) -> None:
        with self._news:
            if self._listen_url is None or self._listener is not None:
                return
            self._listener = threading.Thread(target=self._run, name="windlass-listen", daemon=True)
            self._listener.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._hear()
            except Exception as error:  # noqa: BLE001 - nobody would start this thread again
                log.warning("the wake-up connection was lost, polling goes on meanwhile: %s", error)
                self._closed.wait(jitter(0.5, 2.0))

    def _hear(self) -> None:
        assert self._listen_url is not None
        with psycopg.connect(self._listen_url, autocommit=True, application_name="windlass-listen") as connection:
            connection.execute("LISTEN windlass")
            self._tell_all()  # Whatever was missed before the LISTEN.
            while not self._closed.is_set():
                for hint in connection.notifies(timeout=0.5, stop_after=1):
                    self._tell(hint.payload)

    def _tell(self, queue: str) -> None:
        with self._news:
            self._heard[queue] = self._heard.get(queue, 0) + 1
            self._news.notify_all()

    def _tell_all(self) -> None:
        with self._news:
            for queue in self._heard:
                self._heard[queue] += 1
            self._news.notify_all()
