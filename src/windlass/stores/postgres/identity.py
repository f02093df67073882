"""Which database a connection leads to, so that a caller's connection to another one than the store's is refused.

Names do not show it: a pooler, a socket and a TCP address lead to the same database by different ones. The identifier
of the cluster together with the object id of the database does. Only a physical copy of a cluster has the same ones.
"""

from __future__ import annotations

from typing import Any, LiteralString

from psycopg.rows import tuple_row

from windlass.errors import NotAllowed
from windlass.stores.postgres.async_callers import AsyncCaller
from windlass.stores.postgres.caller import Connection

_IDENTITY: LiteralString = (
    "SELECT pg_catalog.concat(control.system_identifier, '/', database.oid), database.datname "
    "FROM pg_catalog.pg_control_system() AS control, pg_catalog.pg_database AS database "
    "WHERE database.datname = pg_catalog.current_database()"
)


def read_identity(connection: Connection) -> str:
    """Return the identity of the database of a connection."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return _only(cursor.execute(_IDENTITY).fetchone())


async def aread_identity(caller: AsyncCaller) -> tuple[str, str]:
    """Return the identity and the name of the database of an asynchronous connection."""
    [(identity, name)] = await caller.run(_IDENTITY, [], rows=True)
    return identity, name


def check_identity(found: str, expected: str, name: str) -> None:
    """Raise `NotAllowed` if a caller's connection leads to another database than that of the store."""
    if found != expected:
        raise NotAllowed(
            f"conn= is a connection to another database ({name}) than the app's store, so its tasks would never run. "
            "Pass a connection to the database of the store."
        )


def _only(row: tuple[Any, ...] | None) -> str:
    assert row is not None, "every connection has a database"
    return row[0]
