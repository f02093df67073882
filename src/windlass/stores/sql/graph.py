"""How the end of a task reaches those that wait for it, over SQL.

Whoever ends a task notes it in `ended`, in the same transaction and only if somebody waits (`announce`). The telling
is a series of short transactions of its own, each idempotent by the edges' `resolved`, so a fan-out of a million is no
long transaction and a process that dies on the way is finished for by the next sweep. No transaction here locks a
prerequisite and a dependent together: every set of tasks is locked once, in id order, so nobody can deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from windlass.core.graph import End, find_any_ring, unblock
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.errors import CycleFound
from windlass.stores.sql.database import Answer, Database, Transaction
from windlass.stores.sql.rows import Moves, Row, rows_from, uuids

CHUNK = 1_000
"""How many edges one transaction resolves at the most."""

PART = 500
"""Tasks of a ring that one statement ends: a ring of thousands must not meet a server's limit on statements."""

ROUNDS = 20
"""How many such transactions a caller does itself before it leaves the rest to the sweep."""


class Told(NamedTuple):
    """What one transaction of telling did."""

    edges: int
    remaining: list[UUID]
    announced: Answer | None
    wake: set[str]


class Page(NamedTuple):
    """The edges that one transaction of telling is about."""

    edges: list[tuple[UUID, TaskId]]
    whole: list[UUID]
    """Ends whose edges are all in it."""
    cut: list[UUID]
    """The end of which only the first edges had room, if there is one."""


def resolve(db: Database, ended: Sequence[UUID]) -> set[str]:
    """Tell those that wait for these ends, and so on down; the queues that got something to run."""
    return resolve_counted(db, ended)[1]


def resolve_counted(db: Database, ended: Sequence[UUID]) -> tuple[int, set[str]]:
    """The same, with the number of edges resolved."""
    edges, wake, todo = 0, set[str](), list(ended)
    for _ in range(ROUNDS):
        if not todo:
            break
        batch, todo = todo[:CHUNK], todo[CHUNK:]
        told = db.transact(lambda tx, batch=batch: _tell(db, tx, batch))
        edges += told.edges
        wake |= told.wake
        todo += told.remaining + (uuids(db, told.announced.rows()) if told.announced else [])
    return edges, wake


def adopt(db: Database) -> int:
    """Look again at tasks that came inside a caller's transaction: what they wait for may have ended meanwhile."""
    children = uuids(db, db.read(lambda tx: tx.ask("joining", limit=CHUNK).rows()))
    if not children:
        return 0
    announced = db.transact(lambda tx: _adopt(db, tx, children))
    db.ring(resolve(db, announced))
    return len(children)


def fail_rings(db: Database) -> int:
    """End the tasks that wait for each other in workflows whose cycle search had run out of its budget."""
    failed = 0
    for id, tenant, name in db.read(lambda tx: tx.ask("unchecked_workflows").rows()):
        workflow = db.uuid(id)
        while ring := db.transact(lambda tx, w=workflow, t=tenant, n=name: _fail_one_ring(db, tx, w, t, n)):
            failed += len(ring)
            resolve(db, ring)
    return failed


def _tell(db: Database, tx: Transaction, ended: Sequence[UUID]) -> Told:
    asked = tx.ask("now", now=db.now())
    taken = tx.ask("take_ended", [(parent,) for parent in sorted(ended)])
    [(now,)] = asked.rows()
    ends = {db.uuid(parent): (End(how), db.uuid(after)) for parent, how, after in taken.rows()}
    if not ends:
        return Told(0, [], None, set())
    page = _open_edges(db, tx, ends)
    reached: dict[TaskId, list[tuple[UUID, End]]] = {}
    for parent, child in page.edges:
        reached.setdefault(child, []).append((parent, ends[parent][0]))
    moves = Moves()
    held = tx.ask("hold", [(child,) for child in sorted(reached)]) if reached else None
    cancelled = (
        [row for row in rows_from(db, held.rows()) if _cancels(moves, row, reached[row.id], now)] if held else []
    )
    tx.tell("resolve_edges", sorted((child, parent) for parent, child in page.edges))
    moves.write(tx)
    announced = tx.ask("announce", [(row.id, State.CANCELLED.value) for row in cancelled]) if cancelled else None
    return Told(len(page.edges), _close(tx, ends, page), announced, moves.counts.wake)


def _open_edges(db: Database, tx: Transaction, ends: Mapping[UUID, tuple[End, UUID]]) -> Page:
    """The first edges to be told, at most `CHUNK`. A few ends are asked about at a time, for each may have as many."""
    page = Page([], [], [])
    todo = [(parent, after) for parent, (_, after) in ends.items()]
    few = 16
    while todo and not page.cut:
        batch, todo = todo[:few], todo[few:]
        children: dict[UUID, list[TaskId]] = {parent: [] for parent, _ in batch}
        # One more than there is room for, to know whether an end has more.
        for parent, child in tx.ask("open_edges", batch, limit=CHUNK - len(page.edges) + 1).rows():
            children[db.uuid(parent)].append(TaskId(db.uuid(child)))
        _fill(page, children)
        few *= 2
    return page


def _fill(page: Page, children: Mapping[UUID, Sequence[TaskId]]) -> None:
    """Put the edges of some ends into the page, end by end, until one has more than there is room for."""
    for parent, below in children.items():
        room = CHUNK - len(page.edges)
        page.edges.extend((parent, child) for child in sorted(below)[:room])
        if len(below) > room:
            page.cut.append(parent)
            return
        page.whole.append(parent)


def _cancels(moves: Moves, row: Row, ends: Sequence[tuple[UUID, End]], now: int) -> bool:
    """Count these prerequisites of a task as ended; whether that cancelled it."""
    after = unblock(row.state, row.waiting, row.on_failure, ends, due=row.due, now=now)
    if after.state is State.CANCELLED and row.state is not State.CANCELLED:
        moves.move(row, after.state, waiting=after.waiting, finished=now, reason=after.reason)
        return True
    moves.move(row, after.state, waiting=after.waiting, due=after.due)
    return False


def _close(tx: Transaction, ends: Mapping[UUID, tuple[End, UUID]], page: Page) -> list[UUID]:
    """Mark how far the telling has come; which ends still have somebody to be told."""
    tx.tell("close_ended", [(parent,) for parent in sorted(page.whole)])
    last = dict(page.edges)
    tx.tell("advance_ended", [(parent, last[parent]) for parent in page.cut if parent in last])
    told = set(page.whole)
    return [parent for parent in ends if parent not in told]


def _adopt(db: Database, tx: Transaction, children: Sequence[UUID]) -> list[UUID]:
    taken = uuids(db, tx.ask("take_joining", [(child,) for child in sorted(children)]).rows())
    if not taken:
        return []
    above = set(uuids(db, tx.ask("open_prerequisites", [(child,) for child in taken]).rows()))
    batch = [(id,) for id in sorted(above)]
    if not batch:
        return []
    sealed = {db.uuid(id): bool(done) for id, done, _ in tx.ask("hold_workflows", batch).rows()}
    states = {db.uuid(id): State(state) for id, _, _, state, *_ in tx.ask("parents", batch).rows()}
    to_come = set(uuids(db, tx.ask("open_placeholders", batch).rows()))
    ends = [(id, End.SEALED) for id, done in sealed.items() if done]
    ends += [(id, End(state.value)) for id, state in states.items() if state.final]
    ends += [(id, End.MISSING) for id in above - sealed.keys() - states.keys() - to_come]
    if not ends:
        return []
    return uuids(db, tx.ask("announce", [(id, end.value) for id, end in sorted(ends)]).rows())


def _fail_one_ring(db: Database, tx: Transaction, workflow: UUID, tenant: str, name: str) -> list[TaskId]:
    tx.ask("lock_workflows", [(workflow,)]).rows()
    [(now,)] = tx.ask("now", now=db.now()).rows()
    waiting: dict[TaskId, list[TaskId]] = {}
    for child, parent in tx.ask("workflow_edges", workflow=name, tenant=tenant).rows():
        waiting.setdefault(TaskId(db.uuid(child)), []).append(TaskId(db.uuid(parent)))
    ring = find_any_ring(waiting)
    if not ring:
        tx.tell("check_later", [(workflow, False)])
        return []
    held = rows_from(db, tx.ask("hold", [(id,) for id in sorted(ring)]).rows())
    if len(held) < len(ring) or any(row.state is not State.WAITING for row in held):
        return []  # Somebody has broken the ring meanwhile; the next sweep looks again.
    reason = str(CycleFound(ring))
    for part in (held[start : start + PART] for start in range(0, len(held), PART)):
        moves = Moves()
        for row in part:
            moves.move(row, State.FAILED, finished=now, reason=reason)
        moves.write(tx)
        tx.ask("announce", [(row.id, State.FAILED.value) for row in part]).rows()
    return ring
