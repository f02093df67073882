"""The client side of the workloads. Each job runs in its own process, which imports one adapter.

A measurement ends when all handlers have started and the system's own store has no task left. The store is asked only
after all starts are recorded, so that asking does not disturb the measurement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.workloads.adapter import Client, NotOffered, System
from benchmarks.workloads.effects import FILE, WrongResult, check_once, count_effects, read_effects, wait_until
from benchmarks.workloads.plan import Plan

WARM_UP = 20
FIRST = 1_000_000
"""The first number of warm-up tasks."""


class Job:
    """One measurement of one system at one address."""

    def __init__(self, system: System, url: str, effects: Path, plan: Plan) -> None:
        os.environ[FILE] = str(effects)
        self._effects, self._plan = effects, plan
        self._adapter: Any = system.adapter(url)

    def prepare(self) -> None:
        """Create the tables, if the system needs any."""
        if hasattr(self._adapter, "prepare"):
            self._adapter.prepare()

    def single(self) -> dict[str, float]:
        """Measure W1 with one caller."""
        many = self._plan.singles
        return {"w1": self._measure_enqueue(many, lambda client: client.enqueue_one_by_one(range(many)))}

    def threads(self) -> dict[str, float]:
        """Measure W1 with many threads."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return {
            "w1_threads": self._measure_enqueue(many, lambda client: client.enqueue_in_threads(range(many), callers))
        }

    def tasks(self) -> dict[str, float]:
        """Measure W1 with many asyncio tasks."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return {"w1_tasks": self._measure_enqueue(many, lambda client: client.enqueue_in_tasks(range(many), callers))}

    def bulk(self) -> dict[str, float]:
        """Measure W1b."""
        many, batch = self._plan.bulk, self._plan.batch

        def calls(client: Client) -> None:
            for start in range(0, many, batch):
                client.enqueue_many(range(start, start + batch))

        return {"w1_bulk": self._measure_enqueue(many, calls)}

    def fill(self) -> None:
        """Enqueue the no-ops for W2."""
        client, many = self._client(), self._plan.drain
        try:
            for start in range(0, many, self._plan.batch):
                client.enqueue_many(range(start, min(start + self._plan.batch, many)))
        except NotOffered:
            client.enqueue_one_by_one(range(many))
        client.close()
        self._expect_waiting(many)

    def drain(self) -> dict[str, float]:
        """Measure W2 with new workers: the rate after the first tenth, which warms them up."""
        many = self._plan.drain
        end = self._await_done(many)
        starts = sorted(effect.at for effect in check_once(self._effects, range(many)))
        return {"w2": (many - many // 10) / (end - starts[many // 10 - 1]) * 1e9}

    def latency(self) -> dict[str, float]:
        """Measure W3."""
        client = self._warm_client()
        begun = client.enqueue_with_pauses(range(self._plan.paced), self._plan.pause)
        self._await_done(WARM_UP * 2 + len(begun))
        starts = check_once(self._effects, begun)
        waits = [(effect.at - begun[effect.number]) / 1e6 for effect in starts]
        cuts = quantiles(waits, n=100, method="inclusive")
        return {"w3_p50": cuts[49], "w3_p99": cuts[98]}

    def both(self) -> dict[str, float]:
        """Measure W4."""
        client, many = self._warm_client(), self._plan.both
        start = time.monotonic_ns()
        client.enqueue_one_by_one(range(many))
        end = self._await_done(WARM_UP * 2 + many)
        check_once(self._effects, range(many))
        return {"w4": many / (end - start) * 1e9}

    def fan(self) -> dict[str, float]:
        """Measure the fan of W5."""
        width = self._plan.fan
        starts, seconds = self._measure_graph(width + 2, lambda client: client.fan(width))
        if starts[0] != 0 or starts[-1] != width + 1:
            raise WrongResult("the fan ran in the wrong order")
        return {"w5_fan": seconds}

    def chain(self) -> dict[str, float]:
        """Measure the chain of W5."""
        length = self._plan.chain
        starts, seconds = self._measure_graph(length, lambda client: client.chain(length))
        if starts != list(range(length)):
            raise WrongResult("the chain ran in the wrong order")
        return {"w5_chain": seconds}

    def long(self) -> None:
        """Warm up the workers and enqueue the long task for W6."""
        client = self._warm_client()
        client.enqueue_long(0, self._plan.long)
        client.close()

    def warm(self) -> None:
        """Warm up the workers."""
        self._warm_client().close()

    def _client(self) -> Client:
        return self._adapter.Client()

    def _warm_client(self) -> Client:
        """Return a client after warming up client and workers, with a second of rest in between."""
        client = self._client()
        client.enqueue_one_by_one(range(FIRST, FIRST + WARM_UP))
        self._await_effects(WARM_UP)
        time.sleep(1)
        client.enqueue_with_pauses(range(FIRST + WARM_UP, FIRST + WARM_UP * 2), self._plan.pause)
        self._await_done(WARM_UP * 2)
        return client

    def _measure_enqueue(self, many: int, calls: Callable[[Client], None]) -> float:
        client = self._client()
        client.enqueue_one_by_one(range(FIRST, FIRST + WARM_UP))
        start = time.monotonic_ns()
        calls(client)
        rate = many / (time.monotonic_ns() - start) * 1e9
        self._expect_waiting(WARM_UP + many)
        client.close()
        return rate

    def _measure_graph(self, many: int, submit: Callable[[Client], None]) -> tuple[list[int], float]:
        """Return the numbers in the order of their starts, and the seconds from the call to the last start."""
        client = self._warm_client()
        start = time.monotonic_ns()
        submit(client)
        self._await_effects(WARM_UP * 2 + many)
        time.sleep(0.1)
        check_once(self._effects, range(many))
        found = sorted(read_effects(self._effects), key=lambda effect: effect.at)
        found = [effect for effect in found if effect.number < FIRST]
        return [effect.number for effect in found], (found[-1].at - start) / 1e9

    def _await_effects(self, many: int) -> None:
        effects = self._effects
        wait_until(lambda: count_effects(effects) >= many, f"{many} tasks have started", self._plan.patience)

    def _await_done(self, many: int) -> int:
        """Wait until this many tasks have started and the store has none left. Return the time."""
        self._await_effects(many)
        wait_until(lambda: self._adapter.count_unfinished() == 0, "the store has no task left", self._plan.patience)
        return time.monotonic_ns()

    def _expect_waiting(self, many: int) -> None:
        found = self._adapter.count_unfinished()
        if found != many:
            raise WrongResult(f"{many} tasks were enqueued, but the store has {found}.")
