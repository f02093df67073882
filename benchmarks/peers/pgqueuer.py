"""The adapter of PgQueuer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from os import environ

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries, run

from benchmarks.peers.counting import count_rows
from benchmarks.workloads.adapter import URL, AsyncClient
from benchmarks.workloads.effects import record_start


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    """Yield a manager with its handlers, as a worker expects it."""
    manager = PgQueuer(await _driver())

    @manager.entrypoint("noop")
    async def noop(job: Job) -> None:
        record_start(int(job.payload or b""))

    @manager.entrypoint("long")
    async def long(job: Job) -> None:
        number, seconds = json.loads(job.payload or b"")
        record_start(number)
        await asyncio.sleep(seconds)

    yield manager


class Client(AsyncClient):
    async def aopen(self) -> None:
        self._queries = Queries(await _driver())

    async def aenqueue(self, number: int) -> None:
        await self._queries.enqueue("noop", b"%d" % number)

    async def aenqueue_long(self, number: int, seconds: float) -> None:
        await self._queries.enqueue("long", json.dumps([number, seconds]).encode())

    async def aenqueue_many(self, numbers: Sequence[int]) -> None:
        many = len(numbers)
        await self._queries.enqueue(["noop"] * many, [b"%d" % number for number in numbers], [0] * many)


def prepare() -> None:
    async def install() -> None:
        await Queries(await _driver()).install()

    asyncio.run(install())


def count_unfinished() -> int:
    return count_rows("SELECT count(*) FROM pgqueuer WHERE status IN ('queued', 'picked')")


def count_completed() -> int:
    return count_rows("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")


async def _driver() -> AsyncpgDriver:
    return AsyncpgDriver(await asyncpg.connect(environ[URL]))


if __name__ == "__main__":
    uvloop.run(run(main, batch_size=250))  # like `pgq run --batch-size 250`, which fails with some versions of typer
