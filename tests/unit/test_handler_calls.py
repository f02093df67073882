from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from tests.unit.values import a_stored_task, an_id
from windlass.clock import SystemClock
from windlass.core.manifest import Manifest
from windlass.core.task import Lease, Progress, SessionId, claim_of
from windlass.errors import StoreUnavailable
from windlass.events import Events
from windlass.stores.protocol import Store
from windlass.worker import handler_calls as module
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.worker import RunningAttempt, Worker

LEASE = Lease(an_id(1), 1, SessionId(an_id(9)))


class SlowStore:
    """Refuses the manifest the first time; accepts progress only when the test allows it."""

    def __init__(self) -> None:
        self.tries = 0
        self.published = threading.Event()
        self.let = threading.Event()
        self.written: list[float | None] = []
        self.taken = threading.Semaphore(0)
        self.outputs: list[list[tuple[int, str]]] = []

    def publish(self, _manifest: Manifest) -> None:
        self.tries += 1
        if self.tries == 1:
            raise StoreUnavailable("nobody there")
        self.published.set()

    def progress(self, reports: Sequence[Progress]) -> None:
        assert self.let.wait(5)
        self.written += [report.share for report in reports]
        self.taken.release()

    def record_output(self, outputs: Sequence[tuple[Lease, str]]) -> None:
        assert self.let.wait(5)
        self.outputs.append([(lease.task.int, text) for lease, text in outputs])
        self.taken.release()


def start_calls(store: SlowStore) -> HandlerCalls:
    return HandlerCalls(cast("Store", store), lambda _worker, _answer: None, Events(), SystemClock())


def test_a_manifest_that_could_not_be_published_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    store = SlowStore()
    calls = start_calls(store)

    calls.publish(Manifest(handlers=(), crons=()))

    assert store.published.wait(5)
    calls.close()


def test_while_progress_cannot_be_written_only_the_latest_is_kept() -> None:
    store = SlowStore()
    calls = start_calls(store)

    for second in range(1, 11):
        calls.progress(LEASE, second / 10, None)
        calls.tick(float(second))
    store.let.set()
    assert store.taken.acquire(timeout=5)
    while store.written == [0.1]:
        calls.tick(20.0)

    assert store.written == [0.1, 1.0]
    calls.close()


def a_worker(*tickets: int) -> Worker:
    """Return a worker whose running attempts have these tickets, of the tasks with the same numbers."""
    worker = Worker(1, "default", len(tickets), 0.0, Events())
    for ticket in tickets:
        claim = claim_of(a_stored_task(), Lease(an_id(ticket), 1, SessionId(an_id(9))))
        worker.running[ticket] = RunningAttempt(claim, ticket, 1, 0.0, 0.0)
    return worker


def print_text(calls: HandlerCalls, worker: Worker, ticket: int, text: str) -> None:
    worker.running[ticket].output = text
    calls.output(worker, ticket)


def test_the_latest_output_of_running_attempts_is_written_once_a_second() -> None:
    store, worker = SlowStore(), a_worker(1, 2)
    store.let.set()
    calls = start_calls(store)

    print_text(calls, worker, 1, "one")
    calls.tick(1.0)
    assert store.taken.acquire(timeout=5)
    print_text(calls, worker, 1, "one two")
    print_text(calls, worker, 2, "three")
    calls.tick(1.9)
    print_text(calls, worker, 1, "one two three")
    calls.tick(2.0)
    assert store.taken.acquire(timeout=5)
    calls.tick(3.0)
    calls.close()

    assert store.outputs == [[(1, "one")], [(1, "one two three"), (2, "three")]]


def test_output_beyond_the_limit_waits_for_its_turn_and_that_of_an_ended_attempt_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_AT_ONCE", 5)
    store, worker = SlowStore(), a_worker(1, 2, 3, 4)
    store.let.set()
    calls = start_calls(store)

    for ticket in (1, 2, 3, 4):
        print_text(calls, worker, ticket, "x" * 5)
    calls.tick(1.0)
    assert store.taken.acquire(timeout=5)
    print_text(calls, worker, 1, "x" * 6)
    del worker.running[2]
    for second in (2.0, 3.0, 4.0):
        while not store.taken.acquire(timeout=0.01):
            calls.tick(second)
    calls.close()

    assert [[task for task, _ in written] for written in store.outputs] == [[1], [3], [4], [1]]
