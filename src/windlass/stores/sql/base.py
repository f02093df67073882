"""The base class of the parts of a SQL store."""

from __future__ import annotations

from datetime import timedelta
from threading import Event

from windlass.core.times import micros
from windlass.stores.protocol import Signal
from windlass.stores.sql.database import Database


class SqlBase:
    """The state that all parts of a SQL store share. Each part implements a group of the protocol's methods."""

    def __init__(self, db: Database, retention: timedelta, series_kept: timedelta) -> None:
        self._db = db
        self._retention = micros(retention)
        self._series_kept = micros(series_kept)
        self.unresolved: Signal = Event()
