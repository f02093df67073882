from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from tests.unit.values import an_id
from windlass.clock import SystemClock
from windlass.core.manifest import Manifest
from windlass.core.task import Lease, Progress, SessionId
from windlass.errors import StoreUnavailable
from windlass.events import Events
from windlass.stores.protocol import Store
from windlass.worker import handler_calls as module
from windlass.worker.handler_calls import HandlerCalls

LEASE = Lease(an_id(1), 1, SessionId(an_id(9)))


class SlowStore:
    """Refuses the manifest the first time; accepts progress only when the test allows it."""

    def __init__(self) -> None:
        self.tries = 0
        self.published = threading.Event()
        self.let = threading.Event()
        self.written: list[float | None] = []
        self.taken = threading.Semaphore(0)

    def publish(self, _manifest: Manifest) -> None:
        self.tries += 1
        if self.tries == 1:
            raise StoreUnavailable("nobody there")
        self.published.set()

    def progress(self, reports: Sequence[Progress]) -> None:
        assert self.let.wait(5)
        self.written += [report.share for report in reports]
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
