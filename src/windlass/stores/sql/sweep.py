"""The sweep of a SQL store. Each step first looks without locks, and locks and writes only what it finds.

Every step is bounded, idempotent, and safe while other nodes sweep: it skips rows that others have locked. The order of
the steps is that of the memory store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.fairness import KEPT
from windlass.core.graph import End
from windlass.core.lifecycle import EXPIRED, UNFINISHED, State
from windlass.core.settlement import CANCEL_OVERDUE, Settlement, let_go, lost
from windlass.core.submission import decode_rules
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.stores.coordination import AUDIT_KEPT
from windlass.stores.protocol import SESSIONS_SHOWN, Swept
from windlass.stores.series import Resolution
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.bulk import finish_overdue
from windlass.stores.sql.busy_workflows import BusyWorkflows
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.graph import fail_cycles, resolve, resolve_joined, resolve_some
from windlass.stores.sql.limit_settings import LIMITS, names_of
from windlass.stores.sql.locks import known_from, lock_tasks
from windlass.stores.sql.placeholders import fill_stored
from windlass.stores.sql.rows import Counts, Moves, Row, uuids
from windlass.stores.sql.series import fold_counts, roll_up
from windlass.stores.sql.settle import end_in_chunk

CHUNK = 1_000
TURNS = 5
"""The number of transactions in which one sweep resolves edges."""
FOLD_ABOVE = 500
LANES = 200
"""How many lanes of limits one sweep looks at."""
_NOBODY = UUID(int=0)
_LATE = micros(timedelta(seconds=5))
_LOOK_AGAIN = micros(timedelta(minutes=1))
_LOOK_AT_ENDED = micros(timedelta(days=1))
_FORGET_SESSIONS_AFTER = micros(SESSIONS_SHOWN)
_FORGET_AUDIT_AFTER = micros(AUDIT_KEPT)
_FORGET = (
    "forget_edges",
    "forget_attempts",
    "forget_logs",
    "forget_progress",
    "forget_results",
    "forget_completed",
    "forget_tasks",
)


class SqlSweep(SqlBase):
    """Sweep. Pruning and the stall detector take many sweeps; the store remembers how far they have come."""

    def __init__(self, db: Database, retention: timedelta, series_kept: timedelta) -> None:
        super().__init__(db, retention, series_kept)
        self._pruned_to: tuple[Micros, UUID] = (0, _NOBODY)
        self._busy_workflows = BusyWorkflows(db)
        self._edges_seen_to: tuple[UUID, UUID] = (_NOBODY, _NOBODY)
        self._placeholders_seen_to = _NOBODY
        self._rolled_up: Micros | None = None
        self._lanes_seen_to: Values = ("", "", "")

    def sweep(self) -> Swept:
        db = self._db
        rescued = self._keep_up()  # First, because it ends transactions for which the other steps would wait.
        [(now,)] = db.read(lambda tx: tx.query("now", now=db.now()).rows())
        self._fill_placeholders()
        done = Swept(
            lost_sessions=self._mark_lost_sessions(),
            requeued=self._requeue_lost(),
            cancelled=self._force_cancels(now),
            expired=self._move("expired", now, _expire),
            due=self._move("due", now, _make_runnable),
            missing=self._end_placeholders(now),
            cycles=fail_cycles(db),
            resolved=resolve_joined(db) + self._resolve_pending(),
            healed=self._heal(now) + rescued,
            pruned=self._prune(now),
            next_due=db.read(lambda tx: tx.query("next_due").rows())[0][0],
            carried_on=finish_overdue(db, now),  # Last, so that an operation that fails does not block the rest.
        )
        self._forget_audit(now)
        self._forget_locks()
        self._keep_lanes(now)
        self._fold()
        self._roll_up(now)
        return done

    def _forget_locks(self) -> None:
        """Delete locks of unique tasks that have completed or are gone, and look again later at those of the others."""
        db = self._db

        def work(tx: Transaction) -> None:
            found = [(id, db.uuid(task)) for id, task in tx.query("old_unique", now=db.now(), limit=CHUNK).rows()]
            stored = tx.query("peek_parents", [(task,) for task in sorted({task for _, task in found})]).rows()
            states = {one.id: one.state for one in known_from(db, stored) if one.state is not State.COMPLETED}
            tx.execute("forget_unique", [(id,) for id, task in found if task not in states])
            kept = [(id, states[TaskId(task)]) for id, task in found if task in states]
            later = [(id, _LOOK_AGAIN if state in UNFINISHED else _LOOK_AT_ENDED) for id, state in kept]
            tx.execute("look_later", later, now=db.now())

        if db.read(lambda tx: tx.query("some_old_unique", now=db.now()).rows()):
            db.transact(work)

    def _mark_lost_sessions(self) -> int:
        """Mark expired sessions as lost. Once this is committed, they can neither claim nor renew."""
        db = self._db

        def work(tx: Transaction) -> int:
            tx.execute("rewind_sessions", now=db.lease_now())
            return len(tx.query("lost_sessions", now=db.lease_now(), boot=db.boot()).rows())

        lost = db.transact(work)
        if lost:
            db.transact(lambda tx: tx.execute("forget_sessions", now=db.lease_now(), age=_FORGET_SESSIONS_AFTER))
        return lost

    def _requeue_lost(self) -> int:
        found = self._db.read(lambda tx: tx.query("lost_leases", limit=CHUNK).rows())
        if not found:
            return 0
        held = {
            TaskId(self._db.uuid(id)): (self._db.uuid(session), decode_rules(rules).at_most_once, closed)
            for id, session, rules, closed in found
        }

        def settlement(row: Row) -> Settlement | None:
            session, at_most_once, closed = held[row.id]
            if row.session != session:
                return None
            return let_go(at_most_once=at_most_once) if closed else lost(row.losses, at_most_once=at_most_once)

        return end_in_chunk(self._db, list(held), settlement)

    def _force_cancels(self, now: Micros) -> int:
        late = self._look("late_cancels", now)
        if not late:
            return 0
        return end_in_chunk(
            self._db,
            late,
            lambda row: CANCEL_OVERDUE if row.cancel_by is not None and row.cancel_by <= now else None,
            bump_fence=True,
        )

    def _move(self, statement: str, now: Micros, step: Callable[[Moves, Row, Micros], Row | None]) -> int:
        ids = self._look(statement, now)
        if not ids:
            return 0
        moved, ended, wake = self._db.transact(lambda tx: _move_some(self._db, tx, ids, now, step))
        self._db.notify(wake | resolve(self._db, ended))
        return moved

    def _fill_placeholders(self) -> None:
        """Fill placeholders whose tasks were submitted by a transaction that did not know of them."""
        db, after = self._db, self._placeholders_seen_to
        seen = db.read(lambda tx: tx.query("stored_placeholders", id=after, limit=CHUNK).rows())
        self._placeholders_seen_to = _NOBODY if len(seen) < CHUNK else db.uuid(seen[-1][0])
        found = [(db.uuid(id), db.uuid(workflow)) for id, workflow, is_stored in seen if is_stored]
        if found:
            db.transact(lambda tx: fill_stored(db, tx, found))

    def _end_placeholders(self, now: Micros) -> int:
        def work(tx: Transaction) -> list[UUID]:
            late = uuids(self._db, tx.query("late_placeholders", now=now, limit=CHUNK).rows())
            tx.execute("announce", [(id, End.MISSING.value) for id in sorted(late)])
            return late

        late = self._db.transact(work) if self._look("overdue_placeholders", now) else []
        self._db.notify(resolve(self._db, late))
        return len(late)

    def _resolve_pending(self) -> int:
        """Resolve edges that a caller left, because it died or had too many of them."""
        pending = uuids(self._db, self._db.read(lambda tx: tx.query("pending", limit=CHUNK).rows()))
        done = resolve_some(self._db, pending, rounds=TURNS)
        self._db.notify(done.wake)
        return done.edges

    def _heal(self, now: Micros) -> int:
        """Resolve edges from tasks that ended a while ago, if nobody else will: the stall detector."""
        child, parent = self._edges_seen_to
        seen = self._db.read(lambda tx: tx.query("edges_after", child=child, parent=parent, limit=CHUNK).rows())
        whole = len(seen) < CHUNK
        self._edges_seen_to = (_NOBODY, _NOBODY) if whole else (self._db.uuid(seen[-1][0]), self._db.uuid(seen[-1][1]))
        unresolved = {
            self._db.uuid(parent)
            for _, parent, resolved, _, finished, noted, joining in seen
            if not resolved and not noted and not joining and finished is not None and finished < now - _LATE
        }
        if unresolved:  # The next sweep fills those that are also forward references.
            batch = [(id,) for id in sorted(unresolved)]
            unresolved -= set(uuids(self._db, self._db.read(lambda tx: tx.query("open_placeholders", batch).rows())))
        if not unresolved:
            return 0
        announced = self._db.transact(lambda tx: _announce(self._db, tx, unresolved))
        self._db.notify(resolve(self._db, announced))
        return len(announced)

    def _keep_up(self) -> int:
        """Do the database's own upkeep. Return the number of runnable tasks found where no claim looks."""
        rescued = self._db.upkeep()
        self._db.notify(rescued.keys())
        return sum(rescued.values())

    def _prune(self, now: Micros) -> int:
        """Remove old finished tasks, except dead letters and the tasks of workflows that have not ended."""
        old = self._db.read(self._old_tasks(now - self._retention))
        self._pruned_to = (old[-1][1], old[-1][0]) if len(old) == CHUNK else (0, _NOBODY)
        busy: dict[tuple[str, str], bool] = {}
        gone: list[UUID] = []
        for id, _, tenant, workflow in old:
            if workflow is not None and (tenant, workflow) not in busy:
                busy[tenant, workflow] = self._busy_workflows.is_busy(tenant, workflow, now)
            if workflow is None or not busy[tenant, workflow]:
                gone.append(id)
        if gone:
            self._db.transact(lambda tx: forget(self._db, tx, gone))
        return len(gone)

    def _old_tasks(self, limit: Micros) -> Callable[[Transaction], list[tuple[UUID, Micros, str, str | None]]]:
        finished, id = self._pruned_to

        def work(tx: Transaction) -> list[tuple[UUID, Micros, str, str | None]]:
            rows = tx.query("finished_before", limit_time=limit, finished=finished, id=id, limit=CHUNK).rows()
            return [(self._db.uuid(id), when, tenant, workflow) for id, when, tenant, workflow in rows]

        return work

    def _forget_audit(self, now: Micros) -> None:
        """Remove old audit entries. The first entry is about the oldest and shows whether there are any."""
        if not self._old_entries(now, 1):
            return
        old = self._old_entries(now, CHUNK)
        self._db.transact(lambda tx: tx.execute("forget_entries", [(number,) for number in old]))

    def _old_entries(self, now: Micros, limit: int) -> list[int]:
        first = self._db.read(lambda tx: tx.query("first_entries", limit=limit).rows())
        return [number for number, at in first if at < now - _FORGET_AUDIT_AFTER]

    def _keep_lanes(self, now: Micros) -> None:
        """Forget accounts and buckets that say nothing, and look after the lanes of limits.

        In two transactions, because a claim that holds the lock may be waiting for a row that the first one deletes.
        """

        def forget(tx: Transaction) -> bool:
            tx.execute("forget_accounts", before=now - KEPT)
            tx.execute("forget_buckets", now=self._db.now())
            tx.execute("count_leases")  # Of claims that began before there were limits.
            return bool(tx.query("has_freed").rows() or self._query_lanes(tx))

        lanes = self._db.transact(self._open_lanes) if self._db.transact(forget) else ()
        self._lanes_seen_to = lanes[-1][:3] if len(lanes) == LANES else ("", "", "")

    def _open_lanes(self, tx: Transaction) -> Sequence[Values]:
        """Do what the next claim under limits would do if there were one, and let claims look at some more lanes."""
        tx.execute("lock_claims", names=[LIMITS])
        freed = tx.query("take_freed").rows()
        tx.execute("ready_names", names_of({(q, t, h, k) for q, t, h, k in freed}))
        lanes = self._query_lanes(tx)
        tx.execute("drop_parked", [line[:3] for line in lanes if not line[4]])
        tx.execute("put_parked", [(*line[:4], 0) for line in lanes if line[4]])
        return lanes

    def _query_lanes(self, tx: Transaction) -> Sequence[Values]:
        queue, tenant, name = self._lanes_seen_to
        return tx.query("parked_after", queue=queue, tenant=tenant, name=name, limit=LANES).rows()

    def _fold(self) -> None:
        [(deltas,)] = self._db.read(lambda tx: tx.query("unfolded", limit=FOLD_ABOVE + 1).rows())
        if deltas > FOLD_ABOVE:
            self._db.transact(fold_counts)

    def _roll_up(self, now: Micros) -> None:
        """Once a minute, add up what the time series keeps for too long."""
        minute = Resolution.MINUTE.start(now)
        if self._rolled_up != minute and self._db.transact(lambda tx: roll_up(tx, now, self._series_kept)):
            self._rolled_up = minute

    def _look(self, statement: str, now: Micros) -> list[UUID]:
        return uuids(self._db, self._db.read(lambda tx: tx.query(statement, now=now, limit=CHUNK).rows()))


def forget(db: Database, tx: Transaction, ids: Sequence[UUID]) -> int:
    """Remove those of these tasks that have ended and have no edges to resolve. Return their number."""
    batch = [(id,) for id in sorted(ids)]
    # Locked first, because a retry may be making another task wait for one of them again.
    rows = lock_tasks(db, tx, ids, skip_locked=True)
    unresolved = set(uuids(db, tx.query("unnotified", batch).rows()))
    gone = [row for row in rows if row.state.final and row.id not in unresolved]
    counts = Counts()
    for row in gone:
        counts.add(row.queue, row.tenant, row.state, -1)
    batch = [(row.id,) for row in gone]
    for statement in _FORGET:
        tx.execute(statement, batch)
    counts.write(tx)
    return len(gone)


def _announce(db: Database, tx: Transaction, ids: Collection[UUID]) -> list[UUID]:
    """Announce those of these tasks that have ended. They are locked, because a retry may be bringing them back."""
    ended = [row for row in lock_tasks(db, tx, ids, skip_locked=True) if row.state.final]
    return uuids(db, tx.query("announce", [(row.id, row.state.value) for row in ended]).rows()) if ended else []


def _move_some(
    db: Database, tx: Transaction, ids: Sequence[UUID], now: Micros, step: Callable[[Moves, Row, Micros], Row | None]
) -> tuple[int, list[UUID], set[str]]:
    moves = Moves()
    rows = lock_tasks(db, tx, ids, skip_locked=True)
    moved = [after for row in rows if (after := step(moves, row, now)) is not None]
    moves.write(tx, now)
    ended = [(row.id, row.state.value) for row in moved if row.state.final]
    if not ended:
        return len(moved), [], moves.counts.wake
    return len(moved), uuids(db, tx.query("announce", ended).rows()), moves.counts.wake


def _expire(moves: Moves, row: Row, now: Micros) -> Row | None:
    overdue = row.expires is not None and row.expires <= now
    if not overdue or row.state.final or row.state is State.LEASED:
        return None
    return moves.move(row, State.EXPIRED, finished=now, reason=EXPIRED)


def _make_runnable(moves: Moves, row: Row, now: Micros) -> Row | None:
    if row.state not in (State.SCHEDULED, State.RETRYING) or row.due > now:
        return None
    return moves.move(row, State.RUNNABLE) if row.wait is None else moves.end_wait(row, row.wait, now)
