"""The adapter of RQ. Jobs without dependents keep no result."""

from __future__ import annotations

from collections.abc import Sequence
from os import environ

from redis import Redis
from rq import Queue

from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_and_sleep, record_start

queue = Queue(connection=Redis.from_url(environ[URL]))


def noop(number: int) -> None:
    record_start(number)


def long(number: int, seconds: float) -> None:
    record_and_sleep(number, seconds)


class Client(Caller):
    def enqueue(self, number: int) -> None:
        queue.enqueue(noop, args=(number,), result_ttl=0)

    def enqueue_long(self, number: int, seconds: float) -> None:
        queue.enqueue(long, args=(number, seconds))

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        queue.enqueue_many([Queue.prepare_data(noop, (number,), result_ttl=0) for number in numbers])

    def fan(self, width: int) -> None:
        first = queue.enqueue(noop, 0)
        parts = [queue.enqueue(noop, args=(n,), depends_on=first) for n in range(1, width + 1)]
        queue.enqueue(noop, args=(width + 1,), depends_on=parts)

    def chain(self, length: int) -> None:
        last = queue.enqueue(noop, 0)
        for n in range(1, length):
            last = queue.enqueue(noop, args=(n,), depends_on=last)


def count_unfinished() -> int:
    registries = (queue.started_job_registry, queue.deferred_job_registry)
    return queue.count + sum(registry.get_job_count(cleanup=False) for registry in registries)
