"""SQLite through apsw: one connection per thread, one writer at a time.

Writers wait for a lock file before they begin, because the kernel wakes them up in turn, while SQLite's busy handler
polls (`lock_file`). With WAL and `synchronous=FULL`, committed data survive a power failure.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakSet

import apsw
import msgspec

from windlass.call_limits import check_canceled, current_patience, is_canceled, too_long
from windlass.clock import BootClock, Clock, SystemClock, boot_id, monotonic
from windlass.core.times import Micros
from windlass.errors import NotAllowed, StoreError, StoreUnavailable, UnstorableValue
from windlass.stores.sql.database import Query, Transaction, Values
from windlass.stores.sql.lanes import lane_of
from windlass.stores.sqlite.fork import FORKS
from windlass.stores.sqlite.lock_file import LockFile, locked_message
from windlass.stores.sqlite.schema import has_pending, migrate
from windlass.stores.sqlite.wakeup import Wakeup
from windlass.stores.statements import Statement, load

BUSY_TIMEOUT_MS = 10_000
READ_SECONDS = 12.0
"""The time limit for a read, as for a statement in PostgreSQL."""
STEPS = 20_000
"""After how many steps of SQLite's virtual machine the time limit of a read is checked again."""
T = TypeVar("T")


class Rows:
    """A result that was already fetched."""

    def __init__(self, found: Sequence[Values]) -> None:
        self._found = found

    def rows(self) -> Sequence[Values]:
        return self._found


class ReadLimit:
    """The time limit of the read that runs on a connection."""

    until: float | None = None
    """When to stop it; None while nothing is read."""

    def is_over(self) -> bool:
        """Return True to interrupt the statement."""
        return self.until is not None and (monotonic() > self.until or is_canceled())


class Connection:
    """A connection of one thread, and the transaction that runs on it."""

    def __init__(self, path: str, statements: dict[str, Statement], *, create: bool) -> None:
        self.pid = os.getpid()
        self.busy = True
        self._path = path
        self._statements = statements
        self._lock_file: LockFile | None = None
        self._connection: Any = None  # its stubs are partly unknown
        FORKS.watch(self)
        # A file that was removed is not created again: losing its data must not go unnoticed.
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        if create:
            create_private(path)
        self._connection = apsw.Connection(path, flags=flags, statementcachesize=200)
        if self._connection.readonly("main"):  # SQLite would report this only at the first write.
            raise StoreUnavailable(f"{path} cannot be written: it is read-only")
        self._lock_file = LockFile(path)
        self._file = _identity(path)
        self._read_limit = ReadLimit()
        self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        self._connection.create_scalar_function("lane", lane_of, 1, deterministic=True)
        # The limit does not refer to this object, or a connection would outlive its thread.
        self._connection.set_progress_handler(self._read_limit.is_over, STEPS)
        if self._connection.pragma("journal_mode") != "wal":
            with self._queued():
                self._connection.pragma("journal_mode", "wal")
        for pragma, value in (("synchronous", "full"), ("temp_store", "memory"), ("cache_size", -65_536)):
            self._connection.pragma(pragma, value)
        self.busy = False

    def __del__(self) -> None:
        if self.pid == os.getpid():
            self.close()

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Rows:
        known = self._statements[statement]
        fixed = tuple(_bindable(scalars[name]) for name in known.scalars)
        if batch is None:
            return Rows(self._connection.execute(known.text, fixed).fetchall())
        return Rows(self._connection.executemany(known.text, _bound(known, batch, fixed)).fetchall())

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self.query(statement, batch, **scalars)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Run a write transaction: commit it at the end, roll it back on any error."""
        with self._queued():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._check_file()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def limited(self) -> Generator[None]:
        """Interrupt statements in this block once they take too long or their caller is gone. For reads only."""
        check_canceled()
        limit = self._read_limit
        before, limit.until = limit.until, monotonic() + READ_SECONDS
        try:
            yield
        finally:
            limit.until = before

    @contextmanager
    def reading(self) -> Generator[None]:
        """Run a read transaction, which sees one snapshot of the file."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def migrate(self) -> None:
        """Apply pending migrations. Without any, this only reads."""
        if has_pending(self._connection):
            with self.writing():
                migrate(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._lock_file is not None:
            self._lock_file.close()

    def abandon(self, *, close: bool) -> None:
        """In a forked child, close the connection without touching the file, whose locks belong to the parent."""
        if self._lock_file is not None:
            self._lock_file.abandon()
        if close and self._connection is not None:
            self._connection.file_control("main", apsw.SQLITE_FCNTL_NULL_IO, 0)
            self._connection.close()

    def _check_file(self) -> None:
        """Raise `StoreUnavailable` if the file was removed or replaced: SQLite would write to the old one unnoticed."""
        if _identity(self._path) != self._file:
            raise StoreUnavailable(f"{self._path} was removed or replaced while in use; nothing was written")

    @contextmanager
    def _queued(self) -> Generator[None]:
        assert self._lock_file is not None
        patience = current_patience() or BUSY_TIMEOUT_MS / 1_000
        if not self._lock_file.lock(patience):
            raise StoreUnavailable(locked_message(self._path, patience))
        try:
            yield
        finally:
            self._lock_file.unlock()


class SQLiteDatabase:
    """A SQLite file with the Windlass tables in it."""

    def __init__(self, path: str | PathLike[str], clock: Clock | None) -> None:
        self._path = str(Path(path).absolute())
        self._clock = clock or SystemClock()
        self._lease_clock = clock or BootClock()
        self._boot = "" if clock else boot_id()
        self._statements = {**load("sqlite", "?"), **load("sqlite", "?", folder="parts")}
        self._wakeup = Wakeup(self._path)
        self._thread = threading.local()
        self._links: WeakSet[Connection] = WeakSet()  # each belongs to its thread
        self._closed = False
        with _errors(self._path, writes=True):
            if not Path(self._path).parent.is_dir():
                raise StoreUnavailable(f"{self._path}: the folder does not exist. Create it first.")
            self._link(create=True).migrate()

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        # Nothing to recover: in one process, a commit has either succeeded or raised.
        with self._using(writes=True) as link, link.writing():
            return work(link)

    def read(self, work: Callable[[Transaction], T]) -> T:
        with self._using() as link, link.limited():
            return work(link)

    def snapshot(self, queries: Sequence[Query]) -> list[Sequence[Values]]:
        with self._using() as link, link.limited(), link.reading():
            return [link.query(statement, **scalars).rows() for statement, scalars in queries]

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        raise NotAllowed("conn= joins a PostgreSQL transaction; this store is a SQLite file")

    def uuid(self, value: Any) -> UUID:
        return UUID(bytes=value)

    def now(self) -> Micros:
        return self._clock.now()

    def lease_now(self) -> Micros:
        return self._lease_clock.now()

    def boot(self) -> str:
        return self._boot

    def notify(self, queues: Collection[str]) -> None:
        if queues:
            self._wakeup.notify()

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._wakeup.wait(timeout)

    def upkeep(self) -> Mapping[str, int]:
        """Do nothing: SQLite checkpoints its log itself, and claims see every runnable task."""
        return {}

    def close(self) -> None:
        self._closed = True
        self._wakeup.close()
        for link in list(self._links):
            if link.pid == os.getpid():
                with suppress(apsw.ThreadingViolationError):  # In use; it is closed with its thread.
                    link.close()
        self._links.clear()
        self._thread = threading.local()

    @contextmanager
    def _using(self, *, writes: bool = False) -> Generator[Connection]:
        with _errors(self._path, writes=writes):
            link = self._link()
            link.busy = True
            try:
                yield link
            finally:
                link.busy = False

    def _link(self, *, create: bool = False) -> Connection:
        """Return the connection of this thread. After a fork, the parent's is not used."""
        link: Connection | None = getattr(self._thread, "link", None)
        if link is None or link.pid != os.getpid():
            if self._closed:
                raise StoreError(f"{self._path}: this store is closed. Open another one.")
            if FORKS.torn:
                raise StoreError(
                    f"{self._path}: this process was forked while another thread was using a SQLite store. Fork before "
                    "using the store, or start a new process."
                )
            link = self._thread.link = Connection(self._path, self._statements, create=create)
            self._links.add(link)
        return link


@contextmanager
def _errors(path: str, *, writes: bool) -> Generator[None]:
    """Translate errors of SQLite."""
    try:
        yield
    except apsw.InterruptError as error:
        check_canceled()
        raise too_long(READ_SECONDS) from error
    except apsw.BusyError as error:
        seconds = BUSY_TIMEOUT_MS / 1_000
        read = f"{path}: waited {seconds:g} s to read, because another process has locked the file. Try again later."
        raise StoreUnavailable(locked_message(path, seconds) if writes else read) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, OSError) as error:
        raise StoreUnavailable(f"{path} cannot be written: {error}") from error
    except apsw.IOError as error:  # On a full disk too, when SQLite cannot create or extend its own files.
        message = f"{path} cannot be written: {error}. Check the disk and its free space."
        raise StoreUnavailable(message) from error
    except OverflowError as error:
        raise UnstorableValue(f"{path}: {error}") from error
    except apsw.Error as error:
        raise StoreError(f"{path}: {error}") from error


def create_private(path: str) -> None:
    """Create a file that only this user can read and write, unless there is one. SQLite gives its log the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of the file at a path."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called before every commit, and twice as fast as Path
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _bound(statement: Statement, batch: Sequence[Values], fixed: Values) -> Iterator[Sequence[Any]]:
    """Return the parameters for each row of a batch: its values with ids as bytes, then the scalars."""
    ids = [place for place, column in enumerate(statement.batch) if column.type == "blob"]
    for line in batch:
        values = [*line, *fixed]
        for place in ids:
            if isinstance(id := values[place], UUID):
                values[place] = id.bytes
        yield values


def _bindable(value: object) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value
