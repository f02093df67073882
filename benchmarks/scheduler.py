"""Compare `Scheduler` with a bare `heapq`, and measure the memory of a waiting task.

    python -m benchmarks.scheduler [--size 1000000] [--rounds 1]

Budgets at 10⁶ tasks: at most four times the time of a bare heapq, and at most 1,024 bytes per task. A pair is one task
in and out: `heappush` and `heappop` of a tuple, or `add_tasks`, `consume_task` and `complete_task`. All rows of a run
use the same deadlines. The best round counts, in CPU time, because a busy machine disturbs it less. `fill and drain`
adds all tasks and then takes them all; `steady` keeps all tasks in the heap and passes as many again through it.
"""

from __future__ import annotations

import argparse
import gc
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from time import process_time
from typing import NamedTuple

from windlass.core.scheduler import Scheduler
from windlass.core.task import NewTask

KIBIBYTE = 1024


class Speed(NamedTuple):
    """The speed of one way to pass all tasks through. `ratio` compares its time with that of the bare heap."""

    shape: str
    name: str
    pairs_per_second: float
    ratio: float


class Report(NamedTuple):
    """The results of one run."""

    size: int
    speeds: list[Speed]
    bytes_per_task: dict[str, float]


def run(size: int = 1_000_000, rounds: int = 1) -> Report:
    """Measure speed and memory with `size` tasks."""
    rng = random.Random(size)
    deadlines = [rng.random() for _ in range(size)]
    speeds = [
        *_compare("fill and drain", FILL_AND_DRAIN, deadlines, rounds),
        *_compare("steady", STEADY, deadlines, rounds),
    ]
    return Report(size, speeds, {name: _measure_bytes_per_task(make, size) for name, make in MEMORY.items()})


def _compare(shape: str, ways: dict[str, Way], deadlines: list[float], rounds: int) -> list[Speed]:
    """Measure every way in every round. The ratios are relative to the first way."""
    seconds: dict[str, float] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            gc.collect()
            seconds[name] = min(way(deadlines), seconds.get(name, float("inf")))
    bare = next(iter(seconds.values()))
    return [Speed(shape, name, len(deadlines) / taken, taken / bare) for name, taken in seconds.items()]


def _fill_and_drain_bare(deadlines: list[float]) -> float:
    heap: list[tuple[float, int]] = []
    start = process_time()
    for id, deadline in enumerate(deadlines):
        heappush(heap, (deadline, id))
    while heap:
        heappop(heap)
    return process_time() - start


def _fill_and_drain_in_one_batch(deadlines: list[float]) -> float:
    scheduler, tasks = Scheduler(), list(_make_tasks(deadlines))
    start = process_time()
    scheduler.add_tasks(tasks)
    _drain(scheduler)
    return process_time() - start


def _fill_and_drain_one_by_one(deadlines: list[float]) -> float:
    return _time_one_by_one(list(_make_tasks(deadlines)))


def _fill_and_drain_with_construction(deadlines: list[float]) -> float:
    return _time_one_by_one(_make_tasks(deadlines))


def _time_one_by_one(tasks: Iterable[NewTask]) -> float:
    scheduler = Scheduler()
    start = process_time()
    for task in tasks:
        scheduler.add_tasks(task)
    _drain(scheduler)
    return process_time() - start


def _drain(scheduler: Scheduler) -> None:
    while (task := scheduler.consume_task()) is not None:
        scheduler.complete_task(task.id)


def _steady_bare(deadlines: list[float]) -> float:
    heap = [(deadline, id) for id, deadline in enumerate(deadlines)]
    heapify(heap)
    start = process_time()
    for id, deadline in enumerate(_shift_deadlines(deadlines), len(deadlines)):
        heappush(heap, (deadline, id))
        heappop(heap)
    return process_time() - start


def _steady_one_by_one(deadlines: list[float]) -> float:
    return _time_steady(deadlines, list(_make_tasks(_shift_deadlines(deadlines), first_id=len(deadlines))))


def _steady_with_construction(deadlines: list[float]) -> float:
    return _time_steady(deadlines, _make_tasks(_shift_deadlines(deadlines), first_id=len(deadlines)))


def _shift_deadlines(deadlines: list[float]) -> Iterator[float]:
    """Return deadlines that move forward, or new tasks would soon all be the most urgent."""
    return (deadline + passed / len(deadlines) for passed, deadline in enumerate(deadlines))


def _time_steady(deadlines: list[float], later: Iterable[NewTask]) -> float:
    scheduler = Scheduler()
    scheduler.add_tasks(_make_tasks(deadlines))
    start = process_time()
    for task in later:
        scheduler.add_tasks(task)
        first = scheduler.consume_task()
        assert first is not None
        scheduler.complete_task(first.id)
    return process_time() - start


def _make_tasks(deadlines: Iterable[float], first_id: int = 0) -> Iterable[NewTask]:
    return (NewTask(id=id, deadline=deadline) for id, deadline in enumerate(deadlines, first_id))


def _measure_bytes_per_task(make: Callable[[int], Iterable[NewTask]], size: int) -> float:
    """Return the memory per added task: the task, its id and deadline, and what Scheduler keeps."""
    gc.collect()
    tracemalloc.start()
    scheduler = Scheduler()
    scheduler.add_tasks(make(size))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(scheduler)


def _make_independent(size: int) -> Iterable[NewTask]:
    return (NewTask(id=id, deadline=size - id + 0.5) for id in range(size))


def _make_chain(size: int) -> Iterable[NewTask]:
    return (NewTask(id=id, deadline=size - id + 0.5, prerequisites=[id - 1] if id else []) for id in range(size))


Way = Callable[[list[float]], float]
FILL_AND_DRAIN: dict[str, Way] = {
    "bare heapq": _fill_and_drain_bare,
    "Scheduler, one batch": _fill_and_drain_in_one_batch,
    "Scheduler, one by one": _fill_and_drain_one_by_one,
    "Scheduler, one by one, NewTask built": _fill_and_drain_with_construction,
}
STEADY: dict[str, Way] = {
    "bare heapq": _steady_bare,
    "Scheduler, one by one": _steady_one_by_one,
    "Scheduler, one by one, NewTask built": _steady_with_construction,
}
MEMORY: dict[str, Callable[[int], Iterable[NewTask]]] = {
    "runnable": _make_independent,
    "waiting in one long chain": _make_chain,
}


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description="Compare Scheduler with a bare heapq.")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    report = run(asked.size, asked.rounds)
    print(f"{report.size:,} tasks, best of {asked.rounds}")
    print(f"{'shape':<15} {'way':<37} {'pairs/s':>10} {'× bare':>7}")
    for shape, name, speed, ratio in report.speeds:
        print(f"{shape:<15} {name:<37} {speed:>10,.0f} {ratio:>7.2f}")
    for name, taken in report.bytes_per_task.items():
        print(f"{'memory':<15} {name:<37} {taken:>10,.0f} bytes per task, {taken / KIBIBYTE:.0%} of the budget")


if __name__ == "__main__":
    main()
