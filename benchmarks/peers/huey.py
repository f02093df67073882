"""The adapter of Huey on SQLite, as durable as Windlass there, and on Redis. Results are kept only for chords."""

from __future__ import annotations

from os import environ

from huey import RedisHuey, SqliteHuey
from huey.api import group

from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_and_sleep, record_start

url = environ[URL]
if url.startswith("sqlite:"):
    huey = SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync=True, results=False)
else:
    huey = RedisHuey("bench", url=url, results=False)


@huey.task()
def noop(number: int) -> None:
    record_start(number)


@huey.task()
def last(_results: object, number: int) -> None:
    record_start(number)


@huey.task()
def spread(width: int) -> None:
    record_start(0)
    huey.enqueue(group([noop.s(n) for n in range(1, width + 1)]).then(last, number=width + 1))


@huey.task()
def long(number: int, seconds: float) -> None:
    record_and_sleep(number, seconds)


class Client(Caller):
    def enqueue(self, number: int) -> None:
        noop(number)

    def enqueue_long(self, number: int, seconds: float) -> None:
        long(number, seconds)

    def fan(self, width: int) -> None:
        spread(width)

    def chain(self, length: int) -> None:
        first = noop.s(0)
        for n in range(1, length):
            first.then(noop, n)
        huey.enqueue(first)


def count_unfinished() -> int:
    return huey.pending_count()
