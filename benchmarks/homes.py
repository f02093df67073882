"""Where the measured data live: one home for each kind of store, emptied and filled as a measurement needs it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from benchmarks.bare import Bare
from benchmarks.bare_postgres import BarePostgres
from benchmarks.bare_sqlite import BareSQLite
from benchmarks.drain import drain, through
from benchmarks.fill import fill_postgres, fill_sqlite
from tests.support.servers import PostgresServer
from windlass.core.task import NewTask
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

KEPT = ("meta", "migration", "queue")
"""The tables whose rows are no tasks."""

FILLED_AT_ONCE = 50_000


class Home(Protocol):
    """One place for data."""

    name: str
    shared: bool
    """Whether other processes reach the same data."""
    fastest: int
    """More tasks a second than a claim loop will ever take: what has to be there for a second of it."""
    largest: int
    """More finished rows than these are not asked of it."""

    def empty(self) -> None:
        """Remove every task."""
        ...

    def fill(self, many: int, *, finished: bool) -> None:
        """Put so many tasks more into the tables, and let everything come to rest."""
        ...

    def store(self) -> Store:
        """Open a store."""
        ...

    def bare(self) -> Bare:
        """Open a connection for bare statements."""
        ...

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement by itself; its rows."""
        ...

    def pinned(self) -> AbstractContextManager[None]:
        """Hold the snapshot of one idle reader open meanwhile."""
        ...

    def close(self) -> None:
        """Remove everything."""
        ...


class MemoryHome:
    """Data in this process."""

    name, shared, fastest, largest = "memory", False, 120_000, 100_000

    def __init__(self) -> None:
        self._store = MemoryStore()

    def empty(self) -> None:
        self._store = MemoryStore()

    def fill(self, many: int, *, finished: bool) -> None:
        for start in range(0, many, FILLED_AT_ONCE):
            self._store.submit([NewTask(handler="bench.noop")] * min(FILLED_AT_ONCE, many - start))
        if finished:
            drain(through(self._store), 10_000)

    def store(self) -> Store:
        return self._store

    def bare(self) -> Bare:
        raise NotImplementedError("the memory store has no statements")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError("the memory store has no statements")

    @contextmanager
    def pinned(self) -> Generator[None]:
        yield

    def close(self) -> None:
        self._store.close()


class SQLiteHome:
    """A file in a folder of its own, on the disk of the temporary files."""

    name, shared, fastest, largest = "sqlite", True, 120_000, 10**9

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="windlass-bench-")
        self._path = str(Path(self._folder) / "windlass.db")

    def empty(self) -> None:
        for file in Path(self._folder).iterdir():
            file.unlink()
        self.store().close()

    def fill(self, many: int, *, finished: bool) -> None:
        fill_sqlite(self._path, many, finished=finished)

    def store(self) -> Store:
        return SQLiteStore(self._path)

    def bare(self) -> Bare:
        return BareSQLite(self._path)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        connection: Any = apsw.Connection(self._path)  # its stubs are partly unknown
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    @contextmanager
    def pinned(self) -> Generator[None]:
        connection: Any = apsw.Connection(self._path)  # its stubs are partly unknown
        connection.execute("BEGIN").fetchall()
        connection.execute("SELECT count(*) FROM meta").fetchall()
        try:
            yield
        finally:
            connection.close()

    def close(self) -> None:
        shutil.rmtree(self._folder)


class PostgresHome:
    """A database on a server of its own: as installed, so with fsync and 128 MB of shared buffers."""

    name, shared, fastest, largest = "postgres", True, 50_000, 10**9

    def __init__(self) -> None:
        self._server = PostgresServer(settings={"fsync": "on", "synchronous_commit": "on"})
        self._server.start()
        self.url = self._server.url(self._server.create_database())

    def empty(self) -> None:
        self.store().close()
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'")
        tables = ", ".join(f"windlass.{table}" for (table,) in found if table not in KEPT)
        self.execute(f"TRUNCATE {tables}")

    def fill(self, many: int, *, finished: bool) -> None:
        fill_postgres(self.url, many, finished=finished)

    def store(self) -> Store:
        return PostgresStore(self.url)

    def bare(self) -> Bare:
        return BarePostgres(self.url)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def pinned(self) -> Generator[None]:
        with psycopg.connect(self.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM windlass.meta")
            yield
            connection.rollback()

    def close(self) -> None:
        self._server.close()


HOMES = {"memory": MemoryHome, "sqlite": SQLiteHome, "postgres": PostgresHome}
