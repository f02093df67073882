"""Each program runs with the role that `windlass deploy roles` makes for it, and the role can do nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, LiteralString, cast
from uuid import uuid4

import httpx
import psycopg
import pytest
from click.testing import CliRunner
from msgspec import Struct
from psycopg.sql import SQL, Identifier

import windlass
from tests.deploy.running import made
from tests.e2e import shop
from tests.server.running import running
from tests.support.builders import sweep_until_quiet
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.processes import until
from tests.support.roles import ROLES, create_roles, drop_roles, role_url, run_script
from tests.support.servers import PostgresServer
from tests.support.tokens import create_token
from windlass.cli.main import main
from windlass.deploy import render
from windlass.deploy.plan import Plan
from windlass.deploy.rights import VERBS, api_rights, needed_by, node_rights, read_rights
from windlass.errors import StoreError
from windlass.operations.caller import Scope
from windlass.stores.migrate import NOTHING, Migration, pending
from windlass.stores.protocol import Store
from windlass.wiring import open_store


class Database(Struct, frozen=True):
    """A database with the tables of Windlass, and the URLs of its roles, whose names start with its own."""

    server: PostgresServer
    name: str
    owner: str
    node: str
    api: str
    read: str

    def rights(self, role: str) -> Mapping[str, tuple[str, ...]]:
        """Return what a role may do with each table, as PostgreSQL sees it."""
        query = (
            "SELECT c.relname, v.verb FROM pg_class AS c CROSS JOIN unnest(%s::text[]) WITH ORDINALITY AS v (verb, n) "
            "WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind IN ('r', 'v') "
            "AND has_table_privilege(%s, c.oid, v.verb) ORDER BY c.relname, v.n"
        )
        found: dict[str, tuple[str, ...]] = {}
        with psycopg.connect(self.owner) as connection:
            for table, verb in connection.execute(query, [list(VERBS), f"{self.name}_{role}"]):
                found[table] = (*found.get(table, ()), verb)
        return found


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    name = f"least_{uuid4().hex[:8]}"
    try:
        run_script(postgres_server, made("role", "--role", f"{name}_owner", "--database", name), WINDLASS_PASSWORD="pw")
        owner = role_url(postgres_server, f"{name}_owner", name)
        assert invoked(owner, "db", "migrate").startswith("Schema 0 → ")
        roles = create_roles(postgres_server, owner=f"{name}_owner", database=name, prefix=name)
        yield Database(postgres_server, name, owner, **roles)
    finally:
        postgres_server.drop_database(name)
        drop_roles(postgres_server, f"{name}_owner", *(f"{name}_{role}" for role in ROLES))


def invoked(url: str, *words: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, list(words), env={"WINDLASS_URL": url})
    assert result.exit_code == status, result.output
    return result.output


def test_grants_are_those_that_the_statements_need(database: Database) -> None:
    assert database.rights("node") == node_rights()
    assert database.rights("api") == api_rights()
    assert database.rights("read") == read_rights()

    assert api_rights()["meta"] == ("SELECT", "UPDATE")
    assert node_rights()["meta"] == node_rights()["migration"] == ("SELECT",), "nodes neither steer nor migrate"
    assert "UPDATE" not in api_rights()["audit"], "an entry of the audit log never changes"


def test_the_script_may_run_again_and_keeps_passwords(database: Database) -> None:
    passwords = "SELECT rolname, rolpassword FROM pg_authid WHERE starts_with(rolname, %s) ORDER BY rolname"
    with psycopg.connect(database.server.url()) as connection:
        before = connection.execute(passwords, [database.name]).fetchall()

    name = database.name
    run_script(database.server, made("roles", "--owner", f"{name}_owner", "--database", name, "--prefix", name))

    with psycopg.connect(database.server.url()) as connection:
        assert connection.execute(passwords, [name]).fetchall() == before
    assert len(before) == 4
    assert all(password.startswith("SCRAM-SHA-256$") for _, password in before)
    assert database.rights("node") == node_rights()


def test_tables_of_later_migrations_are_granted_when_they_are_created(database: Database) -> None:
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            "CREATE TABLE windlass.later (id bigint GENERATED ALWAYS AS IDENTITY, n bigserial, note text)"
        )

    for url in (database.node, database.api):
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO windlass.later (note) VALUES ('x')")
    with psycopg.connect(database.read) as connection:
        assert len(connection.execute("SELECT * FROM windlass.later").fetchall()) == 2
    with psycopg.connect(database.owner) as connection:
        connection.execute("DROP TABLE windlass.later")


FORBIDDEN = (
    "CREATE TABLE windlass.more (id int)",
    "CREATE TABLE public.more (id int)",
    "CREATE TEMP TABLE more (id int)",
    "CREATE SCHEMA more",
    "CREATE FUNCTION windlass.more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE INDEX ON windlass.task (handler)",
    "CREATE EXTENSION dblink",
    "CREATE ROLE more",
    "CREATE DATABASE more",
    "ALTER TABLE windlass.task ADD COLUMN more int",
    "ALTER TABLE windlass.control DISABLE ROW LEVEL SECURITY",
    "ALTER SYSTEM SET fsync = off",
    "DROP TABLE windlass.audit",
    "TRUNCATE windlass.task",
    "UPDATE windlass.audit SET by = 'nobody'",
    "INSERT INTO windlass.migration (version, name) VALUES (99, 'x')",
    "GRANT pg_read_server_files TO CURRENT_USER",
    "SET SESSION AUTHORIZATION postgres",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/windlass-copy'",
    "COPY windlass.log FROM '/etc/passwd'",
    "SELECT * FROM application.orders",
)
NODES_ONLY_READ = (
    "UPDATE windlass.meta SET epoch = epoch + 1",
    "INSERT INTO windlass.control VALUES ('access', 'closed', 1, '{}', 0, gen_random_uuid())",
    "INSERT INTO windlass.control VALUES ('token', 'mine', 1, '{}', 0, gen_random_uuid())",
    "INSERT INTO windlass.control VALUES ('limit', 'queue/q', 1, '{}', 0, gen_random_uuid())",
)


@pytest.mark.parametrize("role", ROLES)
def test_no_role_can_do_more_than_its_grants(database: Database, role: str) -> None:
    with psycopg.connect(database.owner) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS application")
        connection.execute("CREATE TABLE IF NOT EXISTS application.orders (id int)")
    more = {"node": NODES_ONLY_READ, "api": (), "read": (*NODES_ONLY_READ, *WRITES)}[role]

    with psycopg.connect(getattr(database, role), autocommit=True) as connection:
        for statement in (*FORBIDDEN, f'SET ROLE "{database.name}_owner"', *more):
            assert is_refused(connection, statement), f"{role} may {statement}"


WRITES = tuple(
    statement
    for table in api_rights()
    if table != "current_task"  # a view of several tables, which nobody can write
    for statement in (f"DELETE FROM windlass.{table}", f"INSERT INTO windlass.{table} DEFAULT VALUES")
)


def is_refused(connection: psycopg.Connection[Any], statement: str) -> bool:
    try:
        connection.execute(cast("LiteralString", statement))
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False


def test_tokens_and_the_key_of_sessions_are_only_for_who_needs_them(database: Database) -> None:
    with closing(open_store(database.api)) as store:
        create_token(store, "ops", [Scope.ADMIN])
        store.put_control("cursor_key", "current", '{"key": "00"}', expect=0)

    def kinds(url: str) -> set[str]:
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT DISTINCT kind FROM windlass.control WHERE value IS NOT NULL")
            return {kind for (kind,) in found}

    assert kinds(database.api) >= {"access", "cursor_key", "token"}
    assert kinds(database.api) - kinds(database.read) == {"cursor_key"}
    assert kinds(database.api) - kinds(database.node) == {"cursor_key", "token"}


def test_nodes_write_only_the_kinds_that_their_role_may_write() -> None:
    [script] = render.roles(Plan()).values()
    allowed = re.search(r"FOR INSERT TO windlass_node\s+WITH CHECK \(kind IN \((.+)\)\)", script)
    assert allowed is not None
    written: set[str] = set()
    for path in (Path(windlass.__file__).parent / "worker").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "put_control":
                [kind, *_] = node.args
                assert isinstance(kind, ast.Name), "the name of a constant"
                written.add(getattr(import_module(f"windlass.worker.{path.stem}"), kind.id))

    assert written == set(allowed[1].replace("'", "").split(", "))


def test_a_server_whose_role_cannot_read_tokens_refuses_everybody(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_store(database.api)) as store:
        secret = create_token(store, "someone", [Scope.READ])

    with closing(open_store(database.node)) as store, running(store) as address:
        without = httpx.get(f"{address}/api/v1/tasks")
        with_token = httpx.get(f"{address}/api/v1/tasks", headers={"Authorization": f"Bearer {secret}"})

    assert (without.status_code, with_token.status_code) == (401, 401)
    assert "may not read them" in caplog.text


@pytest.fixture
def producer(database: Database) -> Iterator[Store]:
    """The app of the tests' nodes, which submits as `api`."""
    with closing(open_store(database.api)) as store:
        shop.app.use_store(store)
        yield store
        shop.app.use_store(None)


@pytest.mark.slow
def test_a_node_a_producer_and_a_server_work_together_each_with_its_role(
    database: Database, producer: Store, tmp_path: Path
) -> None:
    secret = create_token(producer, "oncall", [Scope.OPERATE, Scope.SUBMIT])
    with (
        NodeProcess(database.node, tmp_path / "effects.jsonl", "--pool", "default=1-2") as node,
        running(producer, dashboard=True) as address,
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}) as client,
    ):
        node.await_workers()
        assert shop.add.enqueue(2, 3).result(PATIENCE) == 5
        with psycopg.connect(database.api) as connection:  # In a transaction of the producer's own.
            joined = shop.add.using(conn=connection).enqueue(5, 5)
        assert joined.result(PATIENCE) == 10
        sent = client.post("/api/v1/tasks", json={"handler": shop.add.name, "args": {"a": 1, "b": 1}})
        assert sent.status_code == 201, sent.text
        until(lambda: client.get(f"/api/v1/tasks/{sent.json()['id']}").json()["state"] == "completed", "it runs")
        for change in ("pause", "resume"):
            assert client.post(f"/api/v1/queues/default/{change}", json={"why": "test"}).status_code == 200
        assert client.get("/", follow_redirects=True).status_code == 200
        assert client.get("/metrics").status_code == 200
        with closing(open_store(database.node)) as store:  # What the sweep of a node does, once and completely.
            sweep_until_quiet(store)
        assert node.terminate() == 0

    assert "permission denied" not in node.log
    assert "policy" not in node.log


def test_commands_work_as_api_and_readers_can_look_at_everything(database: Database, producer: Store) -> None:
    id = str(shop.add.using(queue="later").enqueue(1).id)
    for words in (
        ("tasks", "show", id),
        ("tasks", "ls"),
        ("queues", "ls"),
        ("workers", "ls"),
        ("audit", "ls"),
        ("limits", "ls"),
        ("dead", "ls"),
        ("db", "status"),
        ("db", "check"),
    ):
        for url in (database.api, database.read, database.node):
            assert "denied" not in invoked(url, *words)

    invoked(database.api, "queues", "pause", "later", "--why", "test")
    invoked(database.api, "tasks", "cancel", id, "--yes")
    invoked(database.api, "db", "raise-epoch", "--yes")

    assert "lacks this right" in invoked(database.read, "queues", "pause", "later", "--why", "test", status=1)
    assert "lacks this right" in invoked(database.node, "db", "raise-epoch", "--yes", status=1)


def test_a_read_only_server_serves_its_pages_as_reader(database: Database, producer: Store) -> None:
    secret = create_token(producer, "viewer", [Scope.READ])
    shop.add.using(queue="later").enqueue(1)

    with (
        closing(open_store(database.read)) as store,
        running(store, dashboard=True, read_only=True) as address,
        httpx.Client(base_url=address, follow_redirects=True, headers={"Origin": address}) as client,
    ):
        assert client.get("/api/v1/tasks", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        assert client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        assert client.post("/login", data={"token": secret}).status_code == 200
        assert shop.add.name in client.get("/tasks").text


def test_pending_migrations_name_who_can_apply_them(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = [*pending("postgres", NOTHING), Migration(99, "0099_later", "SELECT 1")]
    monkeypatch.setattr("windlass.stores.migrate.migrations", lambda _: newer)

    with pytest.raises(
        StoreError, match=rf"role '{database.name}_node' may not change them. Run `windlass db migrate`"
    ):
        open_store(database.node)


def test_the_doctor_says_what_a_role_may_do_and_what_it_lacks(database: Database) -> None:
    for role, text in (
        ("owner", "has the rights for all programs"),
        ("api", "has the rights for all programs"),
        ("node", "has the rights for nodes"),
        ("read", "has the rights for reading"),
    ):
        assert text in invoked(getattr(database, role), "doctor")
    assert "is a superuser" in invoked(database.server.url(database.name), "doctor")

    node = f"{database.name}_node"
    with psycopg.connect(database.owner) as connection:
        connection.execute(SQL("REVOKE INSERT, DELETE ON windlass.log FROM {}").format(Identifier(node)))
    try:
        assert f"role {node} lacks INSERT on log, DELETE on log" in invoked(database.node, "doctor", status=1)
    finally:
        with psycopg.connect(database.owner) as connection:
            connection.execute(SQL("GRANT INSERT, DELETE ON windlass.log TO {}").format(Identifier(node)))


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("SELECT a FROM windlass.task", {("task", "SELECT")}),
        ("SELECT windlass.clock(1)", set()),
        ("SELECT a FROM windlass.task FOR SHARE", {("task", "SELECT"), ("task", "UPDATE")}),
        (
            "DELETE FROM windlass.log WHERE task IN (SELECT id FROM windlass.task "
            "WHERE EXISTS (SELECT FROM windlass.meta) FOR UPDATE SKIP LOCKED)",
            {("log", "SELECT"), ("log", "DELETE"), ("task", "SELECT"), ("task", "UPDATE"), ("meta", "SELECT")},
        ),
        (
            "WITH x AS (INSERT INTO windlass.log SELECT 1) "
            "INSERT INTO windlass.task VALUES (1) ON CONFLICT DO UPDATE SET a",
            {("log", "SELECT"), ("log", "INSERT"), ("task", "SELECT"), ("task", "INSERT"), ("task", "UPDATE")},
        ),
        ("SELECT 1 FROM windlass.leased FOR KEY SHARE", {("leased", "SELECT"), ("leased", "UPDATE")}),
        ("SELECT 1 FROM windlass.leased FOR NO KEY UPDATE", {("leased", "SELECT"), ("leased", "UPDATE")}),
    ],
)
def test_rights_are_read_from_a_statement(text: str, needed: set[tuple[str, str]]) -> None:
    assert set(needed_by(text)) == needed
