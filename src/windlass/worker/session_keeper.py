"""The thread that keeps the node's session: opens it, renews it, and gives up in time when it cannot.

A session that could not be renewed is stopped here before the store lets others have its tasks: three seconds earlier,
counted on this machine's steady clock from before the latest good renewal was sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from windlass.clock import monotonic
from windlass.core.task import Lease, SessionId
from windlass.errors import SessionLost, StoreError
from windlass.events import Events, SessionEnded, SessionOpened, StoreCallFailed
from windlass.stores.protocol import SESSION_TTL, Store

RENEW_SECONDS = 3.0
MARGIN_SECONDS = 3.0


class SessionKeeper:
    """The sessions of a node: the current one, and those that only wait for the last of their tasks to end."""

    def __init__(
        self,
        store: Store,
        node: str,
        about: Callable[[], str],
        events: Events,
        *,
        ttl: timedelta = SESSION_TTL,
    ) -> None:
        self._store = store
        self.node = node
        self._about = about
        self._events = events
        self._ttl = ttl
        self._good_for = ttl.total_seconds() - min(MARGIN_SECONDS, ttl.total_seconds() / 5)
        self._renew_every = min(RENEW_SECONDS, ttl.total_seconds() / 5)
        self._lock = threading.Lock()
        self._valid_until: dict[SessionId, float] = {}
        self.current: SessionId | None = None
        self.wanted = True
        """Whether a session is to be opened when there is none."""
        self.turned = threading.Event()
        self.on_cancel: Callable[[list[Lease]], None] = lambda _: None
        self.on_lost: Callable[[SessionId, str], None] = lambda _session, _why: None
        self.in_use: Callable[[], set[SessionId]] = set
        self.mark: Callable[[], int] = lambda: 0
        """How many ends have been reported so far."""
        self.written: Callable[[int], bool] = lambda _: True
        """Whether all ends up to this mark are in the store."""
        self._unused_at: dict[SessionId, int] = {}
        self.workers: Callable[[], str] = str
        """The list of the node's worker processes."""
        self._stored: dict[str, str] = {}
        """What the current session says of itself in the store."""

    def step(self) -> None:
        """Renew every session, close what nobody uses, open one if there is none; then wait for the next time."""
        for session in list(self._valid_until):
            self._renew(session)
        self._close_unused()
        if self.current is None and self.wanted:
            self._open()
        self.turned.wait(self._renew_every if self.current is not None else 0.5)
        self.turned.clear()

    def holds(self, session: SessionId) -> bool:
        """Whether the session is ours still, as far as is known."""
        return session in self._valid_until

    @property
    def silence_allowed(self) -> float:
        """Seconds without a renewal after which the store counts as away; far fewer than end the session."""
        return 2 * self._renew_every + 1.0

    def silent_for(self, now: float) -> float | None:
        """Return how many seconds ago the latest good renewal was sent; None without a session."""
        session = self.current
        until = None if session is None else self._valid_until.get(session)
        return None if until is None else max(0.0, now - (until - self._good_for))

    def valid_until(self, session: SessionId) -> float:
        """Return the moment until which the session is surely valid; 0.0 for one that is not held."""
        return self._valid_until.get(session, 0.0)

    def overdue(self, now: float) -> None:
        """Give up every session that could not be renewed in time. Called often, from other threads."""
        for session, until in list(self._valid_until.items()):
            if now > until:
                self.mark_lost(session, "it could not be renewed in time")

    def mark_lost(self, session: SessionId, why: str) -> None:
        """The session is over: whatever runs under it must stop."""
        with self._lock:
            known = self._valid_until.pop(session, None) is not None
            if self.current == session:
                self.current = None
        if known:
            self.on_lost(session, why)
            self._events.emit(SessionEnded(session=session, why=why))
            self.turned.set()

    def retire(self, session: SessionId) -> None:
        """Claim no more under it; when the last of its tasks has ended it is closed, which releases all others."""
        with self._lock:
            if self.current == session:
                self.current = None
        self.turned.set()

    def close(self) -> None:
        """Close every session; what they still hold is released."""
        self.wanted = False
        for session in list(self._valid_until):
            self._close(session)

    def _open(self) -> None:
        sent, about = monotonic(), self._about()
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
        sent = monotonic()
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
        """Return what the current session is to say of itself where that differs from what the store has."""
        if session != self.current:
            return {}
        texts = {"about": self._about(), "workers": self.workers()}
        return {field: text for field, text in texts.items() if self._stored.get(field) != text}

    def _close_unused(self) -> None:
        """Close what nothing runs under any more, once the ends of what did are written: it ends leases."""
        current = self.current  # Read first: no claim starts under a session that was not the current one before.
        used = self.in_use()
        for session in list(self._valid_until):
            if session == current or session in used:
                self._unused_at.pop(session, None)
            elif self.written(self._unused_at.setdefault(session, self.mark())) and not self._is_used_after_all(
                session
            ):
                self._close(session)

    def _is_used_after_all(self, session: SessionId) -> bool:
        """Whether a claim that was under way has been handed out meanwhile; nothing is, of a session we do not hold."""
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
        try:
            self._store.close_session(session)
        except StoreError as error:  # It runs out by itself.
            self._events.emit(StoreCallFailed(doing="close a session", error=str(error)))
        self._events.emit(SessionEnded(session=session, why="closed"))
