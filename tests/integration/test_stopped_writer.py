"""A process that is stopped in the middle of a write to a SQLite file: others wait for a bounded time, and say why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.integration import members
from tests.integration.threads import InThread
from tests.support.builders import a_session, a_task, all_tasks, claim_all, claim_one, complete, run_all, submit_one
from tests.support.nodes import stopped
from tests.support.processes import Member, ProcessGroup, until
from windlass.cli.main import main
from windlass.errors import StoreUnavailable
from windlass.stores.sqlite import SQLiteStore, database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "windlass.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStore]:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 100)
    store = SQLiteStore(path)
    yield store
    store.close()


@pytest.fixture
def writer(path: Path) -> Iterator[Member]:
    """A process that begins to write when the test sends a message, and ends its write at the next one."""
    SQLiteStore(path).close()
    with ProcessGroup() as group:
        writer = group.start(members.sqlite_writer, path=str(path))
        assert writer.receive() == "open"
        yield writer


def begin_to_write(writer: Member) -> None:
    writer.send("go")
    assert writer.receive() == "writing"


def end_write(writer: Member) -> None:
    writer.send("enough")
    writer.receive()


def test_writers_are_refused_in_time_and_the_error_names_the_stopped_process(
    store: SQLiteStore, writer: Member, path: Path
) -> None:
    submit_one(store, queue="other")
    session, claim = a_session(store), claim_one(store, queue="other")
    begin_to_write(writer)
    why = (
        rf"{path}: waited 0\.1 s to write, because process {writer.pid} \(python[^)]*, which is stopped\) is in the "
        rf"middle of a write\. Nothing was written\. Resume it \(kill -CONT {writer.pid}\) or end it"
    )
    calls: list[Callable[[], object]] = [
        lambda: submit_one(store),
        lambda: store.claim(session, ["default"], 1),
        lambda: complete(store, claim),
        lambda: store.renew(session),
        store.sweep,
    ]

    with stopped(writer.pid):
        for call in calls:
            with pytest.raises(StoreUnavailable, match=why):
                call()
    end_write(writer)

    complete(store, claim)
    submit_one(store)
    assert len(run_all(store)) == 1


def test_a_writer_that_only_takes_long_is_named_as_well(store: SQLiteStore, writer: Member) -> None:
    begin_to_write(writer)

    with pytest.raises(StoreUnavailable, match=rf"process {writer.pid} \(python[^)]*\) is writing and does not finish"):
        submit_one(store)

    end_write(writer)


def test_reads_go_on_also_of_those_who_open_the_file_only_now(store: SQLiteStore, writer: Member, path: Path) -> None:
    task = submit_one(store)
    begin_to_write(writer)

    with stopped(writer.pid):
        late = SQLiteStore(path)
        assert [one.id for one in all_tasks(late)] == [task]
        listed = CliRunner().invoke(main, ["tasks", "ls", "--store", f"sqlite:///{path}", "--json"])
        late.close()
    end_write(writer)

    assert (listed.exit_code, str(task) in listed.stdout) == (0, True)


def test_a_command_that_writes_ends_with_the_reason(store: SQLiteStore, writer: Member, path: Path) -> None:
    submit_one(store)
    begin_to_write(writer)

    with stopped(writer.pid):
        command = ["queues", "pause", "default", "--why", "test", "--store", f"sqlite:///{path}"]
        refused = CliRunner().invoke(main, command)
    end_write(writer)

    assert refused.exit_code == 8
    assert f"kill -CONT {writer.pid}" in refused.stderr


def test_a_writer_who_gave_up_keeps_its_place_and_holds_nobody_up(store: SQLiteStore, writer: Member) -> None:
    """The thread that waits for the file is used again by the next write, and ends once it has the file."""
    begin_to_write(writer)

    with stopped(writer.pid):
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                submit_one(store)
        assert waiting_threads() == 1
    end_write(writer)
    until(lambda: waiting_threads() == 0, "the thread has ended")

    assert submit_one(SQLiteStore(store._db._path))
    assert submit_one(store)
    assert len(claim_all(store)) == 2


def test_a_store_that_is_closed_while_it_waits_leaves_no_lock(store: SQLiteStore, writer: Member, path: Path) -> None:
    begin_to_write(writer)
    other = SQLiteStore(path)
    with stopped(writer.pid), pytest.raises(StoreUnavailable):
        submit_one(other)
    other.close()
    end_write(writer)

    assert InThread(lambda: store.submit([a_task()])).answer()


def waiting_threads() -> int:
    return sum(thread.name == "windlass-sqlite-lock" for thread in threading.enumerate())
