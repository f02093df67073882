"""Sends errors: a web page to browsers, problem+json (RFC 9457) to programs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.types import Send

from windlass.clock import entropy
from windlass.errors import Refused, StoreError, WindlassError
from windlass.server.http import error_page
from windlass.wire.problems import problem_of

logger = logging.getLogger("windlass.server")

PROBLEM = "application/problem+json"
RETRY_AFTER: Mapping[str, int] = {
    "queue_full": 5,
    "key_busy": 2,
    "store_unavailable": 2,
    "commit_unknown": 2,
    "timed_out": 5,
    "overloaded": 1,
    "too_many_requests": 1,
}
"""Seconds to wait before a retry, by error code."""


async def send_error(error: Exception, send: Send, *, accept: str = "") -> None:
    """Send an error in the format that the Accept header prefers.

    Unexpected errors are logged with their traceback under an id, which is all that the client learns.
    """
    id = ""
    if not isinstance(error, WindlassError) or isinstance(error, StoreError):
        id = f"{entropy(1)():016x}"
        level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR
        logger.log(level, "request failed, id %s", id, exc_info=error)
    problem = problem_of(error, id=id)
    headers = {"vary": "Accept", **_headers(error)}
    if error_page.prefers_html(accept):
        headers, body = {**headers, **error_page.HEADERS}, error_page.render(problem)
    else:
        headers, body = {**headers, "content-type": PROBLEM}, msgspec.json.encode(problem)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _headers(error: Exception) -> dict[str, str]:
    found = dict(error.headers) if isinstance(error, Refused) else {}
    if isinstance(error, WindlassError) and error.code in RETRY_AFTER:
        found.setdefault("Retry-After", str(RETRY_AFTER[error.code]))
    if isinstance(error, WindlassError) and error.code == "request_too_slow":
        found["Connection"] = "close"  # The rest of the request is not waited for.
    return found
