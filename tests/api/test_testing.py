"""The helpers for testing applications."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from windlass import App, NotAllowed, RetryIn, State, TaskFailed, current
from windlass.clock import ManualClock
from windlass.stores.protocol import Filter
from windlass.testing import assert_enqueued, drain, immediate, memory_store


def test_drain_runs_delayed_and_retried_tasks_when_it_may_advance_the_clock(app: App, clock: ManualClock) -> None:
    attempts: list[int] = []

    @app.task(retries=3)
    def flaky() -> str:
        attempts.append(current().attempt)
        if len(attempts) == 1:
            raise ConnectionError("once")
        if len(attempts) == 2:
            raise RetryIn("1h")
        return "done"

    handle = flaky.using(delay="1d").enqueue()
    began = clock.now()

    assert drain(app) == 0
    assert drain(app, clock=clock, advance=True) == 3
    assert attempts == [1, 2, 3]
    assert handle.result(0) == "done"
    assert clock.now() - began > timedelta(days=1, hours=1) // timedelta(microseconds=1)


def test_a_memory_store_replaces_the_apps_own_and_ignores_connections() -> None:
    app = App(lambda: "postgresql://127.0.0.1:1/nowhere")

    @app.task
    def send(to: str) -> int:
        return len(to)

    with memory_store(app) as store:
        handles = [send.using(conn=object()).enqueue("a"), asyncio.run(send.using(conn=object()).aenqueue("ab"))]
        assert drain(app) == 2
        assert [handle.result(0) for handle in handles] == [1, 2]
        assert len(store.find(Filter()).tasks) == 2
    with memory_store(app):
        assert_enqueued(app, send, times=0)
    assert app.app_store.own_url == "postgresql://127.0.0.1:1/nowhere"


def test_drain_runs_async_handlers_inside_a_running_loop(app: App) -> None:
    @app.task
    async def work(n: int) -> int:
        if n < 3:
            await work.aenqueue(n + 1)
        return n

    async def main() -> int:
        await work.aenqueue(0)
        return drain(app)

    assert asyncio.run(main()) == 4
    work.enqueue(3)
    assert drain(app) == 1


def test_what_a_handler_enqueues_belongs_to_the_tenant_of_its_task(app: App) -> None:
    @app.task
    def child(name: str) -> str:
        return f"{name}: {current().tenant}"

    @app.task(tenant="audit")
    def record() -> str:
        return current().tenant

    @app.task
    def parent() -> None:
        child.enqueue("plain")
        child.using(tenant="globex").enqueue("named")
        app.enqueue_many([child.bind("bound"), record.bind()])
        with app.workflow("w") as workflow:
            workflow.add(child, "step")

    parent.using(tenant="acme").enqueue()
    drain(app)

    tasks = app.store.find(Filter(), limit=100).tasks
    assert sorted((task.handler.rpartition(".")[2], task.tenant) for task in tasks) == [
        ("child", "acme"),
        ("child", "acme"),
        ("child", "acme"),
        ("child", "globex"),
        ("parent", "acme"),
        ("record", "audit"),
    ]


def test_drain_works_on_real_stores(real_app: App) -> None:
    @real_app.task(queue="a")
    def first(n: int) -> int:
        second.using(queue="b").enqueue(n)
        return n

    @real_app.task
    def second(n: int) -> int:
        current().progress(0.5)
        return n * 2

    first.enqueue(4)

    assert drain(real_app) == 2
    assert [task.result for task in assert_enqueued(real_app, second, 4, times=1)] == ["8"]


def test_drain_stops_at_its_limit_and_names_unknown_handlers(app: App) -> None:
    @app.task(name="again")
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(AssertionError, match="not done after 5 attempts"):
        drain(app, limit=5)
    with pytest.raises(NotAllowed, match="the app has no handler 'again'"):
        drain(App(store=app.store))


def test_immediate_runs_the_task_inside_the_call(app: App) -> None:
    order: list[str] = []

    @app.task
    def child(n: int) -> int:
        order.append(f"child {n}")
        return n

    @app.task(retries=5)
    def parent(n: int) -> int:
        order.append(f"parent {n}")
        if n < 0:
            raise ValueError("negative")
        return child.using(delay="1h").enqueue(n).result() + 1

    @app.task
    async def later(n: int) -> int:
        return await (await child.aenqueue(n))

    async def inside() -> int:
        return await (await later.aenqueue(8))

    with immediate(app):
        assert parent.enqueue(1).result() == 2
        assert order == ["parent 1", "child 1"]
        failed = parent.enqueue(-1)
        with pytest.raises(TaskFailed, match="ValueError: negative"):
            failed.result()
        assert later.enqueue(7).result() == 7
        assert asyncio.run(inside()) == 8
        with app.workflow("w") as wf:
            step = wf.add(child, wf.add(child, 5))
        assert step.result() == 5
        assert len(app.enqueue_many(child.bind(n) for n in range(3))) == 3

    assert child.enqueue(9).state is State.RUNNABLE


def test_assert_enqueued_lists_the_tasks_that_exist(app: App) -> None:
    @app.task(name="send")
    def send(to: str, copies: int = 1) -> None: ...

    assert_enqueued(app, send, times=0)
    send.enqueue("a@b.c")
    send.enqueue("a@b.c", copies=2)

    assert len(assert_enqueued(app, send)) == 2
    assert len(assert_enqueued(app, send, "a@b.c", copies=2)) == 1
    with pytest.raises(AssertionError) as failure:
        assert_enqueued(app, send, "x@y.z")
    assert 'send with {"to":"x@y.z"} was enqueued 0 times, expected at least once' in str(failure.value)
    assert '{"to":"a@b.c","copies":2}' in str(failure.value)
    with pytest.raises(AssertionError, match="2 times, expected 1 times"):
        assert_enqueued(app, send, times=1)


A_TEST = """
import windlass
from windlass.testing import drain

app = windlass.App("postgresql://nowhere.invalid/x")
sent = []

@app.task(retries=2)
def send(to: str) -> None:
    if windlass.current().attempt == 1:
        raise ConnectionError
    sent.append(to)

def test_a_welcome_is_sent(windlass_app, windlass_clock):
    windlass_app(app)
    send.using(delay="1h").enqueue("a@b.c")
    assert drain(app, clock=windlass_clock, advance=True) == 2
    assert sent == ["a@b.c"]

def test_each_test_has_its_own_store(windlass_app):
    assert windlass_app(app).store.counts() == []
"""


def test_the_pytest_plugin_gives_each_test_its_own_store(tmp_path: Path) -> None:
    (tmp_path / "test_mail.py").write_text(A_TEST)
    installed = any(entry.value == "windlass.pytest_plugin" for entry in entry_points(group="pytest11"))
    options = [] if installed else ["-p", "windlass.pytest_plugin"]

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *options, "test_mail.py"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


IMMEDIATE_IN_A_FORK = """
import asyncio, os
from threading import get_ident
from windlass import App
from windlass.testing import immediate

app = App("memory:")
threads = []

@app.task(name="work")
def work() -> None:
    threads.append(get_ident())

with immediate(app):
    pid = os.fork()
    if pid == 0:
        asyncio.run(work.aenqueue())
        os._exit(0 if threads == [get_ident()] else 3)
    _, status = os.waitpid(pid, 0)
assert status == 0, os.waitstatus_to_exitcode(status)
"""


def test_an_immediate_task_runs_in_the_thread_of_its_caller_after_a_fork_too() -> None:
    run = subprocess.run([sys.executable, "-c", IMMEDIATE_IN_A_FORK], check=False, capture_output=True, text=True)

    assert run.returncode == 0, run.stderr


def test_without_psycopg_a_store_still_explains_why_it_refuses_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "windlass.stores.postgres", None)
    app = App("memory:")

    @app.task(name="work")
    def work() -> None: ...

    with pytest.raises(NotAllowed, match="joins a PostgreSQL transaction; this store is in memory"):
        asyncio.run(work.using(conn=object()).aenqueue())
