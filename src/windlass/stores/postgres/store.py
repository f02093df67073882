"""Opening a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.clock import Clock
from windlass.core.submission import CHUNK, Draft
from windlass.core.task import Lease
from windlass.stores.postgres.database import PostgresDatabase
from windlass.stores.postgres.fast_submit import FastSubmits
from windlass.stores.protocol import RETENTION
from windlass.stores.series import SERIES_KEPT
from windlass.stores.sql.database import Values
from windlass.stores.sql.store import SqlStore
from windlass.stores.sql.submit import Submit, Submitted


class PostgresStore(SqlStore):
    """Tasks in the PostgreSQL you already run, for any number of machines.

    >>> store = PostgresStore("postgresql://app@db.internal/shop")

    `pooler` is for PgBouncer in transaction mode: no prepared statements, no LISTEN, nothing that outlives a
    transaction. `listen_url` then may name the server itself, for wake-ups. `connections` bounds what it opens.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        retention: timedelta = RETENTION,
        series_kept: timedelta = SERIES_KEPT,
        pooler: bool = False,
        listen_url: str | None = None,
        connections: int = 8,
    ) -> None:
        db = PostgresDatabase(url, clock, pooler=pooler, listen_url=listen_url, connections=connections)
        super().__init__(db, retention, series_kept)
        self._postgres = db
        self._plain = None if pooler else FastSubmits(db)

    def horizon_age(self) -> float:
        """For how many seconds somebody's open transaction, ours or not, has kept the server from cleaning up."""
        return self._postgres.horizon_age()

    def submit_drafts(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted:
        short = self._plain is not None and lease is None and not notes and len(drafts) <= CHUNK
        submitted = self._plain(drafts) if self._plain is not None and short else "not plain"
        if isinstance(submitted, Submitted):
            return submitted
        again = submitted == "unsure"
        return self._db.transact(Submit(self._db, drafts, joined=False, lease=lease, notes=notes, again=again))
