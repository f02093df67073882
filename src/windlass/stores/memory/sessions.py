"""Worker sessions in the memory store."""

from __future__ import annotations

from datetime import timedelta

from windlass.clock import entropy
from windlass.core.ids import fresh_id
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.settlement import let_go
from windlass.core.task import Lease, SessionId
from windlass.core.times import micros, span
from windlass.stores.coordination import check_renewal, check_report
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.graph import resolve
from windlass.stores.memory.settle import end_attempt
from windlass.stores.memory.tables import StoredSession
from windlass.stores.protocol import SESSION_TTL, SESSIONS_SHOWN, Session


class MemorySessions(MemoryBase):
    """Open, renew, close and list sessions, and store the reports of their nodes."""

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        check_text("node", node)
        length = span(ttl, "ttl")
        with self._lock:
            now = self._clock.now()
            session = SessionId(fresh_id(now, entropy(1)()))
            self._tables.sessions[session] = StoredSession(node=node, ttl=length, renewed=now, about=storable(about))
            return session

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        texts = check_renewal(about, workers)
        with self._lock:
            alive = self._tables.live_session(session)
            alive.renewed = self._clock.now()
            for field, text in texts.items():
                if text is not None:
                    setattr(alive, field, text)
            held = (self._tables.tasks[id] for id in sorted(self._tables.held[session]))
            return [Lease(task.id, task.fence, session) for task in held if task.cancel_requested]

    def close_session(self, session: SessionId) -> None:
        with self._lock:
            now = self._clock.now()
            held = sorted(self._tables.held[session])
            for id in held:
                task = self._tables.tasks[id]
                end_attempt(self._tables, task, let_go(at_most_once=task.rules.at_most_once), now)
            resolve(self._tables, held, now)
            if session in self._tables.sessions:
                self._tables.sessions[session].lost = True
            self._work.notify_all()

    def report(self, session: SessionId, text: str) -> None:
        text = check_report(text)
        with self._lock:
            alive = self._tables.live_session(session)
            alive.report, alive.reported = text, self._clock.now()

    def sessions(self, *, workers: bool = False) -> list[Session]:
        with self._lock:
            now = self._clock.now()
            return [
                Session(
                    id=id,
                    node=one.node,
                    about=one.about,
                    age=timedelta(microseconds=max(0, now - one.renewed)),
                    lost=one.lost,
                    workers=one.workers if workers else "",
                )
                for id, one in sorted(self._tables.sessions.items(), reverse=True)
                if not one.lost or now - one.renewed < micros(SESSIONS_SHOWN)
            ]
