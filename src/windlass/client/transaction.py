"""The handler's own transaction, with the completion of its task as the last statement in it.

What differs between psycopg, SQLAlchemy and Django is only how a transaction is begun, committed and rolled back; that
is said here, found by the attributes they document. The statement itself is the PostgreSQL store's.
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
from windlass.wiring import acomplete_in, complete_in

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

_WOULD_NOT_COMMIT = "so leaving this block would not commit; leave that one first"


class Cancelled(BaseException):
    """Raised in a handler that does not heed a cancel. `except Exception` does not catch it, as it is none."""


class Transaction:
    """A transaction of the handler, for `with` or `async with`, as its connection is."""

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
        """Record this as the task's result, together with the rows."""
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
            self._judge(complete_in(self._conn, self._lease, self._completion()))

    async def _acomplete(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._judge(await acomplete_in(self._conn, self._lease, self._completion()))

    def _completion(self) -> Settlement:
        return Settlement(state=State.COMPLETED, result=self._text, attempts=1)

    def _judge(self, verdict: Verdict) -> None:
        """Roll back what does not count: the rows of a lost lease, and those of a task that is to be cancelled."""
        if isinstance(verdict, LeaseLost):
            raise StaleLease(self._lease)
        if verdict.state is not State.COMPLETED:
            raise Cancelled


def _transaction(conn: Any) -> AbstractContextManager[object]:
    if hasattr(conn, "ensure_connection"):
        return _of_django(conn)
    if not hasattr(conn, "commit") or _is_async(conn):
        raise _unfit(conn, "with")
    return _of_psycopg(conn) if getattr(conn, "autocommit", False) is True else _committed(conn)


def _atransaction(conn: Any) -> AbstractAsyncContextManager[object]:
    if not hasattr(conn, "commit") or not _is_async(conn):
        raise _unfit(conn, "async with")
    return _of_psycopg(conn) if getattr(conn, "autocommit", False) is True else _acommitted(conn)


def _is_async(conn: Any) -> bool:
    return any(hasattr(conn, name) for name in ("sync_session", "sync_connection")) or "Async" in type(conn).__name__


def _unfit(conn: Any, word: str) -> NotAllowed:
    return NotAllowed(
        f"conn={type(conn).__qualname__} cannot carry a completion by `{word}`: give a connection of psycopg, a "
        "SQLAlchemy connection or session, or a Django connection, to the PostgreSQL of the store; asynchronous ones "
        "by `async with`"
    )


def _of_django(conn: Any) -> AbstractContextManager[object]:
    if conn.in_atomic_block:
        raise NotAllowed(f"conn is inside atomic() already, {_WOULD_NOT_COMMIT}")
    transaction: Any = import_module("django.db.transaction")
    return transaction.atomic(using=conn.alias)


def _of_psycopg(conn: Any) -> Any:
    """In autocommit, where a transaction is opened outright."""
    if conn.info.transaction_status.name != "IDLE":
        raise NotAllowed(f"conn is inside a transaction() already, {_WOULD_NOT_COMMIT}")
    return conn.transaction()


@contextmanager
def _committed(conn: Any) -> Generator[None]:
    """For psycopg outside of autocommit, and SQLAlchemy: both begin by themselves."""
    try:
        yield
    except BaseException:
        conn.rollback()
        raise
    conn.commit()


@asynccontextmanager
async def _acommitted(conn: Any) -> AsyncGenerator[None]:
    try:
        yield
    except BaseException:
        await conn.rollback()
        raise
    await conn.commit()
