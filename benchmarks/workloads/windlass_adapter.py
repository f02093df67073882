"""The adapter of Windlass: the app that its nodes serve, and its client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from os import environ

import windlass
from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_and_sleep, record_start
from windlass.core.lifecycle import UNFINISHED, State

app = windlass.App(environ.get(URL, "memory:"))  # workers do not see the address of the store


@app.task(name="noop")
def noop(number: int) -> None:
    record_start(number)


@app.task(name="long")
def long(number: int, seconds: float) -> None:
    record_and_sleep(number, seconds)


class Client(Caller):
    def enqueue(self, number: int) -> None:
        noop.enqueue(number)

    def enqueue_long(self, number: int, seconds: float) -> None:
        long.enqueue(number, seconds)

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        app.enqueue_many(noop.bind(number) for number in numbers)

    def enqueue_in_tasks(self, numbers: Sequence[int], callers: int) -> None:
        async def some(share: Sequence[int]) -> None:
            for number in share:
                await noop.aenqueue(number)

        async def all_of_them() -> None:
            await asyncio.gather(*(some(numbers[n::callers]) for n in range(callers)))

        asyncio.run(all_of_them())

    def fan(self, width: int) -> None:
        with app.workflow("fan") as wf:
            first = wf.add(noop, 0)
            parts = [wf.add(noop, n, after=[first]) for n in range(1, width + 1)]
            wf.add(noop, width + 1, after=parts)

    def chain(self, length: int) -> None:
        with app.workflow("chain") as wf:
            last = wf.add(noop, 0)
            for n in range(1, length):
                last = wf.add(noop, n, after=[last])

    def close(self) -> None:
        app.close()


def prepare() -> None:
    app.store.counts()
    app.close()


def count_unfinished() -> int:
    return sum(count.tasks for count in app.store.counts() if count.state in UNFINISHED)


def count_completed() -> int:
    return sum(count.tasks for count in app.store.counts() if count.state is State.COMPLETED)
