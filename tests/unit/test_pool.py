from __future__ import annotations

from collections import Counter

from windlass.config import PoolSettings
from windlass.events import Events
from windlass.worker.pool import READ_AHEAD_TASKS, Pool
from windlass.worker.worker import Worker, WorkerState


def a_pool(workers: int = 1, **settings: object) -> Pool:
    """Return a pool whose workers are all idle."""
    pool = Pool(PoolSettings(size=workers, **settings))  # type: ignore[arg-type]
    for number in range(workers):
        worker = Worker(number, "default", pool.settings.threads, 0.0, Events())
        worker.move(WorkerState.IDLE, 0.0)
        pool.workers[number] = worker
    return pool


def test_queues_come_first_in_proportion_to_their_weights() -> None:
    pool = a_pool(queues=("a", "b", "c"), weights=(5, 2, 1))

    orders = [pool.rotate_queues() for _ in range(80)]

    assert Counter(order[0] for order in orders) == {"a": 50, "b": 20, "c": 10}
    assert all(sorted(order) == ["a", "b", "c"] for order in orders), "the others are claimed from too"


def test_without_weights_queues_take_turns() -> None:
    pool = a_pool(queues=("a", "b"))

    assert [pool.rotate_queues()[0] for _ in range(4)] == ["a", "b", "a", "b"]


def test_without_measurements_there_is_no_read_ahead() -> None:
    assert a_pool(3, threads=2).count_room(0.0) == 6


def test_short_tasks_are_read_ahead_and_long_ones_are_not() -> None:
    short, long = a_pool(), a_pool()

    short.record_run_time(0.001)
    long.record_run_time(1.0)

    assert short.count_room(0.0) == 1 + 50
    assert long.count_room(0.0) == 1


def test_read_ahead_is_bounded() -> None:
    pool = a_pool(2)

    pool.record_run_time(0.0)

    assert pool.count_room(0.0) == 2 + READ_AHEAD_TASKS


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
    assert a_pool(threads=2).choose_worker(3, {}) is None


def test_workers_that_keep_dying_are_started_every_half_minute() -> None:
    pool = a_pool()

    waits = [pool.back_off(0.0) for _ in range(3_000)]

    assert waits[:4] == [0.0, 0.1, 0.2, 0.4]
    assert waits[-1] == 30.0


def test_a_dying_worker_gets_no_tasks() -> None:
    pool = a_pool(2)
    pool.workers[0].socket_closed_at = 1.0
    pool.workers[1].kill_reason = "was killed"

    assert pool.choose_worker(1, {}) is None
    assert pool.count_room(0.0) == 0
    assert not pool.needs_work()
