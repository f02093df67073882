"""The client side of the workloads. Each job runs in its own process, which imports one adapter.

CPU time is read when the measured phase starts and when it ends. A phase never includes the start of a process: clients
have connected and made calls before, and workers have run tasks. It ends when all handlers have started and the
system's own store has no task left. The store is asked only after all starts are recorded, so that asking does not
disturb the measurement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import Any

import psycopg
from msgspec.structs import replace

from benchmarks.cost import Cost, Mark, subtract
from benchmarks.usage import Roles, read_usage
from benchmarks.workloads.adapter import Client, NotOffered, System
from benchmarks.workloads.effects import FILE, WrongResult, check_once, count_effects, read_effects, wait_until
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.waits import WaitSampler

WARM_UP = 20
FIRST = 1_000_000_000
"""The first number of warm-up tasks."""

POLL = 0.005
WINDOWS = 10


class Job:
    """One measurement of one system at one address."""

    def __init__(self, system: System, url: str, effects: Path, plan: Plan, roles: Roles | None = None) -> None:
        os.environ[FILE] = str(effects)
        self._url, self._effects, self._plan, self._roles = url, effects, plan, roles or Roles()
        self._adapter: Any = system.adapter(url)

    # Preparation.

    def prepare(self) -> None:
        """Create the tables, if the system needs any."""
        if hasattr(self._adapter, "prepare"):
            self._adapter.prepare()

    def fill(self) -> None:
        """Enqueue the no-ops to drain."""
        client, many = self._client(), self._plan.tasks
        try:
            for start in range(0, many, self._plan.batch):
                client.enqueue_many(range(start, min(start + self._plan.batch, many)))
        except NotOffered:
            client.enqueue_one_by_one(range(many))
        client.close()
        if hasattr(self._adapter, "analyze"):
            self._adapter.analyze()
        self._expect_waiting(many)

    def warm(self) -> None:
        """Warm up the workers."""
        self._warm_client().close()

    def start_long(self) -> None:
        """Warm up the workers and enqueue a long task."""
        client = self._warm_client()
        client.enqueue_long(0, self._plan.long)
        client.close()

    # Workloads.

    def measure_drain(self, *, pin: bool = False, sample: bool = False) -> Cost:
        """Measure the drain of waiting no-ops by new workers. The first tenth warms them up and is not counted.

        With `pin`, an idle reader holds a snapshot. With `sample`, the waits of the server are sampled.
        """
        many = self._plan.tasks
        with (
            hold_snapshot(self._url) if pin else nullcontext(),
            WaitSampler(self._url) if sample else nullcontext() as sampler,
        ):
            roles = replace(self._roles, ignored=[sampler.pid]) if sampler else self._roles
            marks: list[Mark] = []
            for window in range(1, WINDOWS):
                self._await_effects(many * window // WINDOWS, POLL)
                marks.append(Mark(count_effects(self._effects), time.monotonic_ns(), read_usage(roles)))
            end = self._await_done(many)
            marks.append(Mark(many, end, read_usage(roles)))
            waits = sampler.get_shares() if sampler else {}
        check_once(self._effects, range(many))
        self._expect_completed(many)
        windows = [subtract(after, before) for before, after in pairwise(marks)]
        return replace(subtract(marks[-1], marks[0]), windows=windows, waits=waits)

    def measure_bulk(self) -> Cost:
        """Measure the enqueue in batches."""
        many, batch = self._plan.tasks, self._plan.batch

        def call(client: Client) -> None:
            for start in range(0, many, batch):
                client.enqueue_many(range(start, min(start + batch, many)))

        return self._measure_enqueues(many, call, lambda client: client.enqueue_many(range(FIRST, FIRST + WARM_UP)))

    def measure_single(self) -> Cost:
        """Measure single enqueue calls of one caller."""
        many = self._plan.singles
        return self._measure_enqueues(many, lambda client: client.enqueue_one_by_one(range(many)))

    def measure_threads(self) -> Cost:
        """Measure single enqueue calls of many threads."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return self._measure_enqueues(many, lambda client: client.enqueue_in_threads(range(many), callers))

    def measure_coroutines(self) -> Cost:
        """Measure single enqueue calls of many asyncio tasks."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return self._measure_enqueues(many, lambda client: client.enqueue_in_tasks(range(many), callers))

    def measure_both(self) -> Cost:
        """Measure single enqueue calls of one caller while the workers run."""
        many = self._plan.singles
        cost, _ = self._measure_run(many, lambda client: client.enqueue_one_by_one(range(many)))
        return cost

    def measure_chain(self) -> Cost:
        """Measure tasks that run one after the other."""
        length = self._plan.chain
        cost, starts = self._measure_run(length, lambda client: client.chain(length))
        if starts != list(range(length)):
            raise WrongResult("the chain ran in the wrong order")
        return cost

    def measure_fan(self) -> Cost:
        """Measure one task, then many, then one."""
        width = self._plan.fan
        cost, starts = self._measure_run(width + 2, lambda client: client.fan(width))
        if starts[0] != 0 or starts[-1] != width + 1:
            raise WrongResult("the fan ran in the wrong order")
        return cost

    def measure_latency(self) -> Cost:
        """Measure tasks that are enqueued with pauses on an idle system."""
        many = self._plan.paced
        begun: dict[int, int] = {}
        cost, _ = self._measure_run(
            many, lambda client: begun.update(client.enqueue_with_pauses(range(many), self._plan.pause))
        )
        starts = check_once(self._effects, range(many))
        cuts = quantiles([(one.at - begun[one.number]) / 1e6 for one in starts], n=100, method="inclusive")
        return replace(cost, p50=cuts[49], p99=cuts[98])

    def _measure_enqueues(
        self, many: int, call: Callable[[Client], object], warm_up: Callable[[Client], object] | None = None
    ) -> Cost:
        client = self._client()
        for _ in range(6):  # psycopg prepares a statement after it was sent five times
            (warm_up or _enqueue_some)(client)
        waiting = self._adapter.count_unfinished()
        before = self._mark(0)
        call(client)
        after = self._mark(many)
        self._expect_waiting(waiting + many)
        client.close()
        return subtract(after, before)

    def _measure_run(self, many: int, call: Callable[[Client], object]) -> tuple[Cost, list[int]]:
        """Return the cost, and the numbers of the tasks in the order of their starts."""
        client = self._warm_client()
        before = self._mark(0)
        call(client)
        called = time.process_time()  # waiting for the end is not the client's work
        end = self._await_done(WARM_UP * 2 + many)
        after = Mark(many, end, replace(read_usage(self._roles), client=called))
        check_once(self._effects, range(many))
        self._expect_completed(WARM_UP * 2 + many)
        found = sorted(read_effects(self._effects), key=lambda effect: effect.at)
        return subtract(after, before), [effect.number for effect in found if effect.number < FIRST]

    def _mark(self, tasks: int) -> Mark:
        return Mark(tasks, time.monotonic_ns(), read_usage(self._roles, client=True))

    # Clients.

    def _client(self) -> Client:
        return self._adapter.Client()

    def _warm_client(self) -> Client:
        """Return a client after warming up client and workers, with a second of rest in between."""
        client = self._client()
        _enqueue_some(client)
        self._await_effects(WARM_UP)
        time.sleep(1)
        client.enqueue_with_pauses(range(FIRST + WARM_UP, FIRST + WARM_UP * 2), self._plan.pause)
        self._await_done(WARM_UP * 2)
        return client

    # Checks.

    def _await_effects(self, many: int, pause: float = 0.001) -> None:
        effects, patience = self._effects, self._plan.patience
        wait_until(lambda: count_effects(effects) >= many, f"{many} tasks have started", patience, pause)

    def _await_done(self, many: int) -> int:
        """Wait until this many tasks have started and the store has none left. Return the time."""
        self._await_effects(many)
        wait_until(lambda: self._adapter.count_unfinished() == 0, "the store has no task left", self._plan.patience)
        return time.monotonic_ns()

    def _expect_completed(self, many: int) -> None:
        found = self._adapter.count_completed() if hasattr(self._adapter, "count_completed") else many
        if found != many:
            raise WrongResult(f"{many} tasks were completed, but the store has {found} completed tasks.")

    def _expect_waiting(self, many: int) -> None:
        found = self._adapter.count_unfinished()
        if found != many:
            raise WrongResult(f"{many} tasks were enqueued, but the store has {found}.")


def _enqueue_some(client: Client) -> None:
    client.enqueue_one_by_one(range(FIRST, FIRST + WARM_UP))


@contextmanager
def hold_snapshot(url: str) -> Generator[None]:
    """Keep the snapshot of an idle PostgreSQL reader open, so that no dead row can be removed."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.rollback()
