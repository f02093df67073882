"""Response headers for errors. The problems themselves are in `windlass.wire.problems`."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.errors import Refused, WindlassError

RETRY_AFTER: Mapping[str, int] = {
    "queue_full": 5,
    "store_unavailable": 2,
    "commit_unknown": 2,
    "timed_out": 5,
    "overloaded": 1,
}
"""Seconds to wait before a retry, by error code."""


def headers_of(error: Exception) -> dict[str, str]:
    """Return the response headers for an error."""
    found = dict(error.headers) if isinstance(error, Refused) else {}
    if isinstance(error, WindlassError) and error.code in RETRY_AFTER:
        found.setdefault("Retry-After", str(RETRY_AFTER[error.code]))
    if isinstance(error, WindlassError) and error.code == "request_too_slow":
        found["Connection"] = "close"  # The rest of the request is not waited for.
    return found
