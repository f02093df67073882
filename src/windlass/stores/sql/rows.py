"""Conversion between rows of tables and values. `Row` is a task as it is now, without what its caller wrote."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from windlass.core.lifecycle import MOVES, State
from windlass.core.manifest import CronInfo, CronState
from windlass.core.ordering import Place, Queue, Strategy
from windlass.core.submission import decode_rules
from windlass.core.task import OnFailure, SessionId, Task, TaskId, Wait
from windlass.core.times import Micros, micros
from windlass.core.waits import STORE_SESSION, decode_wait, ends_well, timed_out
from windlass.stores.sql.database import Dialect, Transaction, Values

log = logging.getLogger(__name__)

QUEUED = "queued"
"""The state in `task` of a task that is in one of the tables `runnable`, `leased` and `completed`."""
STATES = {state.value: state for state in State} | {QUEUED: State.RUNNABLE}
_POLICIES = {policy.value: policy for policy in OnFailure}
_WIDTH = 23
_RUNNABLE, _LEASED = State.RUNNABLE.value, State.LEASED.value
_IN_SERIES = {state.value for state in (State.LEASED, State.COMPLETED, State.FAILED, State.RETRYING)}
"""The states whose arrivals the time series counts."""
_NOTHING = None, None, None, None
_HOT = (State.RUNNABLE, State.LEASED, State.COMPLETED)


class Row(NamedTuple):
    """A task, with the columns in the order that every statement uses."""

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
    wait: Wait | None = None


def row_from(db: Dialect, values: Values) -> Row:
    """Convert the result of a statement to a `Row`."""
    id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, *rest = values
    claimed, finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason, wait = rest
    return Row(
        TaskId(db.uuid(id)),
        queue,
        tenant,
        STATES[state],
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
        None if wait is None else decode_wait(wait),
    )


def rows_from(db: Dialect, values: Sequence[Values]) -> list[Row]:
    """Convert results of a statement to rows, sorted by id."""
    return sorted((row_from(db, line) for line in values), key=lambda row: row.id.int)


def task_from(db: Dialect, values: Values) -> Task:
    """Convert the result of a statement to a `Task`: columns of `current_task`, and the result if included."""
    row = row_from(db, values[:_WIDTH])
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
        wait=row.wait,
    )


def tasks_from(db: Dialect, rows: Sequence[Values]) -> list[Task]:
    """Convert rows for `task_from`. A row that cannot be read, as in a damaged database, is left out and logged."""
    found: list[Task] = []
    for line in rows:
        try:
            found.append(task_from(db, line))
        except (ValueError, TypeError, LookupError, msgspec.ValidationError) as error:
            log.error("a stored task cannot be read and is left out: id %r, %s", line[0], error)
    return found


def first_due_of(values: Values) -> Micros:
    """Return the due time that determines a task's place, from a row for `task_from`."""
    return values[_WIDTH + 7]


def queue_from(values: Values) -> Queue:
    """Convert the result of a statement to a `Queue`."""
    name, strategy, horizon, step, paused, paused_by, paused_why, paused_until, max_waiting, weight, fair = values
    return Queue(
        name=name,
        strategy=Strategy(strategy),
        horizon=timedelta(microseconds=horizon),
        step=timedelta(microseconds=step),
        paused=bool(paused),
        paused_by=paused_by,
        paused_why=paused_why,
        paused_until=paused_until,
        max_waiting=max_waiting,
        weight=weight,
        fair=bool(fair),
    )


def cron_from(values: Values) -> CronState:
    """Convert the result of a statement to a `CronState`."""
    *info, fired, paused, paused_by, paused_why, at_run_time, version, due = values
    return CronState(
        info=CronInfo(**dict(zip(CronInfo.__struct_fields__, info, strict=True))),
        fired=fired,
        paused=bool(paused),
        paused_by=paused_by,
        paused_why=paused_why,
        at_run_time=bool(at_run_time),
        version=version,
        due=due,
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
        "paused_until": queue.paused_until,
        "max_waiting": queue.max_waiting,
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
    """Collects changes of locked tasks, checks them against `MOVES`, and writes them together."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._rows: list[Values] = []
        self._dropped: list[Values] = []
        self._added: list[Values] = []
        self._cancelling: list[Values] = []
        self._places: list[Values] = []
        self._completed: list[Values] = []
        self._results: list[Values] = []

    def move(self, row: Row, state: State, **changes: Any) -> Row:
        """Add a change of a task and its state. Return the changed task."""
        assert state is row.state or state in MOVES[row.state], f"{row.id}: no move {row.state} -> {state}"
        new = row._replace(state=state, **changes)
        self._rows.append(
            (
                new.id,
                stored(row.state),
                stored(state),
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
        if row.state is State.RUNNABLE:
            self._dropped.append((row.id,))
        if state is State.RUNNABLE:
            self._added.append((row.id,))
        if state is State.LEASED and new.cancel_requested:
            self._cancelling.append((row.id,))
        if state is not row.state:
            self.counts.move(row, state)
        return new

    def complete_wait(self, row: Row, value: str | None, now: Micros) -> Row:
        """Add the completion of a wait that has begun, by the store itself. Return the changed task."""
        self._completed.append((row.id, row.fence, STORE_SESSION, now, now))
        if value is not None:
            self._results.append((row.id, value))
        return self.move(row, State.COMPLETED)

    def end_wait(self, row: Row, wait: Wait, now: Micros) -> Row:
        """Add the end of a wait whose time is over. Return the changed task."""
        if ends_well(wait):
            return self.complete_wait(row, wait.value, now)
        return self.move(row, State.EXPIRED, finished=now, reason=timed_out(wait))

    def place(self, row: Row, place: Place) -> None:
        """Add a change of a task's place in its queue. A runnable one needs a `move` too."""
        self._places.append((row.id, *place))

    def write(self, tx: Transaction, at: Micros | None = None) -> None:
        """Write the collected changes and the counts. With `at` they enter the time series."""
        tx.execute("drop_runnable", self._dropped)
        tx.execute("move", self._rows)
        tx.execute("set_place", self._places)
        tx.execute("add_runnable", self._added)
        tx.execute("request_cancel", self._cancelling)
        tx.execute("add_completed", self._completed)
        tx.execute("record_results", self._results)
        self.counts.write(tx, at)


def stored(state: State) -> str:
    """Return the state of a task in the table `task`."""
    return QUEUED if state in _HOT else state.value


def uuids(db: Dialect, values: Sequence[Values]) -> list[UUID]:
    """Return the first column of some rows as ids."""
    return [db.uuid(line[0]) for line in values]
