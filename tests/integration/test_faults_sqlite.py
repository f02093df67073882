from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.integration import members
from tests.integration.threads import InThread
from tests.support.builders import (
    HOUR,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    counted,
    recounted,
    run_all,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
)
from tests.support.processes import ProcessGroup, until
from windlass.clock import BootClock, SystemClock
from windlass.core.lifecycle import State
from windlass.core.task import SessionId
from windlass.core.times import micros
from windlass.errors import SessionLost, StoreError, StoreUnavailable
from windlass.stores.protocol import SESSION_TTL, LeaseLost, Settled
from windlass.stores.sqlite import SQLiteStore, database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "windlass.db"


@contextmanager
def opened(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with opened(path) as store:
        yield store


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def keys(store: SQLiteStore) -> list[str]:
    return sorted(task.key or "" for task in all_tasks(store))


# Other programs in the same file.


def test_a_lock_that_another_program_keeps_is_unavailable_in_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 100)
    with opened(path) as store, ProcessGroup() as group:
        submit_one(store, key="before")
        holder = group.start(members.sqlite_lock_holder, path=str(path))
        holder.receive()
        with pytest.raises(StoreUnavailable, match=rf"{path}: waited 0\.1 s to write, because process {holder.pid} \("):
            submit_one(store)
        read = keys(store)
        holder.send("enough")
        holder.receive()

        assert read == ["before"]
        submit_one(store, key="after")
        assert keys(store) == ["after", "before"]


def test_a_read_of_a_locked_file_does_not_speak_of_writing(path: Path) -> None:
    def find_locked(_: object) -> None:
        raise apsw.BusyError("database is locked")

    file = database.SQLiteDatabase(path, None)
    try:
        with pytest.raises(StoreUnavailable) as error:
            file.read(find_locked)
    finally:
        file.close()

    why = "waited 10 s to read, because another process has locked the file. Try again later."
    assert str(error.value) == f"{path}: {why}"


def test_a_lock_that_another_program_lets_go_of_in_time_goes_unseen(store: SQLiteStore, path: Path) -> None:
    with ProcessGroup() as group:
        holder = group.start(members.sqlite_lock_holder, path=str(path))
        holder.receive()
        call = InThread(lambda: submit_one(store))
        holder.send("enough")

        assert state_of(store, call.answer()) is State.RUNNABLE


def test_a_writer_killed_inside_its_transaction_leaves_nothing_and_keeps_nobody_waiting(
    store: SQLiteStore, path: Path
) -> None:
    before = store.counts()
    with ProcessGroup() as group:
        holder = group.start(members.sqlite_lock_holder, path=str(path))
        holder.receive()
        holder.kill()

    assert store.counts() == before
    submit_one(store)


def test_a_submitter_killed_anywhere_leaves_whole_batches_and_all_that_were_acknowledged(
    store: SQLiteStore, path: Path
) -> None:
    with ProcessGroup() as group:
        victims = [group.start(members.endless_submitter, url=str(path), name=str(n)) for n in range(2)]
        last = [[victim.receive() for _ in range(5)][-1] for victim in victims]
        for victim in victims:
            victim.kill()

    there = Counter(key.rpartition("-")[0] for key in keys(store))
    assert set(there.values()) == {2}
    assert {f"{victim}-{n}" for victim in range(2) for n in range(last[victim] + 1)} <= there.keys()
    assert counted(store) == recounted(store)
    submit_one(store)


def test_many_processes_that_write_at_once_all_come_to_their_end(store: SQLiteStore, path: Path) -> None:
    with ProcessGroup() as group:
        writers = [group.start(members.submitter, url=str(path), name=str(n), tasks=50) for n in range(4)]
        for writer in writers:
            writer.receive()
        for writer in writers:
            writer.send("go")
        done = [writer.receive() for writer in writers]

    assert done == [50] * 4
    assert len(all_tasks(store)) == 200


# Threads.


def test_many_threads_have_a_connection_each_and_lose_nothing(store: SQLiteStore) -> None:
    def work(thread: int) -> int:
        session = a_session(store)
        for number in range(10):
            submit(store, a_task(key=f"{thread}-{number}"))
        return sum(isinstance(verdict, Settled) for verdict in complete(store, *claim_all(store, session)))

    calls = [InThread(lambda n=n: work(n)) for n in range(8)]
    settled = sum(call.answer() for call in calls)

    assert settled + len(run_all(store)) == 80
    assert counted(store) == recounted(store)


def test_threads_that_come_and_go_leave_no_connection_behind(store: SQLiteStore) -> None:
    submit_one(store)
    before = open_files()

    for _ in range(50):
        InThread(store.counts).answer()

    assert open_files() <= before + 3


def test_every_connection_waits_for_the_disk(store: SQLiteStore) -> None:
    def settings() -> tuple[str, int]:
        connection = store._db._link()._connection
        return connection.pragma("journal_mode"), connection.pragma("synchronous")

    assert {settings(), *(InThread(settings).answer() for _ in range(3))} == {("wal", 2)}


def test_a_closed_store_says_so(path: Path) -> None:
    store = SQLiteStore(path)
    store.close()
    store.close()

    with pytest.raises(StoreError, match="closed"):
        store.counts()


# Forks.


def test_parent_and_children_of_a_fork_use_the_store_at_once(store: SQLiteStore, path: Path) -> None:
    with ProcessGroup() as group:
        statuses = group.start(members.forker, url=str(path), tasks=20).receive()

    assert statuses == [0, 0]
    there = Counter(key.rpartition("-")[0] for key in keys(store))
    assert there == {"": 1, "child-1": 20, "child-2": 20, "parent": 20, "parent-after": 20}
    assert counted(store) == recounted(store)


def test_commits_of_a_forked_child_outlive_its_parents_store(path: Path) -> None:
    with ProcessGroup() as group:
        status = group.start(members.forker_that_closes_first, url=str(path)).receive()

    with opened(path) as store:
        assert status == 0
        assert keys(store) == ["before", "child, after the parent closed", "child, before the parent closed"]


def test_a_child_keeps_nothing_of_what_its_killed_parent_had_locked(store: SQLiteStore, path: Path) -> None:
    with ProcessGroup() as group:
        parent = group.start(members.forker_that_is_killed, path=str(path))
        child = parent.receive()
        try:
            parent.kill()
            submitted = InThread(lambda: submit_one(store))
            assert state_of(store, submitted.answer()) is State.RUNNABLE
            assert counted(store) == recounted(store)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_child_forked_while_another_thread_uses_the_store_gets_an_error(store: SQLiteStore, path: Path) -> None:
    with ProcessGroup() as group:
        status, message = group.start(members.forker_while_busy, path=str(path)).receive()

    assert status == 0
    assert str(path) in message
    assert "forked while another thread was using a SQLite store" in message
    assert keys(store) == ["parent"]


# Places where no file can be, and files that are none of ours.


@contextmanager
def unprivileged() -> Iterator[None]:
    """What root may do says nothing about rights, so be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_place() -> Iterator[Path]:
    """A folder that nobody can get at: those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-place-"))
    folder.chmod(0o755)
    with unprivileged():
        owner = os.geteuid()
    os.chown(folder, owner, -1)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def refused(path: Path) -> str:
    with unprivileged(), pytest.raises(StoreError) as raised:
        SQLiteStore(path)
    return f"{raised.value.code}: {raised.value}"


def test_a_folder_that_cannot_be_written_is_named(public_place: Path) -> None:
    public_place.chmod(0o555)

    message = refused(public_place / "windlass.db")

    assert message.startswith(f"store_unavailable: {public_place}/windlass.db cannot be written")
    assert list(public_place.iterdir()) == []


def test_a_folder_that_cannot_be_entered_is_named(public_place: Path) -> None:
    public_place.chmod(0o000)

    assert refused(public_place / "windlass.db").startswith(f"store_unavailable: {public_place}/windlass.db")


@pytest.mark.parametrize("folder_mode", [0o555, 0o755])
def test_a_file_that_cannot_be_written_is_named(public_place: Path, folder_mode: int) -> None:
    path = public_place / "windlass.db"
    with unprivileged(), opened(path) as store:
        submit_one(store)
    path.chmod(0o444)
    public_place.chmod(folder_mode)

    assert refused(path).startswith(f"store_unavailable: {path} cannot be written")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "windlass.db"

    with pytest.raises(StoreUnavailable, match=f"{path}: the folder does not exist. Create it first"):
        SQLiteStore(path)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "windlass.db"
    folder.mkdir()

    with pytest.raises(StoreUnavailable, match=f"{folder} cannot be written"):
        SQLiteStore(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 1_000)

    with pytest.raises(StoreError, match=f"{path}: .*not a database"):
        SQLiteStore(path)
    assert path.read_text() == "Dear diary, " * 1_000


def test_a_database_of_somebody_else_is_left_alone(path: Path) -> None:
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE task (id INTEGER); INSERT INTO task VALUES (1)")
    theirs.close()

    with pytest.raises(StoreError, match=f"{path}: .*already exists"):
        SQLiteStore(path)
    theirs = apsw.Connection(str(path))
    tables = theirs.execute("SELECT name FROM sqlite_schema").fetchall()
    theirs.close()
    assert tables == [("task",)]


# Files that go away, and disks that fill.


def test_nothing_is_acknowledged_into_a_file_that_was_removed(store: SQLiteStore, path: Path) -> None:
    submit_one(store, key="before")
    for file in path.parent.iterdir():
        file.unlink()

    with pytest.raises(StoreUnavailable, match=f"{path} was removed or replaced"):
        submit_one(store)
    with pytest.raises(StoreUnavailable, match=f"{path} cannot be written"):
        InThread(lambda: submit_one(store)).answer()
    assert not path.exists()


def test_nothing_is_acknowledged_into_a_file_that_was_replaced(store: SQLiteStore, path: Path, tmp_path: Path) -> None:
    submit_one(store, key="before")
    with opened(tmp_path / "other.db"):
        pass
    (tmp_path / "other.db").rename(path)

    with pytest.raises(StoreUnavailable, match=f"{path} was removed or replaced"):
        submit_one(store)


def test_a_full_disk_is_unavailable_leaves_nothing_half_and_passes_by_itself(store: SQLiteStore, path: Path) -> None:
    connection = store._db._link()._connection
    submit_one(store, key="before")
    claim = claim_one(store)
    limit = connection.pragma("max_page_count")

    connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(StoreUnavailable, match=f"{path} cannot be written"):
        store.submit([a_task(args={"text": "x" * 10_000}) for _ in range(10)])
    left = keys(store)
    connection.pragma("max_page_count", limit)

    assert left == ["before"]
    assert counted(store) == recounted(store)
    assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]
    store.submit([a_task(args={"text": "x" * 10_000}) for _ in range(10)])


class UnsyncedFile(apsw.VFSFile):
    """A file that the disk takes, and does not make durable while `is_failing`."""

    is_failing = False

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name that SQLite gives it
        if UnsyncedFile.is_failing:
            raise apsw.IOError("the disk has failed")
        super().xSync(flags)


class UnsyncedFiles(apsw.VFS):
    """The file system of SQLite for all connections that are opened while it is registered."""

    def __init__(self) -> None:
        super().__init__("windlass-unsynced", base="unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> UnsyncedFile:  # noqa: N802
        return UnsyncedFile("unix", name, flags)


def test_nothing_is_acknowledged_that_the_disk_did_not_make_durable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F13: `fsync` fails."""
    files = UnsyncedFiles()
    try:
        with opened(path) as store:
            submit_one(store, key="before")
            with monkeypatch.context() as failing:
                failing.setattr(UnsyncedFile, "is_failing", True)
                with pytest.raises(StoreError, match=str(path)):
                    submit_one(store, key="during")
            submit_one(store, key="after")
        with opened(path) as store:
            assert {"before", "after"} <= set(keys(store))
            assert counted(store) == recounted(store)
    finally:
        files.unregister()


# Clocks.


def test_another_boot_of_the_machine_means_that_every_holder_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "boot_id", lambda: "first")
    with opened(path) as store:
        id = submit_one(store)
        session = a_session(store)
        stale = claim_one(store, session)

    monkeypatch.setattr(database, "boot_id", lambda: "second")
    # The clock of the new boot begins at nought, so by the clock alone the session would live for long.
    monkeypatch.setattr(BootClock, "now", lambda self: 0)
    with opened(path) as store:
        swept = sweep_until_quiet(store)

        assert (swept.lost_sessions, swept.requeued) == (1, 1)
        assert state_of(store, id) is State.RUNNABLE
        assert complete(store, stale) == [LeaseLost(stale.lease)]
        with pytest.raises(SessionLost):
            store.renew(session)
        assert claim_one(store).lease.fence > stale.lease.fence


@pytest.mark.parametrize("jump", [HOUR, -HOUR, timedelta(days=-400)], ids=["forward", "back", "far back"])
def test_a_jump_of_the_wall_clock_loses_no_session(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    submit_one(store)
    session = a_session(store)
    claim = claim_one(store, session)

    before = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: before(self) + micros(jump))
    swept = sweep_until_quiet(store)

    assert (swept.lost_sessions, swept.requeued) == (0, 0)
    assert store.renew(session) == []
    assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]


def test_a_session_is_lost_by_the_clock_that_does_not_jump(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_one(store)
    claim = claim_one(store)

    before = BootClock.now
    monkeypatch.setattr(BootClock, "now", lambda self: before(self) + micros(SESSION_TTL) + 1_000_000)
    swept = sweep_until_quiet(store)

    assert (swept.lost_sessions, swept.requeued) == (1, 1)
    assert complete(store, claim) == [LeaseLost(claim.lease)]


# Wake-ups.


@pytest.mark.parametrize("waiting", [members.waiter, members.waiter_with_a_child], ids=lambda member: member.__name__)
def test_a_submit_in_another_process_wakes_up_waiting_threads(
    store: SQLiteStore, path: Path, waiting: Callable[..., bool]
) -> None:
    with ProcessGroup() as group:
        waiter = group.start(waiting, url=str(path))
        waiter.receive()
        woken = InThread(waiter.receive)
        until(lambda: submit_one(store) is not None and not woken.is_alive(), "the other process has woken")

        assert woken.answer() is True


def test_a_store_can_be_closed_while_another_thread_waits_for_the_file(path: Path) -> None:
    store = SQLiteStore(path)
    store.counts()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    waits = InThread(lambda: store.open_session("a"))
    until(lambda: _waits_in_sqlite(waits), "it waits")

    store.close()
    other.execute("ROLLBACK")

    assert waits.answer()


def _waits_in_sqlite(thread: InThread[SessionId]) -> bool:
    """Whether the thread is in our code that writes, where only SQLite itself can keep it."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "writing"
