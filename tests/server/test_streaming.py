"""What becomes of an answer that lasts when nobody is there to hear it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.requests import Request

from windlass.errors import Refused
from windlass.server.events.broadcaster import Broadcaster
from windlass.server.http.store_executor import StoreExecutor
from windlass.server.http.streaming import Live, StreamedResponse, run_until_disconnect
from windlass.server.workers import claim_waiters
from windlass.server.workers.claim_waiters import ClaimWaiters
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "headers": [], "path": "/", "query_string": b""}


class Caller:
    """Somebody who asks, and leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.got: list[bytes] = []

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.got.append(message.get("body", b""))
        if len(self.got) == 5:  # From now on nothing is taken, as by a socket that is full.
            self.left.set()
            await asyncio.Event().wait()


@pytest.fixture
def threads() -> Iterator[StoreExecutor]:
    threads = StoreExecutor(2, 10, 20.0)
    yield threads
    threads.close()


async def test_parts_are_made_no_longer_when_their_receiver_has_left() -> None:
    caller, made, closed = Caller(), 0, False

    async def parts() -> AsyncGenerator[bytes]:
        nonlocal made, closed
        try:
            while True:
                made += 1
                yield b"x"
        finally:
            closed = True

    flow = await StreamedResponse.start(Request(SCOPE, caller.receive), parts(), bytes, "text/plain")
    async with asyncio.timeout(20):
        await flow(SCOPE, caller.receive, caller.send)

    assert closed
    assert made == 4


async def test_work_is_stopped_when_its_caller_has_left() -> None:
    caller, begun, stopped = Caller(), asyncio.Event(), False

    async def work() -> None:
        nonlocal stopped
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped = True

    asked = asyncio.ensure_future(run_until_disconnect(Request(SCOPE, caller.receive), work()))
    await begun.wait()
    caller.left.set()

    with pytest.raises(Refused, match="closed the connection"):
        await asyncio.wait_for(asked, 20)
    assert stopped


@pytest.mark.parametrize("ends_first", [True, False])
async def test_what_came_of_a_deed_is_never_lost(threads: StoreExecutor, ends_first: bool) -> None:
    live = Live(threads, Broadcaster(MemoryStore(), threads), lambda: asyncio.sleep(0))
    begun, go_on, undone = threading.Event(), threading.Event(), threading.Event()
    told: list[int] = []

    def deed() -> int:
        begun.set()
        assert go_on.wait(20)
        return 7

    def undo(found: int) -> None:
        told.append(found)
        undone.set()

    asked = asyncio.ensure_future(live.run(deed, undo))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(begun.wait, 20)
    if ends_first:
        go_on.set()
        while not threads.is_idle:  # The loop has not heard of it yet, because nothing is awaited here.
            pass
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    go_on.set()

    assert await asyncio.to_thread(undone.wait, 20)
    assert told == [7]


async def test_a_hint_wakes_one_of_those_who_wait_for_the_same_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_waiters, "BRISK", timedelta(minutes=1))
    store = MemoryStore()
    hall = ClaimWaiters(store)
    waiting = [asyncio.ensure_future(hall.wait(["a"], 30)) for _ in range(3)]
    other = asyncio.ensure_future(hall.wait(["b"], 30))
    while hall.waiting < 4:
        await asyncio.sleep(0)

    hall.next(["a"])
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    woken = [each.done() for each in (*waiting, other)]
    hall.close()
    store.close()
    await asyncio.wait_for(asyncio.gather(*waiting, other), 20)

    assert woken == [True, False, False, False]
    assert hall.waiting == 0
    await asyncio.wait_for(hall.wait(["a"], 30), 20)
