"""A node inside a program: `app.worker()` and `app.run_worker()`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import windlass
from tests.e2e import extra_app, extra_handlers, shop
from tests.support.nodes import PATIENCE, as_given, await_effect
from tests.support.processes import until
from windlass.config import InvalidSettings, PoolSettings
from windlass.core.lifecycle import State
from windlass.errors import NotAllowed
from windlass.events import Event, WorkerStateChanged
from windlass.stores.protocol import Store
from windlass.worker.embedded import AppNotFound, EmbeddedNode
from windlass.worker.node import AppBroken

pytestmark = pytest.mark.slow
ON_SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def record_effects(monkeypatch: pytest.MonkeyPatch, effects: Path) -> None:
    """Let the handlers of the shop record what they do."""
    monkeypatch.setenv("WINDLASS_EFFECTS", str(effects))


def test_a_node_in_a_with_block_runs_tasks_and_drains_at_the_end(shop_store: Store, effects: Path) -> None:
    with shop.app.worker(queues=["default", "mail"], size=2) as node:
        assert shop.add.using(queue="mail").enqueue(1, 2).result(PATIENCE) == 3
        running = shop.sleep.enqueue(0.5)
        await_effect(effects, "began")
        assert node.running

    assert running.state is State.COMPLETED, "it waited for the running task"
    assert not node.running
    assert [session.lost for session in shop_store.sessions()] == [True], "its session was closed"
    assert shop_store.counts(), "the store of the app is still open"


@ON_SQLITE
def test_a_node_that_a_person_drains_ends_and_closes_its_session(shop_store: Store, effects: Path) -> None:
    node = shop.app.worker(size=1, name="embedded")
    node.start()
    handle = shop.sleep.enqueue(0.5)
    await_effect(effects, "began")

    shop.app.nodes.drain("embedded", why="new version")

    assert node.join(PATIENCE)
    until(lambda: [session.lost for session in shop_store.sessions()] == [True], "its session is closed")
    assert (handle.state, node.running, node.failure) == (State.COMPLETED, False, None)
    node.stop()


def test_a_stop_without_waiting_releases_running_tasks(shop_store: Store, effects: Path) -> None:
    node = shop.app.worker(size=1)
    node.start()
    handle = shop.sleep.enqueue(600)
    await_effect(effects, "began")

    node.stop(wait=False)
    node.stop()

    task = handle.task()
    assert (task.state, task.attempts) == (State.RUNNABLE, 0)


@ON_SQLITE
def test_a_stop_waits_no_longer_than_its_timeout(shop_store: Store, effects: Path) -> None:
    node = shop.app.worker(size=1, drain_timeout=None)
    node.start()
    handle = shop.sleep.enqueue(600)
    await_effect(effects, "began")

    node.stop(timeout=0.1)

    assert handle.state is State.RUNNABLE


@ON_SQLITE
def test_leaving_the_block_by_an_exception_releases_running_tasks(shop_store: Store, effects: Path) -> None:
    handle = shop.sleep.enqueue(600)

    def break_off() -> None:
        with shop.app.worker(size=1):
            await_effect(effects, "began")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert handle.state is State.RUNNABLE


@ON_SQLITE
def test_run_worker_in_a_thread_leaves_signals_alone_and_ends_with_stop(shop_store: Store) -> None:
    before = signal.getsignal(signal.SIGTERM)
    node = shop.app.worker(size=1)
    thread = threading.Thread(target=node.run)
    thread.start()
    try:
        assert shop.add.enqueue(2).result(PATIENCE) == 3
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        node.stop()
        thread.join(PATIENCE)

    assert not thread.is_alive()


@ON_SQLITE
def test_run_worker_in_the_main_thread_drains_on_a_signal_and_restores_its_handlers(shop_store: Store) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def send_signal() -> None:
        shop.add.enqueue(2).result(PATIENCE)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send_signal)
    thread.start()
    shop.app.run_worker(size=1)
    thread.join()

    assert signal.getsignal(signal.SIGTERM) is before


def test_handlers_of_other_modules_are_imported_and_a_memory_store_is_shared() -> None:
    events: list[Event] = []
    with extra_app.app.worker(pools=[PoolSettings(size=1)], on_event=events.append) as node:
        assert extra_handlers.double.enqueue(21).result(PATIENCE) == 42
        assert extra_handlers.own_process.enqueue().result(PATIENCE) != os.getpid()

    assert isinstance(node, EmbeddedNode)
    assert node.settings.imports == (extra_handlers.__name__,)
    assert any(isinstance(event, WorkerStateChanged) for event in events)


# Programs

SCRIPT = """
import os, signal, sys, threading
import windlass

app = windlass.App()


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
def nap() -> str:
    import time
    print("began", flush=True)
    time.sleep(0.5)
    return "rested"
"""
WITH_BLOCK = "with app.worker(size=1):\n    print(add.enqueue(1, 2).result(30))\n"
GUARDED = 'if __name__ == "__main__":\n    ' + WITH_BLOCK.replace("\n    ", "\n        ")
UNGUARDED_RUN = "app.run_worker(size=1)\n"


@pytest.fixture
def program(tmp_path: Path, url: str, store: Store) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run a program from a file. It ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(text: str, *how: str) -> subprocess.Popen[str]:
        folder = tmp_path / "program"
        folder.mkdir()
        (folder / "shop.py").write_text(SCRIPT + text)
        process = subprocess.Popen(
            [sys.executable, "-W", "error", *(how or (str(folder / "shop.py"),))],
            cwd=folder if how else tmp_path,
            env={**os.environ, "WINDLASS_URL": as_given(url)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_a_program_in_another_directory_runs_its_own_tasks(program: Callable[..., subprocess.Popen[str]]) -> None:
    output, errors = program(GUARDED).communicate(timeout=60)

    assert (output, errors) == ("3\n", "")


@ON_SQLITE
def test_a_module_run_with_m_imports_itself(program: Callable[..., subprocess.Popen[str]]) -> None:
    assert program(GUARDED, "-m", "shop").communicate(timeout=60) == ("3\n", "")


def test_an_unguarded_run_worker_runs_once_and_drains_on_sigterm(
    program: Callable[..., subprocess.Popen[str]], store: Store
) -> None:
    process = program(UNGUARDED_RUN)
    handle = windlass.App(store=store).task(name="shop.nap")(print).enqueue()
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0
    assert handle.state is State.COMPLETED
    assert len(store.sessions()) == 1


@ON_SQLITE
def test_a_node_without_a_main_guard_raises_a_helpful_error(program: Callable[..., subprocess.Popen[str]]) -> None:
    process = program(WITH_BLOCK)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "AppBroken" in errors
    assert 'if __name__ == "__main__":' in errors


@ON_SQLITE
def test_a_program_that_ends_without_a_stop_releases_its_tasks(
    program: Callable[..., subprocess.Popen[str]], store: Store
) -> None:
    text = 'if __name__ == "__main__":\n    app.worker(size=1).start()\n    sys.stdin.read()\n    import time\n'
    text += "    while not app.store.sessions():\n        time.sleep(0.01)\n"

    _, errors = program(text).communicate(timeout=60)

    assert "Traceback" not in errors
    assert [session.lost for session in store.sessions()] == [True]


@ON_SQLITE
def test_an_app_at_a_prompt_cannot_be_imported_by_workers(program: Callable[..., subprocess.Popen[str]]) -> None:
    _, errors = program("", "-c", SCRIPT + "app.worker()").communicate(timeout=60)

    assert "AppNotFound: The app is defined in __main__" in errors


# Refusals


def test_an_app_that_is_not_a_module_variable_is_refused() -> None:
    with pytest.raises(AppNotFound, match="app_path="):
        windlass.App("memory:").worker()


def test_a_handler_that_workers_cannot_import_is_refused() -> None:
    known = dict(extra_app.app.handlers)

    @extra_app.app.task
    def local() -> None: ...

    node = extra_app.app.worker(size=1)
    try:
        with pytest.raises(AppBroken, match=r"does not register the handlers .*local"):
            node.start()
    finally:
        extra_app.app._handlers.clear()  # pyright: ignore[reportPrivateUsage]
        extra_app.app._handlers.update(known)  # pyright: ignore[reportPrivateUsage]
    assert not node.running


def test_an_app_that_cannot_be_imported_is_reported_and_ends_the_node() -> None:
    node = shop.app.worker(app_path="tests.e2e.nowhere:app")

    with pytest.raises(AppBroken, match=r"nowhere"):
        node.start()
    node.stop()

    assert not node.running


def test_a_node_starts_once() -> None:
    with extra_app.app.worker(size=0) as node, pytest.raises(NotAllowed, match="started before"):
        node.start()


def test_a_handler_cannot_start_a_node(shop_store: Store, effects: Path) -> None:
    with shop.app.worker(size=1):
        assert "a worker of one" in shop.start_a_node.enqueue().result(PATIENCE)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"queues": "mail"}, "queues='mail'"),
        ({"queues": ["no name"]}, "queues='no name'"),
        ({"size": -1}, "size=-1"),
        ({"threads": 0}, "threads=0"),
        ({"pools": [PoolSettings()], "size": 2}, "pools and size"),
        ({"session_ttl": "1ms"}, "session_ttl"),
    ],
)
def test_invalid_options_are_refused_at_once(options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        EmbeddedNode(shop.app, options)  # pyright: ignore[reportArgumentType] - that is the test
