"""Counts what the HTTP server of this process refused or cut off before any handler saw it.

The counter is global to the process, like that of refused submits, so that metrics need not know the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

REASONS = (
    "address_connections",
    "evicted_idle",
    "held_bytes",
    "rate_limited",
    "server_connections",
    "slow_request",
    "token_requests",
    "unread_response",
    "unsent_bytes",
)
"""Why a connection was closed or a request refused."""


class RefusedRequests:
    """Counts refusals by reason, and knows how many connections are open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self.connections = 0
        """The open connections of the servers in this process."""

    def count(self, reason: str) -> None:
        """Count one refusal."""
        assert reason in REASONS, reason
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the counts by reason. Every reason is present from the start."""
        with self._lock:
            return {reason: self._counts[reason] for reason in REASONS}


refused_requests = RefusedRequests()
"""The counter of this process."""
