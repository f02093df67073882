"""The ends of attempts in a SQL store: lock the tasks, let `core` decide, write the result under the lease.

Attempts that completed are written by one guarded statement (`complete`) without reading the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

import msgspec

from windlass.core.graph import End
from windlass.core.lifecycle import State
from windlass.core.retry import storable
from windlass.core.settlement import COMPLETED, Settlement, add_error_group, stands_already
from windlass.core.task import Lease, Progress, SessionId, TaskId
from windlass.stores.protocol import LeaseLost, Settled, Verdict
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.continuation import settle_adding
from windlass.stores.sql.database import Answer, Database, Dialect, Transaction, Values
from windlass.stores.sql.ended_leases import record_completed
from windlass.stores.sql.endings import Endings, Written
from windlass.stores.sql.graph import LEVELS, Dependents, query_dependents, resolve, resolve_some
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.rows import Row

_error = msgspec.json.Encoder()


class SqlSettle(SqlBase):
    """Write the ends and the progress of attempts, each only while its lease is valid."""

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        completed, left = self._complete(reports)
        rest: list[tuple[Lease, Settlement]] = []
        if len(completed) < len(reports):
            rest = [(lease, add_error_group(end)) for lease, end in reports if lease.task not in completed]
        found, more = _settle(self._db, rest) if rest else ([], False)
        if left or more:
            self.unresolved.set()
        if not rest:
            return [Settled(lease, State.COMPLETED) for lease, _ in reports]
        verdicts = iter(found)
        return [Settled(lease, State.COMPLETED) if lease.task in completed else next(verdicts) for lease, _ in reports]

    def complete(self, tx: Transaction, session: SessionId, batch: Sequence[Values]) -> Answer:
        """Write and count completed attempts of a session whose leases are valid.

        Return one row: the time; the ids of the tasks if there were invalid leases, None if all were valid; what fair
        queues need of each attempt, as for `EndedTurn`; and the scopes of limits: queue, tenant, handler and key.
        """
        return tx.query("complete", batch, session=session, now=self._db.now())

    def dependents(self, tx: Transaction, ends: Collection[UUID]) -> Dependents:
        """Query the dependents of tasks that this transaction ends."""
        return query_dependents(tx, ends)

    def _complete(self, reports: Sequence[tuple[Lease, Settlement]]) -> tuple[Collection[TaskId], bool]:
        """Write the attempts that completed. Return their tasks, and True if edges are left to resolve.

        A task with a cancel request or an invalid lease is not written here; `_settle` decides about it.
        """
        db = self._db
        plain = [one for one in reports if one[1] is COMPLETED or one[1].plain]
        sessions = {lease.session for lease, _ in plain}
        # Two reports about one task depend on each other. Leases of two sessions would not be locked in id order.
        if len(sessions) != 1 or len({lease.task.int for lease, _ in reports}) < len(reports):
            return (), False
        [session] = sessions
        tasks = dict.fromkeys([lease.task for lease, _ in plain], End.COMPLETED)

        def work(tx: Transaction) -> tuple[Mapping[TaskId, End], Written]:
            answer = self.complete(tx, session, [(lease.task, lease.fence) for lease, _ in plain])
            waiting = self.dependents(tx, tasks)  # In the same round trip, though some may not have been completed.
            [(now, ids, turns, scopes)] = answer.rows()
            done = tasks if ids is None else dict.fromkeys([TaskId(db.uuid(id)) for id in ids], End.COMPLETED)
            endings = Endings(now)
            endings.add_completed(one for one in plain if one[1] is not COMPLETED and one[0].task in done)
            freed: set[str] = set()
            if turns or scopes:
                ran = {lease.task.hex: settlement.ran for lease, settlement in plain} if turns else {}
                freed = record_completed(tx, turns or (), scopes or (), ran, now)
            written = endings.write(db, tx, done, waiting)
            return done, written._replace(wake=written.wake | freed) if freed else written

        completed, written = db.transact(work)
        return completed, _resolve_more(db, written)

    def progress(self, reports: Sequence[Progress]) -> list[Lease]:
        db, latest = self._db, {report.lease: report.storable() for report in reports}
        batch = [(lease.task, lease.fence, lease.session, one.share, one.message) for lease, one in latest.items()]
        if not batch:
            return []
        kept = db.transact(lambda tx: tx.query("progress", batch, now=db.now()).rows())
        held = {(db.uuid(task), fence, db.uuid(session)) for task, fence, session in kept}
        return [lease for lease in latest if (lease.task, lease.fence, lease.session) not in held]

    def record_output(self, outputs: Sequence[tuple[Lease, str]]) -> list[Lease]:
        db, latest = self._db, {lease: storable(text) for lease, text in outputs if text}
        if not latest:
            return []
        batch = [(lease.task, lease.fence, lease.session, text) for lease, text in latest.items()]
        rows = db.transact(lambda tx: tx.query("record_output", batch).rows())
        held = {(db.uuid(task), fence, db.uuid(session)) for task, fence, session in rows}
        return [lease for lease in latest if (lease.task, lease.fence, lease.session) not in held]


def _settle(db: Database, reports: Sequence[tuple[Lease, Settlement]]) -> tuple[list[Verdict], bool]:
    """Write these reports. Those that add steps have a transaction each, because their steps may be refused."""
    others = [one for one in reports if one[1].added is None]
    if len(others) == len(reports):
        return _settle_together(db, others)
    if len({lease.task for lease, _ in reports}) < len(reports):  # Two reports about one task depend on their order.
        parts = [_settle_alone(db, *one) for one in reports]
        return [verdict for verdict, _ in parts], any(more for _, more in parts)
    verdicts, more = _settle_together(db, others) if others else ([], False)
    found = iter(verdicts)
    whole: list[Verdict] = []
    for lease, settlement in reports:
        if settlement.added is None:
            whole.append(next(found))
            continue
        verdict, left = _settle_alone(db, lease, settlement)
        whole.append(verdict)
        more = left or more
    return whole, more


def _settle_alone(db: Database, lease: Lease, settlement: Settlement) -> tuple[Verdict, bool]:
    """Write one report in a transaction of its own. Return True too if edges are left to resolve."""
    if settlement.added is None:
        [verdict], more = _settle_together(db, [(lease, settlement)])
        return verdict, more
    verdict, written = settle_adding(db, lease, settlement)
    return verdict, written is not None and _resolve_more(db, written)


def _settle_together(db: Database, reports: Sequence[tuple[Lease, Settlement]]) -> tuple[list[Verdict], bool]:
    """Lock the tasks of these reports, decide about each, and write the result."""

    def work(tx: Transaction) -> tuple[list[Verdict], Endings, Written]:
        verdicts, endings = decide(db, tx, reports)
        return verdicts, endings, endings.write(db, tx)

    verdicts, endings, written = db.transact(work)
    return verdicts, _resolve_more(db, written, endings.repeated)


def _resolve_more(db: Database, written: Written, repeated: Sequence[UUID] = ()) -> bool:
    """After the commit, resolve more edges in one more transaction. Return True if some are still left."""
    done = resolve_some(db, [*written.unresolved(), *repeated], rounds=1, levels=LEVELS)
    db.notify(written.wake | done.wake)
    return done.left


def decide(db: Dialect, tx: Transaction, reports: Sequence[tuple[Lease, Settlement]]) -> tuple[list[Verdict], Endings]:
    """Lock the tasks of these reports and decide about each. Return the verdicts and what to write."""
    asked = tx.query("now", now=db.now())
    rows = {row.id: row for row in lock_tasks(db, tx, {lease.task for lease, _ in reports})}
    [(now,)] = asked.rows()
    endings = Endings(now)
    return [_verdict(rows, lease, settlement, endings) for lease, settlement in reports], endings


def end_in_chunk(
    db: Database, ids: Sequence[UUID], decide: Callable[[Row], Settlement | None], *, bump_fence: bool = False
) -> int:
    """End the attempts of those of these leased tasks for which `decide` returns a settlement. Return their number."""

    def work(tx: Transaction) -> tuple[int, Written]:
        asked = tx.query("now", now=db.now())
        rows = lock_tasks(db, tx, ids, skip_locked=True)
        [(now,)] = asked.rows()
        endings = Endings(now)
        count = 0
        for row in rows:
            settlement = decide(row) if row.state is State.LEASED else None
            if settlement is not None:
                endings.end(row, settlement, bump_fence=bump_fence)
                count += 1
        return count, endings.write(db, tx)

    count, written = db.transact(work)
    db.notify(written.wake | resolve(db, written.unresolved()))
    return count


def _verdict(rows: dict[TaskId, Row], lease: Lease, settlement: Settlement, endings: Endings) -> Verdict:
    row = rows.get(lease.task)
    if row is None or row.fence != lease.fence or row.session != lease.session:
        return LeaseLost(lease)
    if row.state is State.LEASED:
        row = rows[row.id] = endings.end(row, settlement)
        return Settled(lease, row.state)
    if not stands_already(row, settlement):
        return LeaseLost(lease)
    if row.state.final:
        endings.repeated.append(row.id)
    return Settled(lease, row.state)
