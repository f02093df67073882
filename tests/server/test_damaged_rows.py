"""One task that cannot be shown does not break a page, a claim, a stream, a command or the terminal UI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from click.testing import CliRunner

from tests.server.conftest import API, MANIFEST
from tests.server.running import running
from tests.support.builders import a_task, submit, task_of
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import TaskId
from windlass.operations.access import Access
from windlass.stores.protocol import Filter, Store
from windlass.stores.sqlite import SQLiteStore
from windlass.tui.snapshot import Page, read_snapshot

DAMAGE = {
    "args": "{not json",
    "args with a reference": '{"$result": ',
    "args that are a list": "[1]",
    "rules": "{",
    "rules of another type": '{"slots": "many"}',
    "deadline before all times": -(2**62),
    "deadline after all times": 2**62,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def sqlite(file: Path) -> Iterator[Store]:
    store = SQLiteStore(file)
    store.publish(MANIFEST)
    yield store
    store.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path, str]]:
    """One server for all kinds of damage."""
    path = tmp_path_factory.mktemp("damaged") / "tasks.db"
    store = SQLiteStore(path)
    store.publish(MANIFEST)
    with running(store) as url:
        yield store, path, url
    store.close()


def damage(file: Path, id: TaskId, column: str, value: Any) -> None:
    """Write nonsense into a column of one task, as a broken disk or a stranger could."""
    connection = apsw.Connection(str(file))
    connection.execute(f"UPDATE task SET {column} = ? WHERE id = ?", (value, id.bytes))
    assert connection.changes() == 1
    connection.close()


@pytest.mark.parametrize("how", DAMAGE)
def test_a_page_a_claim_and_a_stream_survive_it(address: tuple[Store, Path, str], how: str) -> None:
    store, file, url = address
    queue = "q" + str(list(DAMAGE).index(how))
    good, bad = submit(store, a_task(queue=queue), a_task(queue=queue))
    damage(file, bad, how.partition(" ")[0], DAMAGE[how])

    with httpx.Client(base_url=f"{url}{API}") as client:
        page = client.get("/tasks", params={"queue": queue})
        searched = client.get("/tasks", params={"queue": queue, "q": "-args.x:1 -nothing"})
        one = client.get(f"/tasks/{bad}")
        stream = client.get(f"/tasks/{bad}/events", params={"seconds": 0.3})
        session = client.post("/sessions", json={"node": "n", "queues": [queue]}).json()["session"]
        claimed = client.post(f"/sessions/{session}/claim", json={"limit": 10})
        after = task_of(store, bad).state
        client.delete(f"/sessions/{session}")

    for answer in (page, searched):
        assert answer.status_code == 200, answer.text
        assert {task["id"] for task in answer.json()["tasks"]} == {str(good), str(bad)}
    assert one.status_code == 200
    assert f'"id":"{bad}"' in stream.text
    assert claimed.status_code == 200, claimed.text
    leased = {each["task"] for each in claimed.json()["tasks"]}
    # What cannot be sent has failed; nothing is leased without its worker's knowledge.
    assert str(good) in leased
    assert after in (State.LEASED, State.FAILED)
    assert (str(bad) in leased) is (after is State.LEASED)


def test_commands_and_the_terminal_ui_survive_it(sqlite: Store, file: Path) -> None:
    ids = submit(sqlite, *(a_task() for _ in DAMAGE), a_task())
    for id, (how, value) in zip(ids, DAMAGE.items(), strict=False):
        damage(file, id, how.partition(" ")[0], value)

    listed = CliRunner().invoke(main, ["tasks", "ls", "--json"], env={"WINDLASS_URL": f"sqlite:///{file}"})
    table = CliRunner().invoke(main, ["tasks", "ls"], env={"WINDLASS_URL": f"sqlite:///{file}"})
    snapshot = read_snapshot(Access(sqlite), Page.TASKS, parse(""))

    assert listed.exit_code == table.exit_code == 0, listed.output + table.output
    shown = json.loads(listed.stdout)["tasks"]
    assert {task["id"] for task in shown} == {str(id) for id in ids}
    assert {task.id for task in snapshot.tasks} == set(ids)


@pytest.mark.parametrize(("column", "value"), [("session", b"short"), ("on_failure", "nonsense")])
def test_a_row_that_cannot_be_read_at_all_is_left_out_and_logged(
    sqlite: Store, file: Path, caplog: pytest.LogCaptureFixture, column: str, value: Any
) -> None:
    good, bad = submit(sqlite, a_task(), a_task())
    damage(file, bad, column, value)

    page, both = sqlite.find(Filter()), sqlite.get([good, bad])

    assert [task.id for task in page.tasks] == [good]
    assert [task is None for task in both] == [False, True]
    assert "cannot be read" in caplog.text
