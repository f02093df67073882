"""The adapter of Dramatiq on Redis. A group cannot follow a task, so the first task of the fan enqueues it."""

from __future__ import annotations

from os import environ

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from benchmarks.peers.counting import redis
from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_and_sleep, record_start

broker = RedisBroker(url=environ[URL])
broker.add_middleware(GroupCallbacks(RedisBackend(url=environ[URL])))
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(number: int) -> None:
    record_start(number)


@dramatiq.actor
def long(number: int, seconds: float) -> None:
    record_and_sleep(number, seconds)


@dramatiq.actor
def spread(width: int) -> None:
    record_start(0)
    parts = dramatiq.group([noop.message(n) for n in range(1, width + 1)])
    parts.add_completion_callback(noop.message(width + 1))
    parts.run()


class Client(Caller):
    def enqueue(self, number: int) -> None:
        noop.send(number)

    def enqueue_long(self, number: int, seconds: float) -> None:
        long.send(number, seconds)

    def fan(self, width: int) -> None:
        spread.send(width)

    def chain(self, length: int) -> None:
        dramatiq.pipeline([noop.message_with_options(args=(n,), pipe_ignore=True) for n in range(length)]).run()


def count_unfinished() -> int:
    return redis().hlen("dramatiq:default.msgs")
