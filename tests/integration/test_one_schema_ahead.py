"""A database that a program of the next release has migrated already, as in a rolling upgrade: this program uses it as
it is, and refuses one that is two versions ahead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import psycopg
import pytest
from click.testing import CliRunner, Result

from tests.support.builders import (
    RAISED,
    a_session,
    a_task,
    after,
    all_tasks,
    claim_one,
    complete,
    counted,
    recounted,
    report,
    run_all,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
)
from tests.support.migrations import LATEST, dialect_of, migrate_later, widening
from tests.support.nodes import as_given
from tests.support.processes import open_store
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.task import Progress
from windlass.errors import SchemaTooNew
from windlass.stores.migrate import Migration, migrations
from windlass.stores.protocol import Store
from windlass.stores.sql.lanes import lane_of
from windlass.stores.statements import load

HARMLESS = "SELECT 1"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the tables of this program."""
    if request.param == "postgres":
        return request.getfixturevalue("migrated_url")
    open_store(str(tmp_path / "windlass.db")).close()
    return str(tmp_path / "windlass.db")


@pytest.fixture
def latest(url: str) -> int:
    return LATEST[dialect_of(url)]


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    """Ask the database itself."""
    if dialect_of(url) == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []
    with closing(apsw.Connection(url)) as connection:
        return connection.execute(text).fetchall()


def bookkeeping(url: str) -> list[Any]:
    """Return what the database says about its schema, and every object in it."""
    if dialect_of(url) == "postgres":
        objects = "SELECT oid, xmin, relname, relfilenode FROM pg_class WHERE relnamespace = 'windlass'::regnamespace"
        return [query(url, "SELECT ctid, xmin, * FROM windlass.migration"), query(url, f"{objects} ORDER BY oid")]
    return [
        query(url, "SELECT * FROM migration"),
        query(url, "PRAGMA user_version"),
        query(url, "PRAGMA schema_version"),
        query(url, "SELECT * FROM sqlite_schema"),
    ]


def use(store: Store) -> None:
    """Submit, claim, settle, sweep and read, and what else nodes do."""
    store.publish(
        Manifest(
            handlers=(HandlerInfo(name="work", is_async=False, doc=""),),
            crons=(CronInfo(name="nightly", handler="work", schedule="0 2 * * *"),),
        )
    )
    store.configure(Queue(name="default", fair=False, max_waiting=99))
    ids = submit(store, a_task(key="a"), after("b", "a"), a_task(key="late", delay=timedelta(hours=1)))
    session = a_session(store)
    claim = claim_one(store, session)
    store.progress([Progress(lease=claim.lease, share=0.5, message="half")])
    store.renew(session)
    complete(store, claim)
    failing = submit_one(store, queue="other")
    report(store, claim_one(store, session, "other"), RAISED)
    store.cancel([ids[2]], reason="not wanted")

    assert run_all(store) == [ids[1]]
    sweep_until_quiet(store)

    assert [state_of(store, id) for id in ids] == [State.COMPLETED, State.COMPLETED, State.CANCELLED]
    assert state_of(store, failing) in (State.RETRYING, State.FAILED)
    assert len(store.attempts(failing)) == 1
    assert {task.id for task in all_tasks(store)} >= {*ids, failing}
    assert counted(store) == recounted(store)
    assert store.handlers()
    assert store.crons()
    store.close_session(session)


def test_a_program_starts_and_works_on_the_next_schema_and_leaves_it_as_it_is(url: str) -> None:
    migrate_later(url, widening(dialect_of(url)))
    before = bookkeeping(url)

    with closing(open_store(url)) as store:
        use(store)
    with closing(open_store(url)) as store:
        assert all_tasks(store), "it starts again"

    assert bookkeeping(url) == before


def test_a_program_that_is_at_work_continues_after_the_next_migration(url: str) -> None:
    """Its connections have plans that were made before."""
    with closing(open_store(url)) as store:
        submit(store, a_task(), a_task())
        assert len(run_all(store)) == 2
        sweep_until_quiet(store)

        migrate_later(url, widening(dialect_of(url)))

        use(store)


def test_two_schemas_ahead_are_refused_and_left_as_they_are(url: str, latest: int) -> None:
    migrate_later(url, HARMLESS, HARMLESS)
    before = bookkeeping(url)

    with pytest.raises(SchemaTooNew) as refused:
        open_store(url)

    error = refused.value
    assert (error.found, error.known, error.needed) == (latest + 2, latest, latest + 1)
    assert str(error) == (
        f"The database has schema {latest + 2}, which only programs for schema {latest + 1} or later can use. "
        f"This program is for schema {latest}. Upgrade Windlass for this program."
    )
    assert bookkeeping(url) == before


def test_a_release_with_several_migrations_says_from_where_it_is_compatible(url: str, latest: int) -> None:
    migrate_later(url, HARMLESS, f"-- compatible_from: {latest}\nSELECT 1")

    with closing(open_store(url)) as store:
        assert submit_one(store)


def test_a_migration_that_breaks_old_programs_can_say_so(url: str, latest: int) -> None:
    migrate_later(url, f"-- compatible_from: {latest + 1}\nSELECT 1")

    with pytest.raises(SchemaTooNew, match=f"for schema {latest + 1} or later"):
        open_store(url)


def test_a_newer_schema_that_says_nothing_about_old_programs_is_refused(url: str, latest: int) -> None:
    if dialect_of(url) == "postgres":
        query(url, f"INSERT INTO windlass.migration (version, name) VALUES ({latest + 1}, 'unknown')")
    else:
        query(url, f"PRAGMA user_version = {latest + 1}")

    with pytest.raises(SchemaTooNew):
        open_store(url)


def test_a_database_from_before_this_was_recorded_is_used_and_migrated(url: str, latest: int) -> None:
    if dialect_of(url) == "postgres":
        query(url, "ALTER TABLE windlass.migration DROP COLUMN compatible_from")
    else:
        query(url, "DROP TABLE migration")

    with closing(open_store(url)) as store:
        assert submit_one(store)
    migrate_later(url, HARMLESS)

    with closing(open_store(url)) as store:
        assert len(all_tasks(store)) == 1


def test_every_migration_says_from_where_it_is_compatible() -> None:
    """It never goes back, so the last one counts. Both dialects say the same, so that the numbers mean the same."""
    found = {dialect: [each.compatible_from for each in migrations(dialect)] for dialect in ("postgres", "sqlite")}

    assert found["postgres"] == found["sqlite"] == sorted(found["postgres"])
    assert all(number <= version for version, number in enumerate(found["postgres"], 1))
    assert set(found["postgres"][7:]) == {7}, "migrations 8 to 10 are of one release, which follows schema 7"


@pytest.mark.parametrize(
    ("script", "expected"),
    [("SELECT 1", 8), ("-- compatible_from: 5\nSELECT 1", 5), ("-- A. \n-- compatible_from: 9\nSELECT 1", 9)],
)
def test_a_line_of_a_migration_says_from_where_it_is_compatible(script: str, expected: int) -> None:
    assert Migration(9, "0009_x", script).compatible_from == expected


# The statements.


def sqlite_results(path: str) -> dict[str, Any]:
    """Return the columns of the result of every statement."""
    with closing(apsw.Connection(path)) as connection:
        connection.create_scalar_function("lane", lane_of, 1, deterministic=True)
        found: dict[str, Any] = {}
        for folder in ("sql", "parts", "inspection"):
            for name, statement in load("sqlite", "?", folder=folder).items():
                found[f"{folder}/{name}"] = apsw.ext.query_info(connection, statement.text).description
        return found


def postgres_results(url: str) -> dict[str, Any]:
    """Return the types of the result of every statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        for folder in ("sql", "shortcuts", "upkeep", "inspection"):
            for name, statement in load("postgres", "$", folder=folder).items():
                result = connection.pgconn.prepare(f"{folder}/{name}".encode(), statement.text.encode())
                assert not result.error_message, f"{folder}/{name}: {result.error_message.decode()}"
        found: dict[str, Any] = {}
        for (name,) in connection.execute("SELECT name FROM pg_prepared_statements").fetchall():
            described = connection.pgconn.describe_prepared(name.encode())
            found[name] = [(described.fname(n), described.ftype(n)) for n in range(described.nfields)]
        return found


def test_no_statement_notices_another_column_in_a_table(url: str) -> None:
    """None reads `*` of a table, inserts without naming columns, or finds a name ambiguous that was not."""
    results = postgres_results if dialect_of(url) == "postgres" else sqlite_results
    before = results(url)

    migrate_later(url, widening(dialect_of(url)))

    assert len(before) > 100
    assert results(url) == before


# The commands.


def windlass(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_the_commands_say_that_the_schema_is_one_version_newer(url: str, latest: int) -> None:
    migrate_later(url, widening(dialect_of(url)))
    before = bookkeeping(url)
    where = ("--store", as_given(url))

    status = windlass("db", "status", *where).stdout
    fields = json.loads(windlass("db", "status", *where, "--json").stdout)
    migrated = [windlass("db", "migrate", *where, *more).stdout for more in ((), ("--dry-run",))]
    checked = windlass("db", "check", *where)
    doctor = windlass("doctor", *where)

    assert (
        f"schema {latest + 1} (one version newer than this program, which can use it: upgrade this program)" in status
    )
    assert (fields["schema"], fields["compatible_from"], fields["newest"]) == (latest + 1, latest, latest)
    assert migrated == [f"Schema {latest + 1} is one version newer than this program. Nothing was done.\n"] * 2
    assert (checked.exit_code, checked.stdout) == (0, "✓ No problems found.\n")
    assert (doctor.exit_code, "⚠ schema" in doctor.stdout, "→ upgrade Windlass" in doctor.stdout) == (0, True, True)
    assert bookkeeping(url) == before


def test_the_commands_refuse_a_schema_that_is_two_versions_newer(url: str, latest: int) -> None:
    migrate_later(url, HARMLESS, HARMLESS)
    before = bookkeeping(url)
    where = ("--store", as_given(url))

    status = windlass("db", "status", *where).stdout
    refused = [
        windlass(*words, *where) for words in (("db", "migrate"), ("db", "migrate", "--dry-run"), ("db", "check"))
    ]
    doctor = windlass("doctor", *where)

    assert f"schema {latest + 2} (2 versions newer than this program, which cannot use it" in status
    for each in refused:
        assert each.exit_code != 0
        assert re.search(rf"schema {latest + 1} or later.*schema {latest}\. Upgrade", each.stderr.replace("\n", " "))
    assert (doctor.exit_code, "✗ schema" in doctor.stdout) == (1, True)
    assert bookkeeping(url) == before


def test_a_copy_of_a_newer_schema_is_refused_because_it_would_be_incomplete(url: str, tmp_path: Path) -> None:
    migrate_later(url, widening(dialect_of(url)))

    result = windlass("db", "copy", f"sqlite:///{tmp_path / 'copy.db'}", "--store", as_given(url), "--yes")

    assert (result.exit_code != 0, "would leave out what is newer" in result.stderr) == (True, True), result.output
    assert not (tmp_path / "copy.db").exists()


# PostgreSQL alone.


@pytest.fixture
def role(migrated_url: str) -> Iterator[str]:
    """A role that may use the tables and read the bookkeeping, but change neither it nor the tables."""
    name = f"old_{migrated_url.rpartition('_')[2]}"
    query(migrated_url, f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA windlass TO {name}")
    query(migrated_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA windlass TO {name}")
    query(migrated_url, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA windlass TO {name}")
    query(migrated_url, f"REVOKE INSERT, UPDATE, DELETE ON windlass.migration FROM {name}")
    yield name
    query(migrated_url, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_role_without_rights_to_migrate_uses_the_next_schema(migrated_url: str, role: str) -> None:
    migrate_later(migrated_url, widening("postgres"))

    with closing(open_store(migrated_url.replace("postgres@", f"{role}@"))) as store:
        use(store)
