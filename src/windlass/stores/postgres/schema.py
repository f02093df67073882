"""Migrations of the schema `windlass`, and the check that the server is durable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import takewhile
from typing import Any, LiteralString, TypeAlias, cast

import psycopg
from psycopg import sql

from windlass.clock import jitter, sleep
from windlass.errors import StoreError, UnsafeStore
from windlass.stores.admin import DatabaseMissing
from windlass.stores.migrate import NOTHING, Applied, Migration, pending

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
log = logging.getLogger(__name__)

LOCK_TIMEOUT = "1s"
"""How long a migration waits for a table, and others behind it."""
UNLIMITED = {"statement_timeout": "0", "lock_timeout": "0", "search_path": "pg_catalog"}
"""The settings of the connection on which an index is built. It waits for all transactions that run."""
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


def migrate(connection: Connection, connect: Callable[[], Connection], *, create: bool = True) -> None:
    """Apply pending migrations. If there are none, this only reads and needs no right to create tables.

    A schema that is newer than this program is left as it is.

    `connect` opens another connection, in autocommit mode and without time limits, on which an index is built.
    """
    before = applied(connection)
    if not pending("postgres", before):
        return
    if not create and before == NOTHING:
        raise DatabaseMissing("The database has no Windlass tables. `windlass db migrate` creates them.")
    _check_owner(connection, before)
    connection.rollback()
    while _apply_some(connection, connect):
        pass


def _apply_some(connection: Connection, connect: Callable[[], Connection]) -> bool:
    """Apply the next migrations that fit into one transaction, or build one index. Return False if there are none."""
    _lock(connection)
    before = applied(connection)
    todo = pending("postgres", before)
    if todo and todo[0].index is not None:
        log.warning("Building the index %s. It waits for all transactions that are open now.", todo[0].index)
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        with connect() as worker:
            _build_index(worker, todo[0], todo[0].index)
        _prepare_table(connection)
        _record(connection, todo[0])
    elif todo:
        connection.execute("SET LOCAL statement_timeout = 0")  # The timeout is for calls.
        # Everybody else waits behind a statement that waits for a table. So it gives up soon, and is tried again.
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        connection.execute("CREATE SCHEMA IF NOT EXISTS windlass")
        _prepare_table(connection)
        for migration in takewhile(lambda one: before == NOTHING or one.index is None, todo):
            connection.execute(cast("LiteralString", migration.in_one_go))
            _record(connection, migration)
    connection.commit()
    return bool(todo)


def _lock(connection: Connection) -> None:
    """Begin a transaction that holds the lock for migrations.

    Poll instead of waiting: CREATE INDEX CONCURRENTLY waits for every running statement, including ours.
    """
    waited = False
    while True:
        [(is_locked,)] = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK]).fetchall()
        if is_locked:
            return
        connection.rollback()
        if not waited:
            log.warning("Another process is migrating the database. Waiting until it has finished.")
        waited = True
        sleep(jitter(0.02, 0.2))


def _build_index(worker: Connection, migration: Migration, index: str) -> None:
    """Build an index without locking its table. What a process that died left of it is removed first."""
    valid = "SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = to_regclass(%s)"
    if worker.execute(valid, [f"windlass.{index}"]).fetchall() == [(False,)]:
        worker.execute(sql.SQL("DROP INDEX CONCURRENTLY windlass.{}").format(sql.Identifier(index)))
    worker.execute(cast("LiteralString", migration.script))


def _prepare_table(connection: Connection) -> None:
    """Create the table of migrations, or add the column that the first ones lacked."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS windlass.migration (version integer PRIMARY KEY, name text NOT NULL, "
        "applied timestamptz NOT NULL DEFAULT clock_timestamp(), compatible_from integer)"
    )
    known = "SELECT FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass('windlass.migration') AND attname = %s"
    # Only if it is missing: an ALTER keeps others from starting until the migrations are done.
    if not connection.execute(known, ["compatible_from"]).fetchall():
        connection.execute("ALTER TABLE windlass.migration ADD COLUMN compatible_from integer")


def _record(connection: Connection, migration: Migration) -> None:
    connection.execute(
        "INSERT INTO windlass.migration (version, name, compatible_from) VALUES (%s, %s, %s)",
        [migration.version, migration.name, migration.compatible_from],
    )


def _check_owner(connection: Connection, before: Applied) -> None:
    """Raise `StoreError` if the role may not create tables, before anything is tried."""
    [(role, may)] = connection.execute(
        "SELECT current_user::text, CASE WHEN to_regnamespace('windlass') IS NULL "
        "THEN has_database_privilege(current_database(), 'CREATE') "
        "ELSE has_schema_privilege('windlass', 'CREATE') END"
    ).fetchall()
    if not may:
        newest = pending("postgres", before)[-1].version
        raise StoreError(
            f"The tables are at version {before.version} and this Windlass needs {newest}, but the role {role!r} may "
            "not change them. Run `windlass db migrate` with the URL of the role that owns them."
        )


def applied(connection: Connection) -> Applied:
    """Return the schema of the database."""
    [(table,)] = connection.execute("SELECT to_regclass('windlass.migration')::text").fetchall()
    if table is None:
        return NOTHING
    # Through jsonb, because the first tables had no such column. Without a value only programs for the version itself
    # can use the database.
    found = connection.execute(
        "SELECT version, coalesce((to_jsonb(migration) ->> 'compatible_from')::integer, version) "
        "FROM windlass.migration ORDER BY version DESC LIMIT 1"
    ).fetchall()
    return Applied(*found[0]) if found else NOTHING
