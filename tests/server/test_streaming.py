"""What happens to a long-running response when its client disconnects, and how waiting claims wake up."""

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


class SlowClient:
    """A client that takes four messages, then stops reading and disconnects."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.got: list[bytes] = []

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.got.append(message.get("body", b""))
        if len(self.got) == 5:  # Blocks from now on, like a full socket.
            self.left.set()
            await asyncio.Event().wait()


@pytest.fixture
def threads() -> Iterator[StoreExecutor]:
    threads = StoreExecutor(2, 10, 20.0)
    yield threads
    threads.close()


async def test_parts_are_no_longer_produced_after_the_client_disconnects() -> None:
    client, made, closed = SlowClient(), 0, False

    async def parts() -> AsyncGenerator[bytes]:
        nonlocal made, closed
        try:
            while True:
                made += 1
                yield b"x"
        finally:
            closed = True

    flow = await StreamedResponse.start(Request(SCOPE, client.receive), parts(), bytes, "text/plain")
    async with asyncio.timeout(20):
        await flow(SCOPE, client.receive, client.send)

    assert closed
    assert made == 4


async def test_work_is_canceled_when_its_client_disconnects() -> None:
    client, begun, stopped = SlowClient(), asyncio.Event(), False

    async def work() -> None:
        nonlocal stopped
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped = True

    asked = asyncio.ensure_future(run_until_disconnect(Request(SCOPE, client.receive), work()))
    await begun.wait()
    client.left.set()

    with pytest.raises(Refused, match="closed the connection"):
        await asyncio.wait_for(asked, 20)
    assert stopped


@pytest.mark.parametrize("ends_first", [True, False])
async def test_the_result_of_an_abandoned_call_is_not_lost(threads: StoreExecutor, ends_first: bool) -> None:
    live = Live(threads, Broadcaster(MemoryStore(), threads), lambda: asyncio.sleep(0))
    begun, go_on, undone = threading.Event(), threading.Event(), threading.Event()
    undone_results: list[int] = []

    def action() -> int:
        begun.set()
        assert go_on.wait(20)
        return 7

    def undo(found: int) -> None:
        undone_results.append(found)
        undone.set()

    asked = asyncio.ensure_future(live.run(action, undo))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(begun.wait, 20)
    if ends_first:
        go_on.set()
        while not threads.is_idle:  # Nothing is awaited here, so the event loop does not see the result yet.
            pass
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    go_on.set()

    assert await asyncio.to_thread(undone.wait, 20)
    assert undone_results == [7]


async def test_one_of_the_claims_that_wait_for_the_same_queues_wakes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_waiters, "FIRST_POLL", timedelta(minutes=1))
    store = MemoryStore()
    waiters = ClaimWaiters(store)
    waiting = [asyncio.ensure_future(waiters.wait(["a"], 30)) for _ in range(3)]
    other = asyncio.ensure_future(waiters.wait(["b"], 30))
    while waiters.waiting < 4:
        await asyncio.sleep(0)

    waiters.wake_next(["a"])
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    woken = [each.done() for each in (*waiting, other)]
    waiters.close()
    store.close()
    await asyncio.wait_for(asyncio.gather(*waiting, other), 20)

    assert woken == [True, False, False, False]
    assert waiters.waiting == 0
    await asyncio.wait_for(waiters.wait(["a"], 30), 20)
