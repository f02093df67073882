"""The adapter of Procrastinate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from os import environ

from procrastinate import App, PsycopgConnector

from benchmarks.peers.counting import count_rows, execute
from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_start

app = App(connector=PsycopgConnector(conninfo=environ[URL]))


@app.task(name="noop")
async def noop(number: int) -> None:
    record_start(number)


@app.task(name="long")
async def long(number: int, seconds: float) -> None:
    record_start(number)
    await asyncio.sleep(seconds)


class Client(Caller):
    def __init__(self) -> None:
        app.open()

    def enqueue(self, number: int) -> None:
        noop.defer(number=number)

    def enqueue_long(self, number: int, seconds: float) -> None:
        long.defer(number=number, seconds=seconds)

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        noop.batch_defer(*({"number": number} for number in numbers))

    def close(self) -> None:
        app.close()


def prepare() -> None:
    with app.open():
        app.schema_manager.apply_schema()


def analyze() -> None:
    execute("VACUUM ANALYZE procrastinate_jobs")  # half the CPU time of a drain from tables without statistics


def count_unfinished() -> int:
    return count_rows("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')")


def count_completed() -> int:
    return count_rows("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")
