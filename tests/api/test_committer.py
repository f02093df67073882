"""Group commit: callers share commits, each gets its own answer, and none waits forever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from windlass import App, KeyConflict, NewTask, QueueFull, StoreUnavailable
from windlass.call_limits import current_lock_wait
from windlass.client.committer import LOCK_WAIT, Committer
from windlass.clock import monotonic
from windlass.core.ordering import Queue
from windlass.core.task import Lease
from windlass.errors import CommitUnknown, InvalidTask, KeyBusy
from windlass.stores.protocol import Receipt, Store

PATIENCE = 60


class Gate:
    """A store whose submit blocks until it is released, and which records the batch sizes."""

    def __init__(self, submit: Callable[..., list[Receipt]]) -> None:
        self._submit = submit
        self.batches: list[int] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def submit(self, tasks: Sequence[NewTask], *, lease: Lease | None) -> list[Receipt]:
        self.batches.append(len(tasks))
        self.entered.release()
        assert self.go.wait(PATIENCE)
        return self._submit(tasks)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that has no event."""
    limit = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < limit
        threading.Event().wait(0.001)


def a_task(**fields: Any) -> NewTask:
    return NewTask(handler="work", **fields)


@pytest.fixture
def store(real_app: App) -> Store:
    return real_app.store


@pytest.fixture
def gate(store: Store) -> Gate:
    return Gate(store.submit)


def a_committer(gate: Gate) -> Committer:
    return Committer(lambda: cast("Store", gate))


@pytest.fixture
def committer(gate: Gate) -> Committer:
    return a_committer(gate)


def pending(committer: Committer) -> int:
    return len(committer._pending)


def test_threads_that_submit_during_a_commit_share_the_next_one(committer: Committer, gate: Gate, store: Store) -> None:
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(committer.submit, [a_task()])
        gate.entered.acquire(timeout=PATIENCE)
        others = [threads.submit(committer.submit, [a_task(), a_task()]) for _ in range(10)]
        until(lambda: pending(committer) == 10)
        gate.go.set()
        answers = [first.result(PATIENCE), *(other.result(PATIENCE) for other in others)]

    assert gate.batches == [1, 20]
    ids = {receipt.id for answer in answers for receipt in answer}
    assert len(ids) == 21
    assert all(store.get(list(ids)))


def test_coroutines_share_commits_too(committer: Committer, gate: Gate) -> None:
    async def main() -> list[list[Receipt]]:
        calls = [asyncio.ensure_future(committer.asubmit([a_task()])) for _ in range(50)]
        await asyncio.to_thread(gate.entered.acquire, timeout=PATIENCE)
        await asyncio.sleep(0)
        gate.go.set()
        return await asyncio.gather(*calls)

    answers = asyncio.run(main())

    assert len({answer[0].id for answer in answers}) == 50
    assert sum(gate.batches) == 50
    assert len(gate.batches) <= 2


def test_only_calls_that_may_wait_for_others_limit_how_long_a_commit_waits() -> None:
    limits: list[tuple[int, float | None]] = []

    def submit(tasks: Sequence[NewTask]) -> list[Receipt]:
        limits.append((len(tasks), current_lock_wait()))
        if current_lock_wait() is not None:
            raise KeyBusy
        raise StoreUnavailable("the table is locked")

    gate = Gate(submit)
    committer = a_committer(gate)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(committer.submit, [a_task()])
        gate.entered.acquire(timeout=PATIENCE)
        others = [threads.submit(committer.submit, [a_task(key=key)]) for key in (None, None, "k")]
        until(lambda: pending(committer) == 3)
        gate.go.set()
        failures = [call.exception(PATIENCE) for call in (first, *others)]

    assert [type(failure) for failure in failures] == [StoreUnavailable] * 4, "a locked table does not mean a busy key"
    assert limits[:2] == [(1, None), (3, LOCK_WAIT)]
    assert sorted(limits[2:]) == [(1, None), (2, None)], "the call with a key writes alone, the others share a commit"


def test_a_single_call_is_written_by_its_own_thread_immediately(store: Store) -> None:
    writers: list[int] = []

    def submit(tasks: Sequence[NewTask]) -> list[Receipt]:
        writers.append(threading.get_ident())
        return store.submit(tasks)

    open_gate = Gate(submit)
    open_gate.go.set()
    a_committer(open_gate).submit([a_task()])

    assert writers == [threading.get_ident()]


def test_a_refusal_reaches_only_the_caller_whose_tasks_are_refused(
    committer: Committer, gate: Gate, store: Store
) -> None:
    store.submit([a_task(key="taken")])
    calls = [[a_task(key=f"k{n}")] for n in range(9)]
    calls[4] = [a_task(key="taken", args={"other": "body"})]
    calls[7] = [a_task(key="k0")]  # the same key as a neighbour's, which alone would be answered, not refused

    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(committer.submit, [a_task()])
        gate.entered.acquire(timeout=PATIENCE)
        others = [threads.submit(committer.submit, call) for call in calls]
        until(lambda: pending(committer) == 9)
        gate.go.set()
        first.result(PATIENCE)
        errors = [other.exception(PATIENCE) for other in others]

    assert [type(error) for error in errors] == [KeyConflict if n == 4 else type(None) for n in range(9)]
    assert others[7].result()[0].id == others[0].result()[0].id
    assert store.counts()[0].tasks == 9


def test_a_queue_with_room_for_some_calls_accepts_those(committer: Committer, gate: Gate, store: Store) -> None:
    store.configure(Queue(name="small", max_waiting=3))

    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(committer.submit, [a_task()])
        gate.entered.acquire(timeout=PATIENCE)
        others = [threads.submit(committer.submit, [a_task(queue="small")]) for _ in range(8)]
        until(lambda: pending(committer) == 8)
        gate.go.set()
        first.result(PATIENCE)
        errors = [other.exception(PATIENCE) for other in others]

    assert sum(error is None for error in errors) == 3
    assert sum(isinstance(error, QueueFull) for error in errors) == 5


def test_a_store_failure_reaches_every_caller_in_the_commit() -> None:
    failing = Gate(lambda tasks: _fail(StoreUnavailable("gone")))
    committer = a_committer(failing)

    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(committer.submit, [a_task()])]
        failing.entered.acquire(timeout=PATIENCE)
        calls += [threads.submit(committer.submit, [a_task()]) for _ in range(4)]
        until(lambda: pending(committer) == 4)
        failing.go.set()
        errors = [call.exception(PATIENCE) for call in calls]

    assert [type(error) for error in errors] == [StoreUnavailable] * 5
    assert failing.batches == [1, 4]


class Death(BaseException):
    """An error that ends a thread in the middle of a commit."""


def test_the_death_of_the_writing_thread_leaves_no_caller_waiting(store: Store) -> None:
    writes = 0

    def write(tasks: Sequence[NewTask]) -> list[Receipt]:
        nonlocal writes
        writes += 1
        return _fail(Death()) if writes == 2 else store.submit(tasks)

    gate = Gate(write)
    committer = a_committer(gate)

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(committer.submit, [a_task()])
        gate.entered.acquire(timeout=PATIENCE)
        others = [threads.submit(committer.submit, [a_task()]) for _ in range(4)]
        until(lambda: pending(committer) == 4)
        gate.go.set()
        first.result(PATIENCE)
        errors = [other.exception(PATIENCE) for other in others]

    assert sorted(type(error).__name__ for error in errors) == ["CommitUnknown"] * 3 + ["Death"]
    assert isinstance(next(error for error in errors if isinstance(error, CommitUnknown)), CommitUnknown)
    assert len(committer.submit([a_task()])) == 1


def test_a_cancelled_call_is_not_written_and_blocks_no_other(committer: Committer, gate: Gate, store: Store) -> None:
    async def main() -> None:
        first = asyncio.ensure_future(committer.asubmit([a_task()]))
        await asyncio.to_thread(gate.entered.acquire, timeout=PATIENCE)
        leaver = asyncio.ensure_future(committer.asubmit([a_task(key="left")]))
        stayer = asyncio.ensure_future(committer.asubmit([a_task(key="stayed")]))
        await asyncio.to_thread(until, lambda: pending(committer) == 2)
        leaver.cancel()
        await asyncio.wait([leaver])
        gate.go.set()
        await first
        [receipt] = await stayer
        assert store.get([receipt.id])[0] is not None
        assert leaver.cancelled()

    asyncio.run(main())

    assert sum(gate.batches) == 2


def test_a_call_of_many_tasks_is_not_merged_beyond_the_limit(committer: Committer, gate: Gate) -> None:
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(committer.submit, [a_task()])]
        gate.entered.acquire(timeout=PATIENCE)
        calls += [threads.submit(committer.submit, [a_task()] * 1_500) for _ in range(3)]
        until(lambda: pending(committer) == 3)
        gate.go.set()
        assert [len(call.result(PATIENCE)) for call in calls] == [1, 1_500, 1_500, 1_500]

    assert gate.batches == [1, 1_500, 1_500, 1_500]


def test_an_app_shares_commits_and_each_call_is_durable_when_it_returns(real_app: App) -> None:
    @real_app.task
    def work(n: int) -> None: ...

    real_app.store.counts()
    together = threading.Barrier(8)

    def enqueue(thread: int) -> None:
        together.wait()
        for n in range(25):
            handle = work.enqueue(n)
            assert handle.state == "runnable"

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(enqueue, range(8)))

    assert sum(count.tasks for count in real_app.store.counts()) == 200


def test_a_malformed_task_fails_alone(real_app: App) -> None:
    @real_app.task
    def work(n: int) -> None: ...

    async def main() -> list[Any]:
        calls = [(work.using(priority=10**9) if n == 3 else work).aenqueue(n) for n in range(10)]
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(main())

    assert [n for n, answer in enumerate(answers) if isinstance(answer, InvalidTask)] == [3]
    assert sum(count.tasks for count in real_app.store.counts()) == 9


def _fail(error: BaseException) -> Any:
    raise error
