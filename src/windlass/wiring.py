"""Opens stores by URL. Only this module imports the concrete store classes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from windlass.clock import Clock
from windlass.core.settlement import Settlement
from windlass.core.task import Lease, NewTask
from windlass.distribution import install_hint
from windlass.errors import NotAllowed, StoreError
from windlass.store_choice import choose_store
from windlass.stores.admin import Admin, DatabaseMissing
from windlass.stores.protocol import RETENTION, Receipt, Store, Verdict
from windlass.stores.series import SERIES_KEPT


def open_store(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    retention: timedelta = RETENTION,
    series_kept: timedelta = SERIES_KEPT,
    create: bool = True,
) -> Store:
    """Open the store at a URL. The default is `$WINDLASS_URL`, then the store of `windlass.yaml`, then `windlass.db`.

    - `memory:` lives as long as the process.
    - `sqlite:///tasks.db` is a relative path, `sqlite:////var/lib/tasks.db` an absolute path.
    - `postgresql://…` is a PostgreSQL database. `?pooler=transaction` is for PgBouncer in transaction mode, where
      `$WINDLASS_LISTEN_URL` may name the server itself for wake-ups.

    Opening creates or migrates the tables. Without `create`, a database that has none raises `DatabaseMissing`.

    >>> store = open_store("memory:")
    """
    url = url or choose_store().url
    scheme = url.partition(":")[0]
    match scheme:
        case "memory":
            from windlass.stores.memory import MemoryStore

            return MemoryStore(clock=clock, retention=retention, series_kept=series_kept)
        case "sqlite":
            from windlass.stores.sqlite import SQLiteStore

            path = _file(url)
            if not create and not Path(path).exists():
                raise DatabaseMissing(f"{path} does not exist. `windlass db migrate` creates it.")
            return SQLiteStore(path, clock=clock, retention=retention, series_kept=series_kept)
        case "postgresql" | "postgres":
            return _open_postgres(url, clock, retention, series_kept, create=create)
        case _:
            raise StoreError(f"Unknown store URL scheme {scheme!r}. Use memory:, sqlite: or postgresql:.")


def open_admin(url: str | None = None) -> Admin:
    """Open the maintenance interface of a database, by the same URLs. Nothing is created or migrated."""
    url = url or choose_store().url
    match url.partition(":")[0]:
        case "sqlite":
            from windlass.stores.sqlite.admin import SQLiteAdmin

            return SQLiteAdmin(_file(url))
        case "postgresql" | "postgres":
            try:
                from windlass.stores.postgres.admin import PostgresAdmin
            except ModuleNotFoundError as error:
                raise _no_psycopg() from error
            return PostgresAdmin(_server(url)[0])
        case scheme:
            raise StoreError(f"Unknown database URL scheme {scheme!r}. Use sqlite: or postgresql:.")


def submit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """Submit tasks in the transaction of the caller's PostgreSQL connection, without a store."""
    return _caller_transaction().submit_in(conn, tasks, lease)


async def asubmit_in(conn: object, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
    """Submit tasks in the transaction of an asynchronous psycopg or SQLAlchemy connection or session."""
    return await _caller_transaction().asubmit_in(conn, tasks, lease)


def identify_database(store: Store) -> str | None:
    """Return which PostgreSQL database a store is in; None if that is not known here, as in a worker."""
    identity: Callable[[], str | None] | None = getattr(store, "identity", None)
    if identity is None:
        raise NotAllowed("conn= joins a PostgreSQL transaction; the store of this app is not in PostgreSQL")
    return identity()


async def acheck_connection(conn: object, expected: str) -> None:
    """Raise `NotAllowed` if an asynchronous connection leads to another database than the one expected."""
    await _caller_transaction().acheck_connection(conn, expected)


def complete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """Settle an attempt in the transaction of its handler's PostgreSQL connection, without a store."""
    return _caller_transaction().complete_in(conn, lease, settlement)


async def acomplete_in(conn: object, lease: Lease, settlement: Settlement) -> Verdict:
    """Settle an attempt in the transaction of an asynchronous connection or session."""
    return await _caller_transaction().acomplete_in(conn, lease, settlement)


def is_async(conn: object) -> bool:
    """Return whether a caller's connection is an asynchronous one to PostgreSQL. Without psycopg, none is."""
    try:
        from windlass.stores.postgres import caller
    except ModuleNotFoundError:
        return False
    return caller.is_async(conn)


def _caller_transaction() -> ModuleType:
    try:
        from windlass.stores.postgres import caller_transaction
    except ModuleNotFoundError as error:
        raise _no_psycopg() from error
    return caller_transaction


def _no_psycopg() -> StoreError:
    return StoreError(f"PostgreSQL needs psycopg: {install_hint('postgres')}")


def _file(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path == url or not path:
        raise StoreError(f"{url!r} has no file name. Use sqlite:///tasks.db or sqlite:////var/lib/tasks.db.")
    return path


def _open_postgres(
    url: str, clock: Clock | None, retention: timedelta, series_kept: timedelta, *, create: bool
) -> Store:
    try:
        from windlass.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise _no_psycopg() from error
    server, pooler = _server(url)
    return PostgresStore(
        server,
        clock=clock,
        retention=retention,
        series_kept=series_kept,
        pooler=pooler is not None,
        listen_url=os.environ.get("WINDLASS_LISTEN_URL"),
        create=create,
    )


def _server(url: str) -> tuple[str, str | None]:
    """Return the URL without our own options, and the value of `pooler`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    pooler = options.pop("pooler", None)
    if pooler not in (None, "transaction"):
        raise StoreError(f"Unknown pooler={pooler!r}. Use pooler=transaction, or leave it out.")
    return urlunsplit(parts._replace(query=urlencode(options))), pooler
