"""What a system has to offer in order to be measured: a module with a client, a count, and a command for its workers.

An adapter is a module that reads the address of its store from `$BENCH_URL` when it is imported, because that is when
most libraries want it; so it is imported only in processes made for one measurement. It holds

- `Client`, a subclass of one of the two below,
- `waiting()`, how many tasks its store holds that have not finished,
- `prepare()`, if its store needs tables,

and its handlers, each of which calls `effects.leave` or `effects.linger`.
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
    """The system has no such thing."""


class System(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    store: str
    """`postgres`, `sqlite` or `redis`."""
    module: str
    """The adapter."""
    needs: tuple[str, ...] = ()
    """What must be importable."""
    commands: tuple[tuple[str, ...], ...]
    """Its workers in their best configuration for two cores, as arguments of the interpreter; `{url}` is filled in."""
    configuration: str
    """The same in words."""

    @property
    def title(self) -> str:
        """As the table has it."""
        return f"{self.name} ({self.store})"

    @property
    def missing(self) -> list[str]:
        """What is not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def adapter(self, url: str) -> Any:
        """Import the adapter, for this address. Only in a process that ends with the measurement."""
        os.environ[URL] = url
        return importlib.import_module(self.module)


class Client:
    """A caller; calls block."""

    def enqueue(self, number: int) -> None:
        """Enqueue one no-op that leaves this number."""
        raise NotOffered

    def enqueue_long(self, number: int, seconds: float) -> None:
        """Enqueue one task that leaves this number and then sleeps."""
        raise NotOffered

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Enqueue no-ops in one call, if there is such a call."""
        raise NotOffered

    def fan(self, width: int) -> None:
        """Start 0, then the numbers 1 to `width`, then `width + 1`."""
        raise NotOffered

    def chain(self, length: int) -> None:
        """Start the numbers from 0, one after the other."""
        raise NotOffered

    def close(self) -> None:
        """Let go of everything."""

    # How the workloads call it.

    def one_by_one(self, numbers: Iterable[int]) -> None:
        """Single calls, one after the other."""
        for number in numbers:
            self.enqueue(number)

    def in_threads(self, numbers: Sequence[int], callers: int) -> None:
        """Single calls from so many threads at once."""
        shares = [numbers[n::callers] for n in range(callers)]
        with ThreadPoolExecutor(callers) as threads:
            list(threads.map(self.one_by_one, shares))

    def in_tasks(self, numbers: Sequence[int], callers: int) -> None:
        """Single calls from so many tasks of one event loop."""
        raise NotOffered

    def paced(self, numbers: Iterable[int], pause: float) -> dict[int, int]:
        """Single calls with pauses; when each was begun."""
        begun: dict[int, int] = {}
        for number in numbers:
            begun[number] = time.monotonic_ns()
            self.enqueue(number)
            time.sleep(pause)
        return begun


class AsyncClient(Client):
    """A caller whose calls are coroutines, on one event loop. What it overrides is the twin with an `a`."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.run(self.aopen())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this on the loop."""
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

    def one_by_one(self, numbers: Iterable[int]) -> None:
        self.run(self._one_by_one(numbers))

    def in_threads(self, numbers: Sequence[int], callers: int) -> None:
        raise NotOffered

    def in_tasks(self, numbers: Sequence[int], callers: int) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(self._one_by_one(numbers[n::callers]) for n in range(callers)))

        self.run(all_of_them())

    def paced(self, numbers: Iterable[int], pause: float) -> dict[int, int]:
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
