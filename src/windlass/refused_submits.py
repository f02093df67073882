"""Counts the submits refused in this process: by an app, by the HTTP server, and by a node for its handlers.

The counter is global to the process, so that an app does not have to know where its metrics are served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Lock

from windlass.errors import QueueFull, WindlassError

REASONS = (
    "cycle",
    "deadline_unreachable",
    "duplicate_task",
    "invalid_payload",
    "invalid_request",
    "invalid_task",
    "key_busy",
    "key_conflict",
    "queue_full",
    "stale_fence",
    "too_many_tasks",
    "unknown_handler",
    "unknown_prerequisite",
)
"""The codes of errors that refuse a submit. An unavailable store refuses nothing and is not counted here."""


class RefusedSubmits:
    """Counts refused submits by reason, and those of full queues also by queue.

    Only a configured queue can be full, so the number of labels is bounded. Other names come from any caller.
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
        """Count the refusal that the block raises, if it raises one."""
        try:
            yield
        except WindlassError as error:
            self.count(error)
            raise

    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return the counts by reason and queue. Every reason is present from the start."""
        with self._lock:
            return {**{(reason, ""): 0 for reason in REASONS if reason != QueueFull.code}, **self._counts}


refused_submits = RefusedSubmits()
"""The counter of this process."""
