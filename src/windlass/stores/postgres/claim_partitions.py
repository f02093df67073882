"""Upkeep of the lots in which runnable tasks stand, so that claims stay quick while somebody pins the horizon.

PostgreSQL cannot clean up what an open transaction, anybody's, might still see. The entries of tasks claimed since stay
at the head of the claim's index, and every claim passes over all of them. When the head of a queue's open lot takes too
many pages to pass, a new lot is opened: new tasks go there, and the old one, into which nobody writes any more, gets a
mark that only moves forward. Nothing is passed over by this: a mark moves only once every transaction that may have
seen the lot open has ended.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
from psycopg import RawCursor

from windlass.clock import monotonic
from windlass.stores.statements import load

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

SLOW_HEAD = 1_000
"""Pages before the first runnable task: some ten thousand dead entries, not quite a millisecond for every claim."""

MAX_PARTITIONS = 8
MERGE = 1_000
QUEUES_AT_ONCE = 8
RESCUE_SHARE = 100
"""After a look for tasks that no claim can see, the next one waits so many times as long as it took."""


class ClaimPartitions:
    """The upkeep of one store; it goes around the queues, a few at a time."""

    def __init__(self) -> None:
        self._statements = dict(load("postgres", "$", folder="upkeep"))
        self._next = 0
        self._rescue_next = 0
        self._rescue_at = 0.0

    def upkeep(self, connection: Connection) -> dict[str, int]:
        """One bounded round, in a connection that commits every statement by itself.

        Returns the queues in which runnable tasks were found that no claim could see, and how many of them were moved.
        """
        queues = [queue for (queue,) in self._run(connection, "queues")]
        for queue in (queues + queues)[self._next : self._next + min(QUEUES_AT_ONCE, len(queues))]:
            self._keep(connection, queue)
        self._next = (self._next + QUEUES_AT_ONCE) % max(len(queues), 1)
        return self._rescue(connection, queues)

    def horizon_age(self, connection: Connection) -> float:
        """For how many seconds the oldest transaction that pins the horizon has been open; 0 if there is none."""
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
        """Bring tasks that no claim can see back into sight, one queue a round.

        Nothing of ours leaves any, so this takes at most one part in `RESCUE_SHARE` of the time: while the horizon is
        pinned it passes over everything that was claimed since.
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
