"""The one place that knows every concrete class: from a URL to a store."""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from windlass.clock import Clock
from windlass.errors import StoreError
from windlass.stores.protocol import RETENTION, Store

DEFAULT_URL = "sqlite:///windlass.db"


def open_store(url: str | None = None, *, clock: Clock | None = None, retention: timedelta = RETENTION) -> Store:
    """Open the store that a URL names; without one, that of `$WINDLASS_URL`, else a SQLite file in this folder.

    - `memory:` is gone with the process.
    - `sqlite:///tasks.db` is a file relative to this folder, `sqlite:////var/lib/tasks.db` one at an absolute path.
    - `postgresql://…` is a PostgreSQL database; with `?pooler=transaction` one behind PgBouncer in transaction mode,
      where `$WINDLASS_LISTEN_URL` may name the server itself for wake-ups.

    >>> store = open_store("memory:")
    """
    url = url or os.environ.get("WINDLASS_URL") or DEFAULT_URL
    scheme = url.partition(":")[0]
    match scheme:
        case "memory":
            from windlass.stores.memory import MemoryStore

            return MemoryStore(clock=clock, retention=retention)
        case "sqlite":
            from windlass.stores.sqlite import SQLiteStore

            return SQLiteStore(_file(url), clock=clock, retention=retention)
        case "postgresql" | "postgres":
            return _open_postgres(url, clock, retention)
        case _:
            raise StoreError(f"a store URL begins with memory:, sqlite: or postgresql:, not with {scheme!r}")


def _file(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path == url or not path:
        raise StoreError(f"{url!r} names no file; write sqlite:///tasks.db, or sqlite:////var/lib/tasks.db")
    return path


def _open_postgres(url: str, clock: Clock | None, retention: timedelta) -> Store:
    try:
        from windlass.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs psycopg: pip install 'windlass[postgres]'") from error
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    pooler = options.pop("pooler", None)
    if pooler not in (None, "transaction"):
        raise StoreError(f"pooler={pooler!r} is not known; write pooler=transaction, or leave it out")
    return PostgresStore(
        urlunsplit(parts._replace(query=urlencode(options))),
        clock=clock,
        retention=retention,
        pooler=pooler is not None,
        listen_url=os.environ.get("WINDLASS_LISTEN_URL"),
    )
