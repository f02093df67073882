"""Closes connections whose request headers do not arrive in time.

uvicorn has no such timeout: its keep-alive timer ends with the first byte of a request, so a client that sends one
byte at a time could hold a connection forever. Here, a connection without a running request has `HEADER_SECONDS` to
start one. `HeaderTimeoutProtocol` wraps uvicorn's HTTP protocol and sees what asyncio reports: the connection opens
and closes. `HeaderTimeoutMiddleware` sees what ASGI reports: a request starts, with its headers complete, and ends.
Both know the addresses of the connection, so no private state of uvicorn is needed to match them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""How long the headers of a request may take to arrive."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_Addresses = tuple[tuple[str, int], tuple[str, int]]
_connections: dict[_Addresses, HeaderTimeoutProtocol] = {}
"""The open connections of this process, by the address of the server and of the client."""


class HeaderTimeoutProtocol(asyncio.Protocol):
    """uvicorn's HTTP/1.1 protocol with a time limit for request headers."""

    def __init__(self, **options: Any) -> None:
        self._inner = H11Protocol(**options)
        self._transport: asyncio.Transport | None = None
        self._addresses: _Addresses | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._transport = transport
        self._addresses = _addresses(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        if self._addresses is not None:
            _connections[self._addresses] = self
        self._inner.connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._addresses is not None and _connections.get(self._addresses) is self:
            del _connections[self._addresses]
        self._inner.connection_lost(exc)

    def request_started(self) -> None:
        """Stop the timer: the headers of a request are complete."""
        self._requests += 1
        self._stop_timer()

    def request_ended(self) -> None:
        """Start the timer for the next request, or for a body that the response did not wait for."""
        self._requests -= 1
        if not self._requests:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None and self._transport is not None and not self._transport.is_closing():
            self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_TIMED_OUT)
            self._transport.close()


class HeaderTimeoutMiddleware:
    """Notifies the connection of each request when the request starts and ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        addresses = _addresses(scope.get("server"), scope.get("client"))
        connection = None if addresses is None else _connections.get(addresses)
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.request_started()
        try:
            await self._app(scope, receive, send)
        finally:
            connection.request_ended()


def _addresses(server: Sequence[Any] | None, client: Sequence[Any] | None) -> _Addresses | None:
    """Return the host and port of both ends, or None for a socket that has none."""
    if not isinstance(server, list | tuple) or not isinstance(client, list | tuple):
        return None
    return (str(server[0]), int(server[1])), (str(client[0]), int(client[1]))
