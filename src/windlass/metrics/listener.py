"""A small HTTP listener for a process without an HTTP server: `/healthz`, `/readyz` and `/metrics` of a node.

It serves GET requests, one per connection. Reading a request and sending its response may take `TIMEOUT_SECONDS` each,
and at most `MAX_CLIENTS` are served at once, so that slow or hostile clients block neither the listener nor the node.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias, cast

from windlass.clock import monotonic
from windlass.config import InvalidSettings

TIMEOUT_SECONDS = 5.0
MAX_CLIENTS = 32
MAX_HEAD = 8_192


class Response(NamedTuple):
    """The response to one request."""

    status: int
    media_type: str
    body: bytes


Routes: TypeAlias = Mapping[str, Callable[[], Response]]


def listen(address: str, routes: Routes) -> Listener:
    """Serve these paths in a thread at HOST:PORT, or at PORT on localhost. `close` stops it."""
    host, port = parse_address(address)
    try:
        listener = Listener(host, port, routes)
    except OSError as error:
        raise InvalidSettings(f"--health {address}: cannot listen: {error.strerror or error}.") from error
    threading.Thread(target=listener.serve_forever, name="windlass-health", daemon=True).start()
    return listener


def parse_address(address: str) -> tuple[str, int]:
    """Split an address into host and port."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSettings(f"--health {address!r} is not an address. Use HOST:PORT, or PORT for localhost.")
    return host.strip("[]") or "127.0.0.1", int(port)


class Listener(socketserver.ThreadingTCPServer):
    """Accepts connections and serves each in a thread for a few seconds."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        self.routes = routes
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._slots = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__((host, port), _Request)

    @property
    def url(self) -> str:
        """The URL at which it listens."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop accepting connections."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected or were too slow."""


class _Request(socketserver.BaseRequestHandler):
    """Reads one request and sends the response."""

    request: socket.socket

    def handle(self) -> None:
        with suppress(OSError):  # The client disconnected or was too slow.
            response = self._respond(self._read_head())
            head = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
            head += f"Content-Type: {response.media_type}\r\nContent-Length: {len(response.body)}\r\n"
            head += "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
            self.request.settimeout(TIMEOUT_SECONDS)
            self.request.sendall(head.encode() + response.body)

    def _read_head(self) -> bytes:
        """Return the request up to its empty line, within one time limit for the whole request."""
        head, until = b"", monotonic() + TIMEOUT_SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < MAX_HEAD:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            self.request.settimeout(left)
            received = self.request.recv(MAX_HEAD - len(head))
            if not received:
                break
            head += received
        return head

    def _respond(self, head: bytes) -> Response:
        words = head.partition(b"\n")[0].decode("latin-1").split()
        if len(words) != 3 or len(head) >= MAX_HEAD:
            return _plain(400, "Not an HTTP request.")
        method, path, _ = words
        if method != "GET":
            return _plain(405, "Only GET is supported.")
        routes = cast("Listener", self.server).routes
        route = routes.get(path.partition("?")[0])
        return _plain(404, f"Not found. The paths are {', '.join(routes)}.") if route is None else route()


def _plain(status: int, text: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", f"{text}\n".encode())
