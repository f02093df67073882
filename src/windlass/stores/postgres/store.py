"""The PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.clock import Clock
from windlass.core.submission import Draft
from windlass.core.task import Lease
from windlass.stores.postgres.database import PostgresDatabase
from windlass.stores.postgres.fast_submit import FastSubmits, SubmitPath
from windlass.stores.protocol import RETENTION
from windlass.stores.series import SERIES_KEPT
from windlass.stores.sql.database import Values
from windlass.stores.sql.store import SqlStore
from windlass.stores.sql.submit import Submit, Submitted


class PostgresStore(SqlStore):
    """A store in a PostgreSQL database, for any number of machines.

    >>> store = PostgresStore("postgresql://app@db.internal/shop")

    Set `pooler` for PgBouncer in transaction mode: the store then uses no prepared statements and no LISTEN, and
    `listen_url` may name the server itself, for wake-ups. `connections` is the largest number of connections to open.
    Without `create`, a database that has no Windlass tables raises `DatabaseMissing`.
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
        create: bool = True,
    ) -> None:
        db = PostgresDatabase(url, clock, pooler=pooler, listen_url=listen_url, connections=connections, create=create)
        super().__init__(db, retention, series_kept)
        self._postgres = db
        self.fast_submits = FastSubmits(db, pooler=pooler)

    def identity(self) -> str:
        """Return which database this is, however it is reached."""
        return self._postgres.identity()

    def horizon_age(self) -> float:
        """Return for how many seconds the oldest open transaction has kept the server from cleaning up."""
        return self._postgres.horizon_age()

    def submit_drafts(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted:
        submitted = self.fast_submits(drafts, lease, notes)
        if isinstance(submitted, Submitted):
            return submitted
        again = submitted is SubmitPath.FAILED
        return self._db.transact(Submit(self._db, drafts, joined=False, lease=lease, notes=notes, again=again))
