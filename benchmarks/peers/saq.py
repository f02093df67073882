"""The adapter of SAQ, on PostgreSQL and on Redis."""

from __future__ import annotations

import asyncio
from os import environ
from typing import Any

from saq import Queue

from benchmarks.peers.counting import count_rows, redis
from benchmarks.workloads.adapter import URL, AsyncClient
from benchmarks.workloads.effects import record_start

url = environ[URL]
queue = Queue.from_url(url)


async def noop(_context: Any, *, number: int) -> None:
    record_start(number)


async def long(_context: Any, *, number: int, seconds: float) -> None:
    record_start(number)
    await asyncio.sleep(seconds)


settings = {"queue": queue, "functions": [noop, long], "concurrency": 20}


class Client(AsyncClient):
    async def aopen(self) -> None:
        await queue.connect()

    async def aenqueue(self, number: int) -> None:
        await queue.enqueue("noop", number=number)

    async def aenqueue_long(self, number: int, seconds: float) -> None:
        await queue.enqueue("long", number=number, seconds=seconds)

    async def aclose(self) -> None:
        await queue.disconnect()


def prepare() -> None:
    async def connect() -> None:
        await queue.connect()
        await queue.disconnect()

    asyncio.run(connect())


def count_unfinished() -> int:
    if url.startswith("redis:"):
        return redis().zcard("saq:default:incomplete")
    return count_rows("SELECT count(*) FROM saq_jobs WHERE status IN ('new', 'deferred', 'queued', 'active')")
