"""What is late and what is dropped when more work arrives than the workers can do, by strategy.

    python -m benchmarks.overload

Simulated time: the memory store, a manual clock and seeded arrivals, so every run prints the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.settlement import COMPLETED, Stopped, settle
from windlass.core.task import Claim, NewTask, TaskId
from windlass.stores.memory import MemoryStore

WORKERS = 4
SECONDS = 600.0
"""How long tasks arrive. Afterwards the workers do what is left."""
MEAN = 1.0
"""The mean run time in seconds, exponentially distributed."""
SLACK = 2.0, 30.0
"""Deadlines are this many seconds after the arrival, uniformly distributed."""
URGENT = 0.2
"""The share of tasks with a priority of 5; the others have 0."""
LOADS = 0.9, 1.2, 1.5, 2.0


class Job(NamedTuple):
    """A task that arrives. Times are in seconds."""

    at: float
    run_time: float
    deadline: float
    urgent: bool


class Result:
    """How the tasks ended."""

    def __init__(self, jobs: list[Job]) -> None:
        self.tasks = len(jobs)
        self.urgent = sum(job.urgent for job in jobs)
        self.on_time = 0
        self.urgent_on_time = 0
        self.lateness: list[float] = []
        """How many seconds after their deadlines the late tasks ended."""
        self.wasted = 0.0
        """The seconds of worker time that went into attempts that were stopped."""

    @property
    def dropped(self) -> int:
        """The number of tasks that expired."""
        return self.tasks - self.on_time - len(self.lateness)

    def end(self, job: Job, at: float) -> None:
        """Count a task that was completed."""
        if at > job.deadline:
            self.lateness.append(at - job.deadline)
        else:
            self.on_time += 1
            self.urgent_on_time += job.urgent


def make_jobs(load: float, seconds: float = SECONDS, seed: int = 12) -> Iterator[Job]:
    """Yield arrivals with `load` times the work that the workers can do."""
    rng, at = Random(seed), 0.0
    while (at := at + rng.expovariate(load * WORKERS / MEAN)) < seconds:
        yield Job(at, rng.expovariate(1 / MEAN), at + rng.uniform(*SLACK), rng.random() < URGENT)


def simulate(strategy: Strategy, load: float, *, hard: bool, seconds: float = SECONDS) -> Result:
    """Run the arrivals. With `hard`, tasks expire at their deadline; otherwise they run late."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    store.configure(Queue(name="default", strategy=strategy))
    session = store.open_session("node", ttl=timedelta(days=1))
    start, number = clock.now(), count()
    jobs = list(make_jobs(load, seconds))
    result, submitted = Result(jobs), dict[TaskId, Job]()
    events: list[tuple[float, int, Job | Claim]] = []
    for job in jobs:
        heappush(events, (job.at, next(number), job))
    free = WORKERS
    while events:
        at, _, event = heappop(events)
        clock.advance(timedelta(microseconds=start + round(at * 1e6) - clock.now()))
        if isinstance(event, Job):
            due = timedelta(seconds=event.deadline - at)
            task = NewTask(handler="work", priority=5 * event.urgent, deadline=due, expires=due if hard else None)
            [receipt] = store.submit([task])
            submitted[receipt.id] = event
        else:
            free += 1
            job = submitted[event.id]
            if hard and at >= job.deadline:
                result.wasted += at - (event.claimed - start) / 1e6
                store.settle([(event.lease, settle(event, Stopped(State.EXPIRED, "expired"), lambda: 0.5))])
            else:
                result.end(job, at)
                store.settle([(event.lease, COMPLETED)])
        if hard:
            store.sweep()
        for claim in store.claim(session, ["default"], free):
            free -= 1
            job = submitted[claim.id]
            ends = min(at + job.run_time, job.deadline) if hard else at + job.run_time
            heappush(events, (ends, next(number), claim))
    return result


def main() -> None:
    """Print a table for each kind of deadline."""
    print(f"{WORKERS} workers, {SECONDS:.0f} s of arrivals, run times of {MEAN:.0f} s on average\n")
    print("| deadlines | load | strategy | on time | urgent on time | late or dropped | mean late | latest | wasted |")
    print("|---|---|---|---|---|---|---|---|---|")
    for hard in (False, True):
        for load in LOADS:
            for strategy in (Strategy.DEADLINE, Strategy.FIFO, Strategy.PRIORITY, Strategy.AGING):
                print(_line(simulate(strategy, load, hard=hard), strategy, load, hard))


def _line(found: Result, strategy: Strategy, load: float, hard: bool) -> str:
    late = found.lateness
    times = ("–", "–") if not late else (f"{sum(late) / len(late):.0f} s", f"{max(late):.0f} s")
    cells = (
        "hard (`expires`)" if hard else "soft (`deadline`)",
        f"{load:.0%}",
        f"`{strategy}`",
        f"{found.on_time / found.tasks:.0%}",
        f"{found.urgent_on_time / found.urgent:.0%}",
        f"{found.dropped if hard else len(late):,} of {found.tasks:,}",
        *times,
        f"{found.wasted / WORKERS / SECONDS:.0%}" if hard else "–",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
