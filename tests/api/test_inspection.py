"""Read and change tasks, dead letters, queues and pools from Python."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, timedelta
from html.parser import HTMLParser
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.support.builders import a_session
from windlass import App, Handle, InvalidFilter, InvalidTask, NotAllowed, Secret, State, UnknownTask, current
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.client import app_store, inspection
from windlass.clock import ManualClock
from windlass.core.times import to_datetime
from windlass.core.worker_list import RunningTask, WorkerList, WorkerProcess, encode_workers
from windlass.errors import UnknownPool, UnknownQueue, UnknownWorker
from windlass.testing import drain


@pytest.fixture
def work(app: App) -> Any:
    @app.task(name="work", queue="jobs", retries=0)
    def work(n: int) -> int:
        current().progress(0.5, "half")
        if n < 0:
            raise ValueError(f"<b>timeout {n}</b>")
        return n * 2

    return work


def by_state(app: App) -> dict[State, int]:
    return {state: app.tasks.find(f"state:{state}").count() for state in State}


def test_a_handle_shows_progress_output_and_attempts(app: App, work: Any, clock: ManualClock) -> None:
    async def ask(handle: Handle[int]) -> list[Any]:
        return [await handle.aprogress(), await handle.alogs(), await handle.aattempts()]

    handle = work.enqueue(-1)
    assert (handle.progress(), handle.attempts(), handle.logs()) == (None, [], [])

    drain(app)
    [attempt], progress = handle.attempts(), handle.progress()

    assert (attempt.number, attempt.state, attempt.error.kind) == (1, State.FAILED, "ValueError")
    assert attempt.ended.tzinfo is UTC
    assert attempt.seconds == (attempt.ended - attempt.started).total_seconds() >= 0
    assert (progress.share, progress.message, progress.at.tzinfo) == (0.5, "half", UTC)
    assert asyncio.run(ask(handle)) == [progress, handle.logs(), [attempt]]
    unknown = app.handle("018f0000-0000-7000-8000-000000000000")
    for read in (unknown.progress, unknown.logs, unknown.attempts, unknown.retry):
        with pytest.raises(UnknownTask):
            read()


def test_a_handle_retries_a_task_that_failed(app: App, work: Any) -> None:
    good, bad = work.enqueue(1), work.enqueue(-1)
    drain(app)

    assert not good.retry()
    assert bad.retry(why="fixed", by="ann")
    assert (bad.state, bad.task().generation) == (State.RUNNABLE, 1)
    [entry] = app.store.audit(f"task/{bad.id}")
    assert (entry.action, entry.by, "fixed" in entry.text) == ("retried", "ann", True)
    drain(app)
    assert asyncio.run(bad.aretry())


def test_a_handle_of_a_named_handler_refuses_tasks_of_others(app: App, work: Any) -> None:
    @app.task(name="other")
    def other() -> str:
        return "text"

    handle = work.enqueue(4)
    drain(app)

    assert app.handle(handle.id, work).result(0) == 8
    wrong = app.handle(handle.id, other)
    for read in (lambda: wrong.result(0), lambda: wrong.state, lambda: asyncio.run(wrong.aresult(1))):
        with pytest.raises(InvalidTask, match="is of the handler 'work', not of 'other'"):
            read()
    with pytest.raises(InvalidTask, match="handler="):
        app.handle(handle.id, "work")  # type: ignore[call-overload]


def test_tasks_are_found_lazily_newest_first(app: App, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    find = app.store.find
    monkeypatch.setattr(app.store, "find", lambda *args, **named: reads.append(1) or find(*args, **named))
    handles = [work.enqueue(n) for n in range(250)]
    found = app.tasks.find("queue:jobs")
    assert reads == []

    first = list(islice(found, 3))
    assert [task.id for task in first] == [handle.id for handle in reversed(handles)][:3]
    assert (len(reads), first[0].args, first[0].submitted.tzinfo) == (1, {"n": 249}, UTC)
    assert [task.id for task in found] == [handle.id for handle in reversed(handles)]

    async def collect() -> list[Any]:
        return [task.id async for task in found]

    assert len(asyncio.run(collect())) == 250


def test_tasks_are_found_by_filter_and_by_field_and_counted(app: App, work: Any) -> None:
    for n in (1, 2, -1):
        work.enqueue(n)
    drain(app)

    failed = app.tasks.find("state:failed error~timeout", handler=work)

    assert [task.args["n"] for task in failed] == [-1]
    assert (failed.count(), asyncio.run(failed.acount())) == (1, 1)
    assert app.tasks.find(queue="jobs", handler="work").count() == 3
    assert app.tasks.find(tenant="other").count() == 0
    assert app.tasks.get(str(next(iter(failed)).id)[-8:]).state is State.FAILED
    with pytest.raises(InvalidFilter):
        app.tasks.find("colour:red")
    with pytest.raises(InvalidTask, match="query="):
        app.tasks.find(3)  # type: ignore[arg-type]


def test_tasks_are_cancelled_retried_and_purged_by_filter_with_an_audit_entry(app: App, work: Any) -> None:
    for n in (-1, -2, 1):
        work.enqueue(n)
    drain(app)
    work.enqueue(5)

    assert app.tasks.find("state:failed").retry(why="fixed", by="ann") == 2
    assert asyncio.run(app.tasks.find("queue:jobs").acancel(why="not now")) == 3
    assert app.tasks.find("state:completed").purge() == 1
    assert by_state(app) == {state: 3 if state is State.CANCELLED else 0 for state in State}
    assert [entry.action for entry in app.store.audit("tasks")] == ["purged", "cancelled", "retried"]
    assert (app.store.audit("tasks")[-1].by, "fixed" in app.store.audit("tasks")[-1].text) == ("ann", True)
    with pytest.raises(InvalidFilter, match="every task"):
        app.tasks.find().cancel()


def test_tasks_are_found_without_secrets(app: App) -> None:
    @app.task(name="pay")
    def pay(card: Secret[str], password: str) -> None: ...

    handle = pay.enqueue("4711", password="hidden")
    app.store.publish(app.manifest())

    [found] = app.tasks.find("state:runnable")

    assert "4711" not in repr(found)
    assert "hidden" not in repr(found)
    assert handle.task().args == {"card": "4711", "password": "hidden"}
    assert "4711" not in handle._repr_html_() + found._repr_html_()


def test_dead_letters_are_grouped_retried_tried_and_dropped(app: App, work: Any) -> None:
    for n in (-1, -2, -3):
        work.enqueue(n)
    drain(app)

    [group] = app.dead
    assert (group.count, group.error.kind, group.handlers, group.first.tzinfo) == (3, "ValueError", ("work",), UTC)
    assert app.dead.get(group.id[:4]) == group
    assert len(app.dead.tasks(group, limit=2)) == 2
    tried = app.dead.canary(group.id, patience="0s", why="try one")
    assert (tried.retried, tried.left, tried.fixed) == (1, 2, False)
    assert app.dead.retry(group).retried == 2
    drain(app)
    assert app.dead.groups(queue="other") == []
    assert app.dead.drop(group, by="ann") == 3
    assert [entry.action for entry in app.store.audit(f"dead/{group.id}")] == ["dropped", "retried", "retried"]


def test_queues_are_listed_paused_resumed_and_changed(app: App, work: Any, clock: ManualClock) -> None:
    work.enqueue(1)

    paused = app.queues.pause("jobs", lasts="1h", why="import", by="ann")
    assert (paused.paused, paused.paused_by, paused.paused_why) == (True, "ann", "import")
    assert paused.paused_until is not None
    assert timedelta(minutes=59) < paused.paused_until - to_datetime(clock.now()) <= timedelta(hours=1)
    assert not app.queues.resume("jobs").paused
    changed = app.queues.set("jobs", max_waiting=5, strategy="aging", step="2m")
    assert (changed.max_waiting, changed.strategy, changed.step) == (5, "aging", timedelta(minutes=2))
    assert app.queues.get("jobs").tasks == {State.RUNNABLE: 1}
    assert [queue.name for queue in app.queues] == ["jobs"]
    assert len(app.store.audit("queue/jobs")) == 3


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda app: app.queues.pause("jbos"), UnknownQueue, "jbos"),
        (lambda app: app.queues.set("jbos", weight=2), UnknownQueue, "jbos"),
        (lambda app: app.queues.get("jbos"), UnknownQueue, "jbos"),
        (lambda app: app.queues.set("jobs"), InvalidTask, "No setting"),
        (lambda app: app.queues.set("jobs", colour="red"), InvalidTask, "colour is not a setting"),
        (lambda app: app.queues.set("jobs", strategy="red"), InvalidTask, "strategy='red'"),
        (lambda app: app.pools.get("mail"), UnknownPool, "mail"),
    ],
)
def test_unknown_names_and_settings_are_refused(
    app: App, change: Callable[[App], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        change(app)
    assert (app.store.queues(), app.store.audit()) == ([], [])


def test_pools_are_listed_set_frozen_paused_and_resumed(app: App) -> None:
    report = NodeReport(pools={"mail": PoolReport(queues=("mail",), min=1, max=8, override_max=8, target=3)})
    app.store.report(a_session(app.store), msgspec.json.encode(report).decode())

    pinned = app.pools.set("mail", 2, 6, lasts="30m", why="sale", by="ann")
    assert pinned.override is not None
    assert (pinned.override.min, pinned.override.max, pinned.override.by) == (2, 6, "ann")
    assert pinned.override.until.tzinfo is UTC
    frozen = app.pools.freeze("mail").override
    assert frozen is not None
    assert frozen.min == frozen.max
    assert app.pools.pause("mail", why="deploy").paused is not None
    assert app.pools.resume("mail").paused is None
    assert app.pools.tune("mail", {"wait": "2s"}).wait == 2.0
    assert [(pool.name, pool.queues) for pool in app.pools] == [("mail", ("mail",))]
    assert len(app.store.audit("pool/mail")) == 5


def test_nodes_are_listed_and_their_workers_drained_and_stopped(app: App) -> None:
    about = '{"pools": {"mail": {"queues": ["mail"]}}}'
    session = a_session(app.store, "box-1", about=about)
    task = RunningTask(id=str(UUID(int=7)), handler="shop.pay", since=0)
    worker = WorkerProcess(number=3, pool="mail", state="busy", since=0, running=1, tasks=(task,))
    app.store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))

    drained = app.nodes.drain("box-1", 3, why="it leaks", by="ann")
    [listed] = app.nodes
    stopped = app.nodes.stop(session, grace="30s")

    assert drained.workers == listed.workers
    [found] = listed.workers
    assert (found.number, found.pid, found.tasks, found.since.tzinfo) == (3, None, (UUID(int=7),), UTC)
    assert found.request is not None
    assert (found.request.verb, found.request.grace, found.request.by) == ("drain", None, "ann")
    assert (listed.request, stopped.request and stopped.request.grace) == (None, timedelta(seconds=30))
    assert "3 busy" in listed._repr_html_()
    assert "box-1" in app.nodes._repr_html_()
    with pytest.raises(UnknownWorker, match="Its workers are 3"):
        app.nodes.drain("box-1", 4)


def test_notebooks_show_small_tables_without_markup_of_tasks(app: App, work: Any) -> None:
    handle = work.using(key="<script>alert(1)</script>").enqueue(-1)
    drain(app)
    with app.workflow("<i>nightly") as wf:
        wf.add(work, 1, key="a")
        shown = [wf._repr_html_()]
    shown += [wf._repr_html_(), handle._repr_html_(), handle.task()._repr_html_(), app.queues.get("jobs")._repr_html_()]
    shown += [each._repr_html_() for each in (app.tasks.find("state:failed"), app.dead, app.queues, app.pools)]
    unknown = app.handle("018f0000-0000-7000-8000-000000000000")._repr_html_()

    for html in [*shown, unknown]:
        parser = _Tags()
        parser.feed(html)
        assert parser.tags <= {"table", "caption", "tr", "th", "td"}, html
        assert len(html) < 4_000
    assert "not submitted" in shown[0]
    assert "runnable" in shown[1]
    assert re.search("&lt;script&gt;.*&lt;b&gt;timeout -1", shown[2])
    assert "Unknown task" in unknown


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.queues.list(),
        lambda app: app.pools.pause("mail"),
        lambda app: app.nodes.drain("box-1"),
        lambda app: app.dead.groups(),
        lambda app: app.tasks.get("018f0000-0000-7000-8000-000000000000"),
        lambda app: app.tasks.find("queue:jobs").purge(),
    ],
)
def test_a_handler_may_not_call_what_concerns_all_tenants(
    app: App, monkeypatch: pytest.MonkeyPatch, call: Callable[[App], object]
) -> None:
    monkeypatch.setattr(inspection, "is_worker", lambda: True)

    with pytest.raises(NotAllowed, match=r"app\.\w+.* does not work inside a handler"):
        call(app)
    assert not app_store.is_worker()
