from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.builders import a_task
from tests.support.processes import open_store
from windlass.stores.sqlite import wakeup as module
from windlass.stores.sqlite.wakeup import Wakeup
from windlass.wiring import open_admin

SELECT_LIMIT = 1_024
"""`select.select` refuses descriptors from this number on."""


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Open files until the next descriptor is one that `select` refuses."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * SELECT_LIMIT), limits[1]))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < SELECT_LIMIT:
        opened.append(os.dup(opened[0]))
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_process_with_many_open_files_is_woken_up(tmp_path: Path, many_open_files: None) -> None:
    wakeup = Wakeup(str(tmp_path / "tasks.db"))
    assert not wakeup.wait(timedelta(0)), "this also creates its socket"

    Wakeup(str(tmp_path / "tasks.db")).notify()

    assert wakeup.wait(timedelta(seconds=10))
    assert not wakeup.wait(timedelta(0)), "one wake-up counts once"
    wakeup.close()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of the machine, in which anybody may create files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def squat_with_file(folder: Path) -> None:
    folder.write_text("mine")


def squat_with_folder(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def squat_with_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize("squat", [squat_with_file, squat_with_folder, squat_with_link])
def test_a_folder_that_another_user_made_first_is_not_used(
    temporary: Path, tmp_path: Path, squat: Callable[[Path], None]
) -> None:
    squat(temporary / f"windlass-{os.geteuid()}")
    wakeup = Wakeup(str(tmp_path / "tasks.db"))
    assert not wakeup.wait(timedelta(0))

    Wakeup(str(tmp_path / "tasks.db")).notify()

    assert wakeup.wait(timedelta(seconds=10))
    assert stat.S_IMODE((tmp_path / "tasks.db-wakeup").stat().st_mode) == 0o700
    wakeup.close()
    assert not [*(tmp_path / "elsewhere").glob("*")]


def test_without_any_private_folder_nothing_fails(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_private", lambda _folder: False)
    wakeup = Wakeup(str(tmp_path / "tasks.db"))

    assert not wakeup.wait(timedelta(milliseconds=1))
    wakeup.notify()
    waiting = threading.Thread(target=wakeup.wait, args=(timedelta(minutes=5),))
    waiting.start()
    wakeup.close()
    waiting.join(10)

    assert not waiting.is_alive(), "closing wakes it up"


def test_a_committed_submit_succeeds_although_no_wake_up_can_be_sent(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "tasks.db"))
    assert not store.wait_for_work(["default"], timedelta(0))
    [folder] = (temporary / f"windlass-{os.geteuid()}").iterdir()
    with monkeypatch.context() as context, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wrong:
        context.chdir(folder)
        wrong.bind("wrong-kind")
        (folder / "folder").mkdir()
        assert store.submit([a_task()])[0].created
    shutil.rmtree(temporary)
    temporary.write_text("gone")

    assert store.submit([a_task()])[0].created
    store.close()


def test_files_of_a_database_are_private(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        store = open_store(str(tmp_path / "tasks.db"))
        store.submit([a_task()])
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("tasks.db*") if file.is_file()}
        store.close()
    finally:
        os.umask(old)

    assert files == dict.fromkeys(("tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db-lock"), 0o600)


def test_a_database_that_a_group_shares_stays_shared(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").touch()
    (tmp_path / "tasks.db").chmod(0o660)

    store = open_store(str(tmp_path / "tasks.db"))
    store.submit([a_task()])
    files = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("tasks.db*") if file.is_file()}
    store.close()

    assert files == {0o660}


def test_a_backup_is_private(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "tasks.db"))
    with closing(open_admin(f"sqlite:///{tmp_path / 'tasks.db'}")) as admin:
        admin.backup(str(tmp_path / "copy.db"), lambda _pages: None)
    store.close()

    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
