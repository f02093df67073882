"""Inside a caller's own transaction, with no store at hand: its connection is all that is needed.

A worker process has no URL, yet its handler may have a connection to the same database: then what it enqueues, and its
own completion, commit or roll back with its rows. Those who wait for it are told after the commit, by the node that
reports the same end once more or by the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast
from uuid import UUID

from windlass.clock import SystemClock, entropy
from windlass.core.settlement import Settlement
from windlass.core.submission import Draft, draft
from windlass.core.task import Lease, NewTask
from windlass.stores.postgres.async_replay import replayed
from windlass.stores.postgres.caller import callers_async_connection, callers_connection, is_async
from windlass.stores.postgres.database import callers_errors
from windlass.stores.postgres.transaction import PostgresTransaction
from windlass.stores.protocol import Receipt, Verdict
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.settle import ended
from windlass.stores.sql.submit import Submit, Submitted
from windlass.stores.statements import load

T = TypeVar("T")


class Server:
    """What the shared half needs to know of PostgreSQL; the clock is the server's own."""

    def uuid(self, value: object) -> UUID:
        return cast("UUID", value)

    def now(self) -> None:
        return None


_SERVER = Server()


def submit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """Submit a batch in the caller's transaction, on behalf of an attempt if its lease is given."""
    drafts = _drafts(tasks)
    return _join(conn, _submit(drafts, lease)).receipts if drafts else []


async def asubmit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """The same in the transaction of an asynchronous connection or session."""
    drafts = _drafts(tasks)

    def work(tx: Transaction) -> Submitted:
        return _submit(drafts, lease)(tx)

    return (await _ajoin(conn, work)).receipts if drafts else []


def complete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """Write the end of an attempt in the caller's transaction, under its lease, as its last statements.

    The task stays locked until that commits, so nobody else can end the attempt meanwhile. A stale lease changes
    nothing: then the caller rolls back, because its rows are those of an attempt that no longer counts.
    """
    return _join(conn, lambda tx: _complete(tx, lease, settlement))


async def acomplete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """The same in the transaction of an asynchronous connection or session."""
    return await _ajoin(conn, lambda tx: _complete(tx, lease, settlement))


def _drafts(tasks: Sequence[NewTask]) -> list[Draft]:
    return draft(tasks, SystemClock().now(), entropy)


def _submit(drafts: Sequence[Draft], lease: Lease | None) -> Callable[[Transaction], Submitted]:
    return Submit(_SERVER, drafts, joined=True, lease=lease)


def _complete(tx: Transaction, lease: Lease, settlement: Settlement) -> Verdict:
    [verdict], endings = ended(_SERVER, tx, [(lease, settlement)])
    endings.write_joined(tx)
    return verdict


def _join(conn: object, work: Callable[[Transaction], T]) -> T:
    with callers_errors():
        return work(PostgresTransaction(callers_connection(conn), load("postgres", "$")))


async def _ajoin(conn: object, work: Callable[[Transaction], T]) -> T:
    if not is_async(conn):
        return _join(conn, work)
    with callers_errors():
        return await replayed(await callers_async_connection(conn), load("postgres", "$"), work)
