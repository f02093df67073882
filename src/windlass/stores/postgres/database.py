"""PostgreSQL through psycopg: pooled connections, pipelined transactions, retries of whole transactions.

Every transaction is READ COMMITTED, whatever the database's default, because resolving edges requires that each
statement sees what was committed before it. A transaction is sent as a pipeline: statements whose results are not
needed yet share a round trip, and so does the COMMIT. Every process has its own connections, also after a fork.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from windlass.call_limits import check_canceled, current_lock_wait, current_patience, too_long
from windlass.clock import Clock, jitter, monotonic, sleep
from windlass.core.times import Micros
from windlass.errors import CommitUnknown, KeyBusy, StoreError, StoreUnavailable, UnstorableValue, WindlassError
from windlass.stores.postgres.address import connection_info
from windlass.stores.postgres.caller import callers_connection
from windlass.stores.postgres.claim_partitions import ClaimPartitions
from windlass.stores.postgres.identity import check_identity, read_identity
from windlass.stores.postgres.notify import Notifications
from windlass.stores.postgres.paused import IDLE_SECONDS, PausedProcesses
from windlass.stores.postgres.schema import UNLIMITED, check_durability, migrate
from windlass.stores.postgres.transaction import Connection, PostgresTransaction
from windlass.stores.sql.database import Query, Transaction, Values
from windlass.stores.statements import load

T = TypeVar("T")
log = logging.getLogger(__name__)

TRIES = 5
PATIENCE = 10.0
"""How many seconds to retry after transient errors."""

HINT_PATIENCE = 0.5
"""How many seconds a wake-up waits for a connection. It is only a hint, and its caller waits."""

# Timeouts end our statements and open transactions. A hanging one could otherwise lease tasks for a session that has
# long expired.
STATEMENT_SECONDS = 12
SETTINGS = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": "8s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS:g}s",
    "synchronous_commit": "on",
    "search_path": "pg_catalog",  # So that no other schema can replace the server's functions.
}
# Every statement of ours finds its rows through an index, but for small tables without a condition. The hot tables are
# small or empty when plans are made and full of dead rows when they are used, so the planner would like to scan them
# (docs/decisions/0019-one-table-per-hot-state.md). The JIT compiler would start because of the cost that the server
# gives to scans that are off but cannot be avoided.
PLANNING = {"enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off"}
# By default the server would plan most of our statements every time, because a batch of one looks cheaper than the size
# that a generic plan assumes. The plan is the same, and planning takes longer than running it.
PLAN_ONCE = {"plan_cache_mode": "force_generic_plan"}
REPLAN_EVERY = 10.0
"""After how many seconds a connection forgets its plans. One that was made while a table was empty may be bad later."""

_PASSING = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "23505")
"""Transient errors: conflicts, deadlocks, a restart of the server, and a key that was inserted concurrently."""


class Connections(NamedTuple):
    """The connections of one process to the server."""

    pool: ConnectionPool[Connection]
    hints: Notifications

    def close(self) -> None:
        """Close all of them, and wake up the threads that wait for work."""
        self.hints.close()
        self.pool.close()


class PostgresDatabase:
    """A PostgreSQL database with the Windlass tables in the schema `windlass`."""

    def __init__(
        self,
        url: str,
        clock: Clock | None,
        *,
        pooler: bool,
        listen_url: str | None,
        connections: int,
        create: bool = True,
    ) -> None:
        self._url = url
        self._clock = clock
        self._pooler = pooler
        self._statements = dict(load("postgres", "$"))
        self._shortcuts = load("postgres", "$", folder="shortcuts")
        self._lots = ClaimPartitions()
        self._paused = PausedProcesses()
        self._connections = connections
        # Behind a pooler, session settings and prepared statements cannot be used.
        self._info = connection_info(
            url, name="windlass", settings=None if pooler else {**SETTINGS, **PLANNING, **PLAN_ONCE}
        )
        self._options: dict[str, Any] = {"prepare_threshold": None} if pooler else {}
        listen_at = listen_url or (None if pooler else url)
        self._listen_info = None if listen_at is None else connection_info(listen_at, name="windlass-listen")
        self._lines_by_process: dict[int, Connections] = {}
        self._opening: dict[int, Lock] = {}
        self._planned: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._identity: str | None = None
        self._checked: WeakSet[Connection] = WeakSet()
        """The callers' connections that are known to lead to this database."""
        self._closed = False
        self._start(create=create)

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        give_up_at = monotonic() + (current_patience() or PATIENCE)
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(work)
            except psycopg.Error as error:
                _check_busy(error)
                last = attempt == TRIES or monotonic() > give_up_at
                if last or not _is_passing(error):
                    raise translated(error) from error
                self._lines().pool.check()
            except CommitUnknown as unknown:
                try:
                    result = recover() if recover else None
                except StoreUnavailable as error:
                    raise unknown from error
                if result is not None:
                    return result
                if attempt == TRIES:
                    raise
            sleep(jitter(0, min(1.0, 0.02 * 2**attempt)))
        raise AssertionError("the last try returns or raises")

    def run_shortcut(
        self, statement: str, batch: Sequence[Values] | None, **scalars: object
    ) -> Sequence[Values] | None:
        """Run a statement of `shortcuts`, which is a transaction of its own, in one round trip.

        Return None if it failed or its answer was lost. It may have been committed; the regular path finds out.
        """
        try:
            with self._connection() as connection, _autocommit(connection):
                return PostgresTransaction(connection, self._shortcuts).query(statement, batch, **scalars).rows()
        except psycopg.Error as error:
            log.debug("the statement %s failed: %s", statement, error)
            return None

    def read(self, work: Callable[[Transaction], T]) -> T:
        def once() -> T:
            with self._connection() as connection, _autocommit(connection):
                return work(PostgresTransaction(connection, self._statements))

        return self._until_read(once)

    def snapshot(self, queries: Sequence[Query]) -> list[Sequence[Values]]:
        def once() -> list[Sequence[Values]]:
            with self._connection() as connection:
                with nullcontext() if self._pooler else connection.pipeline():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                    self._prepare(connection)
                    transaction = PostgresTransaction(connection, self._statements)
                    answers = [transaction.query(statement, **scalars) for statement, scalars in queries]
                    connection.commit()
                return [answer.rows() for answer in answers]

        return self._until_read(once)

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        with callers_errors():
            connection = callers_connection(conn)
            if connection not in self._checked:
                check_identity(read_identity(connection), self.identity(), connection.info.dbname)
                self._checked.add(connection)
            return work(PostgresTransaction(connection, self._statements))

    def identity(self) -> str:
        """Return which database this is, however it is reached."""
        if self._identity is None:
            with _errors(), self._connection() as connection, _autocommit(connection):
                self._identity = read_identity(connection)
        return self._identity

    def uuid(self, value: Any) -> UUID:
        return cast("UUID", value)

    def now(self) -> Micros | None:
        return self._clock.now() if self._clock else None

    def lease_now(self) -> Micros | None:
        return self.now()

    def boot(self) -> str:
        return ""

    def notify(self, queues: Collection[str]) -> None:
        self._lines().hints.notify(queues)

    def unnotified(self, queues: Collection[str]) -> list[str]:
        """Return the queues to notify, for a statement that does so itself."""
        return self._lines().hints.unnotified(queues)

    def mark_notified(self, queues: Collection[str]) -> None:
        """Record that a statement has notified these queues."""
        self._lines().hints.mark_notified(queues)

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._lines().hints.wait(queues, timeout)

    def upkeep(self) -> Mapping[str, int]:
        with _errors(), self._connection() as connection, _autocommit(connection):
            self._paused.end(connection)
            return self._lots.upkeep(connection)

    def horizon_age(self) -> float:
        """Return for how many seconds the oldest open transaction has kept the server from cleaning up."""
        with _errors(), self._connection() as connection, _autocommit(connection):
            return self._lots.horizon_age(connection)

    def close(self) -> None:
        self._closed = True
        lines = self._lines_by_process.get(os.getpid())
        if lines is not None:
            lines.close()

    def _until_read(self, once: Callable[[], T]) -> T:
        """Run a read, and repeat it after transient errors."""
        give_up_at = monotonic() + (current_patience() or PATIENCE)
        for attempt in range(1, TRIES + 1):
            check_canceled()
            try:
                return once()
            except psycopg.errors.QueryCanceled as error:
                raise too_long(STATEMENT_SECONDS) from error
            except psycopg.Error as error:
                last = attempt == TRIES or monotonic() > give_up_at
                if last or not _is_passing(error):
                    raise translated(error) from error
                self._lines().pool.check()
            sleep(jitter(0, min(1.0, 0.02 * 2**attempt)))
        raise AssertionError("the last try returns or raises")

    def _once(self, work: Callable[[Transaction], T]) -> T:
        """Try once. Raise `CommitUnknown` if the connection is lost during the commit."""
        with self._connection() as connection:
            committing = False
            try:
                with nullcontext() if self._pooler else connection.pipeline() as pipeline:
                    self._prepare(connection)
                    result = work(PostgresTransaction(connection, self._statements, pipeline))
                    committing = True
                    connection.commit()
            except Exception as error:
                if committing and _is_lost(connection, error):
                    connection.close()
                    raise CommitUnknown("the connection was lost during the commit") from error
                raise
            return result

    def _prepare(self, connection: Connection) -> None:
        """Begin a transaction with the settings and plans that it needs."""
        if self._pooler:
            _set_locally(connection)
            return
        now = monotonic()
        if now - self._planned.setdefault(connection, now) > REPLAN_EVERY:
            connection.execute("DISCARD PLANS")
            self._planned[connection] = now

    @contextmanager
    def _connection(self, patience: float | None = None) -> Generator[Connection]:
        """Lend a connection from the pool. Uncommitted changes are rolled back when it is returned.

        A lost connection is closed, and the exception becomes an `OperationalError`: in the middle of the protocol, the
        driver may raise anything, even a `ValueError`.
        """
        pool = self._lines().pool
        patience = current_patience() if patience is None else patience
        try:
            connection = pool.getconn(patience)
        except PoolTimeout as error:
            reason = self._why_not() if patience is None else "none was free"
            raise StoreUnavailable(f"PostgreSQL gave no connection in time: {reason}") from error
        except PoolClosed as error:
            raise _closed() from error
        try:
            yield connection
        except psycopg.errors.ReadOnlySqlTransaction:
            connection.close()  # The server is no longer the primary; the next connection finds the one that is.
            raise
        except WindlassError:
            raise
        except Exception as error:
            if not _is_lost(connection, error):
                raise
            connection.close()
            if isinstance(error, psycopg.Error) and _is_passing(error):
                raise
            message = f"the connection was lost: {type(error).__name__}: {error}"
            raise psycopg.OperationalError(message) from error
        finally:
            try:
                _clean(connection)
            finally:
                pool.putconn(connection)

    def _lines(self) -> Connections:
        """Return the connections of this process. After a fork, those of the parent are not used."""
        process = os.getpid()
        lines = self._lines_by_process.get(process)
        return self._open_lines(process) if lines is None else lines

    def _open_lines(self, process: int) -> Connections:
        """Open the connections of this process, unless another thread has done so. Others see them when they are open.

        The lock is of this process alone: a fork may copy that of its parent while a thread holds it.
        """
        with self._opening.setdefault(process, Lock()):
            lines = self._lines_by_process.get(process)
            if lines is not None:
                return lines
            if self._closed:
                raise _closed()
            pool = ConnectionPool[Connection](
                self._info,
                min_size=1,
                max_size=self._connections,
                timeout=PATIENCE,
                # After this the pool stops trying to reconnect, and starts again at the next request.
                reconnect_timeout=PATIENCE,
                kwargs=self._options,
                configure=_configure,
                name="windlass",
                open=False,
            )
            pool.open()
            lines = Connections(pool, Notifications(self._listen_info, self._notify))
            self._lines_by_process[process] = lines
            if self._closed:  # By another thread, which may have looked for them too early.
                lines.close()
                raise _closed()
            return lines

    def _start(self, *, create: bool) -> None:
        """Check the server and migrate, with a connection outside the pool, whose errors say what is wrong."""
        give_up_at = monotonic() + PATIENCE
        while True:
            try:
                with psycopg.connect(self._info, **self._options) as connection:
                    _configure(connection)
                    check_durability(connection)
                    migrate(connection, self._connect_to_build, create=create)
                return
            except psycopg.Error as error:
                if monotonic() > give_up_at or not _is_passing(error):
                    raise translated(error) from error
            sleep(jitter(0, 0.5))

    def _connect_to_build(self) -> Connection:
        info = connection_info(self._url, name="windlass-migrate", settings=None if self._pooler else UNLIMITED)
        return psycopg.connect(info, autocommit=True, **self._options)

    def _why_not(self) -> str:
        """Return why the pool has no connection: it does not say so itself."""
        try:
            psycopg.connect(self._info).close()
        except psycopg.Error as error:
            return str(error).strip()
        return f"all {self._connections} connections of this store are in use"

    def _notify(self, queues: Collection[str]) -> None:
        with self._connection(HINT_PATIENCE) as connection, _autocommit(connection):
            # A wake-up need not survive a crash, so do not wait for the disk.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'off', true), pg_notify('windlass', queue) "
                "FROM unnest(%s::text[]) AS queue",
                [list(queues)],
            )


def _configure(connection: Connection) -> None:
    connection.isolation_level = IsolationLevel.READ_COMMITTED


@contextmanager
def _autocommit(connection: Connection) -> Generator[None]:
    """Make every statement its own transaction within this block."""
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = False


def _clean(connection: Connection) -> None:
    """Reset a connection for its next user; close it if that fails."""
    try:
        connection.rollback()
        if connection.autocommit:
            connection.autocommit = False
    except Exception:  # noqa: BLE001 - on a broken connection the driver may raise anything
        connection.close()


def _set_locally(connection: Connection) -> None:
    settings = SETTINGS | PLANNING
    connection.execute(
        "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s (name, value)",
        [list(settings), list(settings.values())],
    )


def _is_lost(connection: Connection, error: Exception) -> bool:
    """Return True if the connection cannot be used any more: closed, ended by the server, or stuck in mid-protocol."""
    if connection.closed or connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE):
        return True
    return isinstance(error, psycopg.Error) and (_is_protocol_error(error) or _ends_the_connection(error))


def _is_passing(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError) or _is_protocol_error(error)
    return is_passing_state(error.sqlstate) or _ends_the_connection(error)


def is_passing_state(state: str) -> bool:
    """Return True for the SQLSTATE of a transient error."""
    return state in _PASSING or state.startswith("08")


def _is_protocol_error(error: psycopg.Error) -> bool:
    """Return True if the driver did not understand the server, as in "received 2 results from command 'BEGIN'".

    If a server or a pooler ends a connection during a command, the numbers of answers and commands may differ.
    """
    return error.sqlstate is None and isinstance(error, psycopg.InternalError | psycopg.InterfaceError)


def _ends_the_connection(error: psycopg.Error) -> bool:
    """Return True if the server closes the connection after this error. The driver may notice only later."""
    return error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def _closed() -> StoreError:
    return StoreError("This store is closed. Open another one.")


@contextmanager
def _errors() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error


@contextmanager
def callers_errors() -> Generator[None]:
    """Translate errors in a caller's transaction, which cannot be retried here."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise StoreError("The same key was submitted concurrently. Roll back and try again.") from error
    except psycopg.Error as error:
        _check_busy(error)
        raise translated(error) from error


def _check_busy(error: psycopg.Error) -> None:
    """Raise `KeyBusy` if a submit has waited long enough for another transaction."""
    if isinstance(error, psycopg.errors.LockNotAvailable) and (
        current_lock_wait() is not None or is_key_busy(error.diag.context)
    ):
        raise KeyBusy from error


def is_key_busy(context: str | None) -> bool:
    """Return True if a statement that hit its lock timeout waited for a key or a lock of unique tasks.

    The context of the error names the index or table, in every language of the server.
    """
    return context is not None and ("task_pkey" in context or "unique_lock" in context)


def translated(error: psycopg.Error) -> StoreError:
    """Translate an error of PostgreSQL. The message never contains the URL, which may have a password."""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return StoreError("The Windlass tables are not in this database. Is it the one that the store uses?")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreError(
            f"PostgreSQL: {str(error).strip()}. The role of the store's URL lacks this right: `windlass doctor` shows "
            "what it may do, and `windlass deploy roles` prints the roles of each program."
        )
    if isinstance(error, psycopg.DataError):
        return UnstorableValue(f"PostgreSQL: {error}".strip())
    unavailable = psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction
    if isinstance(error, unavailable) or _is_passing(error):
        return StoreUnavailable(f"PostgreSQL: {error}".strip())
    return StoreError(f"PostgreSQL: {error}".strip())
