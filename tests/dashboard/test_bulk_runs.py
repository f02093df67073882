"""Bulk actions that take longer than a request: their progress, how they are stopped, and who sees them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from threading import Event
from time import sleep
from typing import Any

import pytest

from tests.dashboard.conftest import Browser
from windlass.core.task import NewTask
from windlass.dashboard import bulk_threads
from windlass.operations import bulk, bulk_runs
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.caller import Scope
from windlass.server.background import BackgroundThreads
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

pytestmark = pytest.mark.anyio
PURGE = {"verb": "purge", "q": "handler:mail", "all": "1"}


class Gate:
    """Lets a store purge one batch after the other."""

    def __init__(self, store: MemoryStore) -> None:
        self._purge, self._open = store.purge, Event()
        self.failing = False

    def purge(self, *given: Any, **options: Any) -> int:
        assert self._open.wait(10)
        if self.failing:
            raise ZeroDivisionError("not expected")
        done = self._purge(*given, **options)
        self._open.clear()
        return done

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A store with 20 cancelled tasks of two tenants, of which a purge removes five at a time, when the gate opens."""
    monkeypatch.setattr(bulk, "BATCH", 5)
    monkeypatch.setattr(bulk_threads, "PATIENCE", 0.05)
    monkeypatch.setattr(bulk_threads, "REPORT_SECONDS", 0.02)
    receipts = store.submit([NewTask(handler="mail", tenant=("acme", "beta")[n % 2], args={"n": n}) for n in range(20)])
    store.cancel([receipt.id for receipt in receipts], reason="x")
    gate = Gate(store)
    monkeypatch.setattr(store, "purge", gate.purge)
    yield gate
    gate.open()


async def wait_for(browser: Browser, address: str, text: str) -> str:
    """Open a page until it has a text."""
    async with asyncio.timeout(10):
        while text not in await browser.open(address):
            await asyncio.sleep(0.02)
    return browser.text


async def test_a_long_purge_shows_its_progress_and_its_end(browser: Browser, store: MemoryStore, gate: Gate) -> None:
    await browser.open("/tasks/bulk?verb=purge&q=handler:mail&all=1")

    await browser.post("tasks/bulk", **PURGE, why="old")
    address = browser.page.url.path
    assert re.fullmatch("/tasks/bulk/[0-9a-f]{16}", address)
    assert "Purged 0 of 20 tasks." in await wait_for(browser, address, "Purged 0 of 20")
    gate.open()
    await wait_for(browser, address, "Purged 5 of 20 tasks.")
    assert "purge of 20 tasks is running" in await browser.open("/tasks"), "the way back to it"
    for done in (10, 15):
        gate.open()
        await wait_for(browser, address, f"Purged {done} of 20 tasks.")
    gate.open()
    await wait_for(browser, address, "Purged 20 tasks.")

    assert ">Stop</button>" not in browser.text
    assert not store.find(Filter(), limit=1).tasks
    assert {(entry.action, entry.by) for entry in store.audit(limit=4)} == {("purged", "local")}
    assert "is running" not in await browser.open("/tasks")


async def test_a_purge_that_is_stopped_says_how_many_it_has_removed(
    browser: Browser, store: MemoryStore, gate: Gate
) -> None:
    await browser.open("/")
    await browser.post("tasks/bulk", **PURGE)
    address = browser.page.url.path
    gate.open()
    await wait_for(browser, address, "Purged 5 of 20 tasks.")

    await browser.post(f"{address}/stop")
    assert "Stopping" in browser.text
    await asyncio.sleep(0.2)
    gate.open()
    await wait_for(browser, address, "Purged 10 of 20 tasks, then it was stopped. What is done stays done")

    assert len(store.find(Filter(), limit=20).tasks) == 10


async def test_a_token_with_limits_sees_and_stops_only_its_own_actions(
    browse: Callable[..., Browser], gate: Gate, token: Callable[..., str]
) -> None:
    one, other, boss = browse(), browse(), browse()
    await one.log_in(token(Scope.OPERATE, name="ann", tenant="acme"))
    await other.log_in(token(Scope.OPERATE, name="bob", tenant="acme"))
    await boss.log_in(token(Scope.OPERATE, name="boss"))
    await one.post("tasks/bulk", **PURGE)
    address = one.page.url.path

    assert "of 10 tasks" in await wait_for(one, address, "of 10 tasks")
    assert (await other.client.get(address)).status_code == 404
    assert (await other.post(f"{address}/stop")).status_code == 404
    assert "started by ann" in await boss.open(address)
    assert ">Stop</button>" in boss.text


async def test_an_error_in_a_long_action_is_on_its_page(browser: Browser, gate: Gate) -> None:
    gate.failing = True
    await browser.open("/")
    await browser.post("tasks/bulk", **PURGE)
    gate.open()

    text = await wait_for(browser, browser.page.url.path, "it ended early")

    assert "Purged 0 of 20 tasks, then it ended early: an unexpected error" in text
    assert "ZeroDivisionError" not in text


async def test_a_long_cancel_offers_its_undo_at_the_end(
    browser: Browser, store: MemoryStore, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = store.cancel

    def cancel_slowly(*given: Any, **options: Any) -> int:
        sleep(0.3)
        return cancel(*given, **options)

    monkeypatch.setattr(store, "cancel", cancel_slowly)
    store.submit([NewTask(handler="work", args={}) for _ in range(3)])
    await browser.open("/")

    await browser.post("tasks/bulk", verb="cancel", q="handler:work", all="1")
    await wait_for(browser, browser.page.url.path, "Cancelled 3 tasks.")
    [number] = re.findall(r'name="number" value="(\d+)"', browser.text)
    await browser.post("audit/undo", number=number)

    assert "Undid" in browser.text
    assert len(store.find(Filter(handler="work"), limit=9).tasks) == 3
    assert all(not task.state.final for task in store.find(Filter(handler="work"), limit=9).tasks)


async def test_a_server_that_stops_ends_actions_after_their_batch(store: MemoryStore, gate: Gate) -> None:
    threads, access = BackgroundThreads(), Access(store)
    action = bulk_threads.BulkThread(access, Verb.PURGE, Filter(handler="mail"), Author("ann"), "handler:mail")
    assert not action.start(threads)

    closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
    await asyncio.sleep(0.1)
    gate.open()
    await closing

    run = bulk_runs.get(access, action.id)
    assert (run.done, run.ended, run.problem) == (5, True, "the server was stopped")
    assert len(store.find(Filter(), limit=20).tasks) == 15


async def test_an_action_whose_server_is_gone_is_not_called_running(browser: Browser, store: MemoryStore) -> None:
    access = Access(store)
    run = BulkRun(
        id="0" * 16, verb=Verb.PURGE, q="", by="ann", tenant=None, queue=None, started=0, at=0, total=20, done=5,
        counted=True, in_steps=True,
    )  # fmt: skip
    bulk_runs.save(store, run)

    text = await browser.open(f"/tasks/bulk/{run.id}")

    assert "Its server is gone" in text
    assert ">Stop</button>" not in text
    assert not bulk_runs.get_running(access)
    bulk_runs.drop_old(access)
    assert (await browser.client.get(f"/tasks/bulk/{run.id}")).status_code == 404
