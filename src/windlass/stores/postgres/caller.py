"""Find the connection inside a caller's `conn`: psycopg, asyncpg, SQLAlchemy or Django, synchronous or asynchronous.

asyncpg, SQLAlchemy and Django are not imported; their documented attributes lead to the connection.
"""

from __future__ import annotations

import sys
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.pq import TransactionStatus

from windlass.errors import NotAllowed

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
AsyncConnection: TypeAlias = "psycopg.AsyncConnection[tuple[Any, ...]]"


def callers_connection(conn: Any) -> Connection:
    """Return the psycopg connection inside `conn`. It must have an open transaction, or start one."""
    found: object = _unwrapped(conn)
    if not isinstance(found, psycopg.Connection):
        raise _no_connection(conn)
    _check_transaction(cast("Connection", found))
    if hasattr(conn, "in_transaction") and not conn.in_transaction():
        conn.begin()  # SQLAlchemy does not notice our statements: without this, its commit would do nothing.
    return cast("Connection", found)


async def callers_async_connection(conn: Any) -> Any:
    """Return the asynchronous connection of psycopg or asyncpg inside `conn`, as `callers_connection` does."""
    found: Any = await _async_unwrapped(conn)
    if is_asyncpg(found):
        _check_asyncpg_transaction(found)
        return found
    if not isinstance(found, psycopg.AsyncConnection):
        raise _no_connection(conn)
    _check_transaction(cast("AsyncConnection", found))
    return cast("AsyncConnection", found)


def is_async(conn: Any) -> bool:
    """Return True if `conn` is used with `await`."""
    return (
        isinstance(conn, psycopg.AsyncConnection)
        or hasattr(conn, "sync_connection")
        or _is_async_session(conn)
        or is_asyncpg(conn)
    )


def is_asyncpg(conn: object) -> bool:
    """Return True for a connection of asyncpg, or one that an asyncpg pool has lent."""
    asyncpg: Any = sys.modules.get("asyncpg")
    return asyncpg is not None and isinstance(conn, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)


def _is_async_session(conn: Any) -> bool:
    """Return True for an AsyncSession or async_scoped_session of SQLAlchemy."""
    return hasattr(conn, "get_bind") and iscoroutinefunction(getattr(conn, "connection", None))


def _unwrapped(conn: Any) -> Any:
    if isinstance(conn, psycopg.Connection):
        return cast("object", conn)
    if is_async(conn):
        return None
    if hasattr(conn, "ensure_connection"):  # Django, which connects at first use
        conn.ensure_connection()
        return conn.connection
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):  # a SQLAlchemy session
        conn = conn.connection()
    pooled = getattr(conn, "connection", None)  # a SQLAlchemy connection
    return getattr(pooled, "dbapi_connection", None)


async def _async_unwrapped(conn: Any) -> Any:
    if isinstance(conn, psycopg.AsyncConnection) or is_asyncpg(conn) or not is_async(conn):
        return cast("object", conn)
    if _is_async_session(conn):
        conn = await conn.connection()
    if not conn.in_transaction():
        await conn.begin()  # As in `callers_connection`.
    found = (await conn.get_raw_connection()).driver_connection
    if is_asyncpg(found) and not found.is_in_transaction():
        await conn.exec_driver_sql("SELECT 1")  # Over asyncpg, SQLAlchemy begins with its first own statement.
    return found


def _check_transaction(found: Connection | AsyncConnection) -> None:
    if found.autocommit and found.info.transaction_status is TransactionStatus.IDLE:
        raise NotAllowed("conn= is in autocommit mode and has no open transaction. Begin one first.")


def _check_asyncpg_transaction(found: Any) -> None:
    if not found.is_closed() and not found.is_in_transaction():
        raise NotAllowed(
            "conn= is in autocommit mode and has no open transaction. Begin one first: `async with conn.transaction():`"
        )


def _no_connection(conn: object) -> NotAllowed:
    name = type(conn).__qualname__
    if name.endswith(("Pool", "Engine", "sessionmaker")):
        return NotAllowed(
            f"conn={name} is not a connection but gives connections. Take one from it, begin a transaction, and pass "
            "that connection of psycopg, asyncpg or SQLAlchemy."
        )
    if is_async(conn):
        return NotAllowed(
            f"conn={name} is asynchronous. Use it with `await`, as in `await send.using(conn=conn).aenqueue(...)`. "
            "Its driver must be psycopg or asyncpg."
        )
    return NotAllowed(
        f"conn={name} is not a connection to PostgreSQL that can be joined. Pass a psycopg 3 connection, a SQLAlchemy "
        "connection or session with the psycopg driver, or a Django connection. With aenqueue(), it may also be "
        "asynchronous, over psycopg or asyncpg."
    )
