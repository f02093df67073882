"""Administration of a SQLite file: status, integrity checks, online backup, and copies."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw

from windlass.clock import SystemClock
from windlass.errors import NotAllowed, StoreError, StoreUnavailable
from windlass.stores.admin import BATCH, PROMISES, TABLES, Advance, DatabaseMissing, Finding, Rows, Status, Table, found
from windlass.stores.migrate import migrations
from windlass.stores.sqlite.database import BUSY_TIMEOUT_MS, create_private
from windlass.stores.sqlite.schema import applied
from windlass.stores.statements import load

_PAGES = 1_000
_FACTS = ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint", "application_id")
_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


class SQLiteAdmin:
    """Administration of an existing file."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._statements = load("sqlite", "?", folder="inspection")
        if not self._path.is_file():
            raise DatabaseMissing(f"{self._path} does not exist. `windlass db migrate` creates it.")
        with self._errors():
            # apsw's own types are partly unknown.
            self._connection: Any = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # As the store sets it for its connections, so that the status shows what the store uses.
            self._connection.pragma("synchronous", "full")
            self._connection.pragma("user_version")  # The first read of the file fails if it is not a database.

    def status(self) -> Status:
        schema = applied(self._connection)
        return Status(
            kind="sqlite",
            version=apsw.sqlite_lib_version(),
            schema=schema.version,
            compatible_from=schema.compatible_from,
            newest=migrations("sqlite")[-1].version,
            bytes=self._path.stat().st_size + _size(self._wal),
            tasks=dict(self.ask("counts_by_state")) if schema.version else {},
            sessions=self.ask("live_sessions")[0][0] if schema.version else 0,
            facts=self._facts(),
        )

    def rights(self) -> None:
        return None

    def clock(self) -> int:
        return SystemClock().now()

    def check(self) -> list[Finding]:
        with self._errors():
            try:
                problems = [line for (line,) in self._connection.execute("PRAGMA integrity_check(5)")]
            except apsw.CorruptError as error:  # So damaged that the check itself fails.
                problems = [str(error)]
        if problems != ["ok"]:  # The rows of a damaged file cannot be trusted.
            text = "the file is damaged"
            return [Finding(check="integrity_check", count=len(problems), text=text, examples=problems)]
        return [
            finding
            for check in PROMISES
            if check in self._statements
            for finding in found(check, self._readable(self.ask(check)))
        ]

    def backup(self, to: str, advance: Advance) -> None:
        place = Path(to)
        if place.exists():
            raise NotAllowed(f"to={to!r} already exists. Name a new file.")
        if not place.absolute().parent.is_dir():
            raise NotAllowed(f"to={to!r} is in a folder that does not exist. Create it first.")
        part = place.with_name(f"{place.name}.part")
        part.unlink(missing_ok=True)
        create_private(str(part))
        with (
            self._snapshot(),
            closing(apsw.Connection(str(part))) as copy,
            copy.backup("main", self._connection, "main") as backup,
        ):
            while not backup.done:
                backup.step(_PAGES)
                advance(_PAGES)
        _make_durable(part)
        part.rename(place)

    @contextmanager
    def reading(self) -> Generator[SQLiteRows]:
        with self._snapshot():
            yield SQLiteRows(self)

    @contextmanager
    def writing(self) -> Generator[SQLiteRows]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield SQLiteRows(self)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._connection.close()

    def run(self, text: str, *values: Any) -> Any:
        """Run a statement and yield its rows."""
        return self._connection.execute(text, values)

    def run_many(self, text: str, rows: Iterator[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        self._connection.executemany(text, rows)

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement of `inspection` and return its rows."""
        with self._errors():
            return self._connection.execute(self._statements[statement].text, values).fetchall()

    @contextmanager
    def _snapshot(self) -> Generator[None]:
        """Read the file as it is now. Without it, a backup starts again after every commit of others."""
        with self._errors():
            self._connection.execute("BEGIN")
            try:
                self._connection.execute("SELECT 1 FROM sqlite_schema").fetchall()  # Only a read begins the snapshot.
                yield
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Generator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except (apsw.BusyError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, OSError) as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error
        except apsw.Error as error:
            raise StoreError(f"{self._path}: {error}") from error

    @property
    def _wal(self) -> Path:
        return self._path.with_name(f"{self._path.name}-wal")

    def _facts(self) -> dict[str, str]:
        facts = {name: str(self._connection.pragma(name)) for name in _FACTS}
        facts["synchronous"] = _SYNCHRONOUS.get(int(facts["synchronous"]), facts["synchronous"])
        return {"path": str(self._path), **facts, "wal_bytes": str(_size(self._wal))}

    @staticmethod
    def _readable(rows: list[Any]) -> list[Any]:
        return [(UUID(bytes=row[0]) if isinstance(row[0], bytes) else row[0], *row[1:]) for row in rows]


class SQLiteRows:
    """All rows of a file, read or written in one transaction."""

    def __init__(self, admin: SQLiteAdmin) -> None:
        self._admin = admin

    def epoch(self) -> int:
        return self._admin.ask("read_epoch")[0][0]

    def count(self, table: Table) -> int:
        assert table in TABLES
        return next(self._admin.run(f'SELECT count(*) FROM "{table.name}"'))[0]  # noqa: S608 - a name of ours

    def rows(self, table: Table) -> Iterator[Rows]:
        assert table in TABLES
        cursor: Iterator[Sequence[Any]] = self._admin.run(f'SELECT {_quoted(table)} FROM "{table.name}"')  # noqa: S608 - names of ours
        batch: list[Sequence[Any]]
        while batch := list(islice(cursor, BATCH)):
            yield [_neutral(table, row) for row in batch]

    def is_empty(self) -> bool:
        return bool(self._admin.ask("is_empty")[0][0])

    def write(self, table: Table, rows: Rows) -> None:
        assert table in TABLES
        marks = ", ".join("?" * len(table.columns))
        text = f'INSERT INTO "{table.name}" ({_quoted(table)}) VALUES ({marks})'  # noqa: S608 - names of ours
        self._admin.run_many(text, (_bound(row) for row in rows))

    def end(self, epoch: int) -> None:
        self._admin.ask("set_epoch", epoch)


def _quoted(table: Table) -> str:
    return ", ".join(f'"{column}"' for column in table.columns)


def _neutral(table: Table, row: Sequence[Any]) -> list[Any]:
    return [_read(table, column, value) for column, value in zip(table.columns, row, strict=True)]


def _read(table: Table, column: str, value: Any) -> Any:
    if column in table.flags:
        return bool(value)
    return UUID(bytes=value) if column in table.ids and value is not None else value


def _bound(row: Sequence[Any]) -> list[Any]:
    return [value.bytes if isinstance(value, UUID) else value for value in row]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _make_durable(path: Path) -> None:
    """Flush a file and its folder to disk, so that the backup survives a power failure."""
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
