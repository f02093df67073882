"""The adapter of Celery on Redis. Only the tasks of workflows keep results, because only they need them."""

from __future__ import annotations

from os import environ

from celery import Celery, chain, chord

from benchmarks.peers.counting import redis
from benchmarks.workloads.adapter import URL
from benchmarks.workloads.adapter import Client as Caller
from benchmarks.workloads.effects import record_and_sleep, record_start

app = Celery("bench", broker=environ[URL], backend=environ[URL])
app.conf.broker_connection_retry_on_startup = True


@app.task(name="noop", ignore_result=True)
def noop(number: int) -> None:
    record_start(number)


@app.task(name="step")
def step(number: int) -> None:
    record_start(number)


@app.task(name="long", ignore_result=True)
def long(number: int, seconds: float) -> None:
    record_and_sleep(number, seconds)


class Client(Caller):
    def enqueue(self, number: int) -> None:
        noop.delay(number)

    def enqueue_long(self, number: int, seconds: float) -> None:
        long.delay(number, seconds)

    def fan(self, width: int) -> None:
        parts = [step.si(n) for n in range(1, width + 1)]
        chain(step.si(0), chord(parts, step.si(width + 1))).delay()

    def chain(self, length: int) -> None:
        chain(*(noop.si(n) for n in range(length))).delay()


def count_unfinished() -> int:
    return redis().llen("celery") + redis().hlen("unacked")
