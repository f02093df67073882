"""A server on a socket: uvicorn in this thread until somebody stops it, with a time limit that it does not have."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from windlass.config import InvalidSettings
from windlass.metrics.calls import StoreCalls
from windlass.operations.tokens import tokens
from windlass.server.app import create_app
from windlass.server.settings import MAX_HEADERS, ServerSettings
from windlass.stores.protocol import Store

HEADER_SECONDS = 10.0
"""How long the head of a request may take to come."""
DRAIN_SECONDS = 10
"""How long requests may take to end when the server is stopped."""
MAX_CONNECTIONS = 2_000

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Serving:
    """A server for a store, which stays the caller's to close. `windlass server` runs it; a node may, in a thread."""

    def __init__(self, store: Store, settings: ServerSettings, say: Callable[[str], None] = lambda _: None) -> None:
        settings.check(has_tokens=bool(tokens(store)))
        self.listener = _listen(settings)
        self.address = _address(settings, self.listener)
        app = create_app(StoreCalls().measure(store), settings)
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            # A little more than is taken, so that what is too large is answered with a problem and not cut off.
            h11_max_incomplete_event_size=2 * MAX_HEADERS,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        self._server = _Server(config, lambda: say(self.address), app.end_streams)

    def run(self) -> None:
        """Serve until it is stopped; in the main thread also until SIGTERM or Ctrl-C."""
        self._server.run(sockets=[self.listener])

    def stop(self) -> None:
        """Take no more connections, let requests end, and return from `run`. From any thread."""
        self._server.should_exit = True


def serve(store: Store, settings: ServerSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `say` is told the address once requests are taken."""
    serving = Serving(store, settings, say)
    # uvicorn raises the signal again when it has stopped; that it was told to stop is no reason to die by it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    serving.run()


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that does not wait for ever for the head of a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch()
        else:
            self._unwatch()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None], leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell, self._leave = started, leave

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leave()  # Those who wait or listen would otherwise be waited for.
        await super().shutdown(sockets)


def _listen(settings: ServerSettings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol named, as `socket.create_server` does not: by it asyncio knows that it may switch off the
        # delay of small packets, and without that every answer on a kept connection takes 40 ms more.
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InvalidSettings(
            f"server: cannot listen on {settings.host} port {settings.port}: {error.strerror or error}"
        ) from error
    return listener


def _address(settings: ServerSettings, listener: socket.socket) -> str:
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}{settings.root_path}"


def _ignore(*_: Any) -> None:
    pass
