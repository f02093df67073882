"""The list of worker processes that a node reports."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.values import a_stored_task, an_id
from windlass.clock import SystemClock, monotonic
from windlass.core.task import Lease, SessionId, TaskId, claim_of
from windlass.core.worker_list import MAX_CHARACTERS, MAX_STUCK, MAX_TASKS, MAX_WORKERS, decode_workers
from windlass.events import Events
from windlass.worker.node_status import WorkerListing
from windlass.worker.worker import RunningAttempt, Worker, WorkerState


def a_worker(number: int, *, threads: int = 1, tasks: int = 0, pool: str = "mail") -> Worker:
    worker = Worker(number, pool, threads, monotonic(), Events())
    worker.pid = 1_000 + number
    worker.move(WorkerState.IDLE, monotonic())
    for ticket in range(tasks):
        claim = claim_of(a_stored_task(handler="h" * 128), Lease(TaskId(an_id(1)), 1, SessionId(an_id(2))))
        worker.add([RunningAttempt(claim, ticket, 1, 0.0, monotonic())], monotonic())
    return worker


def listing(*workers: Worker, memory: int = 5 << 20, stuck: Mapping[int, float] | None = None) -> WorkerListing:
    """Return the listing of these workers."""
    dispatcher = SimpleNamespace(workers={worker.number: worker for worker in workers})
    hub = SimpleNamespace(
        lock=threading.RLock(), dispatcher=dispatcher, memory=lambda _worker: memory, stuck=stuck or {}
    )
    return WorkerListing(cast("Any", hub), SystemClock())


def test_a_worker_is_described_with_the_tasks_that_it_runs() -> None:
    worker = a_worker(7, threads=2, tasks=3)
    before = SystemClock().now()

    [found] = decode_workers(listing(worker).encode()).workers

    assert (found.number, found.pid, found.pool, found.state) == (7, 1_007, "mail", "busy")
    assert (found.memory, found.running, len(found.tasks)) == (5 << 20, 2, 2), "the third waits for a slot"
    assert all(abs(task.since - before) < 5_000_000 for task in found.tasks)
    assert abs(found.since - before) < 5_000_000


def test_an_idle_node_reports_the_same_text_again() -> None:
    described = listing(a_worker(1), a_worker(2), memory=(5 << 20) + 17)

    first = described.encode()

    assert first == described.encode()
    assert decode_workers(first).workers[0].memory == 5 << 20


def test_a_node_without_workers_has_an_empty_list() -> None:
    assert decode_workers(listing().encode()).workers == ()


def test_processes_that_do_not_end_are_listed_up_to_a_limit() -> None:
    found = decode_workers(listing(stuck=dict.fromkeys(range(1, 1_000), monotonic())).encode()).stuck

    assert [each.pid for each in found] == list(range(1, MAX_STUCK + 1))
    assert abs(found[0].since - SystemClock().now()) < 5_000_000


def test_the_list_is_bounded_and_counts_what_it_omits() -> None:
    workers = [a_worker(number, threads=10, tasks=10, pool="p" * 128) for number in range(MAX_WORKERS + 44)]

    text = listing(*workers).encode()
    found = decode_workers(text)

    assert (len(found.workers), found.more) == (MAX_WORKERS, 44)
    assert [worker.running for worker in found.workers] == [10] * MAX_WORKERS
    assert sum(len(worker.tasks) for worker in found.workers) == MAX_TASKS
    assert len(text) < MAX_CHARACTERS


def test_one_worker_may_list_many_tasks() -> None:
    [found] = decode_workers(listing(a_worker(1, threads=100, tasks=100)).encode()).workers

    assert len(found.tasks) == 100


def test_a_list_that_cannot_be_read_is_empty() -> None:
    assert decode_workers("no JSON").workers == decode_workers('{"workers": 5}').workers == ()
