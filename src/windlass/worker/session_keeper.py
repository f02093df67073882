"""The thread that opens and renews the node's session, and drops it in time if it cannot be renewed.

The node drops a session three seconds before the store gives its tasks to others, counted on the monotonic clock from
just before the latest successful renewal was sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from windlass.clock import Clock
from windlass.core.task import Lease, SessionId
from windlass.errors import SessionLost, StoreError
from windlass.events import Events, SessionEnded, SessionOpened, StoreCallFailed
from windlass.stores.protocol import SESSION_TTL, Store

RENEW_SECONDS = 3.0
MARGIN_SECONDS = 3.0
AGAIN_SECONDS = 0.5
"""How soon to try again to open or close a session."""


class SessionKeeper:
    """The sessions of a node: the current one, and retired ones that wait for their last tasks to end."""

    def __init__(
        self,
        store: Store,
        node: str,
        about: Callable[[], str],
        events: Events,
        clock: Clock,
        *,
        ttl: timedelta = SESSION_TTL,
    ) -> None:
        self._store = store
        self.node = node
        self._about = about
        self._events = events
        self._clock = clock
        self._ttl = ttl
        self._good_for = ttl.total_seconds() - min(MARGIN_SECONDS, ttl.total_seconds() / 5)
        self._renew_every = min(RENEW_SECONDS, ttl.total_seconds() / 5)
        self._lock = threading.Lock()
        self._valid_until: dict[SessionId, float] = {}
        self.current: SessionId | None = None
        self.wanted = True
        """Whether to open a session when there is none."""
        self.wake = threading.Event()
        """Ends the wait of `step`."""
        self.on_cancel: Callable[[list[Lease]], None] = lambda _: None
        self.on_lost: Callable[[SessionId, str], None] = lambda _session, _why: None
        self.in_use: Callable[[], set[SessionId]] = set
        self.mark: Callable[[], int] = lambda: 0
        """Returns how many results were put so far."""
        self.written: Callable[[int], bool] = lambda _: True
        """Returns True if all results up to this mark are in the store."""
        self._unused_at: dict[SessionId, int] = {}
        self._unclosed: dict[SessionId, float] = {}
        """Sessions that the store could not close, each with the monotonic time at which it has expired anyway."""
        self.workers: Callable[[], str] = str
        """Returns the list of the node's worker processes, as stored."""
        self._stored: dict[str, str] = {}
        """The texts of the current session that the store has."""

    def step(self) -> None:
        """Renew every session, close unused ones, open one if there is none; then wait for the next renewal."""
        for session in list(self._valid_until):
            self._renew(session)
        for session in list(self._unclosed):
            self._close_in_store(session)
        self._close_unused()
        if self.current is None and self.wanted:
            self._open()
        is_settled = self.current is not None and not self._unclosed
        self._clock.wait(self.wake, self._renew_every if is_settled else AGAIN_SECONDS)
        self.wake.clear()

    def holds(self, session: SessionId) -> bool:
        """Return True if the node still has the session, as far as it knows."""
        return session in self._valid_until

    @property
    def max_silence(self) -> float:
        """Seconds without a renewal after which the store counts as unavailable; far fewer than end the session."""
        return 2 * self._renew_every + 1.0

    def measure_silence(self, now: float) -> float | None:
        """Return how many seconds ago the latest successful renewal was sent; None without a session."""
        session = self.current
        until = None if session is None else self._valid_until.get(session)
        return None if until is None else max(0.0, now - (until - self._good_for))

    def valid_until(self, session: SessionId) -> float:
        """Return the monotonic time until which the session is certainly valid; 0.0 if the node does not have it."""
        return self._valid_until.get(session, 0.0)

    def drop_overdue(self, now: float) -> None:
        """Drop every session that was not renewed in time. Called often, from another thread."""
        for session, until in list(self._valid_until.items()):
            if now > until:
                self.mark_lost(session, "it could not be renewed in time")

    def mark_lost(self, session: SessionId, why: str) -> None:
        """Drop a session that is lost. Everything that runs under it must stop."""
        with self._lock:
            known = self._valid_until.pop(session, None) is not None
            if self.current == session:
                self.current = None
        if known:
            self.on_lost(session, why)
            self._events.emit(SessionEnded(session=session, why=why))
            self.wake.set()

    def retire(self, session: SessionId) -> None:
        """Claim nothing more under a session. It is closed, and releases its leases, once its last task has ended."""
        with self._lock:
            if self.current == session:
                self.current = None
        self.wake.set()

    def close(self) -> None:
        """Close every session. The store releases what they still hold."""
        self.wanted = False
        for session in list(self._unclosed):
            self._close_in_store(session)
        for session in list(self._valid_until):
            self._close(session)

    def _open(self) -> None:
        sent, about = self._clock.monotonic(), self._about()
        try:
            session = self._store.open_session(self.node, self._ttl, about)
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="open a session", error=str(error)))
            return
        self._stored = {"about": about, "workers": ""}
        with self._lock:
            self._valid_until[session] = sent + self._good_for
            self.current = session
        self._events.emit(SessionOpened(session=session))

    def _renew(self, session: SessionId) -> None:
        sent = self._clock.monotonic()
        try:
            changed = self._changed_texts(session)
            cancelled = self._store.renew(session, **changed)
        except SessionLost:
            self.mark_lost(session, "the store has taken it")
            return
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="renew", error=str(error)))
            return
        self._stored |= changed
        with self._lock:
            if session in self._valid_until:
                self._valid_until[session] = sent + self._good_for
        if cancelled:
            self.on_cancel(cancelled)

    def _changed_texts(self, session: SessionId) -> dict[str, str]:
        """Return the texts of the current session that differ from what the store has."""
        if session != self.current:
            return {}
        texts = {"about": self._about(), "workers": self.workers()}
        return {field: text for field, text in texts.items() if self._stored.get(field) != text}

    def _close_unused(self) -> None:
        """Close sessions without running tasks, but only once their results are written: closing ends the leases."""
        current = self.current  # Read first: claims start only under the current session.
        used = self.in_use()
        for session in list(self._valid_until):
            if session == current or session in used:
                self._unused_at.pop(session, None)
                continue
            mark = self._unused_at.setdefault(session, self.mark())
            if self.written(mark) and not self._is_used_after_all(session):
                self._close(session)

    def _is_used_after_all(self, session: SessionId) -> bool:
        """Return True if tasks of a claim under way were assigned meanwhile. None are once the session is removed."""
        with self._lock:
            until = self._valid_until.pop(session, None)
        if until is None or session not in self.in_use():
            return False
        with self._lock:
            self._valid_until[session] = until
        return True

    def _close(self, session: SessionId) -> None:
        with self._lock:
            self._valid_until.pop(session, None)
            self._unused_at.pop(session, None)
            if self.current == session:
                self.current = None
        self._unclosed[session] = self._clock.monotonic() + self._ttl.total_seconds()
        self._close_in_store(session)
        self._events.emit(SessionEnded(session=session, why="closed"))

    def _close_in_store(self, session: SessionId) -> None:
        """Close a session. If that fails, the next step tries again, because its tasks would be charged for a loss.

        When the node ends, `close` may do the same while a step still waits for the store.
        """
        try:
            self._store.close_session(session)
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="close a session", error=str(error)))
            if self._clock.monotonic() < self._unclosed.get(session, 0.0):
                return
        self._unclosed.pop(session, None)
