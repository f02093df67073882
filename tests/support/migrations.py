"""Migrations of later releases, for tests: they are applied by the code of today with a longer list of migrations."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.support.processes import open_store
from windlass.stores import migrate
from windlass.stores.migrate import Migration, migrations

ALL = {dialect: migrations(dialect) for dialect in ("postgres", "sqlite")}
LATEST = {dialect: known[-1].version for dialect, known in ALL.items()}
STORES = Path(migrate.__file__).parent


def dialect_of(url: str) -> str:
    return "postgres" if url.startswith("postgresql:") else "sqlite"


@contextmanager
def extended(dialect: str, *scripts: str) -> Generator[None]:
    """Be a program of a later release, which has these migrations too."""
    later = [
        Migration(number, f"{number:04}_later", script) for number, script in enumerate(scripts, LATEST[dialect] + 1)
    ]
    with mock.patch.object(migrate, "migrations", lambda given: ALL[given] + (later if given == dialect else [])):
        yield


def migrate_later(url: str, *scripts: str) -> None:
    """Migrate a database as programs of later releases do."""
    with extended(dialect_of(url), *scripts):
        open_store(url).close()


def widening(dialect: str) -> str:
    """Return a migration that adds a column to every table and to the view, a table and an index."""
    text = (STORES / dialect / "schema.sql").read_text()
    prefix = "windlass." if dialect == "postgres" else ""
    tables = re.findall(rf"^CREATE TABLE {re.escape(prefix)}(\w+)", text, re.MULTILINE)
    [view] = re.findall(r"^CREATE VIEW .*?;", text, re.MULTILINE | re.DOTALL)
    columns = "\n".join(f"ALTER TABLE {prefix}{table} ADD COLUMN later text DEFAULT 'later';" for table in tables)
    wider = view.replace("\n  FROM", ", t.later\n  FROM", 1)
    assert len(tables) > 20, "the tables are found"
    assert wider != view
    return f"""
{columns}
{f"DROP VIEW {prefix}current_task;" if dialect == "sqlite" else ""}
{wider if dialect == "sqlite" else wider.replace("CREATE VIEW", "CREATE OR REPLACE VIEW")}
CREATE TABLE {prefix}later (id integer PRIMARY KEY, at integer NOT NULL);
CREATE INDEX later_at ON {prefix}later (at);
"""
