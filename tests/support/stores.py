"""Homes: places for the data of stores. A home opens any number of stores on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from windlass.clock import Clock
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore


class Home(Protocol):
    """A place for data, and the stores opened on it."""

    def open(self, clock: Clock, **kept: timedelta) -> Store:
        """Open another store on the same data. `kept` are its `retention` and `series_kept`."""
        ...

    def close(self) -> None:
        """Close every store that was opened here."""
        ...


class MemoryHome:
    """Data in this process: every `open` returns the same store."""

    def __init__(self) -> None:
        self._store: MemoryStore | None = None

    def open(self, clock: Clock, **kept: timedelta) -> Store:
        self._store = self._store or MemoryStore(clock=clock, **kept)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


class OpenedHome:
    """Data outside this process, opened with a constructor."""

    def __init__(self, make: Callable[[Clock, Mapping[str, timedelta]], Store]) -> None:
        self._make = make
        self._stores: list[Store] = []

    def open(self, clock: Clock, **kept: timedelta) -> Store:
        self._stores.append(self._make(clock, kept))
        return self._stores[-1]

    def close(self) -> None:
        while self._stores:
            self._stores.pop().close()


def sqlite_home(path: Path) -> Home:
    """Return a home in a file."""
    return OpenedHome(lambda clock, kept: SQLiteStore(path, clock=clock, **kept))


def postgres_home(url: str, *, pooler: bool = False) -> Home:
    """Return a home in a database, which may already contain data: see `PostgresCleaner`."""
    return OpenedHome(lambda clock, kept: PostgresStore(url, clock=clock, pooler=pooler, **kept))


class PostgresCleaner:
    """Resets a database to its state after the migrations, much faster than creating a new one.

    The initial rows (settings, versions) are saved and restored.
    """

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        # Without it every DELETE would have to follow the foreign keys; there is nobody else to protect here.
        self._conn.execute("SET session_replication_role = replica")
        tables = self._names("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass' ORDER BY tablename")
        seeded = [
            name for name in tables if self._conn.execute(self._table("SELECT 1 FROM {} LIMIT 1", name)).fetchone()
        ]
        self._conn.execute("CREATE SCHEMA seed")
        for name in seeded:
            self._conn.execute(
                sql.SQL("CREATE TABLE {} AS TABLE {}").format(
                    sql.Identifier("seed", name), sql.Identifier("windlass", name)
                )
            )
        statements = [self._table("DELETE FROM {}", name) for name in tables]
        statements += [
            sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT * FROM {}").format(
                sql.Identifier("windlass", name), sql.Identifier("seed", name)
            )
            for name in seeded
        ]
        self._clean = sql.SQL("; ").join(statements)

    def clean(self) -> None:
        """Remove everything that was added after the migrations."""
        with self._conn.transaction():
            self._conn.execute(self._clean)

    def close(self) -> None:
        self._conn.close()

    def _names(self, query: str) -> list[str]:
        return [name for (name,) in self._conn.execute(query)]

    def _holds_rows(self, name: str) -> bool:
        return self._conn.execute(self._table("SELECT 1 FROM {} LIMIT 1", name)).fetchone() is not None

    def _table(self, text: str, name: str) -> sql.Composed:
        return sql.SQL(text).format(sql.Identifier("windlass", name))
