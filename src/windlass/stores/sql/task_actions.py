"""Cancel or retry some tasks in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.task_update import restored_fields, retried_fields
from windlass.core.times import Micros
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.graph import EdgesMoved
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.rows import Moves, Row, uuids

COMING, CAME = "in", "done"
"""The stages of a task in a bulk retry: it will be retried later in the operation, or has been."""
Stages: TypeAlias = Callable[[Transaction, Collection[UUID]], Mapping[UUID, str]]
"""Returns the stages of some tasks in the bulk operation, without those that are not part of it."""


class Done(NamedTuple):
    """What the transaction did."""

    changed: list[Row]
    """The changed tasks, as they were before."""
    wake: set[str]
    announced: list[UUID]
    """Ended tasks that have edges to resolve."""


def cancel_some(
    db: Database, tx: Transaction, ids: Collection[UUID], reason: str, grace: Micros, *, announce: bool
) -> Done:
    """Cancel the unfinished ones of these tasks, or ask them to stop if they are leased."""
    asked = tx.query("now", now=db.now())
    held = lock_tasks(db, tx, ids)
    [(now,)] = asked.rows()
    moves = Moves()
    changed = [row for row in held if not row.state.final and not row.cancel_requested]
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
    """Announce tasks that `cancel_some` cancelled with `announce=False`. Return those with edges to resolve."""
    held = lock_tasks(db, tx, ids)
    ended = [(row.id, row.state.value) for row in held if row.state is State.CANCELLED]
    return uuids(db, tx.query("announce", ended).rows()) if ended else []


def retry_some(
    db: Database, tx: Transaction, ids: Sequence[UUID], stages: Stages | None = None, *, restore: bool = False
) -> Done:
    """Retry those of these tasks that ended badly. Each waits again for prerequisites that are unfinished or retried.

    With `restore`, they go back to where they were. Tasks of an unsealed workflow also wait for its seal. With
    `stages`, the tasks are part of a bulk operation, and prerequisites that it retries in other transactions count too.

    First the workflows, then the rows of `ended`, then the tasks and their prerequisites are locked, each in one
    statement and in id order, because `resolve` locks in this order.
    """
    asked = tx.query("now", now=db.now())
    resolved = tx.query("resolved_edges", [(id,) for id in sorted(ids)])
    unsealed = _lock_workflows(db, tx, ids)
    [(now,)] = asked.rows()
    all_ids = {*ids, *(above for _, above in _edges(db, resolved.rows()))}
    batch = [(id,) for id in sorted(all_ids)]
    unresolved = tx.query("hold_ended", batch)
    held = lock_tasks(db, tx, all_ids)
    # Read again: tasks may have ended and edges may have been resolved before the tasks were locked.
    resolved = tx.query("resolved_edges", [(id,) for id in sorted(ids)])
    ended = tx.query("find_ended", batch)
    rows = {row.id: row for row in held}
    edges = _edges(db, resolved.rows())
    noted = set(uuids(db, unresolved.rows()))
    if not {above for _, above in edges} <= all_ids or not set(uuids(db, ended.rows())) <= noted:
        raise EdgesMoved
    back = [rows[id] for id in map(TaskId, ids) if id in rows and rows[id].state.ended_badly]
    stage: Mapping[UUID, str] = stages(tx, {above for _, above in edges}) if stages else {}
    badly = {row.id for row in rows.values() if row.state.ended_badly}
    coming = {row.id for row in back} | {id for id in badly if stage.get(id) == COMING}
    again = {id for id in badly if stage.get(id) == CAME}
    awaited = coming | again | {row.id for row in rows.values() if not row.state.final}
    mine = {row.id for row in back}
    reopened = [(child, above) for child, above in edges if child in mine and above in awaited]
    more = Counter[UUID](child for child, _ in reopened)
    more.update(_wait_for_seals(db, tx, mine, unsealed))
    moves = Moves()
    for row in back:
        fields = restored_fields if restore else retried_fields
        moves.move(row, **fields(row, row.waiting + more[row.id], now))
    tx.execute("reopen_edges", sorted(reopened))
    # Dependents whose edges were not resolved yet wait for the new end instead.
    tx.execute("close_ended", [(above,) for above in sorted(noted & coming)])
    moves.write(tx)
    # A task that this operation retried earlier may have ended badly again meanwhile.
    ended = sorted((id, rows[id].state.value) for id in again & {above for _, above in reopened})
    announced = uuids(db, tx.query("announce", ended).rows()) if ended else []
    return Done(back, moves.counts.wake, announced)


def _lock_workflows(db: Database, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Lock the workflows of tasks, and return the unsealed ones by task.

    The sweep searches for cycles again in the workflows of tasks that failed because of one. Workflows are locked
    before tasks, as in a submit, so that none is sealed meanwhile.
    """
    found = tx.query("workflows_of", [(id,) for id in sorted(ids)]).rows()
    workflow_of = {db.uuid(id): workflow_id(tenant, name) for id, tenant, name, _ in found}
    again = {workflow_id(tenant, name) for _, tenant, name, is_cycle in found if is_cycle}
    if not workflow_of:
        return {}
    batch = [(id,) for id in sorted(set(workflow_of.values()))]
    locked = tx.query("lock_workflows" if again else "hold_workflows", batch).rows()
    tx.execute("check_later", [(id, True) for id in sorted(again)])
    unsealed = {db.uuid(id) for id, sealed, _ in locked if not sealed}
    return {id: workflow for id, workflow in workflow_of.items() if workflow in unsealed}


def _wait_for_seals(
    db: Database, tx: Transaction, tasks: Collection[TaskId], unsealed: Mapping[UUID, UUID]
) -> list[UUID]:
    """Make tasks of unsealed workflows wait for the seal: the prerequisites that waited for it may be gone."""
    edges = sorted((id, unsealed[id]) for id in tasks if id in unsealed)
    return uuids(db, tx.query("wait_for_seal", edges).rows()) if edges else []


def _edges(db: Database, lines: Sequence[tuple[object, ...]]) -> list[tuple[TaskId, TaskId]]:
    return [(TaskId(db.uuid(child)), TaskId(db.uuid(above))) for child, above in lines]
