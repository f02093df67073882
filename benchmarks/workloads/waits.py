"""Sample what the active server processes of a database wait for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Self

import psycopg

EVERY = 0.02
"""Seconds between samples."""

SAMPLE = """
SELECT coalesce(wait_event_type || ' ' || wait_event, 'running'), count(*)
  FROM pg_stat_activity
 WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
 GROUP BY 1
"""


class WaitSampler:
    """Counts the waits of active processes until the `with` block ends. Its own server process is `pid`."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self.pid = self._connection.info.backend_pid
        self._stopped = threading.Event()
        self._found: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._connection.close()

    def get_shares(self) -> Mapping[str, float]:
        """Return the share of each wait among all samples of active processes, the largest first."""
        total = self._found.total()
        return {wait: found / total for wait, found in self._found.most_common()}

    def _sample(self) -> None:
        while not self._stopped.wait(EVERY):
            for wait, processes in self._connection.execute(SAMPLE).fetchall():
                self._found[wait] += processes
