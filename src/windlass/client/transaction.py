"""A handler's own transaction, which writes the completion of the task as its last statement.

psycopg, asyncpg, SQLAlchemy and Django differ only in how a transaction begins, commits and rolls back; this module
handles that, by the attributes that they document. The statement itself is in the PostgreSQL store.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import Lease
from windlass.errors import NotAllowed, StaleLease
from windlass.stores.protocol import LeaseLost, Verdict
from windlass.wiring import acomplete_in, complete_in, is_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

_WOULD_NOT_COMMIT = "so the end of this block would not commit. End that transaction first."


class Cancelled(BaseException):
    """Raised in a handler that ignores a cancel request. `except Exception` does not catch it."""


class Transaction:
    """A handler's transaction, for `with`, or for `async with` on an asynchronous connection."""

    def __init__(
        self, conn: Any, lease: Lease, encode: Callable[[Any], str | None], done: Callable[[str | None], None]
    ) -> None:
        self._conn = conn
        self._lease = lease
        self._encode = encode
        self._done = done
        self._text: str | None = None
        self._stack = ExitStack()
        self._astack = AsyncExitStack()

    def result(self, value: Any) -> None:
        """Record the task's result together with the rows."""
        self._text = self._encode(value)

    def __enter__(self) -> Transaction:
        self._stack.enter_context(_transaction(self._conn))
        self._stack.push(self._complete)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if error[0] is None:
            self._done(self._text)

    async def __aenter__(self) -> Transaction:
        await self._astack.enter_async_context(_atransaction(self._conn))
        self._astack.push_async_exit(self._acomplete)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._astack.__aexit__(*error)
        if error[0] is None:
            self._done(self._text)

    def _complete(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._check(complete_in(self._conn, self._lease, self._completion()))

    async def _acomplete(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._check(await acomplete_in(self._conn, self._lease, self._completion()))

    def _completion(self) -> Settlement:
        return Settlement(state=State.COMPLETED, result=self._text, attempts=1)

    def _check(self, verdict: Verdict) -> None:
        """Raise, and so roll back, if the lease is lost or the task must be cancelled."""
        if isinstance(verdict, LeaseLost):
            raise StaleLease(self._lease)
        if verdict.state is not State.COMPLETED:
            raise Cancelled


def _transaction(conn: Any) -> AbstractContextManager[object]:
    if hasattr(conn, "ensure_connection"):
        return _django_transaction(conn)
    if not hasattr(conn, "commit") or is_async(conn):
        raise _unusable(conn, "with")
    return _psycopg_transaction(conn) if getattr(conn, "autocommit", False) is True else _commit_at_end(conn)


def _atransaction(conn: Any) -> AbstractAsyncContextManager[object]:
    if hasattr(conn, "is_in_transaction"):
        return _asyncpg_transaction(conn)
    if not hasattr(conn, "commit") or not is_async(conn):
        raise _unusable(conn, "async with")
    return _psycopg_transaction(conn) if getattr(conn, "autocommit", False) is True else _acommit_at_end(conn)


def _unusable(conn: Any, word: str) -> NotAllowed:
    return NotAllowed(
        f"conn={type(conn).__qualname__} does not work with `{word}`. Pass a connection of psycopg or asyncpg, a "
        "SQLAlchemy connection or session, or a Django connection to the store's PostgreSQL. Asynchronous ones need "
        "`async with`."
    )


def _django_transaction(conn: Any) -> AbstractContextManager[object]:
    if conn.in_atomic_block:
        raise NotAllowed(f"conn is already inside atomic(), {_WOULD_NOT_COMMIT}")
    transaction: Any = import_module("django.db.transaction")
    return transaction.atomic(using=conn.alias)


def _psycopg_transaction(conn: Any) -> Any:
    """Open a transaction on a connection in autocommit mode."""
    if conn.info.transaction_status.name != "IDLE":
        raise NotAllowed(f"conn is already inside a transaction(), {_WOULD_NOT_COMMIT}")
    return conn.transaction()


def _asyncpg_transaction(conn: Any) -> Any:
    if conn.is_in_transaction():
        raise NotAllowed(f"conn is already inside a transaction(), {_WOULD_NOT_COMMIT}")
    return conn.transaction()


@contextmanager
def _commit_at_end(conn: Any) -> Generator[None]:
    """Commit or roll back psycopg without autocommit, or SQLAlchemy. Both begin a transaction themselves."""
    try:
        yield
    except BaseException:
        conn.rollback()
        raise
    conn.commit()


@asynccontextmanager
async def _acommit_at_end(conn: Any) -> AsyncGenerator[None]:
    try:
        yield
    except BaseException:
        await conn.rollback()
        raise
    await conn.commit()
