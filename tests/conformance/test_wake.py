from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread

import pytest

from tests.support.builders import GAVE_UP, a_session, a_task, claim_one, report, submit, submit_one
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.ordering import Queue
from windlass.errors import StoreError
from windlass.stores.protocol import Store

LONG = timedelta(seconds=10)
SHORT = timedelta(milliseconds=20)
BETWEEN_SECONDS = 0.02


class Waiter:
    """A thread that waits for work once. The action is repeated until it wakes up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken: bool | None = None
        self._done = Event()
        self._thread = Thread(target=self._wait)

    def woken_by(self, action: Callable[[], object]) -> bool | None:
        self._thread.start()
        while not self._done.is_set():
            action()
            self._done.wait(BETWEEN_SECONDS)
        self._thread.join()
        return self._woken

    def _wait(self) -> None:
        try:
            self._woken = self._store.wait_for_work(["default"], LONG)
        finally:
            self._done.set()


def test_a_waiting_node_is_woken_by_a_submit(store: Store) -> None:
    assert Waiter(store).woken_by(lambda: submit(store, a_task())) is True


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"], indirect=True)  # behind PgBouncer nodes poll
def test_a_waiting_node_is_woken_by_a_submit_through_another_store(
    store: Store, home: Home, clock: ManualClock
) -> None:
    other = home.open(clock)

    assert Waiter(store).woken_by(lambda: submit(other, a_task())) is True


def test_a_waiting_node_is_woken_when_a_session_gives_its_tasks_back(store: Store) -> None:
    submit(store, a_task())

    def give_back() -> None:
        session = a_session(store)
        store.claim(session, ["default"], limit=1)
        store.close_session(session)

    assert Waiter(store).woken_by(give_back) is True


def test_a_waiting_node_is_woken_when_a_queue_goes_on(store: Store) -> None:
    store.configure(Queue(name="default", paused=True))
    submit(store, a_task())

    assert Waiter(store).woken_by(lambda: store.configure(Queue(name="default"))) is True


def test_a_waiting_node_is_woken_by_an_operators_retry(store: Store) -> None:
    id = submit_one(store)
    report(store, claim_one(store), GAVE_UP)

    def bring_back() -> None:
        store.retry([id])
        store.cancel([id], reason="again")

    assert Waiter(store).woken_by(bring_back) is True


def test_waiting_without_work_ends_when_the_time_is_up(store: Store) -> None:
    assert store.wait_for_work(["default"], SHORT) is False


def test_a_closed_store_leaves_nobody_waiting(home: Home, clock: ManualClock) -> None:
    store = home.open(clock)
    began, ended = Event(), Event()

    def wait() -> None:
        began.set()
        with suppress(StoreError):  # The store may be closed before the thread begins to wait.
            store.wait_for_work(["default"], timedelta(seconds=1))
        ended.set()

    thread = Thread(target=wait)
    thread.start()
    began.wait()
    home.close()

    assert ended.wait(LONG.total_seconds())
    thread.join()
