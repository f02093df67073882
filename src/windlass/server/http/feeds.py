"""Lines in, lines out: what a streaming route reads from, and the answer that is sent while more comes in.

Nothing is read before what was read has been dealt with and answered, so the sockets themselves hold back a sender that
is too quick, and memory does not grow with the length of a stream. A sender must read while it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.server.http.request_body import NDJSON, check_media, read_lines
from windlass.server.http.store_executor import StoreExecutor

T = TypeVar("T")
Line = TypeVar("Line")

SEND_SECONDS = 60.0
"""How long a receiver may leave a part of the answer unread."""


class Feed(Generic[Line]):
    """The lines of a request, and threads to deal with them."""

    def __init__(self, request: Request, threads: StoreExecutor, seconds: float) -> None:
        check_media(request, NDJSON)
        self._request, self._threads, self._seconds = request, threads, seconds

    def lines(self) -> AsyncGenerator[list[bytes]]:
        """As many lines at a time as have come."""
        return read_lines(self._request, self._seconds)

    async def run(self, deed: Callable[[], T]) -> T:
        """Do something with the store."""
        return await self._threads.run(deed)


class Lines(Response):
    """An answer of lines, sent as they are made. What goes wrong before the first of them is answered as a problem."""

    def __init__(self, parts: AsyncGenerator[Sequence[Any]], first: Sequence[Any]) -> None:
        super().__init__(media_type=NDJSON)
        del self.headers["content-length"]
        self._parts, self._first = parts, first

    @classmethod
    async def begin(cls, parts: AsyncGenerator[Sequence[Any]]) -> Lines:
        """Wait for the first lines."""
        none: list[Any] = []  # A tuple as the default of `anext` breaks CPython 3.11.
        return cls(parts, await anext(parts, none))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._send(send, self._first)
        async for part in self._parts:
            await self._send(send, part)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send, part: Sequence[Any]) -> None:
        # A sender that does not read would block us, and we it, for ever.
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": _encoder.encode_lines(part), "more_body": True})


_encoder = msgspec.json.Encoder()
