"""Schema migrations: numbered files that are applied once, in order, forward only.

Each database applies them under its own lock and records its version. This module lists them, and refuses a database
that a newer version of Windlass has migrated.
"""

from __future__ import annotations

import re
from importlib.resources import files

from msgspec import Struct

from windlass.errors import SchemaTooNew

_CONCURRENT = re.compile(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)", re.MULTILINE)


class Migration(Struct, frozen=True):
    """A file of a `migrations` folder."""

    version: int
    name: str
    script: str

    @property
    def index(self) -> str | None:
        """The index that it builds while others write to the table, outside of a transaction; None for all others."""
        found = _CONCURRENT.search(self.script)
        return None if found is None else found[1]


def migrations(dialect: str) -> list[Migration]:
    """Return all migrations of a dialect, in order."""
    folder = files("windlass.stores").joinpath(dialect, "migrations")
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [Migration(int(name[:4]), name.removesuffix(".sql"), file.read_text()) for name, file in found]


def pending(dialect: str, version: int) -> list[Migration]:
    """Return the migrations that a database at `version` still needs. Raise an error if it is too new."""
    known = migrations(dialect)
    if version > known[-1].version:
        raise SchemaTooNew(version, known[-1].version)
    return [migration for migration in known if migration.version > version]
