"""A submit on the caller's own connection: psycopg itself, SQLAlchemy (connection or session), Django.

Nothing is imported from those packages: what they wrap is found by the attributes they document.
"""

from __future__ import annotations

from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus

from windlass.errors import NotAllowed


def callers_connection(conn: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """The psycopg connection inside `conn`, with a transaction to join."""
    found: object = _unwrapped(conn)
    if not isinstance(found, psycopg.Connection):
        raise NotAllowed(
            f"conn={type(conn).__qualname__} has no psycopg 3 connection inside: give one of psycopg, a SQLAlchemy "
            "connection or session that uses the psycopg driver, or a Django connection to PostgreSQL"
        )
    if found.autocommit and found.info.transaction_status is TransactionStatus.IDLE:
        raise NotAllowed("conn= is in autocommit and has no transaction open; begin one, so that there is one to join")
    if hasattr(conn, "in_transaction") and not conn.in_transaction():
        conn.begin()  # SQLAlchemy begins by itself, but only for statements of its own; its commit would do nothing.
    return cast("psycopg.Connection[tuple[Any, ...]]", found)


def _unwrapped(conn: Any) -> Any:
    if isinstance(conn, psycopg.Connection):
        return cast("object", conn)
    if hasattr(conn, "ensure_connection"):  # Django: opened when first used
        conn.ensure_connection()
        return conn.connection
    if hasattr(conn, "sync_session") or hasattr(conn, "sync_connection"):  # SQLAlchemy's asynchronous ones
        return None
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):  # a SQLAlchemy session
        conn = conn.connection()
    pooled = getattr(conn, "connection", None)  # a SQLAlchemy connection
    return getattr(pooled, "dbapi_connection", None)
