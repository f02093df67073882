"""examples/worker.mjs as a real process against a real server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.running import running
from tests.support.builders import a_task, state_of, submit, task_of
from tests.support.processes import until
from tests.support.tokens import create_token
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

WORKER = Path(__file__).parents[2] / "examples" / "worker.mjs"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")]


class Worker:
    """The example worker as a process."""

    def __init__(self, address: str, token: str) -> None:
        settings = {"URL": address, "TOKEN": token, "TTL_SECONDS": "2"}
        self.process = subprocess.Popen(
            ["node", str(WORKER)], env={**os.environ, **settings}, stdout=subprocess.DEVNULL
        )

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = SQLiteStore(tmp_path / "tasks.db")
    yield store
    store.close()


@pytest.fixture
def start(store: Store) -> Iterator[Callable[[], Worker]]:
    """Starts workers of one server."""
    token = create_token(store, "node-js", [Scope.WORK])
    workers: list[Worker] = []
    with running(store) as address:

        def make() -> Worker:
            workers.append(Worker(address, token))
            return workers[-1]

        yield make
        for worker in workers:
            worker.end(signal.SIGKILL)


def await_state(store: Store, id: TaskId, state: State) -> None:
    until(lambda: state_of(store, id) is state, f"the task is {state.value}")


def test_a_task_runs_from_submit_to_result(start: Callable[[], Worker], store: Store) -> None:
    worker = start()
    good, bad = submit(store, a_task(handler="shout", args={"text": "ahoy"}), a_task(handler="shout"))

    await_state(store, good, State.COMPLETED)
    await_state(store, bad, State.RETRYING)
    status = worker.end()

    assert task_of(store, good).result == '"AHOY"'
    [attempt] = store.attempts(bad)
    assert attempt.error is not None
    assert attempt.error.kind == "TypeError"
    assert "worker.mjs" in attempt.error.traceback
    assert {handler.name for handler in store.handlers()} == {"shout", "nap"}
    assert status == 0
    assert [session.lost for session in store.sessions()] == [True]


def test_tasks_of_a_killed_worker_run_again(start: Callable[[], Worker], store: Store) -> None:
    first = start()
    [id] = submit(store, a_task(handler="nap", args={"seconds": 3}))
    await_state(store, id, State.LEASED)
    fence = task_of(store, id).fence

    first.end(signal.SIGKILL)
    start()
    await_state(store, id, State.COMPLETED)

    task = task_of(store, id)
    assert (task.result, task.losses) == ('"slept 3 s"', 1)
    assert task.fence > fence


def test_a_cancelled_task_is_stopped_in_the_worker(start: Callable[[], Worker], store: Store) -> None:
    start()
    [id] = submit(store, a_task(handler="nap", args={"seconds": 60}))
    await_state(store, id, State.LEASED)

    store.cancel([id], reason="not wanted")
    await_state(store, id, State.CANCELLED)

    [attempt] = store.attempts(id)
    assert attempt.error is not None
    assert attempt.error.message == "cancelled"
