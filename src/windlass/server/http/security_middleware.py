"""The outermost middleware: checks Host and Origin, adds security headers, and turns errors into responses.

The Host header must name this server, so that a web page cannot reach it by pointing its own domain here (DNS
rebinding). A browser's requests on behalf of another site are refused. Every response forbids browsers to guess its
type, frame it, store it, or load anything from elsewhere.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.errors import Refused
from windlass.server.http.error_response import send_error
from windlass.server.settings import MAX_HEADERS, ServerSettings

logger = logging.getLogger("windlass.server")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")


class SecurityMiddleware:
    """Guards an ASGI app and answers its errors."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, end_streams: Callable[[], None] = lambda: None) -> None:
        self._app, self._settings = app, settings
        self.end_streams = end_streams
        """Ends long-running responses before the server stops. Call it in the event loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sender, headers = _Sender(send), Headers(scope=scope)
        try:
            self._check(scope["method"], headers)
            await self._app(self._with_root_path(scope), receive, sender)
        except Exception as error:
            if sender.started:
                logger.warning("response aborted by an error: %r", error)
                raise
            await send_error(error, sender, accept=",".join(headers.getlist("accept")))

    def _with_root_path(self, scope: Scope) -> Scope:
        """Set the root path if the proxy left it in the path. Both forms lead to the same route."""
        root = self._settings.root_path
        return {**scope, "root_path": root} if root and scope["path"].startswith(f"{root}/") else scope

    def _check(self, method: str, headers: Headers) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
        if size > MAX_HEADERS:
            raise Refused("headers_too_large", f"The headers have {size:,} bytes. The limit is {MAX_HEADERS:,}.")
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may read such a request differently, so that the rest would look like another request.
            text = "Send Content-Length or Transfer-Encoding, not both."
            raise Refused("invalid_request", text, headers={"Connection": "close"})
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None or not self._settings.accepts_host(match["name"].strip("[]")):
            raise Refused("host_not_allowed", "The Host header does not name this server. See --allow-host.")
        origin = headers.get("origin")
        if origin is not None and not _is_own(origin, hosts[0]):
            raise Refused("origin_not_allowed", "Requests from pages of other sites are refused.")
        # A user may follow a link from another site; a browser's other cross-site requests are refused.
        follows_link = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not follows_link:
            raise Refused("origin_not_allowed", "Requests from pages of other sites are refused.")


def _is_own(origin: str, host: str) -> bool:
    """Return True if the origin is this host. The scheme may differ because a proxy may terminate TLS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class _Sender:
    """Adds the security headers to a response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
