"""What a system needs to be measured: a module with a client, a count, and a command for its workers.

An adapter is a module that reads the address of its store from `$BENCH_URL` when it is imported, because most libraries
need it at that time. So it is imported only in processes made for one measurement. It has

- `Client`, a subclass of one of the two classes below,
- `count_unfinished()`, which counts the unfinished tasks in its store,
- `count_completed()`, which counts the completed tasks there, if it keeps them,
- `prepare()`, if its store needs tables,
- `analyze()`, if its store needs planner statistics after many tasks were enqueued,

and handlers that call `effects.record_start` or `effects.record_and_sleep`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import time
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec import Struct

URL = "BENCH_URL"
T = TypeVar("T")


class NotOffered(Exception):
    """The system does not support this workload."""


class System(Struct, frozen=True, kw_only=True):
    """One system of the comparison: a line of the table."""

    name: str
    store: str
    """`postgres`, `sqlite` or `redis`."""
    module: str
    """The module of the adapter."""
    needs: tuple[str, ...] = ()
    """The modules that must be installed."""
    commands: tuple[tuple[str, ...], ...]
    """The commands of its workers in the best configuration for two cores. `{url}` is the address of the store."""
    configuration: str
    """The configuration in words."""
    variant: str = ""
    """What is different from the other lines of the same system."""

    @property
    def title(self) -> str:
        """The name in the table."""
        return f"{self.name} ({self.store})" + (f", {self.variant}" if self.variant else "")

    @property
    def missing(self) -> list[str]:
        """The required modules that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def adapter(self, url: str) -> Any:
        """Import the adapter for this address. Use it only in a process that ends with the measurement."""
        os.environ[URL] = url
        return importlib.import_module(self.module)


class Client:
    """A client with blocking calls."""

    def enqueue(self, number: int) -> None:
        """Enqueue one no-op that records this number."""
        raise NotOffered

    def enqueue_long(self, number: int, seconds: float) -> None:
        """Enqueue one task that records this number and then sleeps."""
        raise NotOffered

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Enqueue no-ops in one call, if the system has such a call."""
        raise NotOffered

    def fan(self, width: int) -> None:
        """Run task 0, then tasks 1 to `width`, then task `width + 1`."""
        raise NotOffered

    def chain(self, length: int) -> None:
        """Run the tasks from 0 on, one after the other."""
        raise NotOffered

    def close(self) -> None:
        """Close all connections."""

    # The calls of the workloads.

    def enqueue_one_by_one(self, numbers: Iterable[int]) -> None:
        """Enqueue with single calls, one after the other."""
        for number in numbers:
            self.enqueue(number)

    def enqueue_in_threads(self, numbers: Sequence[int], callers: int) -> None:
        """Enqueue with single calls from this many threads."""
        shares = [numbers[n::callers] for n in range(callers)]
        with ThreadPoolExecutor(callers) as threads:
            list(threads.map(self.enqueue_one_by_one, shares))

    def enqueue_in_tasks(self, numbers: Sequence[int], callers: int) -> None:
        """Enqueue with single calls from this many tasks of one event loop."""
        raise NotOffered

    def enqueue_with_pauses(self, numbers: Iterable[int], pause: float) -> dict[int, int]:
        """Enqueue with pauses. Return when each call began."""
        begun: dict[int, int] = {}
        for number in numbers:
            begun[number] = time.monotonic_ns()
            self.enqueue(number)
            time.sleep(pause)
        return begun


class AsyncClient(Client):
    """A client whose calls are coroutines on one event loop. Subclasses override the methods with the prefix `a`."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.run(self.aopen())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop."""
        return self._runner.run(work)

    async def aopen(self) -> None:
        """Connect."""

    async def aclose(self) -> None:
        """Disconnect."""

    async def aenqueue(self, number: int) -> None:
        """See `enqueue`."""
        raise NotOffered

    async def aenqueue_long(self, number: int, seconds: float) -> None:
        """See `enqueue_long`."""
        raise NotOffered

    async def aenqueue_many(self, numbers: Sequence[int]) -> None:
        """See `enqueue_many`."""
        raise NotOffered

    def enqueue(self, number: int) -> None:
        self.run(self.aenqueue(number))

    def enqueue_long(self, number: int, seconds: float) -> None:
        self.run(self.aenqueue_long(number, seconds))

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        self.run(self.aenqueue_many(numbers))

    def close(self) -> None:
        self.run(self.aclose())
        self._runner.close()

    def enqueue_one_by_one(self, numbers: Iterable[int]) -> None:
        self.run(self._one_by_one(numbers))

    def enqueue_in_threads(self, numbers: Sequence[int], callers: int) -> None:
        raise NotOffered

    def enqueue_in_tasks(self, numbers: Sequence[int], callers: int) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(self._one_by_one(numbers[n::callers]) for n in range(callers)))

        self.run(all_of_them())

    def enqueue_with_pauses(self, numbers: Iterable[int], pause: float) -> dict[int, int]:
        async def calls() -> dict[int, int]:
            begun: dict[int, int] = {}
            for number in numbers:
                begun[number] = time.monotonic_ns()
                await self.aenqueue(number)
                await asyncio.sleep(pause)
            return begun

        return self.run(calls())

    async def _one_by_one(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            await self.aenqueue(number)
