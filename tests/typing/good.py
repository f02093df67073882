"""Correct uses: a type checker must report nothing. Read by test_typing.py; never run."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import windlass
from windlass import (
    Attempt,
    DeadGroup,
    Handle,
    Handler,
    NodeInfo,
    PoolInfo,
    Progress,
    QueueInfo,
    Retry,
    State,
    Step,
    Task,
    WorkerInfo,
)
from windlass.testing import assert_enqueued, drain, immediate

app = windlass.App("memory:")


@app.task
def plain(to: str, subject: str = "") -> int:
    return len(to + subject)


@app.task(queue="mail", retries=5, timeout="30s", retry=Retry(retries=2), requires=["gpu"])
def configured(to: str, *, copies: int = 1) -> list[str]:
    return [to] * copies


@app.task
async def asynchronous(n: int) -> str:
    return str(n)


@app.task(priority=3, soft_timeout=timedelta(seconds=3))
async def both(n: int) -> None: ...


@app.cron("0 6 * * 1-5", tz="Europe/Berlin", misfire="skip")
def daily() -> None: ...


@app.task
def fan_out(n: int) -> int:
    more = windlass.more_steps()
    parts = [more.add(asynchronous, part) for part in range(n)]
    assert_type(parts[0], Step[str])
    assert_type(more.then(asynchronous, n), str)
    return more.then(plain, parts, after=[more.sleep(60)], on_failure="run")


@app.on_worker_start
def load() -> None: ...


def calls() -> None:
    assert_type(plain("a"), int)
    assert_type(plain.enqueue("a", subject="b"), Handle[int])
    assert_type(plain.enqueue("a").result(timeout=10), int)
    assert_type(plain.enqueue("a").wait("5s"), State)
    assert_type(configured.enqueue("a", copies=2).result(), list[str])
    assert_type(asynchronous.enqueue(3), Handle[str])
    coroutine: Coroutine[Any, Any, str] = asynchronous(3)
    coroutine.close()
    assert_type(both.enqueue(1), Handle[None])
    assert_type(daily.enqueue(), Handle[None])
    handler: Handler[..., Any, object] = plain
    assert handler


def options() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    other = plain.enqueue("a")
    configured_handle = plain.using(
        priority=5, deadline="10m", delay=5, tenant="acme", key="k", after=[other, "key", other.id], on_failure="run"
    ).enqueue("a")
    assert_type(configured_handle, Handle[int])
    plain.using(at=at, expires=at, workflow="w", conn=object(), slots=2).using(deadline=timedelta(hours=1)).enqueue("a")
    assert_type(app.enqueue_many(plain.bind(x) for x in "abc"), list[Handle[int]])
    assert_type(other.update(priority=9, deadline="1m", expires=None), Task)
    task = other.task()
    assert_type((task.due, task.deadline, task.finished), tuple[datetime, datetime | None, datetime | None])
    assert_type(task.args, dict[str, Any])
    assert other.why().closed is None
    assert other.cancel()


def inspection() -> None:
    assert_type(app.handle("0193", plain), Handle[int])
    assert_type(app.handle("0193", asynchronous).result(), str)
    assert_type(app.handle("0193"), Handle[Any])
    handle = plain.enqueue("a")
    assert_type(handle.progress(), Progress | None)
    assert_type(handle.attempts(), list[Attempt])
    assert_type(handle.logs(), list[str])
    assert_type(handle.retry(why="fixed"), bool)
    found = app.tasks.find("state:failed error~timeout", handler=plain)
    assert_type(list(found), list[Task])
    assert_type((found.count(), found.retry(why="fixed")), tuple[int, int])
    assert_type(app.dead.groups(), list[DeadGroup])
    assert_type(app.queues.set("mail", max_waiting=5, strategy="aging", create=True), QueueInfo)
    assert_type(app.pools.set("mail", 2, 8, lasts="1h").decided_at, datetime | None)
    assert_type(list(app.pools), list[PoolInfo])
    assert_type(list(app.nodes), list[NodeInfo])
    assert_type(app.nodes.drain("box-1", 3).workers, tuple[WorkerInfo, ...])


async def coroutines() -> None:
    assert_type(await asynchronous(3), str)
    handle = await asynchronous.aenqueue(3)
    assert_type(await handle, str)
    assert_type(await handle.aresult(timeout="1s"), str)
    assert_type(await handle.astate(), State)
    assert_type(await handle.aprogress(), Progress | None)
    assert_type([task async for task in app.tasks.find("queue:mail")], list[Task])
    assert_type(await plain.using(priority=1).aenqueue("a"), Handle[int])


def building() -> None:
    with app.workflow("nightly", tenant="acme") as wf:
        a = wf.add(plain, "a")
        assert_type(a, Step[int])
        parts = [wf.add(asynchronous.using(priority=2), a) for _ in range(3)]
        wf.add(configured, parts, after=[a], on_failure="run", key="last")
        assert_type(wf.sleep("1h", after=[a]), Step[None])
        assert_type(wf.sleep_until(datetime.now(UTC), key="morning"), Step[None])
        assert_type(wf.wait_for("approved", timeout="2d", after=[a], on_failure="run"), Step[Any])
    assert_type(app.events.set("nightly", "approved", {"by": "ada"}, tenant="acme", by="ada", why="fine"), bool)
    assert_type(app.events.step("nightly", "approved"), Handle[Any])
    assert_type(wf.set_event("approved", 1), bool)


def tests() -> None:
    drain(app)
    with immediate(app):
        assert_enqueued(app, plain, "a", times=1)
