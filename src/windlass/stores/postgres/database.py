"""PostgreSQL through psycopg: pooled connections, pipelined transactions, whole retries.

Every transaction is READ COMMITTED, whatever the database's default, because the telling of dependents relies on each
statement seeing what was committed before it. A transaction is sent as a pipeline: statements whose rows are not needed
yet share a round trip, the COMMIT included. Every process has connections of its own, a forked child too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from windlass.clock import Clock, jitter, monotonic, sleep
from windlass.core.times import Micros
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable, WindlassError
from windlass.stores.postgres.address import connection_info
from windlass.stores.postgres.caller import callers_connection
from windlass.stores.postgres.claim_partitions import ClaimPartitions
from windlass.stores.postgres.notify import Notifications
from windlass.stores.postgres.schema import check_durability, migrate
from windlass.stores.postgres.transaction import Connection, PostgresTransaction
from windlass.stores.sql.database import Asked, Transaction, Values
from windlass.stores.statements import load

T = TypeVar("T")

TRIES = 5
PATIENCE = 10.0
"""Seconds after which a passing fault is no longer waited out."""

HINT_PATIENCE = 0.5
"""Seconds that a wake-up hint waits for a connection: what is hinted at is done already, and its caller waits."""

# Nothing of ours may outlive a session, a statement or an open transaction: one that did could lease tasks in the name
# of a session long swept.
SETTINGS = {
    "statement_timeout": "12s",
    "lock_timeout": "8s",
    "idle_in_transaction_session_timeout": "10s",
    "synchronous_commit": "on",
    "search_path": "pg_catalog",  # Ours are all named in full, and nobody's can stand in for the server's own.
}
# Left to itself the server plans most of our statements anew every time, because a batch of one looks cheaper than the
# unknown number it would have to assume; the plan comes out the same, and making it takes longer than running it.
PLANNING = {"plan_cache_mode": "force_generic_plan"}

_PASSING = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "23505")
"""What is worth another try: conflicts, deadlocks, a server that restarts, and a key that was taken just now."""


class Connections(NamedTuple):
    """What one process has open to the server."""

    pool: ConnectionPool[Connection]
    hints: Notifications


class PostgresDatabase:
    """A PostgreSQL database with the Windlass tables in the schema `windlass`."""

    def __init__(
        self, url: str, clock: Clock | None, *, pooler: bool, listen_url: str | None, connections: int
    ) -> None:
        self._clock = clock
        self._pooler = pooler
        self._statements = dict(load("postgres", "$"))
        self._shortcuts = load("postgres", "$", folder="shortcuts")
        self._lots = ClaimPartitions()
        self._connections = connections
        # Behind a pooler nothing may be set for the session, and nothing prepared in it.
        self._info = connection_info(url, name="windlass", settings=None if pooler else {**SETTINGS, **PLANNING})
        self._options: dict[str, Any] = {"prepare_threshold": None} if pooler else {}
        heard_at = listen_url or (None if pooler else url)
        self._listen_info = None if heard_at is None else connection_info(heard_at, name="windlass-listen")
        self._lines_by_process: dict[int, Connections] = {}
        self._closed = False
        self._start()

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        give_up_at = monotonic() + PATIENCE
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(work)
            except psycopg.Error as error:
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

    def alone(self, statement: str, batch: Sequence[Values], **scalars: object) -> Sequence[Values] | None:
        """Run one of the `shortcuts`, a transaction by itself: one round trip, the commit included.

        None when it failed, or was lost on its way: it may or may not have happened, and the long way finds out.
        """
        try:
            with self._connection() as connection, _autocommit(connection):
                return PostgresTransaction(connection, self._shortcuts).query(statement, batch, **scalars).rows()
        except psycopg.Error:
            return None

    def read(self, work: Callable[[Transaction], T]) -> T:
        def once() -> T:
            with self._connection() as connection, _autocommit(connection):
                return work(PostgresTransaction(connection, self._statements))

        return self._until_read(once)

    def snapshot(self, asked: Sequence[Asked]) -> list[Sequence[Values]]:
        def once() -> list[Sequence[Values]]:
            with self._connection() as connection:
                with nullcontext() if self._pooler else connection.pipeline():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                    if self._pooler:
                        _set_locally(connection)
                    transaction = PostgresTransaction(connection, self._statements)
                    answers = [transaction.query(statement, **scalars) for statement, scalars in asked]
                    connection.commit()
                return [answer.rows() for answer in answers]

        return self._until_read(once)

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        with callers_errors():
            return work(PostgresTransaction(callers_connection(conn), self._statements))

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

    def silent(self, queues: Collection[str]) -> list[str]:
        """Those of the queues for which a hint is due, for a statement that sends it along."""
        return self._lines().hints.silent(queues)

    def notified(self, queues: Collection[str]) -> None:
        """A statement has sent these hints along."""
        self._lines().hints.notified(queues)

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._lines().hints.wait(queues, timeout)

    def upkeep(self) -> Mapping[str, int]:
        with _errors(), self._connection() as connection, _autocommit(connection):
            return self._lots.upkeep(connection)

    def horizon_age(self) -> float:
        """For how many seconds somebody's open transaction has kept the server from cleaning up."""
        with _errors(), self._connection() as connection, _autocommit(connection):
            return self._lots.horizon_age(connection)

    def close(self) -> None:
        self._closed = True
        lines = self._lines_by_process.get(os.getpid())
        if lines is not None:
            lines.hints.close()
            lines.pool.close()

    def _until_read(self, once: Callable[[], T]) -> T:
        """Read, and read again where that may help."""
        for attempt in range(1, TRIES + 1):
            try:
                return once()
            except psycopg.Error as error:
                if attempt == TRIES or not _is_passing(error):
                    raise translated(error) from error
                self._lines().pool.check()
            sleep(jitter(0, min(1.0, 0.02 * 2**attempt)))
        raise AssertionError("the last try returns or raises")

    def _once(self, work: Callable[[Transaction], T]) -> T:
        """One try. A connection lost while the commit was under way leaves it open whether that has happened."""
        with self._connection() as connection:
            committing = False
            try:
                with nullcontext() if self._pooler else connection.pipeline():
                    if self._pooler:
                        _set_locally(connection)
                    result = work(PostgresTransaction(connection, self._statements))
                    committing = True
                    connection.commit()
            except Exception as error:
                if committing and _is_lost(connection, error):
                    connection.close()
                    raise CommitUnknown("the connection was lost while the commit was under way") from error
                raise
            return result

    @contextmanager
    def _connection(self, patience: float | None = None) -> Generator[Connection]:
        """A connection from the pool, given back clean: whatever was not committed is rolled back.

        A lost connection is closed, so that nobody gets it again, and whatever the driver raised on it becomes an
        `OperationalError`: in the middle of the protocol that may be any exception, even a `ValueError`.
        """
        pool = self._lines().pool
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
            connection.close()  # The server is no longer the primary; the next connection looks for the one that is.
            raise
        except WindlassError:
            raise
        except Exception as error:
            if not _is_lost(connection, error):
                raise
            connection.close()
            if isinstance(error, psycopg.Error) and _is_passing(error):
                raise
            said = f"{type(error).__name__}: {error}"
            raise psycopg.OperationalError(f"the connection was lost, and the driver said {said}") from error
        finally:
            try:
                _clean(connection)
            finally:
                pool.putconn(connection)

    def _lines(self) -> Connections:
        """This process's connections. Those made before a fork are the parent's, and are left alone."""
        lines = self._lines_by_process.get(os.getpid())
        if lines is None:
            if self._closed:
                raise _closed()
            pool = ConnectionPool[Connection](
                self._info,
                min_size=1,
                max_size=self._connections,
                timeout=PATIENCE,
                # Beyond it the pool would try less and less often; given up, it tries anew for whoever asks next.
                reconnect_timeout=PATIENCE,
                kwargs=self._options,
                configure=_configure,
                name="windlass",
                open=False,
            )
            # Threads that come here together agree on one, and opening that twice does nothing.
            lines = self._lines_by_process.setdefault(
                os.getpid(), Connections(pool, Notifications(self._listen_info, self._notify))
            )
            lines.pool.open()
        return lines

    def _start(self) -> None:
        """Look at the server and its tables through a connection outside the pool, which says why it cannot be made."""
        give_up_at = monotonic() + PATIENCE
        while True:
            try:
                with psycopg.connect(self._info, **self._options) as connection:
                    _configure(connection)
                    check_durability(connection)
                    migrate(connection)
                return
            except psycopg.Error as error:
                if monotonic() > give_up_at or not _is_passing(error):
                    raise translated(error) from error
            sleep(jitter(0, 0.5))

    def _why_not(self) -> str:
        """Why the pool has nothing to give, which it does not say itself."""
        try:
            psycopg.connect(self._info).close()
        except psycopg.Error as error:
            return str(error).strip()
        return f"all {self._connections} of this store are in use"

    def _notify(self, queues: Collection[str]) -> None:
        with self._connection(HINT_PATIENCE) as connection, _autocommit(connection):
            # A hint need not survive a crash, so nobody waits for the disk on its behalf.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'off', true), pg_notify('windlass', queue) "
                "FROM unnest(%s::text[]) AS queue",
                [list(queues)],
            )


def _configure(connection: Connection) -> None:
    connection.isolation_level = IsolationLevel.READ_COMMITTED


@contextmanager
def _autocommit(connection: Connection) -> Generator[None]:
    """Every statement its own transaction, for as long as this lasts."""
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = False


def _clean(connection: Connection) -> None:
    """Bring a connection to where its next user expects it; one that cannot be brought there is closed."""
    try:
        connection.rollback()
        if connection.autocommit:
            connection.autocommit = False
    except Exception:  # noqa: BLE001 - on a broken connection the driver may raise anything; it is of no use any more
        connection.close()


def _set_locally(connection: Connection) -> None:
    connection.execute(
        "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s (name, value)",
        [list(SETTINGS), list(SETTINGS.values())],
    )


def _is_lost(connection: Connection, error: Exception) -> bool:
    """Return True if the connection cannot be used any more: closed, ended by the server, or stuck in mid-protocol."""
    if connection.closed or connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE):
        return True
    return isinstance(error, psycopg.Error) and (_is_protocol_error(error) or _ends_the_connection(error))


def _is_passing(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError) or _is_protocol_error(error)
    return error.sqlstate in _PASSING or error.sqlstate.startswith("08") or _ends_the_connection(error)


def _is_protocol_error(error: psycopg.Error) -> bool:
    """Return True if the driver itself did not understand the server, as "received 2 results from command 'BEGIN'".

    A server that ends a connection in mid-command, or a pooler in its name, leaves more or fewer answers behind than
    there were commands.
    """
    return error.sqlstate is None and isinstance(error, psycopg.InternalError | psycopg.InterfaceError)


def _ends_the_connection(error: psycopg.Error) -> bool:
    """Whether the server closes the connection over this, which the driver may see only later."""
    return error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def _closed() -> StoreError:
    return StoreError("this store is closed; open another one")


@contextmanager
def _errors() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error


@contextmanager
def callers_errors() -> Generator[None]:
    """The same inside a caller's transaction, where nothing can be tried again."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise StoreError("the same key was submitted elsewhere at this moment: roll back and try again") from error
    except psycopg.Error as error:
        raise translated(error) from error


def translated(error: psycopg.Error) -> StoreError:
    """PostgreSQL's errors in our words; the URL, which may hold a password, is in none of them."""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return StoreError("the Windlass tables are not in this database: is it the one the store uses?")
    unavailable = psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction
    if isinstance(error, unavailable) or _is_passing(error):
        return StoreUnavailable(f"PostgreSQL: {error}".strip())
    return StoreError(f"PostgreSQL: {error}".strip())
