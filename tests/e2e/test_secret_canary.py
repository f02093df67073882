"""Secrets of a real node and a real server on PostgreSQL, looked for in everything that they write and answer.

The password of the database and those of two tasks are canaries. The store has the ones of the tasks, since handlers
need them. Nothing that people, programs or monitoring read has any of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from click.testing import CliRunner
from msgspec import Struct
from psycopg.sql import SQL, Identifier

from tests.e2e import canary
from tests.e2e.test_node_health import address_of
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.processes import ROOT, until
from tests.support.servers import PostgresServer
from tests.support.tokens import create_token
from windlass.cli.main import main
from windlass.client.handle import Handle
from windlass.dashboard.pages.table import MODULES
from windlass.errors import TaskFailed
from windlass.operations import bulk_runs
from windlass.operations.access import Access
from windlass.operations.bulk import Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.caller import Scope
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store
from windlass.wiring import open_store

pytestmark = pytest.mark.slow

DSN, ARGUMENT, CARD, REASON = "dsn-canary-7f3a", "argument-canary-91bc", "card-canary-44d0", "reason-canary-05ee"
CANARIES = (DSN, ARGUMENT, CARD, REASON)


class Cluster(Struct, frozen=True):
    """A node and a server that have run both tasks."""

    url: str
    store: Store
    node: NodeProcess
    health: str
    client: httpx.Client
    log: Path
    done: str
    failed: str

    @property
    def values(self) -> dict[str, str]:
        """What the parameters of a route may be."""
        [session, *_] = self.client.get("/api/v1/nodes").json()
        [group, *_] = self.client.get("/api/v1/dead").json()
        return {
            "id": self.failed,
            "name": "default",
            "session": session["session"],
            "group": group["group"],
            "event": "none",
            "run": self._save_bulk_run(),
        }

    def _save_bulk_run(self) -> str:
        """Write the progress of a bulk action with secrets in its filter and its error, and return its id."""
        text, now = f"password={REASON}", Access(self.store).now
        run = BulkRun(
            id="run", verb=Verb.CANCEL, q=text, problem=text, by="ops", tenant=None, queue=None, started=now, at=now
        )
        return bulk_runs.save(self.store, run).id


def found(text: str, canaries: tuple[str, ...] = CANARIES) -> list[str]:
    return [each for each in canaries if each in text]


@pytest.fixture(scope="module")
def cluster(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("canary")
    database = postgres_server.create_database()
    url = postgres_server.url(database).replace("postgres@", f"postgres:{DSN}@")
    command = [sys.executable, "-m", "windlass", "server", "--store", url, "--port", "0"]
    with closing(open_store(url)) as store:
        canary.app.use_store(store)
        secret = create_token(store, "ops", [Scope.ADMIN])
        with (
            NodeProcess(url, folder / "effects", "--health", "127.0.0.1:0", app="tests.e2e.canary:app") as node,
            (folder / "server.log").open("w") as log,
            subprocess.Popen(command, cwd=ROOT, stderr=log) as server,
        ):
            try:
                node.await_workers()
                done = canary.charge.enqueue(ARGUMENT, card=CARD)
                failed = canary.fail.enqueue(ARGUMENT, card=CARD)
                done.result(PATIENCE)
                with suppress(TaskFailed):
                    failed.result(PATIENCE)
                path = folder / "server.log"
                until(lambda: "listening on" in path.read_text(), "the server listens")
                address = path.read_text().partition("listening on ")[2].split()[0]
                headers = {"Authorization": f"Bearer {secret}", "Origin": address}
                with httpx.Client(base_url=address, headers=headers, timeout=30) as client:
                    client.post("/login", data={"token": secret})
                    pause = client.post("/api/v1/queues/default/pause", json={"why": f"password={REASON}"})
                    assert pause.status_code == 200
                    yield Cluster(url, store, node, address_of(node), client, path, _id(done), _id(failed))
            finally:
                server.terminate()
                canary.app.use_store(None)
    postgres_server.drop_database(database)


def _id(handle: Handle[Any]) -> str:
    return str(handle.id)


def test_neither_the_node_nor_the_server_logs_a_secret(cluster: Cluster) -> None:
    """But for what a handler prints or logs itself, which goes to the log of its node as it is."""
    printed = ("password=", '"logger":"shop"')
    own = [line for line in cluster.node.log.splitlines() if not any(each in line for each in printed)]

    assert any('"AttemptEnded"' in line and cluster.failed in line for line in own), "the failure is logged"
    assert found("\n".join(own)) == []
    assert found(cluster.node.log, (DSN, REASON)) == []
    assert found(cluster.log.read_text()) == []


def test_metrics_and_health_have_no_secret(cluster: Cluster) -> None:
    for path in ("metrics", "healthz", "readyz"):
        assert found(httpx.get(f"{cluster.health}/{path}").text) == []
    assert found(cluster.client.get("/metrics").text) == []


def test_no_route_answers_with_a_secret(cluster: Cluster) -> None:
    for route in (route for route in TABLE if route.method == "GET"):
        path = route.path.format(**{name: cluster.values[name] for name in route.path_params})
        for id in (cluster.failed, cluster.done):
            answer = cluster.client.get(path.replace(cluster.failed, id), params={"seconds": "0.2"})
            if answer.status_code == 400:
                answer = cluster.client.get(path.replace(cluster.failed, id))
            assert found(answer.text) == [], path


def test_no_page_shows_a_secret(cluster: Cluster) -> None:
    values = cluster.values
    for page in (page for module in MODULES for page in module.pages):
        for id in (cluster.failed, cluster.done):
            answer = cluster.client.get(page.path.format(**{**values, "id": id}), headers={"Accept": "text/html"})
            assert found(answer.text) == [], page.path


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_no_command_prints_a_secret(cluster: Cluster, form: tuple[str, ...]) -> None:
    values = cluster.values
    for words in (
        ("doctor",),
        ("config", "show"),
        ("db", "status"),
        ("db", "check"),
        ("audit", "ls"),
        ("token", "ls"),
        ("queues", "ls"),
        ("workers", "ls"),
        ("pool", "show"),
        ("tasks", "ls"),
        ("tasks", "show", cluster.failed),
        ("tasks", "show", cluster.done),
        ("tasks", "logs", cluster.done),
        ("why", cluster.failed),
        ("dead", "ls"),
        ("dead", "show", values["group"]),
    ):
        result = CliRunner().invoke(main, [*words, *form], env={"WINDLASS_URL": cluster.url})

        assert result.output.strip(), words
        assert found(result.output) == [], words


def test_an_unreachable_database_is_reported_without_its_password(cluster: Cluster) -> None:
    away = cluster.url.replace(f":{cluster.url.rpartition(':')[2].partition('/')[0]}/", ":1/")

    result = CliRunner().invoke(main, ["tasks", "ls"], env={"WINDLASS_URL": away})

    assert result.exit_code != 0
    assert found(result.output) == []
    assert "[redacted]" in CliRunner().invoke(main, ["config", "show"], env={"WINDLASS_URL": away}).output


def test_only_the_tables_of_tasks_have_secrets(cluster: Cluster) -> None:
    """Arguments, results, errors and output are stored, because handlers and people with the URL need them."""
    with psycopg.connect(cluster.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'").fetchall()
        having = {
            table
            for (table,) in tables
            if found(str(connection.execute(SQL("SELECT * FROM windlass.{}").format(Identifier(table))).fetchall()))
        }

    assert {"task", "result", "attempt", "log"} <= having <= {"task", "result", "attempt", "log", "progress"}
