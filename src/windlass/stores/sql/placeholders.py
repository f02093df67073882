"""Placeholders in a SQL store whose tasks were submitted by transactions that did not know of them.

A submit fills the placeholders of its tasks if their workflow is open for forward references when it begins. If the
workflow is opened while it runs, another submit may refer to its tasks, which it cannot see yet. Then both a task and
its placeholder are stored, and these functions remove the placeholder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from windlass.core.graph import End
from windlass.core.lifecycle import State
from windlass.stores.sql.database import Dialect, Transaction
from windlass.stores.sql.locks import lock_tasks, share_tasks
from windlass.stores.sql.rows import uuids


def fill_stored(db: Dialect, tx: Transaction, found: Collection[tuple[UUID, UUID]]) -> None:
    """Remove placeholders (id, workflow) whose tasks are stored, unless another transaction has locked the task.

    A locked task may be about to end without seeing the edges to it. One that is not locked either sees them when it
    ends, or has ended and is announced here.
    """
    workflow_of = dict(found)
    tx.query("lock_workflows", [(id,) for id in sorted(set(workflow_of.values()))]).rows()
    rows: dict[UUID, State] = {row.id: row.state for row in lock_tasks(db, tx, workflow_of, skip_locked=True)}
    filled = uuids(db, tx.query("fill_placeholders", [(id,) for id in sorted(rows)]).rows()) if rows else []
    tx.execute("announce", sorted((id, rows[id].value) for id in filled if rows[id].final))
    _search_cycles(tx, {workflow_of[id] for id in filled if rows[id] is State.WAITING})


def ends_of(db: Dialect, tx: Transaction, workflow: UUID, open_ends: Collection[UUID]) -> dict[UUID, End | None]:
    """Return how the placeholders of a locked workflow end with its seal; None for a stored task that has not ended."""
    stored: dict[UUID, State] = {one.id: one.state for one in share_tasks(db, tx, open_ends)} if open_ends else {}
    _search_cycles(tx, {workflow} if State.WAITING in stored.values() else ())
    ended = {id: End(state.value) if state.final else None for id, state in stored.items()}
    return dict.fromkeys(open_ends, End.MISSING) | ended


def _search_cycles(tx: Transaction, workflows: Iterable[UUID]) -> None:
    """Let the sweep search these workflows: nobody checked whether the new tasks close a cycle."""
    tx.execute("check_later", [(id, True) for id in sorted(workflows)])
