"""Runs the server on a socket with uvicorn, in the current thread, until it is stopped."""

from __future__ import annotations

import logging
import resource
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn

from windlass.config import InvalidSettings
from windlass.metrics.calls import StoreCalls
from windlass.operations.tokens import is_closed, read_tokens
from windlass.server.app import Pages, create_app
from windlass.server.http.connection_middleware import ConnectionMiddleware
from windlass.server.http.connections import ConnectionLimits, ConnectionProtocol, Connections
from windlass.server.settings import MAX_HEADERS, ServerSettings
from windlass.stores.protocol import Store

logger = logging.getLogger("windlass.server")

DRAIN_SECONDS = 10
"""How long running requests may take to end when the server stops."""
MAX_FILES = 65_536
"""How many open files a server process asks the system for."""
OTHER_FILES = 200
"""How many of the open files are not connections: the store, its wake-ups, logs."""


class Serving:
    """A server for a store. The caller closes the store. `windlass server` runs it, or a node in a thread."""

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        on_started: Callable[[str], None] = lambda _: None,
        pages: Pages = lambda _: (),
    ) -> None:
        settings.check(has_tokens=bool(tokens := read_tokens(store)))
        if not tokens and is_closed(store):
            logger.warning(
                "every request will be refused: this store requires a token and none can be read. All were revoked, or "
                "the role of the store's URL may not read them (see `windlass deploy roles`)"
            )
        self.listener = _listen(settings)
        self.address = _address(settings, self.listener)
        app = create_app(StoreCalls().measure(store), settings, pages=pages)
        connections = Connections(_limits(settings))
        protocol: Any = partial(ConnectionProtocol, connections)  # uvicorn calls it like a class.
        config = uvicorn.Config(
            ConnectionMiddleware(app, connections),
            http=protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
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


def serve(
    store: Store, settings: ServerSettings, on_started: Callable[[str], None], pages: Pages = lambda _: ()
) -> None:
    """Serve until SIGTERM or Ctrl-C. `on_started` receives the address once the server accepts requests."""
    raise_file_limit()
    serving = Serving(store, settings, on_started, pages)
    # uvicorn raises the signal again after it has stopped; ignoring it lets the process exit normally.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    serving.run()


def raise_file_limit() -> int:
    """Raise the number of files that this process may open, as far as the system allows. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


def _limits(settings: ServerSettings) -> ConnectionLimits:
    """Return the limits on connections: never more than this process can open. A proxy has one address for all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    total = settings.connections
    if soft != resource.RLIM_INFINITY and soft - OTHER_FILES < total:
        total = max(1, soft - OTHER_FILES)
        logger.warning("only %d connections: the system allows this process %d open files", total, soft)
    return ConnectionLimits(
        total=total, per_address=total if settings.behind_proxy else min(total, settings.connections_per_address)
    )


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
