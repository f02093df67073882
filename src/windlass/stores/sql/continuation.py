"""Ends of attempts that add steps to their workflow, in a SQL store (`core.continuation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from windlass.clock import entropy
from windlass.core.continuation import (
    REFUSALS,
    Continuation,
    check_added,
    check_no_cycle,
    check_outside,
    continue_as,
    find_outside,
)
from windlass.core.graph import CYCLE_BUDGET, End
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.serving import kind_of
from windlass.core.settlement import Settlement, apply_store_facts, refuse_steps, stands_already
from windlass.core.submission import encode_rules
from windlass.core.task import Added, Lease, TaskId
from windlass.core.times import Micros
from windlass.stores.protocol import LeaseLost, Settled, Verdict
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.endings import Endings, Written
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.locks import Known, lock_tasks, share_tasks
from windlass.stores.sql.rows import Row, first_due_of, queue_from, task_from
from windlass.stores.sql.submit import Submit, Submitted

_NOTHING = Submitted([], [], set())


class Ended(NamedTuple):
    """What the transaction did."""

    verdict: Verdict
    submitted: Submitted = _NOTHING
    written: Written | None = None


def settle_adding(db: Database, lease: Lease, settlement: Settlement) -> tuple[Verdict, Written | None]:
    """Write the end of an attempt together with the steps that it adds. If they are refused, the attempt has failed."""
    try:
        done = db.transact(lambda tx: _end(db, tx, lease, settlement))
    except REFUSALS as error:
        refused = refuse_steps(settlement, error)
        done = db.transact(lambda tx: _end(db, tx, lease, refused))
    db.notify(done.submitted.wake | resolve(db, done.submitted.announced))
    return done.verdict, done.written


def _end(db: Database, tx: Transaction, lease: Lease, settlement: Settlement) -> Ended:
    asked = tx.query("now", now=db.now())
    rows = lock_tasks(db, tx, [lease.task])
    [(now,)] = asked.rows()
    row = rows[0] if rows else None
    if row is None or row.fence != lease.fence or row.session != lease.session:
        return Ended(LeaseLost(lease))
    if row.state is not State.LEASED:
        return Ended(Settled(lease, row.state) if stands_already(row, settlement) else LeaseLost(lease))
    endings, submitted = Endings(now), _NOTHING
    added = apply_store_facts(row, settlement, now).added
    if added is None:
        row = endings.end(row, settlement)
    else:
        row, submitted = _end_and_add(db, tx, row, settlement, added, endings, now)
    return Ended(Settled(lease, row.state), submitted, endings.write(db, tx))


def _end_and_add(
    db: Database, tx: Transaction, row: Row, settlement: Settlement, added: Added, endings: Endings, now: Micros
) -> tuple[Row, Submitted]:
    [line] = tx.query("get", [(row.id,)]).rows()
    parent = task_from(db, line)
    drafts = check_added(parent, added, now, entropy)
    known = {one.id: one for one in share_tasks(db, tx, find_outside(drafts))}
    check_outside(parent, drafts, known.get)
    check_no_cycle(parent, drafts, _StoredEdges(db, tx))
    submitted = Submit(db, drafts.steps, joined=False)(tx) if drafts.steps else _NOTHING
    if drafts.then is None:
        return endings.end(row, replace(settlement, added=None)), submitted
    queue = _queue(tx, drafts.then.new.queue)
    continuation = continue_as(parent, drafts.then, queue, first_due_of(line), _ends(known, submitted), now)
    row = endings.end(row, replace(settlement, state=continuation.state, reason=continuation.reason, added=None))
    endings.continue_as(row, continuation, _values(row, continuation))
    return row, submitted


class _StoredEdges:
    """Looks up the open prerequisites of stored tasks, those of all tasks above one at once."""

    def __init__(self, db: Database, tx: Transaction) -> None:
        self._db = db
        self._tx = tx
        self._above: dict[TaskId, set[TaskId]] = {}

    def __call__(self, id: TaskId) -> set[TaskId]:
        if id not in self._above:
            self._above[id] = set()
            for child, parent in self._tx.query("ancestors", task=id, limit=CYCLE_BUDGET + 1).rows():
                above = self._above.setdefault(TaskId(self._db.uuid(child)), set())
                above.add(TaskId(self._db.uuid(parent)))
        return self._above[id]


def _ends(known: Mapping[TaskId, Known], submitted: Submitted) -> dict[UUID, End]:
    """Return the prerequisites that have ended, stored ones and steps."""
    states = {id: one.state for id, one in known.items()} | {one.id: one.state for one in submitted.receipts}
    return {id: End(state.value) for id, state in states.items() if state.final}


def _values(row: Row, continuation: Continuation) -> Values:
    new, rules = continuation.then.new, continuation.then.rules
    return (
        row.id,
        new.queue,
        new.handler,
        continuation.then.args,
        encode_rules(rules),
        kind_of(new.handler, rules),
        *continuation.place,
        new.on_failure.value,
        continuation.waiting,
        continuation.due,
    )


def _queue(tx: Transaction, name: str) -> Queue:
    settings = (queue_from(line) for line in tx.query("queues").rows() if line[0] == name)
    return next(settings, Queue(name=name))
