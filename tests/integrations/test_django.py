"""A real Django project on PostgreSQL: its commands, its workers, its transactions and its tasks API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.django_project import DjangoNode, DjangoProject
from tests.support.processes import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DjangoProject]:
    """A project whose own tables exist."""
    name = postgres_server.create_database()
    project = DjangoProject(tmp_path_factory.mktemp("django"), postgres_server.url(name))
    migrated = project.manage("migrate", "--run-syncdb")
    assert migrated.returncode == 0, migrated.stderr
    yield project
    postgres_server.drop_database(name)


def test_the_store_is_checked_and_migrated(project: DjangoProject, postgres_url: str) -> None:
    before = project.manage("check", "--database", "default", DATABASE_URL=postgres_url)
    migrated = project.manage("windlass", "db", "migrate", DATABASE_URL=postgres_url)
    after = project.manage("check", "--database", "default", DATABASE_URL=postgres_url)

    assert before.returncode == 0, before.stderr
    assert "(windlass.W002) The store of Windlass has no tables yet." in before.stderr
    assert "Schema 0 → " in migrated.stdout, migrated.stderr
    assert "no issues" in after.stdout


def test_a_worker_runs_the_tasks_of_the_project(project: DjangoProject) -> None:
    with DjangoNode(project, "-Q", "mail,default,reports", "-n", "2") as node:
        node.await_workers()
        assert project.scenario("invoices") == {
            "results": ["invoice for desk", "invoice for lamp"],
            "invoiced": [True, True],
            "left": [0, 0],
            "orders": 2,
        }
        assert project.scenario("django_tasks") == {
            "left": 0,
            "enqueued": True,
            "status": ["READY", "SUCCESSFUL", "READY"],
            "hidden": True,
            "values": [1, 1, "reminded ann@example.org in attempt 1", "slow"],
            "running": ["RUNNING", 1, True],
            "stored": [["lamp"], {}, "reports", 10, 1],
            "times": True,
            "later": ["scheduled", -5, True],
            "failed": ["FAILED", 3],
            "errors": ["RetryIn", "RetryIn", "ExplosionError"],
            "traceback": True,
            "wrong": ["windlass.client.context.GiveUp"],
        }
        assert "orders.tasks.count_orders" in project.manage("windlass", "tasks", "ls").stdout
        assert node.drain() == 0
    lines = [json.loads(line) for line in (project.folder / "signals.jsonl").read_text().splitlines()]
    assert [line for line in lines if line[1] == "explode"] == [
        ["started", "explode", "RUNNING", 1, True],
        ["started", "explode", "RUNNING", 2, True],
        ["started", "explode", "RUNNING", 3, True],
        ["finished", "explode", "FAILED", 3, True],
    ]
    assert ["finished", "misuse", "FAILED", 1, True] in lines
    assert ["finished", "remind", "SUCCESSFUL", 1, True] in lines


def test_the_tests_of_the_guide_pass(project: DjangoProject) -> None:
    run = project.manage("test", "orders")

    assert run.returncode == 0, run.stderr
    assert "Ran 4 tests" in run.stderr


def test_a_worker_serves_all_queues_of_its_backend_and_reloads(project: DjangoProject) -> None:
    with project.changing("orders/more_tasks.py") as module, DjangoNode(project, "--reload", "-n", "1") as node:
        [started] = node.await_event("NodeStarted")
        assert "for default, reports" in started["pools"]
        node.await_workers()

        module.write_text("from nowhere import nothing")
        node.await_event("ReloadWaiting")
        assert "No module named 'nowhere'" in node.log
        module.write_text("")
        node.await_event("NodeStarted", 2)
        assert node.drain() == 0


def test_a_broken_module_and_a_wrong_option_end_with_the_statuses_of_windlass_worker(project: DjangoProject) -> None:
    with project.changing("orders/more_tasks.py") as module:
        module.write_text("1 / 0")
        broken = project.manage("windlass_worker")

    assert (broken.returncode, "ZeroDivisionError" in broken.stderr) == (3, True)
    assert project.manage("windlass_worker", "--sise", "3").returncode == 2
    shown = project.manage("windlass_worker", "--help")
    assert "Usage: manage.py windlass_worker [OPTIONS]\n" in shown.stdout
    assert "--drain-timeout" in shown.stdout


def test_settings_are_checked_and_lead_to_the_store(project: DjangoProject) -> None:
    run = project.python(str(Path(__file__).with_name("django_settings_cases.py")))

    assert run.returncode == 0, run.stderr
    until(lambda: run.stdout.strip() == "ok", run.stdout)
