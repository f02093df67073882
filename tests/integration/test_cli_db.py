"""`windlass db` on both stores: status, checks, migrations, backup and copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from click.testing import CliRunner, Result

from tests.support.builders import (
    GAVE_UP,
    RAISED,
    a_session,
    a_task,
    claim_one,
    complete,
    report,
    sweep_until_quiet,
)
from tests.support.json_output import without_store
from tests.support.processes import open_store
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue, Strategy
from windlass.core.settlement import Settlement
from windlass.core.task import Progress
from windlass.errors import SessionLost
from windlass.stores.admin import PROMISES, TABLES
from windlass.stores.coordination import Entry
from windlass.stores.migrate import migrations
from windlass.stores.protocol import Filter, LeaseLost, Store
from windlass.wiring import open_admin


def windlass(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def read(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return without_store(json.loads(result.stdout))


def file_url(path: Path) -> str:
    return f"sqlite:///{path}"


def opened(url: str) -> Store:
    return open_store(url.removeprefix("sqlite:///"))


def fill(store: Store) -> None:
    """Write rows into every table of a store."""
    store.publish(
        Manifest(
            handlers=(HandlerInfo(name="work", is_async=True, doc="ünïcode"),),
            crons=(CronInfo(name="nightly", handler="work", schedule="0 2 * * *"),),
        )
    )
    store.pause_cron("nightly", True, by="ann", why="import")
    store.configure(Queue(name="bulk", strategy=Strategy.AGING, paused=True, paused_by="ops", max_waiting=99))
    store.open_workflow("later", sealed=False)
    store.open_workflow("ahead", forward=timedelta(days=1))
    store.submit(
        [a_task(key="a", workflow="w", args={"n": [1, None, "ü"]}), a_task(key="b", workflow="w", prerequisites=["a"])]
    )
    store.submit([a_task(key="c", workflow="later"), a_task(key="d", workflow="ahead", prerequisites=["not yet"])])
    session = a_session(store)
    claim = claim_one(store, session)
    store.progress([Progress(lease=claim.lease, share=1.0, message="half way")])
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, result='{"x": 1}', log="hello", attempts=1))])
    store.submit([a_task(queue="q"), a_task(queue="q"), a_task(queue="q", delay=timedelta(days=1), priority=3)])
    report(store, claim_one(store, session, "q"), RAISED)
    report(store, claim_one(store, session, "q"), GAVE_UP)
    store.put_control("order", "pool", "{}", expect=0)
    store.note([Entry(subject="queue/bulk", action="paused", text="paused", by="ops", data="{}")])
    store.close_session(session)


def everything(store: Store) -> dict[str, Any]:
    """Return everything that a store contains."""
    tasks = {task.id: task for task in store.find(Filter(), limit=1_000).tasks}
    return {
        "tasks": tasks,
        "counts": sorted(
            (count.queue, count.tenant, count.state, count.tasks) for count in store.counts() if count.tasks
        ),
        "attempts": {id: store.attempts(id) for id in tasks},
        "logs": {id: store.logs(id) for id in tasks},
        "progress": store.progress_of(list(tasks)),
        "around": {id: store.neighbourhood(id) for id in tasks},
        "queues": store.queues(),
        "handlers": store.handlers(),
        "crons": store.crons(),
        "controls": store.controls("order"),
        "audit": store.audit(),
    }


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return file_url(tmp_path / "windlass.db")
    return request.getfixturevalue("migrated_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = opened(url)
    yield store
    store.close()


def test_the_status_describes_the_database_and_its_tasks(url: str, store: Store) -> None:
    store.submit([a_task(), a_task()])

    status = read(windlass("db", "status", "--store", url, "--json"))
    output = windlass("db", "status", "--store", url).stdout

    assert (status["tasks"], status["schema"] == status["newest"]) == ({"runnable": 2}, True)
    assert status["bytes"] > 0
    assert status["facts"].get("journal_mode", "wal") == "wal"
    assert status["facts"].get("fsync", "on") == "on"
    assert "2 runnable" in output
    assert output.startswith(status["kind"])


def test_an_intact_database_passes_every_check(url: str, store: Store) -> None:
    fill(store)

    result = windlass("db", "check", "--store", url)

    assert (result.exit_code, result.stdout) == (0, "✓ No problems found.\n")
    sweep_until_quiet(store)
    assert windlass("db", "check", "--store", url).exit_code == 0


DAMAGE = {
    "counts_differ": "INSERT INTO {}count_delta (queue, tenant, state, tasks) VALUES ('q', 't', 'runnable', 3)",
    "leases_without_session": "DELETE FROM {}session",
    "waiting_differs": "UPDATE {}edge SET resolved = NOT resolved",
    "in_no_table": "DELETE FROM {0}runnable",
    "in_two_tables": "INSERT INTO {0}completed SELECT id, fence, session, claimed, 1 FROM {0}leased",
    "edges_from_nowhere": "DELETE FROM {}placeholder",
    "out_of_sight": "UPDATE {}runnable SET lot = 7",
    "wakeups_lost": "UPDATE {}task SET state = 'failed', finished = 1 WHERE state = 'queued'",
}


@pytest.mark.parametrize("check", PROMISES)
def test_each_broken_promise_is_found(url: str, store: Store, check: str) -> None:
    if check == "out_of_sight" and url.startswith("sqlite"):
        pytest.skip("SQLite has no partitions")
    fill(store)
    store.submit([a_task(key="up", queue="z"), a_task(queue="z", prerequisites=["up"])])
    claim_one(store, queue="z")
    execute(url, DAMAGE[check])

    result = windlass("db", "check", "--store", url, "--json")

    assert result.exit_code == 1
    assert check in {finding["check"] for finding in json.loads(result.stdout)["findings"]}
    assert f"✗ {check}: {PROMISES[check]}" in windlass("db", "check", "--store", url).stdout


def execute(url: str, text: str) -> None:
    """Run a statement on the database directly."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute(text.format(""))
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text.format("windlass."))


def test_a_database_is_migrated_once(url: str) -> None:
    again = windlass("db", "migrate", "--store", url)
    third = windlass("db", "migrate", "--store", url)

    assert (again.exit_code, third.exit_code) == (0, 0), again.output
    assert "is up to date" in third.stdout


def test_only_migrate_creates_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "new.db"

    missing = [windlass("db", word, "--store", file_url(path)).exit_code for word in ("status", "check")]
    tried = windlass("db", "migrate", "--store", file_url(path), "--dry-run")
    there = path.exists()
    made = windlass("db", "migrate", "--store", file_url(path))

    assert (missing, there) == ([8, 8], False)
    newest = migrations("sqlite")[-1].version
    assert (tried.stdout, made.stdout) == (f"Schema 0 → {newest}. Nothing was done.\n", f"Schema 0 → {newest}\n")
    assert path.exists()


def test_a_backup_of_a_file_in_use_can_be_opened(tmp_path: Path) -> None:
    source, to = tmp_path / "a.db", tmp_path / "b.db"
    store = opened(file_url(source))
    fill(store)

    done = windlass("db", "backup", str(to), "--store", file_url(source))
    again = windlass("db", "backup", str(to), "--store", file_url(source))
    copy = opened(file_url(to))

    assert (done.exit_code, again.exit_code) == (0, 5), done.output
    assert everything(copy) == everything(store)
    assert not to.with_name("b.db.part").exists()
    assert int(windlass("db", "raise-epoch", "--yes", "--store", file_url(to)).stdout) == 1
    copy.close()
    store.close()


def test_a_backup_does_not_start_again_when_others_write(tmp_path: Path) -> None:
    """Every step of it is followed by a commit, as on a busy machine."""
    source, to = tmp_path / "a.db", tmp_path / "b.db"
    steps: list[int] = []
    with closing(opened(file_url(source))) as store, closing(open_admin(file_url(source))) as admin:
        store.submit([a_task(args={"text": "x" * 20_000}) for _ in range(600)])

        def write(count: int) -> None:
            steps.append(count)
            assert len(steps) < 20, "it starts again and again"
            store.submit([a_task(key=f"after step {len(steps)}")])

        admin.backup(str(to), write)

    assert len(steps) > 2
    with closing(opened(file_url(to))) as copy:
        assert sum(count.tasks for count in copy.counts()) == 600


def test_a_raised_epoch_ends_the_leases_of_a_node_that_still_runs(url: str, store: Store) -> None:
    """Otherwise it would renew the leases of a backup forever, and no longer know their tasks."""
    [receipt] = store.submit([a_task()])
    session = a_session(store)
    old = claim_one(store, session)

    assert windlass("db", "raise-epoch", "--dry-run", "--store", url).exit_code == 0
    store.renew(session)
    assert windlass("db", "raise-epoch", "--yes", "--store", url).stdout == "1\n"

    with pytest.raises(SessionLost):
        store.renew(session)
    assert complete(store, old) == [LeaseLost(old.lease)]
    new = claim_one(store)
    assert (new.id, new.lease.fence > old.lease.fence) == (receipt.id, True)
    assert windlass("db", "check", "--store", url).exit_code == 0


def test_for_postgres_the_pg_dump_command_is_printed(migrated_url: str) -> None:
    result = windlass("db", "backup", "x.dump", "--store", migrated_url)

    assert (result.exit_code, "pg_dump --format=custom --schema=windlass" in result.stderr) == (5, True)


@pytest.mark.parametrize("there_and_back", [False, True])
def test_a_copy_has_the_same_content(tmp_path: Path, migrated_url: str, there_and_back: bool) -> None:
    first = file_url(tmp_path / "a.db")
    store = opened(first)
    fill(store)
    expected = everything(store)
    store.close()

    done = windlass("db", "copy", migrated_url, "--store", first, "--yes")
    assert done.exit_code == 0, done.output
    last = migrated_url
    if there_and_back:
        last = file_url(tmp_path / "b.db")
        assert windlass("db", "copy", last, "--store", migrated_url, "--yes").exit_code == 0

    copy = opened(last)
    assert everything(copy) == expected
    assert copy.raise_epoch() == (3 if there_and_back else 2)
    assert windlass("db", "check", "--store", last).exit_code == 0
    copy.note([Entry(subject="x", action="y", text="z")])  # This needs an unused number.
    copy.close()


def test_leased_tasks_run_again_in_the_copy(tmp_path: Path, url: str) -> None:
    """They run at once: the copy does not wait for sessions of the source."""
    source = file_url(tmp_path / "source.db")
    store = opened(source)
    [receipt] = store.submit([a_task()])
    old = claim_one(store)
    store.close()

    refused = windlass("db", "copy", url, "--store", source, "--yes")
    done = windlass("db", "copy", url, "--store", source, "--yes", "--live")
    copy = opened(url)
    sweep_until_quiet(copy)
    new = claim_one(copy)

    assert (refused.exit_code, "--live" in refused.stderr, done.exit_code) == (5, True, 0)
    assert new.id == receipt.id
    assert new.lease.fence > old.lease.fence
    copy.close()


def test_a_copy_needs_confirmation_and_an_empty_target(tmp_path: Path, url: str, store: Store) -> None:
    source = file_url(tmp_path / "source.db")
    other = opened(source)
    other.submit([a_task()])
    other.close()

    refused = windlass("db", "copy", url, "--store", source)
    tried = windlass("db", "copy", url, "--store", source, "--dry-run")
    store.submit([a_task(key="mine")])
    full = windlass("db", "copy", url, "--store", source, "--yes")

    assert (refused.exit_code, tried.exit_code, full.exit_code) == (2, 0, 5)
    assert "Would copy 3 rows" in tried.stderr
    assert [task.key for task in store.find(Filter()).tasks] == ["mine"]


def test_every_table_and_column_is_copied(tmp_path: Path, migrated_url: str) -> None:
    """A new migration must add its tables and columns to `TABLES`, or a copy would lose them."""
    opened(file_url(tmp_path / "a.db")).close()
    connection = apsw.Connection(str(tmp_path / "a.db"))
    query = "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
    sqlite: dict[str, set[str]] = {}
    for name, column in connection.execute(query):
        sqlite.setdefault(str(name), set()).add(str(column))
    connection.close()
    postgres: dict[str, set[str]] = {}
    with psycopg.connect(migrated_url) as server:
        for name, column in server.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = 'windlass' AND table_type = 'BASE TABLE'"
        ):
            postgres.setdefault(name, set()).add(column)

    copied = {each.name: set(each.columns) for each in TABLES} | {"meta": {"one", "epoch", "settings"}}

    # Claims build partitions and lanes again.
    left_out = ("lot", "migration", "parked", "freed")
    for tables in (sqlite, postgres):
        columns = {name: columns - {"lot"} for name, columns in tables.items() if not name.startswith("sqlite_")}
        assert {name: found for name, found in columns.items() if name not in left_out} == copied


@pytest.mark.parametrize("words", [["db", "status"], ["db", "check"], ["doctor"], ["db", "backup", "x.db"]])
def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "odd.db").write_text("not a database at all\n" * 100)

    result = windlass(*words, "--store", file_url(tmp_path / "odd.db"))

    assert (result.exit_code, "file is not a database" in result.stderr) == (1, True), result.output


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = opened(file_url(path))
    store.submit([a_task(args={"n": n}) for n in range(500)])
    store.close()
    connection = apsw.Connection(str(path))
    connection.pragma("wal_checkpoint(TRUNCATE)")
    connection.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8_192)

    result = windlass("db", "check", "--store", file_url(path))

    assert (result.exit_code, "✗ integrity_check: the file is damaged" in result.stdout) == (1, True), result.output
