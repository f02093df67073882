from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.test_pool_counters import a_claim
from windlass.config import PoolSettings
from windlass.events import Events
from windlass.worker.pool import (
    MIN_READ_AHEAD_SECONDS,
    READ_AHEAD_BYTES,
    READ_AHEAD_CLAIMS,
    READ_AHEAD_SECONDS,
    READ_AHEAD_TASKS,
    TASK_OVERHEAD_SECONDS,
    Pool,
)
from windlass.worker.worker import RunningAttempt, Worker, WorkerState


def a_pool(workers: int = 1, **settings: object) -> Pool:
    """Return a pool whose workers are all idle."""
    pool = Pool(PoolSettings(size=workers, **settings))  # type: ignore[arg-type]
    for number in range(workers):
        worker = Worker(number, "default", pool.settings.threads, 0.0, Events())
        worker.move(WorkerState.IDLE, 0.0)
        pool.workers[number] = worker
    return pool


def test_without_measurements_there_is_no_read_ahead() -> None:
    assert a_pool(3, threads=2).count_room(0.0) == 6


def test_short_tasks_are_read_ahead_and_long_ones_are_not() -> None:
    short, long = a_pool(), a_pool()

    short.record_run_time(0.001 - TASK_OVERHEAD_SECONDS)
    long.record_run_time(1.0)

    assert short.count_room(0.0) == 1 + 1_000 * MIN_READ_AHEAD_SECONDS
    assert long.count_room(0.0) == 1


def test_the_read_ahead_lasts_for_some_claims() -> None:
    pool = a_pool()
    pool.record_run_time(0.001 - TASK_OVERHEAD_SECONDS)

    for _ in range(100):
        pool.record_claim([a_claim()], 0.005)
    usual = pool.count_room(0.0)
    for _ in range(100):
        pool.record_claim([a_claim()], 3.0)

    assert usual == pytest.approx(1 + 5 * READ_AHEAD_CLAIMS, abs=1)
    assert pool.count_room(0.0) == 1 + 1_000 * READ_AHEAD_SECONDS, "a slow store does not make a worker hoard tasks"


def test_the_next_claim_is_due_when_half_of_the_read_ahead_is_used() -> None:
    pool = a_pool()
    pool.record_run_time(0.001 - TASK_OVERHEAD_SECONDS)
    [worker] = pool.workers.values()
    attempts = [RunningAttempt(a_claim(), ticket, 1, 0.0, 0.0) for ticket in range(pool.count_claimable(0.0))]
    worker.add(attempts, 0.0)

    due: list[int] = []
    for ticket in range(len(attempts)):
        due.append(pool.count_claimable(0.0))
        worker.remove([ticket], 0.0)

    assert due == [0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 10]


def test_read_ahead_is_bounded() -> None:
    pool = a_pool(2)

    pool.record_run_time(0.0)
    for _ in range(100):
        pool.record_claim([a_claim()], READ_AHEAD_SECONDS)

    assert pool.count_room(0.0) == 2 + READ_AHEAD_TASKS


def test_fewer_large_tasks_are_read_ahead() -> None:
    pool = a_pool(2)
    large = replace(a_claim(), args="x" * (1 << 20))
    pool.record_run_time(0.0)

    for _ in range(20):
        pool.record_claim([large, large], READ_AHEAD_SECONDS)

    assert pool.count_room(0.0) == 2 + READ_AHEAD_BYTES // (1 << 20)


def test_starting_and_draining_workers_have_no_room() -> None:
    pool = a_pool(2)

    pool.workers[0].move(WorkerState.DRAINING, 1.0)

    assert pool.count_room(0.0) == 1
    assert pool.count_missing(0.0) == 1


def test_workers_with_the_fewest_tasks_are_retired_first() -> None:
    pool = a_pool(3)
    pool.workers[1].move(WorkerState.BUSY, 1.0)
    pool.target = 1

    assert [worker.number for worker in pool.find_surplus()] == [0, 2]


def test_a_task_that_needs_more_slots_than_any_worker_has_is_not_assigned() -> None:
    assert a_pool(threads=2).loads(0.0).take(3, only_room=False) is None


def test_a_task_goes_to_the_least_loaded_worker_that_is_large_enough() -> None:
    pool = a_pool(2, threads=2)
    small, large = pool.workers.values()
    small.threads = 1
    loads = pool.loads(0.0)

    given = [loads.take(slots, only_room=False) for slots in (2, 1, 1, 2)]

    assert given == [large, small, small, large]


def test_a_worker_that_is_about_to_be_replaced_gets_no_more_tasks_than_it_may_run() -> None:
    pool = a_pool(2)
    worn, other = pool.workers.values()
    worn.lifetime = 1
    loads = pool.loads(0.0)

    given = [loads.take(1, only_room=False) for _ in range(4)]

    assert given == [worn, other, other, other]


def test_only_a_claim_fills_workers_beyond_their_room() -> None:
    pool = a_pool(2)
    loads = pool.loads(0.0)

    with_room = [loads.take(1, only_room=True) for _ in range(3)]

    assert [worker is not None for worker in with_room] == [True, True, False]
    assert loads.take(1, only_room=False) is not None


def test_workers_that_keep_dying_are_started_every_half_minute() -> None:
    pool = a_pool()

    waits = [pool.back_off(0.0) for _ in range(3_000)]

    assert waits[:4] == [0.0, 0.1, 0.2, 0.4]
    assert waits[-1] == 30.0


def test_a_dying_worker_gets_no_tasks() -> None:
    pool = a_pool(2)
    pool.workers[0].socket_closed_at = 1.0
    pool.workers[1].kill_reason = "was killed"

    assert pool.loads(0.0).take(1, only_room=False) is None
    assert pool.count_room(0.0) == 0
    assert not pool.needs_work()
