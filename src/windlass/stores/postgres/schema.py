"""Migrations of the schema `windlass`, and the check that the server is durable."""

from __future__ import annotations

from typing import Any, LiteralString, TypeAlias, cast

import psycopg

from windlass.errors import UnsafeStore
from windlass.stores.admin import DatabaseMissing
from windlass.stores.migrate import pending

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_LOCK = 0x57_49_4E_44
"""The advisory lock for migrations, so that many processes can start at the same time."""


def check_durability(connection: Connection) -> None:
    """Raise `UnsafeStore` if a crash of the server could lose committed tasks."""
    for setting in ("fsync", "full_page_writes"):
        [(value,)] = connection.execute("SELECT current_setting(%s)", [setting]).fetchall()
        if value != "on":
            raise UnsafeStore(
                f"PostgreSQL runs with {setting}={value}, so a crash of its machine could lose submitted tasks. "
                f"Set {setting}=on."
            )


def migrate(connection: Connection, *, create: bool = True) -> None:
    """Apply pending migrations. If there are none, this only reads and needs no right to create tables."""
    before = version(connection)
    if not pending("postgres", before):
        return
    if not create and before == 0:
        raise DatabaseMissing("The database has no Windlass tables. `windlass db migrate` creates them.")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    connection.execute("SET LOCAL statement_timeout = 0")  # The timeout is for calls, not for building an index.
    connection.execute("CREATE SCHEMA IF NOT EXISTS windlass")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS windlass.migration (version integer PRIMARY KEY, name text NOT NULL, "
        "applied timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    for migration in pending("postgres", version(connection)):
        connection.execute(cast("LiteralString", migration.script))
        connection.execute(
            "INSERT INTO windlass.migration (version, name) VALUES (%s, %s)", [migration.version, migration.name]
        )
    connection.commit()


def version(connection: Connection) -> int:
    [(table,)] = connection.execute("SELECT to_regclass('windlass.migration')::text").fetchall()
    if table is None:
        return 0
    [(version,)] = connection.execute("SELECT coalesce(max(version), 0) FROM windlass.migration").fetchall()
    return version
