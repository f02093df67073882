from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from tests.unit.values import an_id
from windlass.core.manifest import Manifest
from windlass.core.task import Lease, Progress, SessionId
from windlass.errors import StoreUnavailable
from windlass.events import Events
from windlass.stores.protocol import Store
from windlass.worker import handler_calls as module
from windlass.worker.handler_calls import HandlerCalls

LEASE = Lease(an_id(1), 1, SessionId(an_id(9)))


class SlowStore:
    """Does not answer the first time it is told the manifest; takes progress only when it is let."""

    def __init__(self) -> None:
        self.tries = 0
        self.published = threading.Event()
        self.let = threading.Event()
        self.told: list[float | None] = []
        self.taken = threading.Semaphore(0)

    def publish(self, _manifest: Manifest) -> None:
        self.tries += 1
        if self.tries == 1:
            raise StoreUnavailable("nobody there")
        self.published.set()

    def progress(self, reports: Sequence[Progress]) -> None:
        assert self.let.wait(5)
        self.told += [report.share for report in reports]
        self.taken.release()


def a_clerk(store: SlowStore) -> HandlerCalls:
    return HandlerCalls(cast("Store", store), lambda _worker, _answer: None, Events())


def test_a_manifest_that_could_not_be_published_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    store = SlowStore()
    clerk = a_clerk(store)

    clerk.publish(Manifest(handlers=(), crons=()))

    assert store.published.wait(5)
    clerk.close()


def test_while_progress_cannot_be_written_only_the_latest_is_kept() -> None:
    store = SlowStore()
    clerk = a_clerk(store)

    for second in range(1, 11):
        clerk.progress(LEASE, second / 10, None)
        clerk.tick(float(second))
    store.let.set()
    assert store.taken.acquire(timeout=5)
    while store.told == [0.1]:
        clerk.tick(20.0)

    assert store.told == [0.1, 1.0]
    clerk.close()
