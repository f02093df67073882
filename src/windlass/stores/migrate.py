"""Schema migrations: numbered files that are applied once, in order, forward only.

Each database applies them under its own lock and records its version, and with it the oldest schema whose programs can
still use it: the one before, so that programs can be upgraded one by one after the database. This module lists the
migrations, and refuses a database that has moved on too far (docs/decisions/0033-one-schema-ahead.md).
"""

from __future__ import annotations

import re
from importlib.resources import files

from msgspec import Struct

from windlass.errors import SchemaTooNew

_CONCURRENT = re.compile(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)", re.MULTILINE)
_COMPATIBLE = re.compile(r"^-- compatible_from: (\d+)$", re.MULTILINE)


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

    @property
    def in_one_go(self) -> str:
        """The script for new tables, which nobody uses yet: an index is built in the same transaction."""
        return _CONCURRENT.sub(lambda found: found[0].replace(" CONCURRENTLY", ""), self.script)

    @property
    def compatible_from(self) -> int:
        """The oldest schema whose programs can use the database after this migration.

        It is the one before, unless the file has a line `-- compatible_from: N`.
        """
        found = _COMPATIBLE.search(self.script)
        return self.version - 1 if found is None else int(found[1])


class Applied(Struct, frozen=True):
    """The schema of a database."""

    version: int
    """The number of the last migration; 0 if there is none."""
    compatible_from: int
    """The oldest schema whose programs can use the database. A program for `version` always can."""


NOTHING = Applied(0, 0)
"""The schema of a database without tables."""


def migrations(dialect: str) -> list[Migration]:
    """Return all migrations of a dialect, in order."""
    folder = files("windlass.stores").joinpath(dialect, "migrations")
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [Migration(int(name[:4]), name.removesuffix(".sql"), file.read_text()) for name, file in found]


def pending(dialect: str, applied: Applied) -> list[Migration]:
    """Return the migrations that a database still needs: none if its schema is newer than this program.

    Raise `SchemaTooNew` if this program cannot use that schema.
    """
    known = migrations(dialect)
    check_compatible(applied, known[-1].version)
    return [migration for migration in known if migration.version > applied.version]


def check_compatible(applied: Applied, newest: int) -> None:
    """Raise `SchemaTooNew` if a program whose last migration is `newest` cannot use a schema."""
    if newest < applied.compatible_from:
        raise SchemaTooNew(applied.version, newest, applied.compatible_from)
