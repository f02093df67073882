"""The SQLite store."""

from __future__ import annotations

from datetime import timedelta
from os import PathLike

from windlass.clock import Clock
from windlass.stores.protocol import RETENTION
from windlass.stores.series import SERIES_KEPT
from windlass.stores.sql.store import SqlStore
from windlass.stores.sqlite.database import SQLiteDatabase


class SQLiteStore(SqlStore):
    """A store in one file, durable and safe with many processes on one machine. Do not use it on a network disk.

    >>> store = SQLiteStore("windlass.db")
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        retention: timedelta = RETENTION,
        series_kept: timedelta = SERIES_KEPT,
    ) -> None:
        super().__init__(SQLiteDatabase(path, clock), retention, series_kept)
