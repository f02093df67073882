"""Transactions of processes that were paused in the middle of a pipeline.

Between two statements of a pipeline, PostgreSQL waits for the rest of it and does not count that time as idle. A
process that is paused there, or whose machine is cut off, would keep its locks: no other node could run the tasks that
it was claiming. So every sweep looks for such transactions of other processes
(docs/decisions/0035-transactions-of-paused-processes.md).
"""

from __future__ import annotations

import logging
from typing import Any

import psycopg
from psycopg import RawCursor

from windlass.clock import monotonic
from windlass.stores.statements import load

log = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""How long a transaction may wait for its process."""


class PausedProcesses:
    """The connections of this role that wait for their processes, as one process sees them."""

    def __init__(self) -> None:
        self._statements = load("postgres", "$", folder="upkeep")
        self._waiting: dict[tuple[Any, ...], float] = {}
        """Each connection and its last statement, and when it was first seen to wait after that."""

    def end(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """End the transactions that have waited for too long, on a connection in autocommit mode."""
        now = monotonic()
        found = RawCursor(connection).execute(self._statements["paused"].text.encode()).fetchall()
        self._waiting = {one: self._waiting.get(one, now) for one in found}
        for one in [one for one, since in self._waiting.items() if now - since >= IDLE_SECONDS]:
            ended = RawCursor(connection).execute(self._statements["end_paused"].text.encode(), one).fetchall()
            for _, address in ended:
                log.warning(
                    "ended a transaction of a process that stopped in the middle of it (address: %s, pid of the "
                    "server process: %s)",
                    address,
                    one[0],
                )
