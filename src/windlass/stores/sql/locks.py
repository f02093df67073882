"""Locks on tasks, for everything that is not on the hot path (docs/decisions/0019-one-table-per-hot-state.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.submission import chunks
from windlass.core.task import SessionId, TaskId
from windlass.core.times import Micros
from windlass.stores.sql.database import Dialect, Transaction, Values
from windlass.stores.sql.rows import STATES, Row, rows_from, uuids


class Locks(NamedTuple):
    """The statements that lock tasks in one way, in this order."""

    task: str
    runnable: str
    leased: str


_WAIT = Locks("lock_tasks", "lock_runnable", "lock_leased")
_SKIP = Locks("lock_tasks_skip", "lock_runnable_skip", "lock_leased_skip")
_SHARE = Locks("parents", "share_runnable", "share_leased")


def lock_tasks(db: Dialect, tx: Transaction, ids: Iterable[UUID], *, skip_locked: bool = False) -> list[Row]:
    """Lock tasks in id order and return them. With `skip_locked`, leave out those that others have locked.

    The row in `task` is locked first, which stops all changes except the hot path: from `runnable` to `leased` to
    `completed`. So these are locked in this order, and each statement sees what the one before it no longer found.
    """
    locks = _SKIP if skip_locked else _WAIT
    rows = rows_from(db, tx.query(locks.task, [(id,) for id in sorted(ids)]).rows())
    queued = [(row.id,) for row in rows if row.state is State.RUNNABLE]
    if not queued:
        return rows
    runnable, hot = lock_hot(db, tx, queued, locks)
    if skip_locked:
        rows = [row for row in rows if row.state is not State.RUNNABLE or row.id in runnable or row.id in hot]
    return [hot[row.id].update(row) if row.id in hot else row for row in rows]


def lock_hot(
    db: Dialect, tx: Transaction, queued: Sequence[Values], locks: Locks
) -> tuple[set[UUID], dict[UUID, HotRow]]:
    """Lock the rows of queued tasks in the hot tables. Return the runnable tasks, and the rows of the others."""
    runnable = set(uuids(db, tx.query(locks.runnable, queued).rows()))
    rest = [line for line in queued if line[0] not in runnable]
    if not rest:
        return runnable, {}
    leased = tx.query(locks.leased, rest)
    completed = tx.query("find_completed", rest)
    found = [HotRow(State.LEASED, *line) for line in leased.rows()]
    found += [HotRow(State.COMPLETED, *line) for line in completed.rows()]
    return runnable, {db.uuid(hot.id): hot._replace(session=db.uuid(hot.session)) for hot in found}


class Known(NamedTuple):
    """What a submit needs to know of a stored task."""

    id: TaskId
    tenant: str
    workflow: str | None
    state: State
    fingerprint: bytes | None
    fence: int
    session: UUID | None


def share_tasks(db: Dialect, tx: Transaction, ids: Iterable[UUID]) -> list[Known]:
    """Lock tasks against changes of their states, in id order, and return them. Other submits may lock them too.

    In parts, but all rows of `task` before the hot tables: nobody waits for a task while holding a lease.
    """
    parts = chunks(sorted(ids))
    known = [one for part in parts for one in known_from(db, tx.query(_SHARE.task, [(id,) for id in part]).rows())]
    hot: dict[UUID, HotRow] = {}
    for queued in chunks([(one.id,) for one in known if one.state is State.RUNNABLE]):
        hot.update(lock_hot(db, tx, queued, _SHARE)[1])
    return [
        one._replace(state=hot[one.id].state, fence=hot[one.id].fence, session=hot[one.id].session)
        if one.id in hot
        else one
        for one in known
    ]


def known_from(db: Dialect, lines: Sequence[Values]) -> list[Known]:
    """Convert results of `parents` or `peek_parents`."""
    return [
        Known(
            TaskId(db.uuid(id)),
            tenant,
            workflow,
            STATES[state],
            None if fingerprint is None else db.uuid(fingerprint).bytes,
            fence,
            None if session is None else db.uuid(session),
        )
        for id, tenant, workflow, state, fingerprint, fence, session in lines
    ]


class HotRow(NamedTuple):
    """A row of `leased` or `completed`."""

    state: State
    id: Any
    fence: int
    session: Any
    claimed: Micros
    finished: Micros | None = None

    def update(self, row: Row) -> Row:
        """Return the task of this row as it is now."""
        new = row._replace(state=self.state, fence=self.fence, session=SessionId(self.session), claimed=self.claimed)
        if self.state is State.LEASED:
            return new
        return new._replace(finished=self.finished, attempts=row.attempts + 1, reason=None)
