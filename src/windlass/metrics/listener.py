"""A tiny HTTP listener for a process that has no HTTP server: a node's `/healthz`, `/readyz` and `/metrics`.

It answers GET requests, one for each connection. A request has `PATIENCE` seconds to come and as many to be answered,
and only `MOST_CLIENTS` are served at a time, so that slow or hostile clients hold neither the listener nor the node.
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

PATIENCE = 5.0
MOST_CLIENTS = 32
LONGEST_HEAD = 8_192


class Answer(NamedTuple):
    """What one request is answered with."""

    status: int
    media_type: str
    body: bytes


Routes: TypeAlias = Mapping[str, Callable[[], Answer]]


def listen(address: str, routes: Routes) -> Listener:
    """Serve these paths at HOST:PORT, or at PORT of this machine alone, from a thread; `close` ends it."""
    host, port = parsed(address)
    try:
        listener = Listener(host, port, routes)
    except OSError as error:
        raise InvalidSettings(f"--health {address}: cannot listen there: {error.strerror or error}") from error
    threading.Thread(target=listener.serve_forever, name="windlass-health", daemon=True).start()
    return listener


def parsed(address: str) -> tuple[str, int]:
    """The two parts of an address."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSettings(f"--health {address!r} is no address; write HOST:PORT, or PORT for this machine alone")
    return host.strip("[]") or "127.0.0.1", int(port)


class Listener(socketserver.ThreadingTCPServer):
    """Accepts connections, and gives each a thread for a few seconds."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        self.routes = routes
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__((host, port), _Request)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Accept nobody any more."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hung up or were too slow."""


class _Request(socketserver.BaseRequestHandler):
    """Reads one request and answers it."""

    request: socket.socket

    def handle(self) -> None:
        with suppress(OSError):  # It hung up, or was too slow.
            answer = self._answer(self._read_head())
            head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            head += f"Content-Type: {answer.media_type}\r\nContent-Length: {len(answer.body)}\r\n"
            head += "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
            self.request.settimeout(PATIENCE)
            self.request.sendall(head.encode() + answer.body)

    def _read_head(self) -> bytes:
        """Return the request up to its empty line; a client that sends it drop by drop has no more time for that."""
        head, until = b"", monotonic() + PATIENCE
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < LONGEST_HEAD:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            self.request.settimeout(left)
            received = self.request.recv(LONGEST_HEAD - len(head))
            if not received:
                break
            head += received
        return head

    def _answer(self, head: bytes) -> Answer:
        words = head.partition(b"\n")[0].decode("latin-1").split()
        if len(words) != 3 or len(head) >= LONGEST_HEAD:
            return _plain(400, "not an HTTP request")
        method, path, _ = words
        if method != "GET":
            return _plain(405, "only GET is served here")
        routes = cast("Listener", self.server).routes
        route = routes.get(path.partition("?")[0])
        return _plain(404, f"there is only {', '.join(routes)} here") if route is None else route()


def _plain(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())
