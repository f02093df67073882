"""What holds for every request before it reaches a route, and for every answer before it leaves.

The Host must be one of ours, so that a page elsewhere cannot point its own name at this server (DNS rebinding); a
request that a browser makes for another site is refused, whatever its method. Every answer carries headers that keep
browsers from guessing, framing, storing or loading anything of others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.clock import entropy
from windlass.errors import Refused, StoreError, WindlassError
from windlass.server.http.problems import headers_of, problem_of
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
PROBLEM = "application/problem+json"
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")


class SecurityMiddleware:
    """The outermost part of the server."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, end_streams: Callable[[], None] = lambda: None) -> None:
        self._app, self._settings = app, settings
        self.end_streams = end_streams
        """Lets go of those whose answers last, before the server stops. To be called in the loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            self._check(scope["method"], Headers(scope=scope))
            await self._app(self._placed(scope), receive, answer)
        except Exception as error:
            if answer.begun:
                logger.warning("an answer broke off: %r", error)
                raise
            await send_problem(error, answer)

    def _placed(self, scope: Scope) -> Scope:
        """A proxy may pass the path under which it shows us on, or leave it out: both lead to the same route."""
        root = self._settings.root_path
        return {**scope, "root_path": root} if root and scope["path"].startswith(f"{root}/") else scope

    def _check(self, method: str, headers: Headers) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
        if size > MAX_HEADERS:
            raise Refused("headers_too_large", f"the headers have {size:,} bytes; at most {MAX_HEADERS:,} are taken")
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None or not self._settings.answers_to(match["name"].strip("[]")):
            raise Refused("host_not_allowed", "this server does not answer to that Host; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and not _is_own(origin, hosts[0]):
            raise Refused("origin_not_allowed", "requests for pages of other sites are not served")
        # A link elsewhere may lead here; whatever else a browser says to do for another site is not done.
        follows_link = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not follows_link:
            raise Refused("origin_not_allowed", "requests for pages of other sites are not served")


def _is_own(origin: str, host: str) -> bool:
    """Whether a page of ours asks. The scheme is left out: before us there may be a proxy that speaks TLS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class _Answer:
    """Sends on what the app sends, with our headers on top."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


async def send_problem(error: Exception, send: Callable[[MutableMapping[str, Any]], Awaitable[None]]) -> None:
    """Answer with a problem; what nobody foresaw goes to the log with its traceback, under an id."""
    id = ""
    if not isinstance(error, WindlassError) or isinstance(error, StoreError):
        id = f"{entropy(1)():016x}"
        trouble = isinstance(error, StoreError)
        logger.log(logging.WARNING if trouble else logging.ERROR, "request failed, id %s", id, exc_info=error)
    problem = problem_of(error, id=id)
    headers = {"content-type": PROBLEM, **headers_of(error)}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": msgspec.json.encode(problem)})
