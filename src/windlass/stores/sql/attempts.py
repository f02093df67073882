"""Sessions, claims and settlements over SQL: lock the rows, let `core` decide, write them under the lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id
from windlass.core.lease import next_fence
from windlass.core.lifecycle import State
from windlass.core.retry import storable
from windlass.core.settlement import RELEASED, Settlement, conclude, stands_already
from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros, span
from windlass.errors import SessionLost
from windlass.stores.protocol import LeaseLost, Settled, Verdict
from windlass.stores.sql.database import Database, Dialect, Transaction, Values
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.rows import Counts, Row, fence_of, rows_from, submitted_of, task_from, uuids
from windlass.stores.steering import check_renewal

CHUNK = 500
T = TypeVar("T")
_error = msgspec.json.Encoder()


def open_session(db: Database, node: str, ttl: timedelta, about: str) -> SessionId:
    """Begin a node's session."""
    length = span(ttl, "ttl")
    session = SessionId(fresh_id(SystemClock().now(), entropy(1)()))
    row: dict[str, Any] = {"session": session, "node": node, "ttl": length, "about": storable(about)}
    db.transact(lambda tx: tx.tell("open_session", **row, now=db.lease_now(), boot=db.boot()))
    return session


def renew(db: Database, session: SessionId, about: str | None, workers: str | None) -> list[Lease]:
    """Keep a session; which of its leases are to be cancelled."""
    texts: dict[str, Any] = {**check_renewal(about, workers)}

    def work(tx: Transaction) -> list[Lease]:
        renewed = tx.ask("renew", session=session, now=db.lease_now(), **texts)
        cancelling = tx.ask("cancelling", session=session)
        if not renewed.rows():
            raise SessionLost(session)
        return [Lease(TaskId(db.uuid(id)), fence, session) for id, fence in cancelling.rows()]

    return db.transact(work)


def close_session(db: Database, session: SessionId) -> None:
    """End a session, then release what it holds: in this order no claim of it can slip in between."""
    db.transact(lambda tx: tx.tell("lose_session", session=session))
    while ids := uuids(db, db.read(lambda tx: tx.ask("held", session=session, limit=CHUNK).rows())):
        end_in_chunk(db, ids, lambda row: RELEASED if row.session == session else None)


def claim(
    db: Database, session: SessionId, queues: Sequence[str], limit: int, shut: Sequence[str], only: str | None
) -> list[Claim]:
    """Lease the next tasks of some queues, past those of some downstreams."""
    chosen: list[Claim] = []
    past: dict[str, Any] = {"shut": list(shut), "only": only} if shut or only is not None else {}
    statement = "claim_past" if past else "claim"

    def work(tx: Transaction) -> list[Claim]:
        chosen.clear()
        counts = Counts()
        for queue in dict.fromkeys(queues):
            if len(chosen) < limit:
                most = limit - len(chosen)
                asked = tx.ask(statement, queue=queue, session=session, limit=most, now=db.now(), **past)
                chosen.extend(_granted(db, session, line, counts) for line in asked.rows())
        if chosen:
            grants = [(one.lease.task, one.lease.fence) for one in chosen]
            tx.tell("lease", grants, session=session, now=chosen[0].task.claimed)
            counts.write(tx)
        elif not tx.ask("session_is_alive", session=session).rows():
            raise SessionLost(session)
        return list(chosen)

    def recover() -> list[Claim] | None:
        """After a commit whose answer was lost: the leases stand all or none. None: it did not happen, try again.

        The rows are locked to look at them, because that commit may still be on its way.
        """
        if not chosen:
            return None
        ids = sorted((one.lease.task,) for one in chosen)
        held = db.transact(lambda tx: tx.ask("hold", ids).rows())
        stored = {row.id: (row.fence, row.session) for row in rows_from(db, held)}
        stand = [one for one in chosen if stored.get(one.lease.task) == (one.lease.fence, session)]
        return stand or None

    return db.transact(work, recover=recover)


def settle(db: Database, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
    """Write the ends of attempts, each under its own lease, and tell those that wait."""
    completed = _complete(db, reports)
    rest = [(lease, settlement) for lease, settlement in reports if lease.task not in completed]
    verdicts = iter(_settle(db, rest) if rest else [])
    return [Settled(lease, State.COMPLETED) if lease.task in completed else next(verdicts) for lease, _ in reports]


def _complete(db: Database, reports: Sequence[tuple[Lease, Settlement]]) -> set[TaskId]:
    """Write the plain good ends among these, all in one statement; which. Others are left for a closer look."""
    plain = {lease.task: (lease, settlement) for lease, settlement in reports if settlement.plain}
    if not plain or len({lease.task for lease, _ in reports}) < len(reports):
        return set()
    batch = [(id, lease.fence, lease.session) for id, (lease, _) in sorted(plain.items())]

    def work(tx: Transaction) -> tuple[set[TaskId], Callable[[], list[UUID]]]:
        endings = Endings(0)
        done: set[TaskId] = set()
        for id, queue, tenant in tx.ask("complete", batch, now=db.now()).rows():
            lease, settlement = plain[TaskId(db.uuid(id))]
            endings.completed(lease, settlement, queue, tenant)
            done.add(lease.task)
        return done, endings.write(db, tx)

    completed, announced = db.transact(work)
    db.ring(resolve(db, announced()))
    return completed


def _settle(db: Database, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
    """Lock the tasks of these reports, decide about each, and write what was decided."""

    def work(tx: Transaction) -> tuple[list[Verdict], Endings, Callable[[], list[UUID]]]:
        verdicts, endings = ended(db, tx, reports)
        return verdicts, endings, endings.write(db, tx)

    verdicts, endings, announced = db.transact(work)
    db.ring(endings.counts.wake | resolve(db, announced() + endings.repeated))
    return verdicts


def ended(db: Dialect, tx: Transaction, reports: Sequence[tuple[Lease, Settlement]]) -> tuple[list[Verdict], Endings]:
    """Lock the tasks of these reports and decide about each; what is to be written comes back with the verdicts."""
    asked = tx.ask("now", now=db.now())
    held = tx.ask("hold", [(id,) for id in sorted({lease.task for lease, _ in reports})])
    [(now,)] = asked.rows()
    rows = {row.id: row for row in rows_from(db, held.rows())}
    endings = Endings(now)
    return [_verdict(rows, lease, settlement, endings) for lease, settlement in reports], endings


def end_in_chunk(
    db: Database, ids: Sequence[UUID], decide: Callable[[Row], Settlement | None], *, bump_fence: bool = False
) -> int:
    """End the attempts of these leased tasks as `decide` says, for those it gives a settlement; how many."""

    def work(tx: Transaction) -> tuple[int, Callable[[], list[UUID]], set[str]]:
        asked = tx.ask("now", now=db.now())
        seized = tx.ask("seize", [(id,) for id in sorted(ids)])
        [(now,)] = asked.rows()
        endings = Endings(now)
        count = 0
        for row in rows_from(db, seized.rows()):
            settlement = decide(row) if row.state is State.LEASED else None
            if settlement is not None:
                endings.end(row, settlement, bump_fence=bump_fence)
                count += 1
        return count, endings.write(db, tx), endings.counts.wake

    count, announced, wake = db.transact(work)
    db.ring(wake | resolve(db, announced()))
    return count


class Endings:
    """The ends of attempts that one transaction writes."""

    def __init__(self, now: Micros) -> None:
        self._now = now
        self._settled: list[Values] = []
        self._attempts: list[Values] = []
        self._results: list[Values] = []
        self._final: list[Values] = []
        self._bumps: list[Values] = []
        self._logs: list[Values] = []
        self.counts = Counts()
        self.repeated: list[UUID] = []
        """Tasks that had ended before, by a report that was only repeated: whoever wrote it may have told nobody."""

    def end(self, row: Row, settlement: Settlement, *, bump_fence: bool = False) -> Row:
        """Note the end of one attempt of a locked, leased task."""
        end = conclude(row, settlement, self._now)
        state, final = end.state, end.state.final
        new = row._replace(
            state=state,
            due=row.due if final else self._now + end.delay,
            finished=self._now if final else None,
            attempts=row.attempts + end.attempts,
            crashes=row.crashes + end.crashes,
            losses=row.losses + end.losses,
            reason=end.reason,
            cancel_by=None,
        )
        self._settled.append(
            (
                row.id,
                row.fence,
                row.session,
                state.value,
                new.due,
                new.finished,
                new.attempts,
                new.crashes,
                new.losses,
                new.reason,
            )
        )
        if end.charged and state is not State.COMPLETED:
            error = None if end.error is None else _error.encode(end.error).decode()
            self._attempts.append((row.id, row.fence, row.session, row.claimed, self._now, state.value, error))
        if end.result is not None:
            self._results.append((row.id, end.result))
        if end.log:
            self._logs.append((row.id, row.fence, end.log))
        if final:
            self._final.append((row.id, state.value))
        if bump_fence:
            self._bumps.append((row.id, row.fence + 1))
        self.counts.moved(row, state)
        return new

    def completed(self, lease: Lease, settlement: Settlement, queue: str, tenant: str) -> None:
        """Note a plain good end that is written already: what goes with it is not."""
        if settlement.result is not None:
            self._results.append((lease.task, settlement.result))
        if settlement.log:
            self._logs.append((lease.task, lease.fence, storable(settlement.log)))
        self._final.append((lease.task, State.COMPLETED.value))
        self.counts.add(queue, tenant, State.LEASED, -1)
        self.counts.add(queue, tenant, State.COMPLETED, 1)

    def write(self, db: Dialect, tx: Transaction) -> Callable[[], list[UUID]]:
        """Write all of it. What comes back, called after the commit, says which ends somebody still waits for."""
        self._write_all_but_the_news(tx)
        if not self._final:
            return list
        announced = tx.ask("announce", self._final)
        return lambda: uuids(db, announced.rows())

    def write_joined(self, tx: Transaction) -> None:
        """Write all of it inside a caller's transaction, which cannot know who waits: every end is noted."""
        self._write_all_but_the_news(tx)
        tx.tell("note_ended", self._final)

    def _write_all_but_the_news(self, tx: Transaction) -> None:
        tx.tell("settle", self._settled)
        tx.tell("bump_fences", self._bumps)
        tx.tell("record_attempts", self._attempts)
        tx.tell("record_results", self._results)
        tx.tell("record_logs", self._logs)
        self.counts.write(tx)


def _granted(db: Database, session: SessionId, line: Values, counts: Counts) -> Claim:
    epoch, now, id = line[:3]
    fence = next_fence(fence_of(line[2:]), epoch=epoch, submitted=submitted_of(line[2:]))
    lease = Lease(TaskId(db.uuid(id)), fence, session)
    task = task_from(db, line[2:], lease=lease, now=now)
    counts.add(task.queue, task.tenant, State.RUNNABLE, -1)
    counts.add(task.queue, task.tenant, State.LEASED, 1)
    return Claim(lease, task)


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
