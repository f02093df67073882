"""The SQLite store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any
from uuid import UUID

import msgspec

from windlass.clock import Clock
from windlass.core.lifecycle import State
from windlass.core.ordering import Strategy
from windlass.core.submission import CHUNK, Draft
from windlass.core.task import Lease, SessionId, TaskId
from windlass.core.times import Micros
from windlass.stores.protocol import RETENTION, Receipt
from windlass.stores.series import SERIES_KEPT
from windlass.stores.sql.database import Answer, Transaction, Values
from windlass.stores.sql.graph import Dependents, query_dependents
from windlass.stores.sql.plain_tasks import Common, is_plain, split_batch
from windlass.stores.sql.rows import Counts, queue_from, uuids
from windlass.stores.sql.store import SqlStore
from windlass.stores.sql.submit import Submit, Submitted
from windlass.stores.sqlite.database import Rows, SQLiteDatabase

_PLACE = slice(16, 20)
"""The columns of a claim with the lane of the task and its place in it."""


class SQLiteStore(SqlStore):
    """A store in one file, durable and safe with many processes on one machine. Do not use it on a network disk.

    >>> store = SQLiteStore("windlass.db")
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        retention: timedelta = RETENTION,
        series_kept: timedelta = SERIES_KEPT,
    ) -> None:
        super().__init__(SQLiteDatabase(path, clock), retention, series_kept)

    # A SQLite statement changes one table, so the hot path needs several (folder `parts`). There is only one writer.

    def submit_drafts(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted:
        regular = Submit(self._db, drafts, joined=False, lease=lease, notes=notes)
        plain = lease is None and not notes and len(drafts) <= CHUNK
        if not plain or not all(is_plain(one) and one.new.id is None for one in drafts):
            return self._db.transact(regular)
        common, tasks = split_batch(drafts)
        queues = sorted({one.queue for one in common})

        def work(tx: Transaction) -> Submitted:
            rows = tx.query("prepare", queues=queues, now=self._db.now()).rows()
            settings = [queue_from(line[2:]) for line in rows if line[2] is not None]
            special = (
                one.strategy is not Strategy.PRIORITY or one.max_waiting is not None or one.fair for one in settings
            )
            if any(special):
                return regular(tx)
            self._submit_plain(tx, common, tasks, rows[0][0])
            return Submitted([Receipt(one.id, True, State.RUNNABLE) for one in drafts], [], set(queues))

        return self._db.transact(work)

    def _submit_plain(
        self, tx: Transaction, common: Sequence[Common], tasks: Sequence[tuple[TaskId, str, int]], now: Micros
    ) -> None:
        due = now
        batch: list[Values] = []
        for id, args, part in tasks:
            batch.append((id.bytes, args, due, *common[part]))
            due += 1
        tx.execute("submit_plain", batch, now=now)
        tx.execute("submit_runnable", ids=[line[0].hex() for line in batch])
        counts = Counts()
        for part, number in Counter(part for _, _, part in tasks).items():
            counts.add(common[part].queue, common[part].tenant, State.RUNNABLE, number)
        counts.write(tx, now, new=True)

    def lease(self, tx: Transaction, statement: str, batch: Sequence[Values] | None, **how: Any) -> Sequence[Values]:
        lines = tx.query(statement, batch, **how).rows()
        if batch is not None and len(batch) > 1:
            lines = sorted(lines, key=lambda line: (*line[_PLACE], line[0]))[: how["limit"]]
        leases = [(id, fence, queue, tenant, handler) for id, fence, handler, _, _, queue, tenant, *_ in lines]
        return self._write_leases(tx, "lease", lines, leases, how)

    def lease_chosen(self, tx: Transaction, chosen: Sequence[Values], **how: Any) -> Sequence[Values]:
        lines = tx.query("claim_chosen", chosen, now=how["now"]).rows()
        leases = [
            (id, fence, queue, tenant, handler, *rest[-2:]) for id, fence, handler, _, _, queue, tenant, *rest in lines
        ]
        return self._write_leases(tx, "lease_chosen", lines, leases, how)

    def park(self, tx: Transaction, batch: Sequence[Values]) -> list[UUID]:
        tx.execute("park_task", [(line[5], line[6]) for line in batch])
        return super().park(tx, batch)

    def _write_leases(
        self,
        tx: Transaction,
        statement: str,
        lines: Sequence[Values],
        leases: Sequence[Values],
        how: Mapping[str, Any],
    ) -> Sequence[Values]:
        """Write leases of runnable tasks, and count them. Return the lines without the places."""
        if not lines:
            return lines
        now = how["now"]
        tx.execute(statement, leases, session=how["session"], limited=how["limited"], now=now)
        tx.execute("take", [(line[5], *line[_PLACE], line[0]) for line in lines])
        waits: dict[tuple[str, str], list[int]] = {}
        for line in lines:
            # A task of a batch is due some microseconds after its submit, so it may be claimed before that.
            waits.setdefault((line[5], line[6]), []).append(max(0, now - line[7]))
        counts = Counts()
        for (queue, tenant), each in waits.items():
            counts.claim(queue, tenant, len(each), sum(each), max(each))
        counts.write(tx, now)
        return [line[: _PLACE.start] for line in lines]

    def complete(self, tx: Transaction, session: SessionId, batch: Sequence[Values]) -> Answer:
        now = self._db.now()
        ended = tx.query("complete", batch, session=session).rows()
        tx.execute("add_completed", [(id, fence, session.bytes, claimed, now) for id, fence, claimed, *_ in ended])
        counts = Counts()
        for (queue, tenant), tasks in Counter((line[3], line[4]) for line in ended).items():
            counts.add(queue, tenant, State.LEASED, -tasks)
            counts.add(queue, tenant, State.COMPLETED, tasks)
        counts.write(tx, now)
        turns = [
            (id.hex(), queue, tenant, claimed, charge)
            for id, _, claimed, queue, tenant, charge, _ in ended
            if charge is not None
        ]
        scopes = [msgspec.json.decode(scope) for scope in {line[6] for line in ended} if scope is not None]
        return Rows([(now, None if len(ended) == len(batch) else [id for id, *_ in ended], turns, scopes)])

    def dependents(self, tx: Transaction, ends: Collection[UUID]) -> Dependents:
        found = tx.query("with_dependents", parents=[id.hex for id in ends]).rows()
        return query_dependents(tx, uuids(self._db, found))
