from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import sql

from tests.integration import members
from tests.integration.threads import InThread
from tests.support.builders import a_task, all_tasks, counted, recounted, run_all, submit, submit_one, sweep_until_quiet
from tests.support.migration_locks import long_locks
from tests.support.migrations import LATEST, extended
from tests.support.processes import ProcessGroup, open_store, until
from tests.support.servers import PostgresServer
from windlass.errors import StoreError
from windlass.stores.migrate import NOTHING, Applied, migrations, pending
from windlass.stores.postgres import PostgresStore, schema
from windlass.stores.postgres.database import SETTINGS
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

TOGETHER = 8


@pytest.fixture(params=["postgres", "sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, or a file that does not exist yet."""
    return request.getfixturevalue("postgres_url") if dialect == "postgres" else str(tmp_path / "windlass.db")


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    """Ask the database itself."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []
    connection = apsw.Connection(url)
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def applied(url: str) -> list[Any]:
    """Which migrations a database has had, and when."""
    if url.startswith("postgresql:"):
        return query(url, "SELECT version, name, applied FROM windlass.migration ORDER BY version")
    return query(url, "PRAGMA user_version")


def everything(url: str) -> list[Any]:
    """What is in a database: each object, and each row of the tables that a migration fills."""
    if not url.startswith("postgresql:"):
        return [query(url, "SELECT * FROM sqlite_schema ORDER BY name"), applied(url), query(url, "SELECT * FROM meta")]
    objects = query(
        url,
        "SELECT relnamespace::regnamespace::text, relname, relkind, relfilenode FROM pg_class"
        " WHERE relnamespace::regnamespace::text NOT IN ('pg_catalog', 'pg_toast', 'information_schema')"
        " UNION ALL SELECT pronamespace::regnamespace::text, proname, 'f', 0 FROM pg_proc"
        " WHERE pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2",
    )
    return [objects, applied(url), query(url, "SELECT * FROM windlass.meta")]


def works(store: Store) -> bool:
    """A little of everything."""
    ids = submit(store, a_task(key="a"), a_task(key="b", prerequisites=["a"]))
    ran = run_all(store)
    sweep_until_quiet(store)
    return ran == ids and counted(store) == recounted(store)


def test_an_empty_database_is_made_ready(dialect: str, url: str) -> None:
    with opened(url) as store:
        assert works(store)

    assert applied(url)[-1][0] == LATEST[dialect]


def test_opening_it_again_changes_nothing(url: str) -> None:
    with opened(url) as store:
        id = submit_one(store)
    before = everything(url)
    with opened(url), opened(url) as store:
        found = [task.id for task in all_tasks(store)]

    assert everything(url) == before
    assert found == [id]


def test_threads_that_open_an_empty_database_together_migrate_it_once(dialect: str, url: str) -> None:
    together = threading.Barrier(TOGETHER)

    def open_and_use() -> object:
        together.wait()
        with opened(url) as store:
            return submit_one(store)

    ids = {call.answer() for call in [InThread(open_and_use) for _ in range(TOGETHER)]}

    assert len(ids) == TOGETHER
    assert len(applied(url)) == (LATEST[dialect] if dialect == "postgres" else 1)


def test_processes_that_open_an_empty_database_together_migrate_it_once(dialect: str, url: str) -> None:
    with ProcessGroup() as group:
        openers = [group.start(members.opener, url=url) for _ in range(4)]
        for opener in openers:
            opener.receive()
        for opener in openers:
            opener.send("go")
        ids = {opener.receive() for opener in openers}

    with opened(url) as store:
        assert {str(task.id) for task in all_tasks(store)} == ids
    assert len(applied(url)) == (LATEST[dialect] if dialect == "postgres" else 1)


def test_migrations_are_numbered_without_a_gap(dialect: str) -> None:
    assert [migration.version for migration in migrations(dialect)] == list(range(1, LATEST[dialect] + 1))
    assert len(pending(dialect, NOTHING)) == LATEST[dialect]
    assert pending(dialect, Applied(LATEST[dialect], LATEST[dialect] - 1)) == []


def folder(dialect: str) -> Path:
    return Path(schema.__file__).parents[1] / dialect


POSTGRES_PARTS = [
    "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default"
    " FROM information_schema.columns WHERE table_schema = 'windlass' AND table_name <> 'migration'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'windlass'::regnamespace AND conrelid IS DISTINCT FROM to_regclass('windlass.migration')",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'windlass' AND tablename <> 'migration'",
    "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'windlass'::regnamespace AND relname <> 'migration'"
    " AND relkind = 'r'",
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace",
    "SELECT * FROM windlass.meta",
]
SQLITE_PARTS = [
    "SELECT tables.name, tables.wr, tables.strict, columns.* FROM pragma_table_list AS tables,"
    " pragma_table_xinfo(tables.name) AS columns WHERE tables.name NOT LIKE 'sqlite_%' AND tables.name <> 'migration'",
    "SELECT tables.name, indexes.name, indexes.'unique', indexes.origin, columns.*"
    " FROM pragma_table_list AS tables, pragma_index_list(tables.name) AS indexes,"
    " pragma_index_xinfo(indexes.name) AS columns",
    "SELECT name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL",
    "SELECT * FROM meta",
]


def tables(url: str) -> list[list[str]]:
    """Every table, column, constraint, index and function of ours, whatever the order in which they were made."""
    parts = POSTGRES_PARTS if url.startswith("postgresql:") else SQLITE_PARTS
    return [sorted(map(repr, query(url, part))) for part in parts]


def checks(url: str) -> set[str]:
    """The conditions of SQLite's tables, which it knows only as text."""
    found = query(url, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name <> 'migration'")
    return {" ".join(check.split()) for (text,) in found for check in re.findall(r"CHECK\s*(\(.*)", text or "")}


def test_the_schema_for_reading_is_what_the_migrations_make(dialect: str, url: str, tmp_path: Path) -> None:
    with opened(url):
        migrated = tables(url)
    read = url if dialect == "postgres" else str(tmp_path / "read.db")
    if dialect == "postgres":
        query(url, "DROP SCHEMA windlass CASCADE; CREATE SCHEMA windlass")

    query(read, (folder(dialect) / "schema.sql").read_text())

    assert all(migrated)
    assert tables(read) == migrated
    assert dialect == "postgres" or checks(read) == checks(url)


def test_a_store_that_was_at_work_before_the_latest_migration_goes_on_after_it(dialect: str, url: str) -> None:
    first, *_ = migrations(dialect)
    if dialect == "postgres":
        query(url, "CREATE SCHEMA windlass; CREATE TABLE windlass.migration (version integer PRIMARY KEY, name text)")
        query(url, "ALTER TABLE windlass.migration ADD COLUMN applied timestamptz NOT NULL DEFAULT clock_timestamp()")
        query(url, first.script)
        query(url, "INSERT INTO windlass.migration VALUES (1, '0001_tables')")
        row = "INSERT INTO windlass.session (id, node, ttl, renewed, boot) VALUES (gen_random_uuid(), 'old', 1, 1, '')"
        query(url, row)
    else:
        query(url, f"{first.script}; PRAGMA user_version = 1")
        query(url, "INSERT INTO session (id, node, ttl, renewed, boot) VALUES (randomblob(16), 'old', 1, 1, '')")

    with opened(url) as store:
        assert [(session.node, session.about) for session in store.sessions()] == [("old", "")]
        assert works(store)

    assert applied(url)[-1][0] == LATEST[dialect]


@pytest.mark.parametrize("number", range(2, LATEST["postgres"] + 1))
def test_a_later_migration_may_be_run_again(postgres_url: str, number: int) -> None:
    with opened(postgres_url):
        before = tables(postgres_url)

    query(postgres_url, migrations("postgres")[number - 1].script)

    assert tables(postgres_url) == before


def test_a_migration_that_fails_leaves_nothing(dialect: str, url: str) -> None:
    with opened(url) as store:
        submit_one(store)
    before = everything(url)
    prefix = "windlass." if dialect == "postgres" else ""
    broken = f"CREATE TABLE {prefix}half (n INTEGER); SELECT * FROM {prefix}nowhere"

    with extended(dialect, broken), pytest.raises(StoreError):
        open_store(url)

    assert everything(url) == before
    with opened(url) as store:
        assert len(all_tasks(store)) == 1


def test_a_later_migration_is_applied_to_what_is_there(dialect: str, url: str) -> None:
    with opened(url) as store:
        submit_one(store)
    prefix = "windlass." if dialect == "postgres" else ""

    with extended(dialect, f"CREATE TABLE {prefix}more (n INTEGER); INSERT INTO {prefix}more VALUES (1)"):
        for _ in range(2):
            with opened(url) as store:
                assert len(all_tasks(store)) == 1

    assert query(url, f"SELECT n FROM {prefix}more") == [(1,)]
    assert applied(url)[-1][0] == LATEST[dialect] + 1


# PostgreSQL alone.


def test_a_migration_may_take_longer_than_a_call(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "statement_timeout", "500ms")

    with extended("postgres", "SELECT pg_sleep(0.6)"), opened(postgres_url) as store:
        assert works(store)


def test_a_migration_waits_briefly_for_a_table_because_others_wait_behind_it(postgres_url: str) -> None:
    script = "CREATE TABLE windlass.seen AS SELECT current_setting('lock_timeout') AS timeout"

    with extended("postgres", script), opened(postgres_url) as store:
        assert works(store)

    assert query(postgres_url, "SELECT timeout FROM windlass.seen") == [(schema.LOCK_TIMEOUT,)]


INDEX = "CREATE INDEX CONCURRENTLY IF NOT EXISTS task_more ON windlass.task (handler);"
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('windlass.task_more')"


def test_an_index_is_built_while_others_write_to_its_table(postgres_url: str) -> None:
    """The build waits for a transaction that has written to the table; all others continue, and may migrate too."""
    node = PostgresStore(postgres_url)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'"

    with extended("postgres", INDEX):
        with psycopg.connect(postgres_url) as caller:
            node.submit([a_task(queue="caller")], conn=caller)
            openers = [InThread(lambda: PostgresStore(postgres_url).close()) for _ in range(3)]
            until(lambda: query(postgres_url, waits) == [(1,)], "the build waits for the caller")
            submit(node, a_task(), a_task(key="named"))
            assert len(run_all(node)) == 2
            sweep_until_quiet(node)
            assert LATEST["postgres"] == applied(postgres_url)[-1][0], "it is recorded when it is done"
        for opener in openers:
            opener.answer()
    node.close()

    assert query(postgres_url, IS_VALID) == [(True,)]
    assert [number for number, *_ in applied(postgres_url)] == list(range(1, LATEST["postgres"] + 2))


def test_a_new_database_waits_for_nobody(postgres_url: str) -> None:
    """Nobody uses the new tables, so their indexes are built at once, also while another transaction is open."""
    with psycopg.connect(postgres_url) as reader, extended("postgres", INDEX):
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        opening = InThread(lambda: PostgresStore(postgres_url).close())
        opening.join(timeout=30)
        assert not opening.is_alive()
        opening.answer()

    assert query(postgres_url, IS_VALID) == [(True,)]


def test_an_index_that_a_crash_left_invalid_is_built_again(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        submit(store, a_task(), a_task())
    with pytest.raises(psycopg.errors.UniqueViolation):
        query(postgres_url, "CREATE UNIQUE INDEX CONCURRENTLY task_more ON windlass.task (handler)")
    assert query(postgres_url, IS_VALID) == [(False,)]

    with extended("postgres", INDEX), opened(postgres_url) as store:
        assert len(run_all(store)) == 2

    assert query(postgres_url, IS_VALID) == [(True,)]
    assert applied(postgres_url)[-1][0] == LATEST["postgres"] + 1


def test_an_index_that_was_built_but_not_recorded_stays(postgres_url: str) -> None:
    with opened(postgres_url):
        query(postgres_url, INDEX)
    before = query(postgres_url, "SELECT to_regclass('windlass.task_more')::oid")

    with extended("postgres", INDEX), opened(postgres_url):
        pass

    assert query(postgres_url, "SELECT to_regclass('windlass.task_more')::oid") == before
    assert applied(postgres_url)[-1][0] == LATEST["postgres"] + 1


def test_migrations_before_and_after_the_build_of_an_index_are_applied_in_order(postgres_url: str) -> None:
    scripts = ("CREATE TABLE windlass.more (n integer)", INDEX.replace("task (handler)", "more (n)"), "SELECT 1")
    with opened(postgres_url):
        pass

    with extended("postgres", *scripts), opened(postgres_url) as store:
        assert works(store)

    assert [number for number, *_ in applied(postgres_url)][-3:] == [LATEST["postgres"] + n for n in (1, 2, 3)]
    assert query(postgres_url, IS_VALID) == [(True,)]


BUILT_IN_TRANSACTIONS = {"0005_schedules": "cron_due", "0006_unique": "cron_in_code"}
"""Migrations from before this rule, which index the table of crons."""


def test_no_migration_holds_a_lock_for_as_long_as_a_table_is_large() -> None:
    for migration in migrations("postgres"):
        known = BUILT_IN_TRANSACTIONS.get(migration.name, "no exception")
        found = [fault for fault in long_locks(migration) if f"INDEX IF NOT EXISTS {known} " not in fault]

        assert found == [], f"{migration.name}: {found}"


def test_all_of_it_is_in_one_schema(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        assert works(store)

    objects, *_ = everything(postgres_url)
    assert {schema for schema, *_ in objects} == {"windlass"}
    assert query(postgres_url, "SELECT extname FROM pg_extension") == [("plpgsql",)]


@pytest.fixture
def role(postgres_server: PostgresServer, postgres_url: str) -> Iterator[str]:
    """A role that may create nothing in the database."""
    name = f"app_{postgres_url.rpartition('_')[2]}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_a_role_that_may_create_nothing_uses_what_another_has_migrated(postgres_url: str, role: str) -> None:
    with opened(postgres_url):
        pass
    query(postgres_url, f"GRANT USAGE ON SCHEMA windlass TO {role}")
    query(postgres_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA windlass TO {role}")
    query(postgres_url, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA windlass TO {role}")

    with opened(postgres_url.replace("postgres@", f"{role}@")) as store:
        assert works(store)


def test_a_role_that_may_create_nothing_gets_an_error_when_it_migrates(postgres_url: str, role: str) -> None:
    with pytest.raises(StoreError, match="may not change them"):
        PostgresStore(postgres_url.replace("postgres@", f"{role}@"))

    assert query(postgres_url, "SELECT to_regnamespace('windlass')") == [(None,)]


HOSTILE = """
CREATE SCHEMA evil;
CREATE TABLE evil.task (id uuid);
CREATE TABLE evil.migration (version integer);
INSERT INTO evil.migration VALUES (1);
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT 'off'::text $$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '1970-01-01'::timestamptz $$;
CREATE FUNCTION evil.clock(bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT 0::bigint $$;
CREATE FUNCTION evil.equal(uuid, uuid) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$;
CREATE OPERATOR evil.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = evil.equal);
"""


@pytest.mark.parametrize("search_path", ["", "evil", "evil, pg_catalog"], ids=["empty", "another", "another first"])
def test_whatever_the_search_path_is_our_own_names_are_meant(postgres_url: str, search_path: str) -> None:
    name = postgres_url.rpartition("/")[2]
    query(postgres_url, HOSTILE)
    query(postgres_url, f"ALTER DATABASE {name} SET search_path = {search_path or repr('')}")

    with opened(postgres_url) as store:
        assert works(store)

    assert query(postgres_url, "SELECT count(*) FROM evil.task") == [(0,)]
    objects, *_ = everything(postgres_url)
    assert {schema for schema, *_ in objects} == {"evil", "windlass"}


@pytest.mark.parametrize("search_path", ["", "evil"], ids=["empty", "another"])
def test_behind_a_pooler_the_search_path_does_not_matter_either(postgres_url: str, search_path: str) -> None:
    name = postgres_url.rpartition("/")[2]
    query(postgres_url, HOSTILE)
    query(postgres_url, f"ALTER DATABASE {name} SET search_path = {search_path or repr('')}")
    store = PostgresStore(postgres_url, pooler=True)
    try:
        assert works(store)
    finally:
        store.close()


# SQLite alone.


def test_a_file_is_made_with_its_log_beside_it(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "windlass.db")
    mode = query(str(tmp_path / "windlass.db"), "PRAGMA journal_mode")
    store.close()

    assert mode == [("wal",)]
