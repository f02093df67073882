"""Submit tasks and complete an attempt in a caller's own transaction, with only its connection.

A worker process has no store URL, but its handler may have a connection to the same database. What it enqueues there,
and its own completion, commit or roll back with its rows. Dependents are unblocked after the commit, when the node
reports the same end again, or by the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from windlass.clock import SystemClock, entropy
from windlass.core.settlement import Settlement
from windlass.core.submission import Draft, draft
from windlass.core.task import Lease, NewTask
from windlass.stores.postgres.async_callers import find_async_caller
from windlass.stores.postgres.async_replay import replayed
from windlass.stores.postgres.asyncpg_errors import asyncpg_errors
from windlass.stores.postgres.caller import callers_connection, is_async
from windlass.stores.postgres.database import callers_errors
from windlass.stores.postgres.identity import aread_identity, check_identity
from windlass.stores.postgres.transaction import PostgresTransaction
from windlass.stores.protocol import Receipt, Verdict
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.settle import decide
from windlass.stores.sql.submit import Submit, Submitted, naming_keys
from windlass.stores.statements import load

T = TypeVar("T")


class Server:
    """The `Dialect` of PostgreSQL, with the server's clock."""

    def uuid(self, value: object) -> UUID:
        # A caller may have configured its driver to return ids as text.
        return value if isinstance(value, UUID) else UUID(str(value))

    def now(self) -> None:
        return None


_SERVER = Server()


def submit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """Submit a batch in the caller's transaction; with `lease`, on behalf of that attempt."""
    drafts = _drafts(tasks)
    with naming_keys(drafts):
        return _join(conn, _submit(drafts, lease)).receipts if drafts else []


async def acheck_connection(conn: object, expected: str) -> None:
    """Raise `NotAllowed` if an asynchronous connection leads to another database than the store with this identity."""
    with callers_errors(), asyncpg_errors():
        found, name = await aread_identity(await find_async_caller(conn))
        check_identity(found, expected, name)


async def asubmit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """Do the same in the transaction of an asynchronous connection or session."""
    drafts = _drafts(tasks)

    def work(tx: Transaction) -> Submitted:
        return _submit(drafts, lease)(tx)

    with naming_keys(drafts):
        return (await _ajoin(conn, work)).receipts if drafts else []


def complete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """Write the end of an attempt in the caller's transaction, under its lease, as its last statements.

    The task stays locked until the commit, so nobody else can end the attempt meanwhile. With an invalid lease, nothing
    is written; the caller must then roll back, because its attempt no longer counts.
    """
    return _join(conn, lambda tx: _complete(tx, lease, settlement))


async def acomplete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """Do the same in the transaction of an asynchronous connection or session."""
    return await _ajoin(conn, lambda tx: _complete(tx, lease, settlement))


def _drafts(tasks: Sequence[NewTask]) -> list[Draft]:
    return draft(tasks, SystemClock().now(), entropy)


def _submit(drafts: Sequence[Draft], lease: Lease | None) -> Callable[[Transaction], Submitted]:
    return Submit(_SERVER, drafts, joined=True, lease=lease)


def _complete(tx: Transaction, lease: Lease, settlement: Settlement) -> Verdict:
    [verdict], endings = decide(_SERVER, tx, [(lease, settlement)])
    endings.write_joined(_SERVER, tx)
    return verdict


def _join(conn: object, work: Callable[[Transaction], T]) -> T:
    with callers_errors():
        return work(PostgresTransaction(callers_connection(conn), load("postgres", "$")))


async def _ajoin(conn: object, work: Callable[[Transaction], T]) -> T:
    if not is_async(conn):
        return _join(conn, work)
    with callers_errors(), asyncpg_errors():
        return await replayed(await find_async_caller(conn), load("postgres", "$"), work)
