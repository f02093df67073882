"""A service that handlers call, and that is down at times (F38)."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.servers import HOST


class Service:
    """Answers every call while it is up, and counts those that it gets while it is down."""

    def __init__(self) -> None:
        service = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with service.lock:
                    service.calls_while_down += not service.is_up
                self.send_response(200 if service.is_up else 503)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.lock = threading.Lock()
        self.is_up = True
        self.calls_while_down = 0
        self._server = ThreadingHTTPServer((HOST, 0), Answer)
        self.url = f"http://{HOST}:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
