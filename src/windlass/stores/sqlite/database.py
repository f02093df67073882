"""SQLite through apsw: a connection for each thread, writers in a queue, statements run row by row in the process.

Writers queue on a lock file before they begin: the kernel wakes them in turn, where SQLite's own busy handler would
have them all sleep and guess. WAL with `synchronous=FULL`: what was acknowledged survives a loss of power.
"""

from __future__ import annotations

import fcntl
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

from windlass.clock import BootClock, Clock, SystemClock, boot_id
from windlass.core.times import Micros
from windlass.errors import NotAllowed, StoreError, StoreUnavailable
from windlass.stores.migrate import pending
from windlass.stores.sql.database import Asked, Transaction, Values
from windlass.stores.sqlite.fork import FORKS
from windlass.stores.sqlite.wakeup import Wakeup
from windlass.stores.statements import Statement, load

BUSY_TIMEOUT_MS = 10_000
T = TypeVar("T")


class Rows:
    """Rows that are already here."""

    def __init__(self, found: Sequence[Values]) -> None:
        self._found = found

    def rows(self) -> Sequence[Values]:
        return self._found


class Connection:
    """One connection, used by one thread of one process. Also the transaction that runs on it."""

    def __init__(self, path: str, statements: dict[str, Statement], *, create: bool) -> None:
        self.pid = os.getpid()
        self.busy = True
        self._path = path
        self._statements = statements
        self._lock_file = -1
        self._lock_files: list[int] = []
        """The same once more, for whoever closes it: two threads may come to that at the same moment."""
        self._connection: Any = None  # its stubs are partly unknown
        FORKS.watch(self)
        # A file that is gone is not made again: what was acknowledged in it is missed, not quietly begun anew.
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        self._connection = apsw.Connection(path, flags=flags, statementcachesize=200)
        if self._connection.readonly("main"):  # SQLite would say so only at the first write.
            raise StoreUnavailable(f"{path} cannot be written: it is read-only")
        self._lock_file = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._lock_files.append(self._lock_file)
        self._file = _identity(path)
        self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        with self._queued():
            for pragma in ("journal_mode = wal", "synchronous = full", "temp_store = memory", "cache_size = -65536"):
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
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
        """A write transaction: committed at the end, rolled back on any error."""
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
    def reading(self) -> Generator[None]:
        """A transaction that only reads: whatever others commit meanwhile, it sees the file as it was."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def migrate(self) -> None:
        """Bring the file's tables up to date, if they are not."""
        if not pending("sqlite", self._version()):
            return
        with self.writing():
            for migration in pending("sqlite", self._version()):
                self._connection.execute(migration.script)
                self._connection.pragma("user_version", migration.version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._close_lock_file()

    def _close_lock_file(self) -> None:
        with suppress(IndexError):  # It is closed already. Taking it out of the list is one step of the interpreter.
            os.close(self._lock_files.pop())

    def abandon(self, *, close: bool) -> None:
        """In a forked child: close without a word to the file, whose locks are the parent's."""
        self._close_lock_file()
        if close and self._connection is not None:
            self._connection.file_control("main", apsw.SQLITE_FCNTL_NULL_IO, 0)
            self._connection.close()

    def _check_file(self) -> None:
        """SQLite goes on writing to a file that was removed, or replaced by another, and so to nowhere."""
        if _identity(self._path) != self._file:
            raise StoreUnavailable(f"{self._path} was removed or replaced while it was in use; nothing was written")

    def _version(self) -> int:
        return self._connection.pragma("user_version")

    @contextmanager
    def _queued(self) -> Generator[None]:
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)


class SQLiteDatabase:
    """A SQLite file with the Windlass tables in it."""

    def __init__(self, path: str | PathLike[str], clock: Clock | None) -> None:
        self._path = str(Path(path).absolute())
        self._clock = clock or SystemClock()
        self._lease_clock = clock or BootClock()
        self._boot = "" if clock else boot_id()
        self._statements = dict(load("sqlite", "?"))
        self._bell = Wakeup(self._path)
        self._thread = threading.local()
        self._links: WeakSet[Connection] = WeakSet()  # each is its thread's, and ends with it
        self._closed = False
        with _errors(self._path):
            if not Path(self._path).parent.is_dir():
                raise StoreUnavailable(f"{self._path}: the folder does not exist; create it first")
            self._link(create=True).migrate()

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        # Nothing to recover: in one process a commit has either happened or raised.
        with self._using() as link, link.writing():
            return work(link)

    def read(self, work: Callable[[Transaction], T]) -> T:
        with self._using() as link:
            return work(link)

    def snapshot(self, asked: Sequence[Asked]) -> list[Sequence[Values]]:
        with self._using() as link, link.reading():
            return [link.query(statement, **scalars).rows() for statement, scalars in asked]

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
            self._bell.notify()

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._bell.wait(timeout)

    def upkeep(self) -> Mapping[str, int]:
        """Nothing: SQLite checkpoints its log by itself, and a claim sees all that is runnable."""
        return {}

    def close(self) -> None:
        self._closed = True
        self._bell.close()
        for link in list(self._links):
            if link.pid == os.getpid():
                with suppress(apsw.ThreadingViolationError):  # In use just now; it goes with the thread that uses it.
                    link.close()
        self._links.clear()
        self._thread = threading.local()

    @contextmanager
    def _using(self) -> Generator[Connection]:
        with _errors(self._path):
            link = self._link()
            link.busy = True
            try:
                yield link
            finally:
                link.busy = False

    def _link(self, *, create: bool = False) -> Connection:
        """This thread's connection. One made before a fork belongs to the parent and is left alone."""
        link: Connection | None = getattr(self._thread, "link", None)
        if link is None or link.pid != os.getpid():
            if self._closed:
                raise StoreError(f"{self._path}: this store is closed; open another one")
            if FORKS.torn:
                raise StoreError(
                    f"{self._path}: this process was forked while another thread was at work in a SQLite store; fork "
                    "first, or start the process anew"
                )
            link = self._thread.link = Connection(self._path, self._statements, create=create)
            self._links.add(link)
        return link


@contextmanager
def _errors(path: str) -> Generator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except apsw.BusyError as error:
        raise StoreUnavailable(f"{path} is locked by another program: {error}") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, OSError) as error:
        raise StoreUnavailable(f"{path} cannot be written: {error}") from error
    except apsw.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _identity(path: str) -> tuple[int, int] | None:
    """Which file a path names now."""
    try:
        found = os.stat(path)  # noqa: PTH116 - before every commit, and twice as quick as a Path
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _bound(statement: Statement, batch: Sequence[Values], fixed: Values) -> Iterator[Sequence[Any]]:
    """The rows of a batch with ids as bytes, followed by what is the same for all of them."""
    ids = [place for place, column in enumerate(statement.batch) if column.type == "blob"]
    for line in batch:
        values = [*line, *fixed]
        for place in ids:
            if values[place] is not None:
                values[place] = values[place].bytes
        yield values


def _bindable(value: object) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value
