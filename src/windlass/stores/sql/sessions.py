"""Worker sessions in a SQL store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.settlement import let_go
from windlass.core.submission import decode_rules
from windlass.core.task import Lease, SessionId, TaskId
from windlass.core.times import micros, span
from windlass.errors import SessionLost
from windlass.stores.coordination import check_renewal, check_report
from windlass.stores.protocol import SESSION_TTL, SESSIONS_SHOWN, Session
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.settle import end_in_chunk

CHUNK = 500


class SqlSessions(SqlBase):
    """Open, renew, close and list sessions, and store the reports of their nodes."""

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        check_text("node", node)
        db, length = self._db, span(ttl, "ttl")
        session = SessionId(fresh_id(SystemClock().now(), entropy(1)()))
        row: dict[str, Any] = {"session": session, "node": node, "ttl": length, "about": storable(about)}
        db.transact(lambda tx: tx.execute("open_session", **row, now=db.lease_now(), boot=db.boot()))
        return session

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        db = self._db
        texts: dict[str, Any] = {**check_renewal(about, workers)}

        def work(tx: Transaction) -> list[Lease]:
            renewed = tx.query("renew", session=session, now=db.lease_now(), **texts)
            cancelling = tx.query("cancelling", session=session)
            if not renewed.rows():
                raise SessionLost(session)
            return [Lease(TaskId(db.uuid(id)), fence, session) for id, fence in cancelling.rows()]

        return db.transact(work)

    def close_session(self, session: SessionId) -> None:
        # The session is closed before its leases are released, so that none of its claims can slip in between. A sweep
        # that comes in between releases them in the same way.
        db = self._db
        db.transact(lambda tx: tx.execute("close_session", session=session))
        while found := db.read(lambda tx: tx.query("held", session=session, limit=CHUNK).rows()):
            self._let_go(session, {db.uuid(id): decode_rules(rules).at_most_once for id, rules in found})

    def report(self, session: SessionId, text: str) -> None:
        db, text = self._db, check_report(text)
        if not db.transact(lambda tx: tx.query("report", session=session, report=text, now=db.lease_now()).rows()):
            raise SessionLost(session)

    def sessions(self, *, workers: bool = False) -> list[Session]:
        db = self._db
        asked: dict[str, Any] = {"age": micros(SESSIONS_SHOWN), "workers": workers}
        rows = db.read(lambda tx: tx.query("sessions", now=db.lease_now(), boot=db.boot(), **asked).rows())
        return [
            Session(
                id=SessionId(db.uuid(id)),
                node=node,
                about=about,
                age=timedelta(microseconds=age),
                lost=bool(lost),
                workers=listed,
            )
            for id, node, about, age, lost, listed in rows
        ]

    def _let_go(self, session: SessionId, at_most_once: Mapping[UUID, bool]) -> None:
        end_in_chunk(
            self._db,
            list(at_most_once),
            lambda row: let_go(at_most_once=at_most_once[row.id]) if row.session == session else None,
        )
