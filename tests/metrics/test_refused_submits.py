"""Refused submits are counted wherever a process submits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias
from uuid import UUID

import httpx
import prometheus_client
import pytest

import windlass
from tests.metrics.values import read
from tests.server.running import running
from windlass.clock import SystemClock
from windlass.core.ordering import Queue
from windlass.core.task import NewTask
from windlass.errors import QueueFull, StoreUnavailable, WindlassError
from windlass.events import Events
from windlass.metrics.exposition import render
from windlass.metrics.refused_submits import RefusedSubmitMetrics
from windlass.refused_submits import REASONS, refused_submits
from windlass.stores.memory import MemoryStore
from windlass.wire.problems import STATUSES
from windlass.worker.call_queue import CallScope
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.remote import encode_call
from windlass.worker.wire import Answer
from windlass.worker.worker import Worker

API = "/api/v1"
Growth: TypeAlias = Callable[[], dict[tuple[str, str], int]]


def counted() -> dict[tuple[str, str], int]:
    return dict(refused_submits.counts())


@pytest.fixture
def growth() -> Growth:
    """Return how much the counters of this process have grown since the test started."""
    before = counted()
    return lambda: {key: grown for key, count in counted().items() if (grown := count - before.get(key, 0))}


@pytest.fixture
def store() -> MemoryStore:
    """An app with a full queue."""
    store = MemoryStore()
    store.configure(Queue(name="small", max_waiting=1))
    store.submit([NewTask(handler="work", queue="small")])
    return store


def test_every_reason_is_the_code_of_an_error() -> None:
    assert set(REASONS) <= STATUSES.keys()


def test_an_app_counts_refused_submits(store: MemoryStore, growth: Growth) -> None:
    app = windlass.App(store=store)
    work = app.task(name="work")(print)

    with pytest.raises(QueueFull):
        work.using(queue="small").enqueue()
    with pytest.raises(windlass.UnknownPrerequisite):
        work.using(after=[UUID(int=1)]).enqueue()
    work.enqueue()

    assert growth() == {("queue_full", "small"): 1, ("unknown_prerequisite", ""): 1}


@pytest.mark.anyio
async def test_async_submits_are_counted_too(store: MemoryStore, growth: Growth) -> None:
    work = windlass.App(store=store).task(name="work")(print)

    with pytest.raises(QueueFull):
        await work.using(queue="small").aenqueue()

    assert growth() == {("queue_full", "small"): 1}


def test_submits_in_a_shared_commit_are_counted_separately(store: MemoryStore, growth: Growth) -> None:
    """A shared commit with a refused call is split in half until that call is found."""
    app = windlass.App(store=store)
    work = app.task(name="work")(print)
    together = threading.Barrier(8)

    def enqueue(number: int) -> None:
        together.wait(10)
        with suppress(QueueFull):
            work.using(queue="small" if number % 2 else "default").enqueue()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(enqueue, range(8)))

    assert growth() == {("queue_full", "small"): 4}


def test_an_unavailable_store_is_not_a_refusal(growth: Growth) -> None:
    class Away(MemoryStore):
        def submit(self, *_: object, **__: object) -> list[object]:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise StoreUnavailable("gone fishing")

    with pytest.raises(StoreUnavailable):
        windlass.App(store=Away()).task(name="work")(print).enqueue()

    assert growth() == {}


def test_a_server_counts_refused_submits(store: MemoryStore, growth: Growth) -> None:
    full = {"handler": "work", "queue": "small"}
    with running(store) as address:
        assert httpx.post(f"{address}{API}/tasks?unchecked=true", json=full).status_code == 429
        assert httpx.post(f"{address}{API}/tasks", json={"handler": "unheard-of"}).status_code == 422
        assert httpx.post(f"{address}{API}/tasks", json={"handler": 7}).status_code == 400
        assert httpx.post(f"{address}{API}/tasks:batch?unchecked=true", json=[full, full]).status_code == 429
        lines = '{"handler":"work","queue":"small"}\n{"handler":"work"}\n{"handler":"work","queue":"small"}\n'
        httpx.post(
            f"{address}{API}/tasks:stream?unchecked=true",
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
        ).raise_for_status()
        found = read(httpx.get(f"{address}/metrics").content)

    assert growth() == {("queue_full", "small"): 4, ("unknown_handler", ""): 1, ("invalid_request", ""): 1}
    assert found["windlass_submits_refused_total{queue=small,reason=queue_full}"] >= 4


def test_a_node_counts_refused_submits_of_its_handlers(store: MemoryStore, growth: Growth) -> None:
    answers: list[Answer] = []
    answered = threading.Event()

    def answer(_worker: object, given: Answer) -> None:
        answers.append(given)
        answered.set()

    calls = HandlerCalls(store, answer, Events(), SystemClock())
    call = encode_call(1, 1, "submit", [[NewTask(handler="work", queue="small")]], {})
    calls.call(Worker(1, "default", 1, 0.0, Events()), CallScope(None, {}), call)
    assert answered.wait(10)
    calls.close()

    assert answers[0].error is not None
    assert growth() == {("queue_full", "small"): 1}


def test_every_reason_has_a_series_from_the_start() -> None:
    found = read(render(RefusedSubmitMetrics()))

    for reason in REASONS:
        if reason != "queue_full":
            assert f"windlass_submits_refused_total{{queue=,reason={reason}}}" in found


def test_the_counter_works_with_any_registry() -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(RefusedSubmitMetrics())

    assert "windlass_submits_refused" in {metric.name for metric in registry.collect()}


def test_other_errors_are_not_counted(growth: Growth) -> None:
    refused_submits.count(WindlassError("something else"))

    assert growth() == {}
