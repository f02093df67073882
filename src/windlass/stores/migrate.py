"""Schema migrations: numbered files, once each, in order, under a lock, forward only.

Each dialect applies them with its own lock and keeps its own record of the version; what they are, and that a database
from the future is refused, is decided here.
"""

from __future__ import annotations

from importlib.resources import files

from msgspec import Struct

from windlass.errors import SchemaTooNew


class Migration(Struct, frozen=True):
    """One file of a dialect's `migrations` folder."""

    version: int
    name: str
    script: str


def migrations(dialect: str) -> list[Migration]:
    """All of a dialect's migrations, in order."""
    folder = files("windlass.stores").joinpath(dialect, "migrations")
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [Migration(int(name[:4]), name.removesuffix(".sql"), file.read_text()) for name, file in found]


def pending(dialect: str, version: int) -> list[Migration]:
    """What a database at `version` still needs. Refuses one that a newer Windlass has migrated."""
    known = migrations(dialect)
    if version > known[-1].version:
        raise SchemaTooNew(version, known[-1].version)
    return [migration for migration in known if migration.version > version]
