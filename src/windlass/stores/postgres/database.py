"""PostgreSQL through psycopg: pooled connections, pipelined transactions, whole retries.

Every transaction is READ COMMITTED, whatever the database's default, because the telling of dependents relies on each
statement seeing what was committed before it. A transaction is sent as a pipeline: statements whose rows are not needed
yet share a round trip, the COMMIT included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import IsolationLevel, RawCursor
from psycopg_pool import ConnectionPool, PoolTimeout

from windlass.clock import Clock, jitter, monotonic, sleep
from windlass.core.times import Micros
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable
from windlass.stores.postgres.arrays import array
from windlass.stores.postgres.caller import callers_connection
from windlass.stores.postgres.notify import Hints
from windlass.stores.postgres.schema import check_durability, migrate
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.statements import Statement, load

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

TRIES = 5
PATIENCE = 10.0
"""Seconds after which a passing fault is no longer waited out."""

# No statement may outlive a session: one that did could lease tasks in the name of a session long swept.
TIMEOUTS = {
    "statement_timeout": "12s",
    "lock_timeout": "8s",
    "idle_in_transaction_session_timeout": "30s",
    "synchronous_commit": "on",
}

_PASSING = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "23505")
"""What is worth another try: conflicts, deadlocks, a server that restarts, and a key that was taken just now."""


class Rows:
    """The rows of a statement under way."""

    def __init__(self, cursor: RawCursor[tuple[Any, ...]]) -> None:
        self._cursor = cursor

    def rows(self) -> Sequence[Values]:
        return self._cursor.fetchall()


class PostgresTransaction:
    """A transaction on one connection."""

    def __init__(self, connection: Connection, statements: dict[str, Statement]) -> None:
        self._connection = connection
        self._statements = statements

    def ask(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Rows:
        known = self._statements[statement]
        values: list[object] = [scalars[name] for name in known.scalars]
        if batch is not None:
            columns = zip(*batch, strict=True) if batch else ((),) * len(known.batch)
            values = [*map(array, (column.type for column in known.batch), columns), *values]
        cursor = RawCursor(self._connection)
        # A plan made for unknown values would not use the index of the state that is asked for.
        prepare = False if statement == "find" else None
        return Rows(cursor.execute(known.text.encode(), values, prepare=prepare))

    def tell(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self.ask(statement, batch, **scalars)


class PostgresDatabase:
    """A PostgreSQL database with the Windlass tables in the schema `windlass`."""

    def __init__(
        self, url: str, clock: Clock | None, *, pooler: bool, listen_url: str | None, connections: int
    ) -> None:
        self._clock = clock
        self._pooler = pooler
        self._statements = dict(load("postgres", "$"))
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=connections,
            timeout=PATIENCE,
            kwargs=_session(pooler),
            configure=_configure,
            name="windlass",
            open=True,
        )
        self._hints = Hints(listen_url or (None if pooler else url), self._notify)
        try:
            with _errors():
                self._start()
        except BaseException:
            self.close()
            raise

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        give_up_at = monotonic() + PATIENCE
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(work)
            except psycopg.Error as error:
                last = attempt == TRIES or monotonic() > give_up_at
                if last or not _is_passing(error):
                    raise _translated(error) from error
                self._pool.check()
            except CommitUnknown:
                result = recover() if recover else None
                if result is not None:
                    return result
                if attempt == TRIES:
                    raise
            sleep(jitter(0, min(1.0, 0.02 * 2**attempt)))
        raise AssertionError("the last try returns or raises")

    def read(self, work: Callable[[Transaction], T]) -> T:
        def reading(connection: Connection) -> T:
            connection.autocommit = True
            try:
                return work(PostgresTransaction(connection, self._statements))
            finally:
                if not connection.broken:
                    connection.autocommit = False

        for attempt in range(1, TRIES + 1):
            try:
                with self._connection() as connection:
                    return reading(connection)
            except psycopg.Error as error:
                if attempt == TRIES or not _is_passing(error):
                    raise _translated(error) from error
                self._pool.check()
            sleep(jitter(0, min(1.0, 0.02 * 2**attempt)))
        raise AssertionError("the last try returns or raises")

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        try:
            return work(PostgresTransaction(callers_connection(conn), self._statements))
        except psycopg.errors.UniqueViolation as error:
            raise StoreError("the same key was submitted elsewhere at this moment: roll back and try again") from error
        except psycopg.Error as error:
            raise _translated(error) from error

    def uuid(self, value: Any) -> UUID:
        return cast("UUID", value)

    def now(self) -> Micros | None:
        return self._clock.now() if self._clock else None

    def lease_now(self) -> Micros | None:
        return self.now()

    def boot(self) -> str:
        return ""

    def ring(self, queues: Collection[str]) -> None:
        self._hints.ring(queues)

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return self._hints.wait(queues, timeout)

    def close(self) -> None:
        self._hints.close()
        self._pool.close()

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
            except psycopg.Error as error:
                if committing and connection.broken:
                    raise CommitUnknown("the connection was lost while the commit was under way") from error
                raise
            return result

    @contextmanager
    def _connection(self) -> Generator[Connection]:
        """A connection from the pool, given back clean: whatever was not committed is rolled back."""
        try:
            connection = self._pool.getconn()
        except PoolTimeout as error:
            raise StoreUnavailable("PostgreSQL cannot be reached, or all its connections are taken") from error
        try:
            yield connection
        finally:
            try:
                if not connection.broken:
                    connection.rollback()
            finally:
                self._pool.putconn(connection)

    def _start(self) -> None:
        with self._connection() as connection:
            check_durability(connection)
            migrate(connection)

    def _notify(self, queues: Collection[str]) -> None:
        with self._connection() as connection:
            connection.autocommit = True
            try:
                for queue in queues:
                    connection.execute("SELECT pg_notify('windlass', %s)", [queue])
            finally:
                if not connection.broken:
                    connection.autocommit = False


def _session(pooler: bool) -> dict[str, object]:
    """How connections are opened. Behind a pooler nothing may be set for the session or prepared in it."""
    if pooler:
        return {"prepare_threshold": None, "application_name": "windlass"}
    options = " ".join(f"-c {name}={value}" for name, value in TIMEOUTS.items())
    return {"options": options, "application_name": "windlass"}


def _configure(connection: Connection) -> None:
    connection.isolation_level = IsolationLevel.READ_COMMITTED


def _set_locally(connection: Connection) -> None:
    for name, value in TIMEOUTS.items():
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _is_passing(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _PASSING or error.sqlstate.startswith("08")


@contextmanager
def _errors() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error) from error


def _translated(error: psycopg.Error) -> StoreError:
    """PostgreSQL's errors in our words; the URL, which may hold a password, is in none of them."""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return StoreError("the Windlass tables are not in this database: is it the one the store uses?")
    if isinstance(error, psycopg.OperationalError) or _is_passing(error):
        return StoreUnavailable(f"PostgreSQL: {error}".strip())
    return StoreError(f"PostgreSQL: {error}".strip())
