"""Conversion between rows of tables and values. `Row` is a row of `task`, the table that changes while tasks run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.lifecycle import MOVES, State
from windlass.core.ordering import Queue, Strategy
from windlass.core.submission import decode_rules
from windlass.core.task import Lease, OnFailure, SessionId, Task, TaskId
from windlass.core.times import Micros, micros
from windlass.stores.sql.database import Dialect, Transaction, Values

_STATES = {state.value: state for state in State}
_POLICIES = {policy.value: policy for policy in OnFailure}
_WIDTH = 22
_RUNNABLE, _LEASED = State.RUNNABLE.value, State.LEASED.value
_IN_SERIES = {state.value for state in (State.LEASED, State.COMPLETED, State.FAILED, State.RETRYING)}
"""The states whose arrivals the time series counts."""
_NOTHING = None, None, None, None


class Row(NamedTuple):
    """A row of `task`, with the columns in the order that every statement uses."""

    id: TaskId
    queue: str
    tenant: str
    state: State
    band: int
    rank: int
    tie: int
    due: Micros
    expires: Micros | None
    waiting: int
    on_failure: OnFailure
    fence: int
    session: SessionId | None
    claimed: Micros | None
    finished: Micros | None
    attempts: int
    crashes: int
    losses: int
    generation: int
    cancel_requested: bool
    cancel_by: Micros | None
    reason: str | None


def row_from(db: Dialect, values: Values) -> Row:
    """Convert the result of a statement to a `Row`."""
    id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, *rest = values
    claimed, finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason = rest
    return Row(
        TaskId(db.uuid(id)),
        queue,
        tenant,
        _STATES[state],
        band,
        rank,
        tie,
        due,
        expires,
        waiting,
        _POLICIES[on_failure],
        fence,
        None if session is None else SessionId(db.uuid(session)),
        claimed,
        finished,
        attempts,
        crashes,
        losses,
        generation,
        bool(cancel_requested),
        cancel_by,
        reason,
    )


def rows_from(db: Dialect, values: Sequence[Values]) -> list[Row]:
    """Convert results of a statement to rows, sorted by id."""
    return sorted((row_from(db, line) for line in values), key=lambda row: row.id.int)


def task_from(db: Dialect, values: Values, *, lease: Lease | None = None, now: Micros | None = None) -> Task:
    """Convert the result of a statement to a `Task`: columns of `task`, of `body`, and the result if included.

    With `lease`, return the task as leased.
    """
    row = row_from(db, values[:_WIDTH])
    if lease is not None:
        row = row._replace(state=State.LEASED, fence=lease.fence, session=lease.session, claimed=now)
    handler, args, rules, workflow, key, priority, deadline, _first_due, submitted, *result = values[_WIDTH:]
    return Task(
        id=row.id,
        handler=handler,
        args=args,
        state=row.state,
        queue=row.queue,
        tenant=row.tenant,
        workflow=workflow,
        key=key,
        priority=priority,
        deadline=deadline,
        due=row.due,
        expires=row.expires,
        submitted=submitted,
        claimed=row.claimed,
        finished=row.finished,
        waiting=row.waiting,
        on_failure=row.on_failure,
        fence=row.fence,
        session=row.session,
        attempts=row.attempts,
        crashes=row.crashes,
        losses=row.losses,
        generation=row.generation,
        cancel_requested=row.cancel_requested,
        reason=row.reason,
        result=result[0] if result else None,
        rules=decode_rules(rules),
    )


def place_of(values: Values) -> tuple[Any, ...]:
    """Return a task's place in its queue from a row of a claim, which has two values before those of `task_from`."""
    return *values[6:9], values[2]


def fence_of(values: Values) -> int:
    """Return the latest fence of a task, from a row for `task_from`."""
    return values[11]


def submitted_of(values: Values) -> Micros:
    """Return when a task was submitted, from a row for `task_from`."""
    return values[_WIDTH + 8]


def first_due_of(values: Values) -> Micros:
    """Return the due time that determines a task's place, from a row for `task_from`."""
    return values[_WIDTH + 7]


def queue_from(values: Values) -> Queue:
    """Convert the result of a statement to a `Queue`."""
    name, strategy, horizon, step, paused, paused_by, paused_why, max_waiting, max_leased, weight, fair = values
    return Queue(
        name=name,
        strategy=Strategy(strategy),
        horizon=timedelta(microseconds=horizon),
        step=timedelta(microseconds=step),
        paused=bool(paused),
        paused_by=paused_by,
        paused_why=paused_why,
        max_waiting=max_waiting,
        max_leased=max_leased,
        weight=weight,
        fair=bool(fair),
    )


def queue_values(queue: Queue) -> dict[str, Any]:
    """Convert a `Queue` to parameters of a statement."""
    return {
        "name": queue.name,
        "strategy": queue.strategy.value,
        "horizon": micros(queue.horizon),
        "step": micros(queue.step),
        "paused": queue.paused,
        "paused_by": queue.paused_by,
        "paused_why": queue.paused_why,
        "max_waiting": queue.max_waiting,
        "max_leased": queue.max_leased,
        "weight": queue.weight,
        "fair": queue.fair,
    }


class Counts:
    """Collects the changes of a transaction to the counts, and writes them with one statement."""

    def __init__(self) -> None:
        self._deltas: Counter[tuple[str, str, str]] = Counter()
        self._waits: dict[tuple[str, str, str], tuple[Micros, Micros]] = {}

    def add(self, queue: str, tenant: str, state: State, tasks: int = 1) -> None:
        """Add tasks to a state; a negative number removes them."""
        self._deltas[queue, tenant, state.value] += tasks

    def move(self, row: Row, state: State) -> None:
        """Move a task from its state to another."""
        self._deltas[row.queue, row.tenant, row.state.value] -= 1
        self._deltas[row.queue, row.tenant, state.value] += 1

    def claim(self, queue: str, tenant: str, tasks: int, waited: Micros, longest: Micros) -> None:
        """Move tasks from runnable to leased. `waited` is the sum of their waits."""
        self._deltas[queue, tenant, _RUNNABLE] -= tasks
        self._deltas[queue, tenant, _LEASED] += tasks
        self._waits[queue, tenant, _LEASED] = waited, longest

    def write(self, tx: Transaction, at: Micros | None = None, *, new: bool = False) -> None:
        """Write the collected changes. With `at` they enter the time series; `new` tasks count as arrived."""
        deltas = [(key, tasks) for key, tasks in sorted(self._deltas.items()) if tasks]
        tx.execute("count", [(*key, tasks, *self._happened(key, tasks, at, new)) for key, tasks in deltas])

    def _happened(self, key: tuple[str, str, str], tasks: int, at: Micros | None, new: bool) -> Values:
        """Return what the time series counts of a delta: when it happened, arrivals, and waits."""
        if at is not None and new:
            return at, tasks, None, None
        if at is None or tasks < 0 or key[2] not in _IN_SERIES:
            return _NOTHING
        return at, None, *self._waits.get(key, (None, None))

    @property
    def wake(self) -> set[str]:
        """The queues that got runnable tasks."""
        return {queue for (queue, _, state), tasks in self._deltas.items() if state == State.RUNNABLE and tasks > 0}


class Moves:
    """Collects changes of locked tasks, checks them against `MOVES`, and writes them with one statement."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._rows: list[Values] = []

    def move(self, row: Row, state: State, **changes: Any) -> Row:
        """Add a change of a task and its state. Return the changed task."""
        assert state is row.state or state in MOVES[row.state], f"{row.id}: no move {row.state} -> {state}"
        new = row._replace(state=state, **changes)
        self._rows.append(
            (
                new.id,
                row.state.value,
                state.value,
                new.due,
                new.expires,
                new.waiting,
                new.fence,
                new.finished,
                new.attempts,
                new.crashes,
                new.losses,
                new.generation,
                new.cancel_requested,
                new.cancel_by,
                new.reason,
            )
        )
        if state is not row.state:
            self.counts.move(row, state)
        return new

    def write(self, tx: Transaction, at: Micros | None = None) -> None:
        """Write the collected changes and the counts. With `at` they enter the time series."""
        tx.execute("move", self._rows)
        self.counts.write(tx, at)


def uuids(db: Dialect, values: Sequence[Values]) -> list[UUID]:
    """Return the first column of some rows as ids."""
    return [db.uuid(line[0]) for line in values]
