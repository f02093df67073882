"""Handles: results, waiting, cancelling, changing, and asking why."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass import (
    App,
    GiveUp,
    Queue,
    State,
    StillUnfinished,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
    UnknownTask,
)
from windlass.client.result_waiter import ResultWaiter
from windlass.clock import ManualClock
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.task import Task, TaskId
from windlass.errors import InvalidPayload
from windlass.stores.protocol import Store
from windlass.testing import drain

PATIENCE = 60


@pytest.fixture
def work(app: App) -> Any:
    @app.task(name="work")
    def work(n: int = 0) -> int:
        if n < 0:
            raise GiveUp("negative")
        return n

    return work


def test_sync_and_async_calls_return_the_same_result(app: App, work: Any) -> None:
    handle = work.enqueue(3)
    drain(app)

    async def ask() -> list[Any]:
        return [await handle, await handle.aresult(), await handle.await_(), await handle.astate()]

    assert handle.result(0) == 3
    assert asyncio.run(ask()) == [3, 3, State.COMPLETED, State.COMPLETED]
    assert app.handle(str(handle.id)).result(0) == 3
    assert App(store=app.store).handle(handle.id).result(0) == 3


def test_each_unsuccessful_state_has_its_error(app: App, work: Any, clock: ManualClock) -> None:
    failed = work.enqueue(-1)
    cancelled = work.enqueue()
    expired = work.using(expires="1s", delay="1m").enqueue()
    assert cancelled.cancel("not wanted")
    assert not cancelled.cancel()
    drain(app, clock=clock, advance=True)

    for handle, error, reason in (
        (failed, TaskFailed, "GiveUp: negative"),
        (cancelled, TaskCancelled, "not wanted"),
        (expired, TaskExpired, "Its expiry time passed."),
    ):
        with pytest.raises(error) as end:
            handle.result(0)
        assert end.value.reason == reason
        assert end.value.task == handle.task()
        assert handle.wait(0) == end.value.state


def test_a_wait_that_times_out_does_not_affect_the_task(work: Any) -> None:
    handle = work.enqueue()

    with pytest.raises(StillUnfinished) as given_up:
        handle.result("10ms")
    with pytest.raises(TimeoutError):
        asyncio.run(handle.aresult(0.01))

    assert isinstance(given_up.value, TimeoutError)
    assert handle.state is State.RUNNABLE


def test_an_unknown_task_raises_an_error(app: App, work: Any) -> None:
    handle = app.handle("018f0000-0000-7000-8000-000000000000")

    with pytest.raises(UnknownTask):
        _ = handle.state
    with pytest.raises(UnknownTask):
        handle.result(1)
    with pytest.raises(UnknownTask):
        asyncio.run(handle.aresult(1))


def test_an_update_changes_the_task(work: Any, clock: ManualClock) -> None:
    handle = work.enqueue()
    at = datetime(2030, 1, 1, tzinfo=UTC)

    task = handle.update(priority=9, deadline="1m", at=at)
    later = asyncio.run(handle.aupdate(deadline=None))

    assert (task.priority, task.state, task.due) == (9, State.SCHEDULED, at)
    assert task.deadline is not None
    assert later.deadline is None
    assert later.priority == 9


def test_waiting_callers_share_one_poll_of_the_store(app: App, work: Any) -> None:
    handles = [work.enqueue(n) for n in range(30)]
    looks: list[int] = []
    looked = threading.Semaphore(0)

    def get(ids: Sequence[TaskId]) -> list[Task | None]:
        looks.append(len(ids))
        looked.release()
        return app.store.get(ids)

    waiter = ResultWaiter(lambda: cast("Store", SimpleNamespace(get=get)))
    ends = [waiter.finished(handle.id) for handle in handles]
    while 30 not in looks:
        assert looked.acquire(timeout=PATIENCE)
    drain(app)

    assert [end.result(PATIENCE).state for end in ends] == [State.COMPLETED] * 30
    assert len(looks) < 30 * 2


def test_an_answer_that_would_be_too_large_is_asked_for_in_parts(app: App, work: Any) -> None:
    """A node limits the size of its answers to handlers."""
    handles = [work.enqueue(n) for n in range(7)]
    drain(app)
    too_large = work.enqueue(8)

    def get(ids: Sequence[TaskId]) -> list[Task | None]:
        if len(ids) > 2 or too_large.id in ids:
            raise InvalidPayload("Ask for fewer.")
        return app.store.get(ids)

    waiter = ResultWaiter(lambda: cast("Store", SimpleNamespace(get=get)))
    ends = [waiter.finished(handle.id) for handle in handles]
    refused = waiter.finished(too_large.id)

    assert [end.result(PATIENCE).state for end in ends] == [State.COMPLETED] * 7
    with pytest.raises(InvalidPayload):
        refused.result(PATIENCE)


def test_threads_and_coroutines_wait_until_the_task_has_run(real_app: App) -> None:
    @real_app.task(name="work")
    def work(n: int) -> int:
        return n

    handles = [work.enqueue(n) for n in range(6)]

    async def gather() -> list[int]:
        return list(await asyncio.gather(*handles))

    with ThreadPoolExecutor(8) as threads:
        waits = [threads.submit(handle.result, PATIENCE) for handle in handles]
        together = threads.submit(asyncio.run, gather())
        drain(real_app)

        assert [wait.result(PATIENCE) for wait in waits] == list(range(6))
        assert together.result(PATIENCE) == list(range(6))


def test_a_store_error_reaches_waiting_callers() -> None:
    def get(ids: Sequence[TaskId]) -> list[Task | None]:
        raise ConnectionError("gone")

    waiter = ResultWaiter(lambda: cast("Store", SimpleNamespace(get=get)))

    with pytest.raises(ConnectionError):
        waiter.finished(TaskId(App("memory:").handle("018f0000-0000-7000-8000-000000000000").id)).result(PATIENCE)


# why


def closed(handle: Any) -> str | None:
    gate = handle.why().closed
    return None if gate is None else gate.name


def test_why_names_the_condition_that_the_task_fails(app: App, work: Any, clock: ManualClock) -> None:
    ran = work.enqueue()
    drain(app)
    first = work.using(queue="other").enqueue()
    waits = work.using(after=[first]).enqueue()
    later = work.using(delay="1h").enqueue()
    ready = work.enqueue()

    assert closed(ran) == "end"
    assert closed(waits) == "prerequisites"
    assert str(first.id) in str(waits.why())
    assert closed(later) == "due"
    assert closed(ready) == "handler"

    app.store.publish(Manifest(handlers=(HandlerInfo(name="work"),)))
    assert closed(ready) == "node"
    assert "no node is alive" in str(ready.why())

    app.store.open_session("elsewhere", about='{"queues": ["other"]}')
    assert "live node serves the queue default" in str(ready.why())

    session = app.store.open_session("here", about='{"queues": ["default"]}')
    assert closed(ready) is None

    app.store.configure(Queue(name="default", paused=True, paused_by="ops", paused_why="import"))
    assert 'default is paused by ops: "import"' in str(asyncio.run(ready.awhy()))

    app.store.configure(Queue(name="default"))
    app.store.claim(session, ["default"], 1)
    assert "running attempt 1" in str(ready.why())

    clock.advance(timedelta(seconds=1))
    assert str(later.why()).count("\n") >= 6


def test_why_names_what_the_nodes_of_the_queue_lack(app: App) -> None:
    @app.task(name="work", slots=4, requires=["gpu"])
    def work() -> None: ...

    app.store.publish(Manifest(handlers=(HandlerInfo(name="work"),)))
    handle = work.enqueue()
    about: dict[str, Any] = {"queues": ["default"], "handlers": ["work"], "tags": ["gpu"]}
    about["pools"] = {"small": {"queues": ["default"], "threads": 2}}

    def open_session(node: str, **changes: object) -> str:
        app.store.open_session(node, about=json.dumps({**about, **changes}))
        return str(handle.why())

    assert "a has 2 slots per worker and the task needs 4" in open_session("a")
    assert "b lacks the tag gpu" in open_session("b", tags=[])
    assert "c does not know the handler work" in open_session("c", handlers=["other"])
    assert "fix: windlass worker APP --queues default --tag gpu --threads 4" in str(handle.why())
    large = {"large": {"queues": ["default"], "threads": 4}, **about["pools"]}
    assert "served by d" in open_session("d", pools=large)
