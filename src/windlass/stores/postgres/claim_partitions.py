"""Upkeep of claim partitions (table `lot`), which keep claims quick while a long transaction blocks vacuum.

PostgreSQL cannot remove index entries that an open transaction might still see. The entries of claimed tasks then stay
at the head of the claim's index, and every claim has to skip them. When the head of a queue's open partition has too
many pages to skip, a new partition is opened for new tasks. The old one is closed: nobody adds tasks to it, and it gets
a mark that only moves forward, behind which claims need not look. The mark moves only after every transaction that may
have seen the partition open has ended, so no task is missed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
from psycopg import RawCursor

from windlass.clock import monotonic
from windlass.stores.statements import load

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

SLOW_HEAD = 1_000
"""The number of pages before the first runnable task at which a new partition is opened. This is about ten thousand
dead entries, and almost a millisecond for every claim."""

MAX_PARTITIONS = 8
MERGE = 1_000
QUEUES_AT_ONCE = 8
RESCUE_SHARE = 100
"""After a search for tasks that no claim can see, the next one waits this many times as long as it took."""


class ClaimPartitions:
    """The upkeep of one store. It visits the queues in turn, a few at a time."""

    def __init__(self) -> None:
        self._statements = dict(load("postgres", "$", folder="upkeep"))
        self._next = 0
        self._rescue_next = 0
        self._rescue_at = 0.0

    def upkeep(self, connection: Connection) -> dict[str, int]:
        """Run one bounded round, on a connection in autocommit mode.

        Return the number of repaired tasks by queue: runnable ones that no claim could see.
        """
        queues = [queue for (queue,) in self._run(connection, "queues")]
        for queue in (queues + queues)[self._next : self._next + min(QUEUES_AT_ONCE, len(queues))]:
            self._keep(connection, queue)
        self._next = (self._next + QUEUES_AT_ONCE) % max(len(queues), 1)
        return self._rescue(connection, queues)

    def horizon_age(self, connection: Connection) -> float:
        """Return for how many seconds the oldest transaction that blocks vacuum has been open; 0 if there is none."""
        [(seconds,)] = self._run(connection, "horizon")
        return max(0.0, seconds)

    def _keep(self, connection: Connection, queue: str) -> None:
        if self._pages_to_head(connection, queue) > SLOW_HEAD:
            self._run(connection, "open_lot", queue=queue)
        self._run(connection, "close_lots", queue=queue)
        closed = self._run(connection, "closed_lots", queue=queue)
        for number, band, rank, tie, id in closed:
            if id is None:
                self._run(connection, "drop_lot", queue=queue, number=number)
            else:
                self._run(connection, "mark_lot", queue=queue, number=number, band=band, rank=rank, tie=tie, id=id)
        if len(closed) > MAX_PARTITIONS:
            self._run(connection, "merge_lot", queue=queue, number=closed[0][0], limit=MERGE)

    def _rescue(self, connection: Connection, queues: list[str]) -> dict[str, int]:
        """Repair tasks that no claim can see, in one queue per round.

        Windlass itself leaves none, so this takes at most one part in `RESCUE_SHARE` of the time: while vacuum is
        blocked, it has to skip all dead entries.
        """
        start = monotonic()
        if not queues or start < self._rescue_at:
            return {}
        queue = queues[self._rescue_next % len(queues)]
        self._rescue_next = (self._rescue_next + 1) % len(queues)
        found = self._run(connection, "rescue", queue=queue, limit=MERGE)
        end = monotonic()
        self._rescue_at = end + RESCUE_SHARE * (end - start)
        return {queue: len(found)} if found else {}

    def _pages_to_head(self, connection: Connection, queue: str) -> int:
        [([explained],)] = self._run(connection, "head", queue=queue)
        plan = explained["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    def _run(self, connection: Connection, statement: str, **scalars: object) -> list[tuple[Any, ...]]:
        known = self._statements[statement]
        cursor = RawCursor(connection)
        cursor.execute(known.text.encode(), [scalars[name] for name in known.scalars])
        return cursor.fetchall() if cursor.description else []
