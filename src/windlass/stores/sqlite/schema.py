"""The schema version of a SQLite file, and the migrations that it still needs.

`user_version` has the number of the last migration, and the table `migration` what is known about each.
"""

from __future__ import annotations

from typing import Any

from windlass.stores.migrate import NOTHING, Applied, pending

_CREATE = """
CREATE TABLE IF NOT EXISTS migration (
    version         INTEGER PRIMARY KEY,
    name            TEXT NOT NULL,
    applied         INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    compatible_from INTEGER NOT NULL
) STRICT
"""
_RECORD = "INSERT INTO migration (version, name, compatible_from) VALUES (?, ?, ?)"
_IS_THERE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration'"


def applied(connection: Any) -> Applied:
    """Return the schema of the file."""
    version: int = connection.pragma("user_version")
    if version == 0:
        return NOTHING
    found: list[tuple[int]] = []
    if connection.execute(_IS_THERE).fetchall():  # The first files had no such table.
        found = connection.execute("SELECT compatible_from FROM migration WHERE version = ?", (version,)).fetchall()
    # Without a row only programs for the version can use it.
    return Applied(version, found[0][0] if found else version)


def has_pending(connection: Any) -> bool:
    """Return True if the file needs a migration. Raise `SchemaTooNew` if this program cannot use its schema."""
    return bool(pending("sqlite", applied(connection)))


def migrate(connection: Any) -> None:
    """Apply pending migrations, in a write transaction of the caller."""
    todo = pending("sqlite", applied(connection))
    if todo:
        connection.execute(_CREATE)
    for migration in todo:
        connection.execute(migration.script)
        connection.execute(_RECORD, (migration.version, migration.name, migration.compatible_from))
        connection.pragma("user_version", migration.version)
