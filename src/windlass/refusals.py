"""Counts the submits that this process saw refused: in an app, in the HTTP server, and in a node for its handlers.

The counter belongs to the process, so that an app need not be told where its metrics are served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Lock

from windlass.errors import QueueFull, WindlassError

REASONS = (
    "cycle",
    "duplicate_task",
    "invalid_payload",
    "invalid_request",
    "invalid_task",
    "key_conflict",
    "queue_full",
    "stale_fence",
    "too_many_tasks",
    "unknown_handler",
    "unknown_prerequisite",
)
"""Codes of the errors that refuse a submit. A store that is away refuses nothing, and is not counted here."""


class Refusals:
    """Counts refused submits by reason, and those of full queues by queue too.

    Only a queue that was configured can be full, so that their number is bounded; any caller can invent other names.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, error: WindlassError) -> None:
        """Count one refused submit; other errors are not counted."""
        if error.code in REASONS:
            with self._lock:
                self._counts[error.code, error.queue if isinstance(error, QueueFull) else ""] += 1

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count the refusal that leaves this block, if one does."""
        try:
            yield
        except WindlassError as error:
            self.count(error)
            raise

    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return the counts so far by reason and queue; every reason is there from the beginning."""
        with self._lock:
            return {**{(reason, ""): 0 for reason in REASONS if reason != QueueFull.code}, **self._counts}


refusals = Refusals()
"""Those of this process."""
