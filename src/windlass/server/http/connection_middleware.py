"""The part of the connection limits that knows requests and responses.

- A client that does not read is cut off after `SEND_SECONDS`.
- An error that answers a request before its body was read closes the connection: the rest is read for a moment, so that
  the client sees the answer, and then no longer waited for.
- Large responses are refused while clients leave too many bytes unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.errors import Refused
from windlass.server.http import connections as limits
from windlass.server.http.connections import ConnectionProtocol, Connections, addresses_of
from windlass.server.http.error_response import send_error

LINGER_SECONDS = 2.0
"""How long an unread body is read and dropped after an error, before the connection is closed."""
LARGE = 65_536
MAX_UNSENT = 256 * 2**20
"""How many bytes all clients together may leave unread before large responses are refused."""
HEALTH_PATHS = ("/healthz", "/readyz")

Message = MutableMapping[str, Any]


class ConnectionMiddleware:
    """Notifies each connection when a request starts and ends, and guards what is sent."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = self._connections.find(addresses_of(scope.get("server"), scope.get("client")))
        if connection is None:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._connections, connection, scope, receive, send)
        connection.request_started()
        try:
            if connection.refusal and not scope["path"].endswith(HEALTH_PATHS):
                self._connections.note(connection.refusal, connection.host)
                close = {"Connection": "close"}
                await send_error(Refused("overloaded", "Too many connections.", headers=close), exchange.send)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        finally:
            connection.request_ended()


class _Exchange:
    """One request and its response."""

    def __init__(
        self, connections: Connections, connection: ConnectionProtocol, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._connections, self._connection = connections, connection
        self._receive, self._send = receive, send
        headers = Headers(scope=scope)
        self._body_read = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"
        self._start: Message | None = None
        self._closes = False
        self._refused = False

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._body_read = True
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response. The headers wait for the first part of the body, whose size may matter."""
        if self._refused:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            if self._is_too_much(message):
                await self._refuse()
                return
            await self._send_start(start)
        if not self._closes or message.get("more_body", False):
            await self._deliver(message)
            return
        await self._deliver({**message, "more_body": True})
        await self._drain()
        await self._deliver({"type": "http.response.body", "body": b""})

    async def _send_start(self, start: Message) -> None:
        if start["status"] >= 400 and not self._body_read:
            self._closes = True
            start = {**start, "headers": [*start["headers"], (b"connection", b"close")]}
        await self._deliver(start)

    def _is_too_much(self, message: Mapping[str, Any]) -> bool:
        size = len(message.get("body", b""))
        return size > LARGE and self._connections.unsent + size > MAX_UNSENT

    async def _refuse(self) -> None:
        self._connections.note("unsent_bytes", self._connection.host)
        text = "Clients have left too many responses unread. Retry later."
        await send_error(Refused("overloaded", text), self._send)
        self._refused = True

    async def _deliver(self, message: Message) -> None:
        try:
            async with asyncio.timeout(limits.SEND_SECONDS):
                await self._send(message)
        except TimeoutError:
            self._connection.cut_off("unread_response")

    async def _drain(self) -> None:
        """Read and drop the rest of the body. Meanwhile the connection may have to make room for another one."""
        self._connections.set_idle(self._connection, idle=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._body_read:
                    await self.receive()
