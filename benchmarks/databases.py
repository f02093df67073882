"""One database for each kind of store, which a measurement empties and fills."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import apsw
import psycopg

from benchmarks.drain import drain, make_cycle
from benchmarks.fill import fill_postgres, fill_sqlite, make_template
from tests.support.servers import PostgresServer
from windlass.core.task import NewTask
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

KEPT = ("meta", "migration", "queue")
"""The tables that are not emptied."""

FILLED_AT_ONCE = 50_000


class Database(Protocol):
    """A database for measurements."""

    name: str
    shared: bool
    """True if other processes can use the same data."""
    server_pid: int | None
    """The server, if there is one."""
    largest: int
    """The most finished rows to measure with."""

    def empty(self) -> None:
        """Remove every task."""
        ...

    def fill(self, many: int, *, finished: bool) -> None:
        """Add this many tasks to the tables, and wait until the database is idle."""
        ...

    def store(self) -> Store:
        """Open a store."""
        ...

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        ...

    def hold_snapshot(self) -> AbstractContextManager[None]:
        """Keep the snapshot of an idle reader open."""
        ...

    def close(self) -> None:
        """Remove the database."""
        ...


class MemoryDatabase:
    """A memory store in this process."""

    name, shared, server_pid, largest = "memory", False, None, 100_000

    def __init__(self) -> None:
        self._store = MemoryStore()

    def empty(self) -> None:
        self._store = MemoryStore()

    def fill(self, many: int, *, finished: bool) -> None:
        for start in range(0, many, FILLED_AT_ONCE):
            self._store.submit([NewTask(handler="bench.noop")] * min(FILLED_AT_ONCE, many - start))
        if finished:
            drain(make_cycle(self._store), 10_000)

    def store(self) -> Store:
        return self._store

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError("the memory store has no statements")

    @contextmanager
    def hold_snapshot(self) -> Generator[None]:
        yield

    def close(self) -> None:
        self._store.close()


class SQLiteDatabase:
    """A file in its own temporary directory."""

    name, shared, server_pid, largest = "sqlite", True, None, 10**9

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="windlass-bench-")
        self._path = str(Path(self._folder) / "windlass.db")

    def empty(self) -> None:
        for file in Path(self._folder).iterdir():
            file.unlink()
        self.store().close()

    def fill(self, many: int, *, finished: bool) -> None:
        if many:
            fill_sqlite(self._path, _make_template(self, finished=finished), many, finished=finished)

    def store(self) -> Store:
        return SQLiteStore(self._path)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        connection: Any = apsw.Connection(self._path)  # its stubs are partly unknown
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    @contextmanager
    def hold_snapshot(self) -> Generator[None]:
        connection: Any = apsw.Connection(self._path)  # its stubs are partly unknown
        connection.execute("BEGIN").fetchall()
        connection.execute("SELECT count(*) FROM meta").fetchall()
        try:
            yield
        finally:
            connection.close()

    def close(self) -> None:
        shutil.rmtree(self._folder)


class PostgresDatabase:
    """A database on its own server with default settings: fsync on, 128 MB of shared buffers."""

    name, shared, largest = "postgres", True, 10**9

    def __init__(self) -> None:
        self._server = PostgresServer(settings={"fsync": "on", "synchronous_commit": "on"})
        self._server.start()
        self.server_pid: int | None = self._server.pid
        self.url = self._server.url(self._server.create_database())

    def empty(self) -> None:
        self.store().close()
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'")
        tables = ", ".join(f"windlass.{table}" for (table,) in found if table not in KEPT)
        self.execute(f"TRUNCATE {tables}")

    def fill(self, many: int, *, finished: bool) -> None:
        if many:
            fill_postgres(self.url, _make_template(self, finished=finished), many, finished=finished)

    def store(self) -> Store:
        return PostgresStore(self.url)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def hold_snapshot(self) -> Generator[None]:
        with psycopg.connect(self.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM windlass.meta")
            yield
            connection.rollback()

    def close(self) -> None:
        self._server.close()


def _make_template(database: Database, *, finished: bool) -> UUID:
    store = database.store()
    try:
        return make_template(store, finished=finished)
    finally:
        store.close()


DATABASES = {"memory": MemoryDatabase, "sqlite": SQLiteDatabase, "postgres": PostgresDatabase}
