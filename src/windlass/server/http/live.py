"""Answers that take their time: a long poll, progress told line by line, events without end.

Whoever asked may go away at any moment; then what was being done for them stops. What a thread has already begun ends
all the same, and `otherwise` says what becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from threading import Lock
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.errors import Refused
from windlass.server.broadcaster import Broadcaster
from windlass.server.http.store_executor import StoreExecutor

T = TypeVar("T")

SEND_SECONDS = 60.0
"""How long a receiver may leave a part of the answer unread."""


class Live:
    """What a route that lasts is given: threads in which to ask the store, and the news."""

    def __init__(self, threads: StoreExecutor, news: Broadcaster, check: Callable[[], Awaitable[object]]) -> None:
        self._threads, self.news, self.check = threads, news, check
        """`check` refuses a caller whose token has ended meanwhile."""

    async def run(self, deed: Callable[[], T], otherwise: Callable[[T], object] | None = None) -> T:
        """Do something with the store. `otherwise` is told what came of it when nobody is there to hear it."""
        if otherwise is None:
            return await self._threads.run(deed)
        kept = _Kept(deed, otherwise)
        try:
            return await self._threads.run(kept.do)
        except BaseException:
            kept.give_up(self._threads)
            raise


class _Kept:
    """A deed whose outcome must not be lost between a thread and a caller who leaves."""

    def __init__(self, deed: Callable[[], T], otherwise: Callable[[T], object]) -> None:
        self._deed, self._otherwise = deed, otherwise
        self._lock = Lock()
        self._given_up = False
        self._came: list[Any] = []

    def do(self) -> Any:
        found = self._deed()
        with self._lock:
            self._came.append(found)
            given_up = self._given_up
        if given_up:
            self._otherwise(found)
        return found

    def give_up(self, threads: StoreExecutor) -> None:
        with self._lock:
            self._given_up = True
            came = list(self._came)
        for found in came:
            threads.begin(lambda found=found: self._otherwise(found))


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What comes of some work, which is stopped when the caller goes away."""
    doing, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise Refused("request_too_slow", "the connection was closed before there was an answer")
    finally:
        await _end(doing, gone)


async def last_of(parts: AsyncGenerator[Any]) -> Any:
    """The last line of an answer in parts, for those who do not take lines."""
    last = None
    async for part in parts:
        last = part[-1] if part else last
    return last


class Flow(Response):
    """An answer in parts, sent as they come, until there are no more or nobody takes them."""

    def __init__(self, parts: AsyncGenerator[Any], first: Any, encode: Callable[[Any], bytes], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._parts, self._first, self._encode = parts, first, encode

    @classmethod
    async def begin(
        cls, request: Request, parts: AsyncGenerator[Any], encode: Callable[[Any], bytes], media_type: str
    ) -> Flow:
        """Wait for the first part: what goes wrong before it is answered as a problem."""
        none: list[Any] = []

        async def begin() -> Any:
            return await anext(parts, none)

        return cls(parts, await unless_gone(request, begin()), encode, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send, whole=scope["method"] != "HEAD"))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _end(sending, gone)
            await self._parts.aclose()

    async def _send_all(self, send: Send, *, whole: bool) -> None:
        if whole:
            await self._send(send, self._first)
            async for part in self._parts:
                await self._send(send, part)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send, part: Any) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": self._encode(part), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Future[Any]) -> None:
    """Stop them. What they have to say was heard already, or there is nobody to hear it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
