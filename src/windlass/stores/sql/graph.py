"""How the end of a task reaches those that wait for it, over SQL.

Whoever ends a task tells those that wait for it in the same transaction (`Telling`), a bounded number of them, and
notes in `ended` that there are more. These are told in a series of short transactions (`resolve`), each idempotent by
the edges' `resolved`; so a fan-out of a million is no long transaction, and a process that dies on the way is finished
for by the next sweep.

No transaction waits for a task after it has locked one, but in one set and in id order: so nobody can deadlock. What
stands deeper in the graph is locked only if nobody else is busy with it. If somebody is, it is left in `ended`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from windlass.core.fingerprint import error_group
from windlass.core.graph import End, find_any_cycle, unblock
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.errors import CycleFound
from windlass.stores.sql.database import Answer, Database, Dialect, Transaction
from windlass.stores.sql.rows import Moves, Row, row_from, rows_from, uuids

EDGES = 1_000
"""How many edges one transaction resolves, about, at the most."""

LEVELS = 8
"""How far down a cascade one transaction goes that others wait for."""

PART = 500
"""Tasks of a ring that one statement ends: a ring of thousands must not meet a server's limit on statements."""

ROUNDS = 20
"""How many such transactions a caller does itself before it leaves the rest to the sweep."""


class PassResult(NamedTuple):
    """What one transaction of telling did."""

    edges: int
    remaining: list[UUID]
    announced: Answer | None
    wake: set[str]


class Resolved(NamedTuple):
    """What a series of them did."""

    edges: int
    wake: set[str]
    left: bool
    """Whether somebody is still to be told."""


class Asked(NamedTuple):
    """Who waits for some ends, at most so many for each."""

    answer: Answer
    share: int


class Resolver:
    """The dependents that one transaction reaches, level by level, and what becomes of them."""

    def __init__(self, db: Dialect, tx: Transaction, now: Micros) -> None:
        self._db = db
        self._tx = tx
        self._now = now
        self._before: dict[TaskId, Row] = {}
        self._rows: dict[TaskId, Row] = {}
        self._edges: list[tuple[TaskId, UUID]] = []
        self._left: dict[UUID, End] = {}
        """Ends of which somebody may still have to be told."""
        self.wake: set[str] = set()

    @property
    def edges(self) -> int:
        """How many edges it has resolved."""
        return len(self._edges)

    def apply(self, rows: Iterable[Row], reached: Mapping[TaskId, Sequence[tuple[UUID, End]]]) -> dict[UUID, End]:
        """Count these prerequisites of locked tasks as ended; which of the tasks that has cancelled."""
        cancelled: dict[UUID, End] = {}
        for row in rows:
            row = self._rows.get(row.id, row)  # noqa: PLW2901 - as it will be, if it was reached before
            self._before.setdefault(row.id, row)
            ends = reached[row.id]
            self._edges.extend((row.id, above) for above, _ in ends)
            self._rows[row.id] = apply_ends(row, ends, self._now)
            if self._rows[row.id].state is State.CANCELLED and row.state is not State.CANCELLED:
                cancelled[row.id] = End.CANCELLED
        return cancelled

    def resolve_levels(self, ends: Mapping[UUID, End], levels: int, asked: Asked | None = None) -> None:
        """Tell those that wait for these ends, and so on down, as far as nobody else is busy with them.

        `asked` is who waits for them, if that was asked already.
        """
        while ends and levels and self.edges < EDGES:
            ends = self._reached(reach(self._tx, ends) if asked is None else asked, ends)
            levels, asked = levels - 1, None
        self._left.update(ends)

    def write(self) -> Answer | None:
        """Write all of it, and note the ends of which somebody is still to be told; the answer has those."""
        moves = Moves()
        for id, before in self._before.items():
            after = self._rows[id]
            moves.move(
                before,
                after.state,
                waiting=after.waiting,
                due=after.due,
                finished=after.finished,
                reason=after.reason,
            )
        self._tx.execute("resolve_edges", sorted(self._edges))
        moves.write(self._tx)
        self.wake |= moves.counts.wake
        left = sorted((id, end.value) for id, end in self._left.items())
        return self._tx.query("announce", left) if left else None

    def _reached(self, asked: Asked, ends: Mapping[UUID, End]) -> dict[UUID, End]:
        seen: dict[UUID, int] = {}
        rows: dict[TaskId, Row] = {}
        reached: dict[TaskId, list[tuple[UUID, End]]] = {}
        for parent, child, *line in asked.answer.rows():
            above = self._db.uuid(parent)
            if above not in ends:
                continue
            seen[above] = seen.get(above, 0) + 1
            if line[0] is None or seen[above] == asked.share:  # Somebody else is busy with it, or there may be more.
                self._left[above] = ends[above]
            if line[0] is not None:
                id = TaskId(self._db.uuid(child))
                rows.setdefault(id, row_from(self._db, tuple(line)))
                reached.setdefault(id, []).append((above, ends[above]))
        return self.apply(rows.values(), reached)


def reach(tx: Transaction, ends: Collection[UUID]) -> Asked:
    """Ask who waits for these ends. They must be locked, or ended by this transaction."""
    share = _share(ends)
    return Asked(tx.query("reach", [(id,) for id in sorted(ends)], limit=share), share)


def _share(ends: Collection[object]) -> int:
    """How many edges of each of these ends one transaction takes."""
    return max(2, EDGES // max(1, len(ends)))


def apply_ends(row: Row, ends: Sequence[tuple[UUID, End]], now: Micros) -> Row:
    """A task, once these of its prerequisites have ended."""
    after = unblock(row.state, row.waiting, row.on_failure, ends, due=row.due, now=now)
    if after.state is State.CANCELLED and row.state is not State.CANCELLED:
        return row._replace(state=after.state, waiting=after.waiting, finished=now, reason=after.reason)
    return row._replace(state=after.state, waiting=after.waiting, due=after.due)


def resolve(db: Database, ended: Sequence[UUID]) -> set[str]:
    """Tell those that wait for these ends, and so on down; the queues that got something to run."""
    return resolve_some(db, ended).wake


def resolve_some(db: Database, ended: Sequence[UUID], *, rounds: int = ROUNDS, levels: int = EDGES) -> Resolved:
    """The same in so many transactions at the most. The ends take turns, so none waits until a larger one is told."""
    edges, wake, todo = 0, set[str](), list(ended)
    for _ in range(rounds):
        if not todo:
            break
        batch, todo = todo[:EDGES], todo[EDGES:]
        done = db.transact(lambda tx, batch=batch: _resolve_edges(db, tx, batch, levels))
        edges += done.edges
        wake |= done.wake
        todo += done.remaining + (uuids(db, done.announced.rows()) if done.announced else [])
    return Resolved(edges, wake, bool(todo))


def resolve_joined(db: Database) -> int:
    """Look again at tasks that came inside a caller's transaction: what they wait for may have ended meanwhile."""
    children = uuids(db, db.read(lambda tx: tx.query("joining", limit=EDGES).rows()))
    if not children:
        return 0
    announced = db.transact(lambda tx: _adopt(db, tx, children))
    db.notify(resolve(db, announced))
    return len(children)


def fail_cycles(db: Database) -> int:
    """End the tasks that wait for each other in workflows whose cycle search had run out of its budget."""
    failed = 0
    for id, tenant, name in db.read(lambda tx: tx.query("unchecked_workflows").rows()):
        workflow = db.uuid(id)
        while ring := db.transact(lambda tx, w=workflow, t=tenant, n=name: _fail_one_cycle(db, tx, w, t, n)):
            failed += len(ring)
            resolve(db, ring)
    return failed


def _resolve_edges(db: Database, tx: Transaction, ended: Sequence[UUID], levels: int) -> PassResult:
    asked = tx.query("now", now=db.now())
    taken = tx.query("take_ended", [(parent,) for parent in sorted(ended)])
    [(now,)] = asked.rows()
    ends = {db.uuid(parent): (End(how), db.uuid(after)) for parent, how, after in taken.rows()}
    if not ends:
        return PassResult(0, [], None, set())
    share = _share(ends)
    # One more than there is room for, to know whether an end has more.
    asked = tx.query("open_edges", [(parent, after) for parent, (_, after) in sorted(ends.items())], limit=share + 1)
    waiting: dict[UUID, list[TaskId]] = {parent: [] for parent in ends}
    for parent, child in asked.rows():
        waiting[db.uuid(parent)].append(TaskId(db.uuid(child)))
    reached: dict[TaskId, list[tuple[UUID, End]]] = {}
    cut: list[tuple[UUID, TaskId]] = []
    for parent, children in waiting.items():
        children.sort()
        for child in children[:share]:
            reached.setdefault(child, []).append((parent, ends[parent][0]))
        if len(children) > share:
            cut.append((parent, children[share - 1]))
    telling = Resolver(db, tx, now)
    if reached:
        held = tx.query("lock_tasks", [(child,) for child in sorted(reached)])
        telling.resolve_levels(telling.apply(rows_from(db, held.rows()), reached), levels)
    announced = telling.write()
    remaining = [parent for parent, _ in cut]
    tx.execute("close_ended", [(parent,) for parent in sorted(ends.keys() - set(remaining))])
    tx.execute("advance_ended", cut)
    return PassResult(telling.edges, remaining, announced, telling.wake)


def _adopt(db: Database, tx: Transaction, children: Sequence[UUID]) -> list[UUID]:
    taken = uuids(db, tx.query("take_joining", [(child,) for child in sorted(children)]).rows())
    if not taken:
        return []
    above = set(uuids(db, tx.query("open_prerequisites", [(child,) for child in taken]).rows()))
    batch = [(id,) for id in sorted(above)]
    if not batch:
        return []
    sealed = {db.uuid(id): bool(done) for id, done, _ in tx.query("hold_workflows", batch).rows()}
    states = {db.uuid(id): State(state) for id, _, _, state, *_ in tx.query("parents", batch).rows()}
    to_come = set(uuids(db, tx.query("open_placeholders", batch).rows()))
    ends = [(id, End.SEALED) for id, done in sealed.items() if done]
    ends += [(id, End(state.value)) for id, state in states.items() if state.final]
    ends += [(id, End.MISSING) for id in above - sealed.keys() - states.keys() - to_come]
    if not ends:
        return []
    return uuids(db, tx.query("announce", [(id, end.value) for id, end in sorted(ends)]).rows())


def _fail_one_cycle(db: Database, tx: Transaction, workflow: UUID, tenant: str, name: str) -> list[TaskId]:
    tx.query("lock_workflows", [(workflow,)]).rows()
    [(now,)] = tx.query("now", now=db.now()).rows()
    waiting: dict[TaskId, list[TaskId]] = {}
    for child, parent in tx.query("workflow_edges", workflow=name, tenant=tenant).rows():
        waiting.setdefault(TaskId(db.uuid(child)), []).append(TaskId(db.uuid(parent)))
    ring = find_any_cycle(waiting)
    if not ring:
        tx.execute("check_later", [(workflow, False)])
        return []
    held = rows_from(db, tx.query("lock_tasks", [(id,) for id in sorted(ring)]).rows())
    if len(held) < len(ring) or any(row.state is not State.WAITING for row in held):
        return []  # Somebody has broken the ring meanwhile; the next sweep looks again.
    reason = str(CycleFound(ring))
    for part in (held[start : start + PART] for start in range(0, len(held), PART)):
        moves = Moves()
        for row in part:
            moves.move(row, State.FAILED, finished=now, reason=reason)
        moves.write(tx, now)
        tx.execute("set_error_group", [(row.id, error_group(None, reason)) for row in part])
        tx.query("announce", [(row.id, State.FAILED.value) for row in part]).rows()
    return ring
