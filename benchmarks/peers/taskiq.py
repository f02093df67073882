"""The adapter of taskiq on Redis streams, with acknowledgments. Its pipelines are a separate package."""

from __future__ import annotations

import asyncio
from os import environ

from taskiq_redis import RedisStreamBroker

from benchmarks.peers.counting import redis
from benchmarks.workloads.adapter import URL, AsyncClient
from benchmarks.workloads.effects import record_start

broker = RedisStreamBroker(environ[URL], consumer_id="0")


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    record_start(number)


@broker.task(task_name="long")
async def long(number: int, seconds: float) -> None:
    record_start(number)
    await asyncio.sleep(seconds)


class Client(AsyncClient):
    async def aopen(self) -> None:
        await broker.startup()

    async def aenqueue(self, number: int) -> None:
        await noop.kiq(number)

    async def aenqueue_long(self, number: int, seconds: float) -> None:
        await long.kiq(number, seconds)

    async def aclose(self) -> None:
        await broker.shutdown()


def count_unfinished() -> int:
    """Count unread and unacknowledged entries, since a stream also keeps acknowledged ones."""
    [group] = redis().xinfo_groups("taskiq")
    return group["lag"] + group["pending"]
