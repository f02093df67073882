"""Edges between tasks in a SQL store: what the end of a task does to its dependents.

The transaction that ends a task resolves a bounded number of edges from it (`Resolver`). If there are more, it adds the
task to the table `ended`, and `resolve` handles them in a series of short transactions. Each is idempotent because of
the edges' `resolved` flag. So a fan-out of a million needs no long transaction, and if the process dies, the next sweep
continues.

To avoid deadlocks, a transaction locks the tasks that it waits for in one statement and in id order. Tasks deeper in
the graph are locked only if no other transaction has locked them; otherwise they are left in `ended`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from windlass.core.fingerprint import error_group
from windlass.core.graph import End, find_any_cycle, unblock
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.errors import CycleFound, StoreUnavailable
from windlass.stores.sql.database import Answer, Database, Dialect, Transaction
from windlass.stores.sql.locks import lock_tasks, share_tasks
from windlass.stores.sql.rows import Moves, Row, row_from, uuids

T = TypeVar("T")

EDGES = 1_000
"""The approximate number of edges that one transaction resolves at most."""

LEVELS = 8
"""The number of levels of a cascade that a `settle` follows in its own transaction."""

PART = 500
"""The number of tasks of a cycle that one statement ends, to stay within the limits of the server."""

ROUNDS = 20
"""The number of transactions that a caller runs before it leaves the rest to the sweep."""

TRIES = 100
"""The number of times that a transaction starts again because edges have moved."""


class EdgesMoved(Exception):
    """Tasks ended or edges were resolved before the tasks were locked, so the transaction must start again."""


def until_still(attempt: Callable[[], T]) -> T:
    """Repeat a transaction until nobody changes its edges meanwhile."""
    for _ in range(TRIES):
        try:
            return attempt()
        except EdgesMoved:
            continue
    raise StoreUnavailable("The prerequisites of these tasks keep changing. Try again.")


class PassResult(NamedTuple):
    """What one transaction of `resolve_some` did."""

    edges: int
    remaining: list[UUID]
    announced: Answer | None
    wake: set[str]


class Resolved(NamedTuple):
    """What a series of transactions did."""

    edges: int
    wake: set[str]
    left: bool
    """True if there are still edges to resolve."""


class Dependents(NamedTuple):
    """The dependents of some ended tasks, at most `share` for each."""

    answer: Answer
    share: int


class Resolver:
    """Resolves the edges from ended tasks in one transaction, level by level."""

    def __init__(self, db: Dialect, tx: Transaction, now: Micros) -> None:
        self._db = db
        self._tx = tx
        self._now = now
        self._before: dict[TaskId, Row] = {}
        self._rows: dict[TaskId, Row] = {}
        self._edges: list[tuple[TaskId, UUID]] = []
        self._left: dict[UUID, End] = {}
        """Ends that may have more edges to resolve."""
        self.wake: set[str] = set()

    @property
    def edges(self) -> int:
        """The number of edges resolved so far."""
        return len(self._edges)

    def apply(self, rows: Iterable[Row], reached: Mapping[TaskId, Sequence[tuple[UUID, End]]]) -> dict[UUID, End]:
        """Count these prerequisites of locked tasks as ended. Return the tasks that this cancels."""
        cancelled: dict[UUID, End] = {}
        for row in rows:
            row = self._rows.get(row.id, row)  # noqa: PLW2901 - with the changes of an earlier level
            self._before.setdefault(row.id, row)
            ends = reached[row.id]
            self._edges.extend((row.id, above) for above, _ in ends)
            self._rows[row.id] = apply_ends(row, ends, self._now)
            if self._rows[row.id].state is State.CANCELLED and row.state is not State.CANCELLED:
                cancelled[row.id] = End.CANCELLED
        return cancelled

    def resolve_levels(self, ends: Mapping[UUID, End], levels: int, dependents: Dependents | None = None) -> None:
        """Resolve the edges from these ends, and from the tasks that this cancels, as far as their tasks are unlocked.

        `dependents` are the dependents of the ends, if they were queried already.
        """
        while ends and levels and self.edges < EDGES:
            ends = self._resolve(query_dependents(self._tx, ends) if dependents is None else dependents, ends)
            levels, dependents = levels - 1, None
        self._left.update(ends)

    def write(self) -> Answer | None:
        """Write all changes, and add the ends that may have more edges to `ended`. The answer contains those."""
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

    def _resolve(self, dependents: Dependents, ends: Mapping[UUID, End]) -> dict[UUID, End]:
        """Resolve one level. Return the tasks that this cancels."""
        seen: dict[UUID, int] = {}
        rows: dict[TaskId, Row] = {}
        reached: dict[TaskId, list[tuple[UUID, End]]] = {}
        for parent, child, *line in dependents.answer.rows():
            above = self._db.uuid(parent)
            if above not in ends:
                continue
            seen[above] = seen.get(above, 0) + 1
            if line[0] is None or seen[above] == dependents.share:  # It is locked by others, or there may be more.
                self._left[above] = ends[above]
            if line[0] is not None:
                id = TaskId(self._db.uuid(child))
                rows.setdefault(id, row_from(self._db, tuple(line)))
                reached.setdefault(id, []).append((above, ends[above]))
        return self.apply(rows.values(), reached)


def query_dependents(tx: Transaction, ends: Collection[UUID]) -> Dependents:
    """Query the dependents of these ends, which must be locked or ended by this transaction."""
    share = _share(ends)
    return Dependents(tx.query("reach", [(id,) for id in ends], limit=share), share)


def _share(ends: Collection[object]) -> int:
    """Return how many edges of each of these ends one transaction resolves."""
    return max(2, EDGES // max(1, len(ends)))


def apply_ends(row: Row, ends: Sequence[tuple[UUID, End]], now: Micros) -> Row:
    """Return a task after these prerequisites have ended."""
    after = unblock(row.state, row.waiting, row.on_failure, ends, due=row.due, now=now, wait=row.wait)
    if after.state is State.CANCELLED and row.state is not State.CANCELLED:
        return row._replace(state=after.state, waiting=after.waiting, finished=now, reason=after.reason)
    return row._replace(state=after.state, waiting=after.waiting, due=after.due)


def resolve(db: Database, ended: Sequence[UUID]) -> set[str]:
    """Resolve the edges from these ends, and from the tasks that this cancels. Return the queues to wake up."""
    return resolve_some(db, ended).wake


def resolve_some(db: Database, ended: Sequence[UUID], *, rounds: int = ROUNDS, levels: int = EDGES) -> Resolved:
    """Resolve the edges from these ends in at most `rounds` transactions, in turns, so that small ones are quick."""
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
    """Check again the prerequisites of tasks submitted in a caller's transaction: some may have ended meanwhile."""
    children = uuids(db, db.read(lambda tx: tx.query("joining", limit=EDGES).rows()))
    if not children:
        return 0
    announced = until_still(lambda: db.transact(lambda tx: _recheck(db, tx, children)))
    db.notify(resolve(db, announced))
    return len(children)


def fail_cycles(db: Database) -> int:
    """Fail the tasks of cycles, in workflows for which a submit did not complete the search. Return their number."""
    failed = 0
    for id, tenant, name in db.read(lambda tx: tx.query("unchecked_workflows").rows()):
        workflow = db.uuid(id)
        while members := db.transact(lambda tx, w=workflow, t=tenant, n=name: _fail_one_cycle(db, tx, w, t, n)):
            failed += len(members)
            resolve(db, members)
    return failed


def _resolve_edges(db: Database, tx: Transaction, ended: Sequence[UUID], levels: int) -> PassResult:
    asked = tx.query("now", now=db.now())
    taken = tx.query("take_ended", [(parent,) for parent in sorted(ended)])
    [(now,)] = asked.rows()
    ends = {db.uuid(parent): (End(how), db.uuid(after)) for parent, how, after in taken.rows()}
    if not ends:
        return PassResult(0, [], None, set())
    share = _share(ends)
    # One more than can be resolved, to know whether an end has more.
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
    resolver = Resolver(db, tx, now)
    if reached:
        resolver.resolve_levels(resolver.apply(lock_tasks(db, tx, reached), reached), levels)
    announced = resolver.write()
    remaining = [parent for parent, _ in cut]
    tx.execute("close_ended", [(parent,) for parent in sorted(ends.keys() - set(remaining))])
    tx.execute("advance_ended", cut)
    return PassResult(resolver.edges, remaining, announced, resolver.wake)


def _recheck(db: Database, tx: Transaction, children: Sequence[UUID]) -> list[UUID]:
    taken = uuids(db, tx.query("take_joining", [(child,) for child in sorted(children)]).rows())
    if not taken:
        return []
    above = set(uuids(db, tx.query("open_prerequisites", [(child,) for child in taken]).rows()))
    batch = [(id,) for id in sorted(above)]
    if not batch:
        return []
    sealed = {db.uuid(id): bool(done) for id, done, _ in tx.query("hold_workflows", batch).rows()}
    noted = set(uuids(db, tx.query("hold_ended", batch).rows()))  # Before the tasks, like a retry.
    states = {one.id: one.state for one in share_tasks(db, tx, [id for (id,) in batch])}
    if not set(uuids(db, tx.query("find_ended", batch).rows())) <= noted:
        raise EdgesMoved
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
    members = find_any_cycle(waiting)
    if not members:
        tx.execute("check_later", [(workflow, False)])
        return []
    held = lock_tasks(db, tx, members)
    if len(held) < len(members) or any(row.state is not State.WAITING for row in held):
        return []  # Another transaction has broken the cycle; the next sweep searches again.
    reason = str(CycleFound(members))
    for part in (held[start : start + PART] for start in range(0, len(held), PART)):
        moves = Moves()
        for row in part:
            moves.move(row, State.FAILED, finished=now, reason=reason)
        moves.write(tx, now)
        tx.execute("set_error_group", [(row.id, error_group(None, reason)) for row in part])
        tx.query("announce", [(row.id, State.FAILED.value) for row in part]).rows()
    return members
