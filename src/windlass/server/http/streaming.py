"""Responses that take time: long polls, progress reported line by line, event streams and line-by-line submission.

When the client disconnects, the work done for it stops. A store call that has already started in a thread runs to its
end; `on_abandoned` then receives its result.

A line stream reads no more input until the previous lines are processed and answered. The sockets slow down a sender
that is too fast, and memory does not grow with the length of the stream. A sender must read while it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from threading import Lock
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.errors import Refused
from windlass.server.events.broadcaster import Broadcaster
from windlass.server.http.body_budget import HeldBytes
from windlass.server.http.request_body import NDJSON, check_media, read_lines
from windlass.server.http.store_executor import StoreExecutor

T = TypeVar("T")
Line = TypeVar("Line")

SEND_SECONDS = 60.0
"""How long a client may leave a part of the response unread."""


class LineReader(Generic[Line]):
    """The lines of a request body, and threads to process them."""

    def __init__(self, request: Request, threads: StoreExecutor, seconds: float, held: HeldBytes) -> None:
        check_media(request, NDJSON)
        self._request, self._threads, self._seconds = request, threads, seconds
        self.held = held
        """For lines that stay in memory until the end of the stream."""

    def lines(self) -> AsyncGenerator[list[bytes]]:
        """Yield lines in groups, as they arrive."""
        return read_lines(self._request, self._seconds)

    async def run(self, action: Callable[[], T]) -> T:
        """Run a store call in a thread."""
        return await self._threads.run(action)


class Live:
    """What a long-running route needs: store calls in threads, the event broadcaster, and a check of the token."""

    def __init__(
        self, threads: StoreExecutor, broadcaster: Broadcaster, check: Callable[[], Awaitable[object]]
    ) -> None:
        self._threads, self.broadcaster, self.check = threads, broadcaster, check
        """`check` raises `Refused` once the caller's token is no longer valid."""

    async def run(self, action: Callable[[], T], on_abandoned: Callable[[T], object] | None = None) -> T:
        """Run a store call in a thread. `on_abandoned` receives its result if the caller is gone by then."""
        if on_abandoned is None:
            return await self._threads.run(action)
        call = _RecoverableCall(action, on_abandoned)
        try:
            return await self._threads.run(call.run)
        except BaseException:
            call.abandon(self._threads)
            raise


class _RecoverableCall:
    """A store call whose result must not be lost when its caller disconnects."""

    def __init__(self, action: Callable[[], T], on_abandoned: Callable[[T], object]) -> None:
        self._action, self._on_abandoned = action, on_abandoned
        self._lock = Lock()
        self._abandoned = False
        self._results: list[Any] = []

    def run(self) -> Any:
        result = self._action()
        with self._lock:
            self._results.append(result)
            abandoned = self._abandoned
        if abandoned:
            self._on_abandoned(result)
        return result

    def abandon(self, threads: StoreExecutor) -> None:
        with self._lock:
            self._abandoned = True
            results = list(self._results)
        for result in results:
            threads.start(lambda result=result: self._on_abandoned(result))


class StreamedResponse(Response):
    """A response sent in parts as they are produced. An error before the first part becomes a problem response."""

    def __init__(
        self,
        parts: AsyncGenerator[Any],
        first: Any,
        encode: Callable[[Any], bytes],
        media_type: str,
        *,
        watch: bool,
    ) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._parts, self._first, self._encode, self._watch = parts, first, encode, watch

    @classmethod
    async def start(
        cls, request: Request, parts: AsyncGenerator[Any], encode: Callable[[Any], bytes], media_type: str
    ) -> StreamedResponse:
        """Wait for the first part, and stop when the client disconnects."""
        first = await run_until_disconnect(request, _first_part(parts))
        return cls(parts, first, encode, media_type, watch=True)

    @classmethod
    async def start_duplex(
        cls, parts: AsyncGenerator[Any], encode: Callable[[Any], bytes], media_type: str
    ) -> StreamedResponse:
        """Wait for the first part. The handler reads the request body itself and so learns of a disconnect."""
        return cls(parts, await _first_part(parts), encode, media_type, watch=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send, body=scope["method"] != "HEAD"))
        waiting = {sending, asyncio.ensure_future(_disconnect(receive))} if self._watch else {sending}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _cancel(*waiting)
            await self._parts.aclose()

    async def _send_all(self, send: Send, *, body: bool) -> None:
        if body:
            await self._send(send, self._first)
            async for part in self._parts:
                await self._send(send, part)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send, part: Any) -> None:
        # A client that writes without reading would otherwise block both sides forever.
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": self._encode(part), "more_body": True})


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or cancel it when the client disconnects."""
    working, disconnected = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request.receive))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refused("request_too_slow", "The client closed the connection before the response was ready.")
    finally:
        await _cancel(working, disconnected)


async def last_item(parts: AsyncGenerator[Any]) -> Any:
    """Return the last item of a response in parts, for clients that do not accept lines."""
    last = None
    async for part in parts:
        last = part[-1] if part else last
    return last


async def _first_part(parts: AsyncGenerator[Any]) -> Any:
    none: list[Any] = []  # A tuple as the default of `anext` breaks CPython 3.11.
    return await anext(parts, none)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks whose results are no longer needed."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
