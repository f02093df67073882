"""What one transaction of an operator's verb does to some tasks: cancel them, or bring them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.task_update import retried_fields
from windlass.core.times import Micros
from windlass.errors import StoreUnavailable
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.rows import Moves, Row, rows_from, uuids

T = TypeVar("T")
TRIES = 100
COMING, CAME = "in", "done"
"""The stages of a task of a retry that has more than one transaction: it comes back later, or has done so."""
Stages: TypeAlias = Callable[[Transaction, Collection[UUID]], Mapping[UUID, str]]
"""At which stage of the whole operation some tasks are; those that are no part of it are left out."""


class EdgesMoved(Exception):
    """Between a look at the edges and the locks somebody told a task of an end: the transaction must start again."""


def until_still(attempt: Callable[[], T]) -> T:
    """Try a transaction until nobody moves its edges meanwhile."""
    for _ in range(TRIES):
        try:
            return attempt()
        except EdgesMoved:
            continue
    raise StoreUnavailable("the prerequisites of these tasks change all the time; try again")


class Done(NamedTuple):
    """What was done."""

    changed: list[Row]
    """The tasks that were changed, as they were before."""
    wake: set[str]
    announced: list[UUID]
    """Ends that somebody has to be told of."""


def cancel_some(
    db: Database, tx: Transaction, ids: Collection[UUID], reason: str, grace: Micros, *, announce: bool
) -> Done:
    """Cancel those that are unfinished; leased ones are asked to stop."""
    asked = tx.query("now", now=db.now())
    held = tx.query("lock_tasks", [(id,) for id in sorted(ids)])
    [(now,)] = asked.rows()
    moves = Moves()
    changed = [row for row in rows_from(db, held.rows()) if not row.state.final and not row.cancel_requested]
    for row in changed:
        if row.state is State.LEASED:
            moves.move(row, row.state, cancel_requested=True, cancel_by=now + grace, reason=reason)
        else:
            moves.move(row, State.CANCELLED, finished=now, reason=reason)
    moves.write(tx)
    ended = [(row.id, State.CANCELLED.value) for row in changed if announce and row.state is not State.LEASED]
    announced = uuids(db, tx.query("announce", ended).rows()) if ended else []
    return Done(changed, moves.counts.wake, announced)


def announce_cancelled(db: Database, tx: Transaction, ids: Collection[UUID]) -> list[UUID]:
    """Note the ends of those that `cancel_some` has cancelled without a word; which somebody waits for."""
    held = rows_from(db, tx.query("lock_tasks", [(id,) for id in sorted(ids)]).rows())
    ended = [(row.id, row.state.value) for row in held if row.state is State.CANCELLED]
    return uuids(db, tx.query("announce", ended).rows()) if ended else []


def bring_back(db: Database, tx: Transaction, ids: Sequence[UUID], stages: Stages | None = None) -> Done:
    """Bring back those that ended badly, to wait for each prerequisite that is unfinished or comes back as well.

    With `stages` they are part of a larger operation, and prerequisites that it brings back in another transaction
    count too. Tasks and prerequisites are locked in one set and in id order, after the notes of who is still to be
    told of their ends: whoever tells locks in this order.
    """
    asked = tx.query("now", now=db.now())
    told = tx.query("resolved_edges", [(id,) for id in sorted(ids)])
    _check_cycles_again(tx, ids)
    [(now,)] = asked.rows()
    everyone = [(id,) for id in sorted({*ids, *(above for _, above in _edges(db, told.rows()))})]
    untold = tx.query("hold_ended", everyone)
    held = tx.query("lock_tasks", everyone)
    # Once more: until they were locked, these tasks may have been told of ends.
    told = tx.query("resolved_edges", [(id,) for id in sorted(ids)])
    rows = {row.id: row for row in rows_from(db, held.rows())}
    edges = _edges(db, told.rows())
    if not {(above,) for _, above in edges} <= set(everyone):
        raise EdgesMoved
    back = [rows[id] for id in map(TaskId, ids) if id in rows and rows[id].state.ended_badly]
    stage: Mapping[UUID, str] = stages(tx, {above for _, above in edges}) if stages else {}
    badly = {row.id for row in rows.values() if row.state.ended_badly}
    coming = {row.id for row in back} | {id for id in badly if stage.get(id) == COMING}
    again = {id for id in badly if stage.get(id) == CAME}
    awaited = coming | again | {row.id for row in rows.values() if not row.state.final}
    mine = {row.id for row in back}
    reopened = [(child, above) for child, above in edges if child in mine and above in awaited]
    more = Counter(child for child, _ in reopened)
    moves = Moves()
    for row in back:
        moves.move(row, **retried_fields(row, row.waiting + more[row.id], now))
    tx.execute("reopen_edges", sorted(reopened))
    # Whoever has not been told of the old end waits for the new one instead.
    tx.execute("close_ended", [(above,) for above in uuids(db, untold.rows()) if above in coming])
    moves.write(tx)
    # What came back earlier in this operation and ended badly meanwhile is an end like any other.
    ended = sorted((id, rows[id].state.value) for id in again & {above for _, above in reopened})
    announced = uuids(db, tx.query("announce", ended).rows()) if ended else []
    return Done(back, moves.counts.wake, announced)


def _check_cycles_again(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Have the sweep search the workflows of tasks that it failed for a cycle: retried, they wait for each other again.

    Workflows are locked before tasks, here as in a submit.
    """
    found = tx.query("failed_by_cycle", [(id,) for id in sorted(ids)]).rows()
    workflows = {workflow_id(tenant, name) for tenant, name in found}
    tx.execute("check_later", [(id, True) for id in sorted(workflows)])


def _edges(db: Database, lines: Sequence[tuple[object, ...]]) -> list[tuple[TaskId, TaskId]]:
    return [(TaskId(db.uuid(child)), TaskId(db.uuid(above))) for child, above in lines]
