"""How many bytes of request bodies are in memory. Each body is limited, but there may be thousands at the same time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from windlass.errors import Refused
from windlass.refused_requests import refused_requests

MAX_BODIES = 128 * 2**20
"""How many bytes of request bodies a server holds at the same time."""


class HeldBytes:
    """The bytes that one request holds."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def add(self, size: int) -> None:
        """Hold more bytes until the request ends. Refused if all requests together hold too many."""
        self._budget.take(size)
        self.size += size


class BodyBudget:
    """The bytes that all requests of a server hold. Use it in the event loop only."""

    def __init__(self) -> None:
        self.held = 0

    @contextmanager
    def request(self) -> Generator[HeldBytes]:
        """Count the bytes of one request while it runs."""
        mine = HeldBytes(self)
        try:
            yield mine
        finally:
            self.held -= mine.size

    def take(self, size: int) -> None:
        """Count more bytes. Refused if there are too many."""
        if self.held + size > MAX_BODIES:
            refused_requests.count("held_bytes")
            raise Refused("overloaded", f"The server holds {self.held:,} bytes of request bodies. Retry later.")
        self.held += size
