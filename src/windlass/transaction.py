"""The handler's own transaction, with the completion of its task as the last statement in it.

What differs between psycopg, SQLAlchemy and Django is only how a transaction is begun, committed and rolled back; that
is said here, found by the attributes they document. The statement itself is the PostgreSQL store's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

from windlass import wiring
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import Lease
from windlass.errors import NotAllowed, StaleLease
from windlass.stores.protocol import LeaseLost

_TOO_LATE = "so leaving this block would not commit; leave that one first"


class Transaction:
    """What a handler may say while its transaction is open."""

    def __init__(self, encode: Callable[[Any], str | None]) -> None:
        self._encode = encode
        self.text: str | None = None

    def result(self, value: Any) -> None:
        """Record this as the task's result, together with the rows."""
        self.text = self._encode(value)


@contextmanager
def settling(conn: Any, lease: Lease, encode: Callable[[Any], str | None]) -> Generator[Transaction]:
    """A transaction on `conn` that ends with the fenced completion, and commits; or rolls back whole."""
    with _transaction(conn):
        transaction = Transaction(encode)
        yield transaction
        done = Settlement(state=State.COMPLETED, result=transaction.text, attempts=1)
        verdict = wiring.complete_in(conn, lease, done)
        if isinstance(verdict, LeaseLost):
            raise StaleLease(lease)


def _transaction(conn: Any) -> AbstractContextManager[object]:
    if hasattr(conn, "ensure_connection"):
        return _of_django(conn)
    if hasattr(conn, "sync_session") or hasattr(conn, "sync_connection") or not hasattr(conn, "commit"):
        raise NotAllowed(
            f"conn={type(conn).__qualname__} cannot carry a completion: give a connection of psycopg, a SQLAlchemy "
            "connection or session, or a Django connection, to the PostgreSQL database of the store"
        )
    if getattr(conn, "autocommit", False) is True:
        return _of_psycopg_autocommit(conn)
    return _committed(conn)


def _of_django(conn: Any) -> AbstractContextManager[object]:
    if conn.in_atomic_block:
        raise NotAllowed(
            "conn is inside atomic() already, so leaving this block would not commit; leave atomic() first"
        )
    transaction: Any = import_module("django.db.transaction")
    return transaction.atomic(using=conn.alias)


def _of_psycopg_autocommit(conn: Any) -> AbstractContextManager[object]:
    if conn.info.transaction_status.name != "IDLE":
        raise NotAllowed(
            "conn is inside a transaction() already, so leaving this block would not commit; leave it first"
        )
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
