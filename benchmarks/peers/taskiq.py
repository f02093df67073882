"""The adapter of taskiq on the streams of Redis, which are acknowledged. Pipelines are a package of their own there."""

from __future__ import annotations

import asyncio
from os import environ

from taskiq_redis import RedisStreamBroker

from benchmarks.peers.counting import redis
from benchmarks.workloads.adapter import URL, AsyncClient
from benchmarks.workloads.effects import leave

broker = RedisStreamBroker(environ[URL], consumer_id="0")


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    leave(number)


@broker.task(task_name="long")
async def long(number: int, seconds: float) -> None:
    leave(number)
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


def waiting() -> int:
    """A stream keeps what was acknowledged: what nobody has read yet, and what was read and not acknowledged."""
    [group] = redis().xinfo_groups("taskiq")
    return group["lag"] + group["pending"]
