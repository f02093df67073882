"""The workloads as a caller sees them. Each of these runs in a process of its own, which has imported one adapter.

Times end when the handlers' effects and the system's own store both say so: the store is asked only when all effects
are there, so that asking costs nothing that is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.workloads.adapter import Client, NotOffered, System
from benchmarks.workloads.effects import FILE, Wrong, check_once, count, read, wait_until
from benchmarks.workloads.plan import Plan

WARM_UP = 20
FIRST = 1_000_000
"""Numbers of tasks that warm something up begin here."""


class Job:
    """One measurement of one system at one address."""

    def __init__(self, system: System, url: str, effects: Path, plan: Plan) -> None:
        os.environ[FILE] = str(effects)
        self._effects, self._plan = effects, plan
        self._adapter: Any = system.adapter(url)

    def prepare(self) -> None:
        """Make the tables, where there are any."""
        if hasattr(self._adapter, "prepare"):
            self._adapter.prepare()

    def single(self) -> dict[str, float]:
        """W1 from one caller."""
        many = self._plan.singles
        return {"w1": self._enqueued(many, lambda client: client.one_by_one(range(many)))}

    def threads(self) -> dict[str, float]:
        """W1 from many threads."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return {"w1_threads": self._enqueued(many, lambda client: client.in_threads(range(many), callers))}

    def tasks(self) -> dict[str, float]:
        """W1 from many asyncio tasks."""
        many, callers = 4 * self._plan.singles, self._plan.callers
        return {"w1_tasks": self._enqueued(many, lambda client: client.in_tasks(range(many), callers))}

    def bulk(self) -> dict[str, float]:
        """W1b."""
        many, batch = self._plan.bulk, self._plan.batch

        def calls(client: Client) -> None:
            for start in range(0, many, batch):
                client.enqueue_many(range(start, start + batch))

        return {"w1_bulk": self._enqueued(many, calls)}

    def fill(self) -> None:
        """What W2 needs: no-ops that wait."""
        client, many = self._client(), self._plan.drain
        try:
            for start in range(0, many, self._plan.batch):
                client.enqueue_many(range(start, min(start + self._plan.batch, many)))
        except NotOffered:
            client.one_by_one(range(many))
        client.close()
        self._expect_waiting(many)

    def drained(self) -> dict[str, float]:
        """W2, while workers that have just been started work: the rate after the first tenth, which warms them up."""
        many = self._plan.drain
        end = self._await_done(many)
        starts = sorted(effect.at for effect in check_once(self._effects, range(many)))
        return {"w2": (many - many // 10) / (end - starts[many // 10 - 1]) * 1e9}

    def latency(self) -> dict[str, float]:
        """W3."""
        client = self._warm_client()
        begun = client.paced(range(self._plan.paced), self._plan.pause)
        self._await_done(WARM_UP * 2 + len(begun))
        starts = check_once(self._effects, begun)
        waits = [(effect.at - begun[effect.number]) / 1e6 for effect in starts]
        cuts = quantiles(waits, n=100, method="inclusive")
        return {"w3_p50": cuts[49], "w3_p99": cuts[98]}

    def both(self) -> dict[str, float]:
        """W4."""
        client, many = self._warm_client(), self._plan.both
        start = time.monotonic_ns()
        client.one_by_one(range(many))
        end = self._await_done(WARM_UP * 2 + many)
        check_once(self._effects, range(many))
        return {"w4": many / (end - start) * 1e9}

    def fan(self) -> dict[str, float]:
        """W5, the fan."""
        width = self._plan.fan
        starts, seconds = self._graph(width + 2, lambda client: client.fan(width))
        if starts[0] != 0 or starts[-1] != width + 1:
            raise Wrong("the fan ran in the wrong order")
        return {"w5_fan": seconds}

    def chain(self) -> dict[str, float]:
        """W5, the chain."""
        length = self._plan.chain
        starts, seconds = self._graph(length, lambda client: client.chain(length))
        if starts != list(range(length)):
            raise Wrong("the chain ran in the wrong order")
        return {"w5_chain": seconds}

    def long(self) -> None:
        """What W6 needs: warm workers, and a long task."""
        client = self._warm_client()
        client.enqueue_long(0, self._plan.long)
        client.close()

    def warm(self) -> None:
        """Workers that have worked."""
        self._warm_client().close()

    def _client(self) -> Client:
        return self._adapter.Client()

    def _warm_client(self) -> Client:
        """A client that has called, of workers that have worked: each gets a second to settle down in."""
        client = self._client()
        client.one_by_one(range(FIRST, FIRST + WARM_UP))
        self._await_effects(WARM_UP)
        time.sleep(1)
        client.paced(range(FIRST + WARM_UP, FIRST + WARM_UP * 2), self._plan.pause)
        self._await_done(WARM_UP * 2)
        return client

    def _enqueued(self, many: int, calls: Callable[[Client], None]) -> float:
        client = self._client()
        client.one_by_one(range(FIRST, FIRST + WARM_UP))
        start = time.monotonic_ns()
        calls(client)
        rate = many / (time.monotonic_ns() - start) * 1e9
        self._expect_waiting(WARM_UP + many)
        client.close()
        return rate

    def _graph(self, many: int, submit: Callable[[Client], None]) -> tuple[list[int], float]:
        """The numbers in the order of their starts, and the seconds from the call to the last start."""
        client = self._warm_client()
        start = time.monotonic_ns()
        submit(client)
        self._await_effects(WARM_UP * 2 + many)
        time.sleep(0.1)
        check_once(self._effects, range(many))
        found = sorted(read(self._effects), key=lambda effect: effect.at)
        found = [effect for effect in found if effect.number < FIRST]
        return [effect.number for effect in found], (found[-1].at - start) / 1e9

    def _await_effects(self, many: int) -> None:
        effects = self._effects
        wait_until(lambda: count(effects) >= many, f"{many} tasks have begun", self._plan.patience)

    def _await_done(self, many: int) -> int:
        """When so many have begun and none is left in the store."""
        self._await_effects(many)
        wait_until(lambda: self._adapter.waiting() == 0, "the store holds no task any more", self._plan.patience)
        return time.monotonic_ns()

    def _expect_waiting(self, many: int) -> None:
        found = self._adapter.waiting()
        if found != many:
            raise Wrong(f"{many} tasks were enqueued, and the store holds {found}")
