"""Runs the server on a socket with uvicorn, in the current thread, until it is stopped."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from windlass.config import InvalidSettings
from windlass.metrics.calls import StoreCalls
from windlass.operations.tokens import read_tokens
from windlass.server.app import create_app
from windlass.server.http.header_timeout import HeaderTimeoutMiddleware, HeaderTimeoutProtocol
from windlass.server.settings import MAX_HEADERS, ServerSettings
from windlass.stores.protocol import Store

DRAIN_SECONDS = 10
"""How long running requests may take to end when the server stops."""
MAX_CONNECTIONS = 2_000


class Serving:
    """A server for a store. The caller closes the store. `windlass server` runs it, or a node in a thread."""

    def __init__(
        self, store: Store, settings: ServerSettings, on_started: Callable[[str], None] = lambda _: None
    ) -> None:
        settings.check(has_tokens=bool(read_tokens(store)))
        self.listener = _listen(settings)
        self.address = _address(settings, self.listener)
        app = create_app(StoreCalls().measure(store), settings)
        config = uvicorn.Config(
            HeaderTimeoutMiddleware(app),
            http=HeaderTimeoutProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            # Larger than our own limit, so that we can answer oversized headers with a problem.
            h11_max_incomplete_event_size=2 * MAX_HEADERS,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        self._server = _Server(config, lambda: on_started(self.address), app.end_streams)

    def run(self) -> None:
        """Serve until `stop` is called or, in the main thread, until SIGTERM or Ctrl-C."""
        self._server.run(sockets=[self.listener])

    def stop(self) -> None:
        """Stop accepting connections, let requests end, and return from `run`. May be called from any thread."""
        self._server.should_exit = True


def serve(store: Store, settings: ServerSettings, on_started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `on_started` receives the address once the server accepts requests."""
    serving = Serving(store, settings, on_started)
    # uvicorn raises the signal again after it has stopped; ignoring it lets the process exit normally.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    serving.run()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None], end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started, self._end_streams = on_started, end_streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()  # Otherwise the shutdown would wait for them.
        await super().shutdown(sockets)


def _listen(settings: ServerSettings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY only on sockets with an explicit protocol, which `socket.create_server` omits.
        # Without it every response on a kept connection takes 40 ms longer.
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
