"""Submits to a SQL store: read what is stored, let `core` decide, write the batch.

Every submit takes its locks in the same order: workflows, then locks of unique tasks and the tasks that hold them, then
prerequisites by id, then the new rows by id. If a
concurrent submit inserts the same key first, the insert fails, and the next try of the transaction finds that task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from windlass.call_limits import current_lock_wait, limited_lock_wait
from windlass.clock import SystemClock, entropy
from windlass.core.admission import check_placeholders, check_prerequisites, check_room, cycle, new_drafts, seal_for
from windlass.core.graph import CYCLE_BUDGET, End, find_cycle
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.serving import kind_of
from windlass.core.submission import (
    CHUNK,
    Draft,
    InitialState,
    Urgency,
    chunks,
    draft,
    encode_rules,
    initial_state,
    is_named,
)
from windlass.core.task import Lease, NewTask, Task, TaskId
from windlass.core.times import Micros
from windlass.core.unique import Matched
from windlass.core.urgency import get_outside, lends_urgency, spread_urgency
from windlass.core.waits import encode_wait
from windlass.errors import KeyBusy, NotAllowed, StaleLease, UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Receipt
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.coordination import entry_rows
from windlass.stores.sql.database import Answer, Dialect, Transaction, Values
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.locks import Known, known_from, share_tasks
from windlass.stores.sql.read import get_tasks
from windlass.stores.sql.rows import Counts, queue_from, stored, uuids
from windlass.stores.sql.unique import UniqueTasks
from windlass.stores.sql.urgency import StoredUrgency

KEY_WAIT = 2.0
"""How many seconds a submit waits for another transaction that submits the same key or an equal unique task."""
CHUNK_BYTES = 8 * 1024 * 1024
"""The approximate size of the arguments that are written at a time."""


class Opened(NamedTuple):
    """The options of an opened workflow."""

    sealed: bool
    forward: Micros | None


class Submitted(Struct, frozen=True):
    """What a submit has written."""

    receipts: list[Receipt]
    announced: list[UUID]
    """Tasks that ended at once and have edges to resolve."""
    wake: set[str]
    """The queues to wake up."""


class WrittenTasks:
    """The counts and states of the tasks that a submit has written."""

    def __init__(self, number: int) -> None:
        self.counts = Counts()
        self.states = [State.WAITING] * number
        self.ended: list[tuple[TaskId, str]] = []

    def add(self, nth: int, task: Task) -> None:
        """Add the task at this position among the new ones."""
        self.counts.add(task.queue, task.tenant, task.state)
        self.states[nth] = task.state
        if task.state.final:
            self.ended.append((task.id, task.state.value))


class SqlSubmit(SqlBase):
    """Submit batches of tasks."""

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        drafts, notes = self._drafts(tasks), entry_rows(entries)
        if not drafts:
            return []
        with naming_keys(drafts):
            if conn is not None:
                return self._db.join(conn, Submit(self._db, drafts, joined=True, lease=lease, notes=notes)).receipts
            submitted = self.submit_drafts(drafts, lease, notes)
        with limited_lock_wait(None):  # The batch is committed, so this must not look like a refusal.
            return self._after(submitted)

    def submit_drafts(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted:
        """Write a checked batch in a transaction of its own. A database may override this with a faster path."""
        return self._db.transact(Submit(self._db, drafts, joined=False, lease=lease, notes=notes))

    def fire(
        self,
        cron: str,
        nominal: Micros,
        tasks: Sequence[NewTask],
        *,
        version: int | None = None,
        due: Micros | None = None,
    ) -> list[Receipt] | None:
        fired = self._db.transact(Fire(self._db, self._drafts(tasks), cron, nominal, version, due))
        return None if fired is None else self._after(fired)

    def _drafts(self, tasks: Sequence[NewTask]) -> list[Draft]:
        """Check the batch and make its ids, once for all tries: a later try recognizes what an earlier one wrote."""
        return draft(tasks, self._db.now() or SystemClock().now(), entropy)

    def _after(self, submitted: Submitted) -> list[Receipt]:
        """After the commit: resolve the edges from tasks that ended at once, and wake up nodes."""
        self._db.notify(submitted.wake | resolve(self._db, submitted.announced))
        if not submitted.announced:
            return submitted.receipts
        return [
            Receipt(old.id, old.created, task.state if task else old.state)
            for some in chunks(submitted.receipts)
            for old, task in zip(some, get_tasks(self._db, [receipt.id for receipt in some]), strict=True)
        ]


class Submit:
    """The transaction that submits a batch. With `joined`, it is part of the caller's own transaction.

    With `lease`, the batch is submitted on behalf of an attempt, whose task is locked with the prerequisites. With
    `again`, an earlier try may have been committed.
    """

    def __init__(
        self,
        db: Dialect,
        drafts: Sequence[Draft],
        *,
        joined: bool,
        lease: Lease | None = None,
        notes: Sequence[Values] = (),
        again: bool = False,
    ) -> None:
        self._db = db
        self._drafts = drafts
        self._joined = joined
        self._lease = lease
        self._notes = notes
        self._tried = self._again = again

    def __call__(self, tx: Transaction) -> Submitted:
        self._again, self._tried = self._tried, True
        lock_wait = current_lock_wait()
        if lock_wait is not None:
            tx.execute("limit_waits", milliseconds=int(lock_wait * 1_000))
        prepared = tx.query("prepare", queues=sorted({one.new.queue for one in self._drafts}), now=self._db.now())
        opened = self._workflows(tx)
        unique = UniqueTasks(self._db, tx, self._drafts, joined=self._joined)
        with self._limited_waits(tx, any(one.lock is not None for one in self._drafts)):
            unique.lock()
        stored = self._lock_stored(tx)
        known = self._known(tx)
        now, sees_commits, queues = self._prepared(prepared)
        self._check_lease(known)
        matched = unique.match(known, now)
        drafts = matched.to_store(self._drafts)
        fresh = new_drafts(drafts, {id: one.fingerprint for id, one in known.items()})
        if self._joined and fresh and any(one.forward is not None for one in opened.values()):
            raise NotAllowed("A workflow with forward references cannot be submitted with conn=. Submit without it.")
        ahead = self._check_prerequisites(tx, fresh, known, opened, now)
        self._check_room(tx, queues, fresh)
        lent = spread_urgency(drafts, now) if fresh else {}
        gated = self._waiting_for_seals(tx, fresh, known, opened)
        initial = self._initial_states(fresh, known, opened, queues, now, lent, gated)
        with self._limited_waits(tx, any(is_named(one.new) for one in fresh)):
            written = self._write(tx, fresh, initial, sees_commits=sees_commits)
        written.counts.write(tx, now, new=True)
        self._fill_and_add_placeholders(tx, fresh, opened, ahead)
        if stored is not None:
            stored.raise_tasks(get_outside(lent, self._drafts))
        unique.write(matched, queues, now, sees_commits=sees_commits)
        tx.execute("note", self._notes if fresh else [], now=self._db.now())
        announced = self._announce(tx, written.ended)
        receipts = self._receipts(drafts, written.states, known)
        if matched.same:
            receipts = self._with_same(receipts, matched, unique.states)
        return Submitted(receipts, announced, written.counts.wake)

    @contextmanager
    def _limited_waits(self, tx: Transaction, may_wait: bool) -> Generator[None]:
        """Limit how long the statements in this block wait for other transactions, which may be of callers."""
        if may_wait:
            tx.execute("limit_waits", milliseconds=int(KEY_WAIT * 1_000))
        yield
        if may_wait:
            tx.execute("restore_waits")

    def _workflows(self, tx: Transaction) -> dict[UUID, Opened]:
        names = {(one.new.tenant, one.new.workflow) for one in self._drafts}
        batch = sorted((workflow_id(tenant, name),) for tenant, name in names if name is not None)
        if not batch:
            return {}
        opened = self._opened(tx.query("workflows", batch))
        if self._joined:
            return opened
        # Lock only what a seal, or another submit with forward references, could change meanwhile.
        if any(one.forward is not None for one in opened.values()):
            return self._opened(tx.query("lock_workflows", batch))
        if any(not one.sealed for one in opened.values()):
            return self._opened(tx.query("hold_workflows", batch))
        return opened

    def _opened(self, answer: Answer) -> dict[UUID, Opened]:
        return {self._db.uuid(id): Opened(bool(sealed), forward) for id, sealed, forward in answer.rows()}

    def _lock_stored(self, tx: Transaction) -> StoredUrgency | None:
        """Lock the stored tasks that become more urgent; None if no task of the batch lends its urgency to one."""
        if self._joined or not any(map(lends_urgency, self._drafts)):
            return None
        [(now,)] = tx.query("now", now=self._db.now()).rows()
        stored = StoredUrgency(self._db, tx)
        stored.lock(get_outside(spread_urgency(self._drafts, now), self._drafts), self._named())
        return stored

    def _known(self, tx: Transaction) -> dict[TaskId, Known]:
        """Return the stored tasks that are prerequisites of the batch, or have the same keys or ids."""
        wanted = self._named()
        if not wanted:
            return {}
        if not self._joined:
            return {one.id: one for one in share_tasks(self._db, tx, wanted)}
        answers = [tx.query("peek_parents", [(id,) for id in some]) for some in chunks(sorted(wanted))]
        return {one.id: one for answer in answers for one in known_from(self._db, answer.rows())}

    def _named(self) -> set[TaskId]:
        """Return the ids that may be stored: prerequisites of the batch, and tasks with the same keys or ids."""
        # An id that was made here can be stored only by an earlier try.
        wanted = {one.id for one in self._drafts if is_named(one.new) or self._again}
        if self._lease is not None:
            wanted.add(self._lease.task)
        if any(one.prerequisites for one in self._drafts):
            own = {one.id for one in self._drafts}
            wanted.update(above for one in self._drafts for above in one.prerequisites if above not in own)
        return wanted

    def _check_lease(self, known: Mapping[TaskId, Known]) -> None:
        if self._lease is None:
            return
        holder = known.get(self._lease.task)
        held = None if holder is None or holder.state is not State.LEASED else (holder.fence, holder.session)
        if held == (self._lease.fence, self._lease.session):
            return
        # If an earlier try was committed, the lease was valid then.
        if not self._again or any(one.id not in known for one in self._drafts):
            raise StaleLease(self._lease)

    def _prepared(self, answer: Answer) -> tuple[Micros, bool, dict[str, Queue]]:
        rows = answer.rows()
        queues = {name: queue_from((name, *rest)) for _, _, name, *rest in rows if name is not None}
        return rows[0][0], bool(rows[0][1]), queues

    def _check_room(self, tx: Transaction, queues: Mapping[str, Queue], fresh: Sequence[Draft]) -> None:
        for name, queue in queues.items():
            more = sum(one.new.queue == name for one in fresh)
            if queue.max_waiting is not None and more:
                [(queued,)] = tx.query("queued", queue=name).rows()
                check_room(queue, queued, more)

    def _check_prerequisites(
        self,
        tx: Transaction,
        fresh: Sequence[Draft],
        known: Mapping[TaskId, Known],
        opened: Mapping[UUID, Opened],
        now: Micros,
    ) -> dict[TaskId, tuple[UUID, Micros]]:
        """Refuse unknown prerequisites. Return placeholders for those that the workflow allows ahead of their tasks."""
        if not any(one.prerequisites for one in fresh):
            return {}
        batch = {one.id: one.new for one in fresh}

        def forward(workflow: UUID) -> Micros | None:
            return opened[workflow].forward if workflow in opened else None

        ahead = check_prerequisites(fresh, lambda id: batch.get(id) or known.get(id), forward)
        if ahead:
            again = Counter(
                ahead[TaskId(id)][0]
                for id in uuids(self._db, tx.query("open_placeholders", [(id,) for id in sorted(ahead)]).rows())
            )
            there = {
                workflow: tx.query("count_placeholders", workflow=workflow).rows()[0][0] - again[workflow]
                for workflow in sorted({workflow for workflow, _ in ahead.values()})
            }
            check_placeholders(ahead, fresh, there)
        return {id: (workflow, now + limit) for id, (workflow, limit) in ahead.items()}

    def _waiting_for_seals(
        self,
        tx: Transaction,
        fresh: Sequence[Draft],
        known: Mapping[TaskId, Known],
        opened: Mapping[UUID, Opened],
    ) -> set[TaskId]:
        """Return the stored prerequisites that wait for the seal of their workflow.

        None in a caller's transaction, in which they are not locked and may change.
        """
        if self._joined or all(one.sealed for one in opened.values()):
            return set()
        above = {id for one in fresh for id in one.prerequisites if id in known}
        waiting = [one for one in map(known.__getitem__, sorted(above)) if one.state is State.WAITING]
        edges = [(one.id, workflow_id(one.tenant, one.workflow)) for one in waiting if one.workflow is not None]
        answers = [tx.query("open_among", part) for part in chunks(edges)]
        return {TaskId(id) for answer in answers for id in uuids(self._db, answer.rows())}

    def _initial_states(
        self,
        fresh: Sequence[Draft],
        known: Mapping[TaskId, Known],
        opened: Mapping[UUID, Opened],
        queues: Mapping[str, Queue],
        now: Micros,
        lent: Mapping[TaskId, Urgency],
        gated: Collection[TaskId],
    ) -> Iterator[tuple[int, InitialState]]:
        """Yield the initial states with their positions, in id order.

        In a caller's transaction, every prerequisite counts as open, because it is not locked and may change.
        """
        ends: dict[UUID, End] = {}
        if not self._joined:
            ends = {id: End(one.state.value) for id, one in known.items() if one.state.final}
        defaults = {one.new.queue: Queue(name=one.new.queue) for one in fresh if one.new.queue not in queues}
        settings = {**defaults, **queues}
        unsealed = {id for id, one in opened.items() if not one.sealed}
        batch = {one.id: one.new for one in fresh} if unsealed else {}
        # In id order, so that two submits of the same keys wait for each other instead of deadlocking.
        for nth in sorted(range(len(fresh)), key=lambda nth: fresh[nth].id.int):
            one = fresh[nth]
            seal = seal_for(one, batch, unsealed.__contains__, gated.__contains__) if unsealed else ()
            yield nth, initial_state(one, settings[one.new.queue], now, nth, ends, seal, lent.get(one.id))

    def _with_same(
        self, receipts: Sequence[Receipt], matched: Matched, states: Mapping[TaskId, State]
    ) -> list[Receipt]:
        """Return the receipts of the whole batch: tasks that were not created have those that stand for them.

        `states` has what a task became that was put off, also if its own key is in the batch.
        """
        states = {**{receipt.id: receipt.state for receipt in receipts}, **states}
        created = {receipt.id: receipt.created for receipt in receipts}
        ids = [(one.id, matched.same.get(one.id, one.id)) for one in self._drafts]
        return [Receipt(id, created.get(own, False), states[id]) for own, id in ids]

    def _receipts(
        self, drafts: Sequence[Draft], states: Sequence[State], known: Mapping[TaskId, Known]
    ) -> list[Receipt]:
        """Return the receipts in the order of the batch. Tasks written by an earlier try count as created."""
        new = iter(states)
        return [
            Receipt(one.id, not is_named(one.new), known[one.id].state)
            if one.id in known
            else Receipt(one.id, True, next(new))
            for one in drafts
        ]

    def _write(
        self,
        tx: Transaction,
        fresh: Sequence[Draft],
        initial: Iterator[tuple[int, InitialState]],
        *,
        sees_commits: bool,
    ) -> WrittenTasks:
        """Write the tasks in chunks, so that the rows of a large batch are never all in memory."""
        written = WrittenTasks(len(fresh))
        own = {one.id for one in fresh} if self._joined else frozenset[TaskId]()
        sent: Answer | None = None
        for some in _portions(initial):
            tasks: list[Values] = []
            runnable: list[Values] = []
            edges: list[tuple[UUID, UUID, bool]] = []
            waits: list[Task] = []
            for nth, one in some:
                task = one.task if sees_commits else _defer(one.task)
                tasks.append(_task_row(task, one, fresh[nth]))
                if task.state is State.RUNNABLE:
                    runnable.append((task.id,))
                if task.wait is not None:
                    waits.append(task)
                edges += [(task.id, above, ended) for above, ended in one.edges]
                written.add(nth, task)
            tx.execute("submit", tasks)
            tx.execute("add_runnable", runnable)
            if waits:
                _write_waits(tx, waits)
            for part in chunks(edges):
                tx.execute("submit_edges", part)
            if self._joined:
                outside = sorted({child for child, above, _ in edges if above not in own})
                tx.execute("submit_joining", [(child,) for child in outside])
            elif len(fresh) > CHUNK:
                # Wait for the previous chunk, or all chunks would pile up unsent.
                if sent is not None:
                    sent.rows()
                sent = tx.query("now", now=self._db.now())
        return written

    def _fill_and_add_placeholders(
        self,
        tx: Transaction,
        fresh: Sequence[Draft],
        opened: Mapping[UUID, Opened],
        ahead: Mapping[TaskId, tuple[UUID, Micros]],
    ) -> None:
        """Replace placeholders by the new tasks and add new ones. Refuse a task that closes a cycle."""
        if not fresh or not any(one.forward is not None for one in opened.values()):
            return
        tx.execute("add_placeholders", [(id, workflow, expires) for id, (workflow, expires) in sorted(ahead.items())])
        filled = set(uuids(self._db, tx.query("fill_placeholders", [(one.id,) for one in fresh]).rows()))
        for one in fresh:
            if one.id in filled and one.prerequisites and not self._check_cycle(tx, one.id):
                tx.execute("check_later", [(workflow_id(one.new.tenant, one.new.workflow or ""), True)])

    def _announce(self, tx: Transaction, ended: Sequence[tuple[TaskId, str]]) -> list[UUID]:
        """Return the tasks that ended at once and have dependents."""
        answers = [tx.query("announce", some) for some in chunks(sorted(ended))]
        return [id for answer in answers for id in uuids(self._db, answer.rows())]

    def _check_cycle(self, tx: Transaction, task: TaskId) -> bool:
        """Raise `CycleFound` if a task waits for itself. Return True if the search visited every ancestor."""
        edges = tx.query("ancestors", task=task, limit=CYCLE_BUDGET + 1).rows()
        upwards: dict[TaskId, list[TaskId]] = {}
        for child, parent in edges:
            upwards.setdefault(TaskId(self._db.uuid(child)), []).append(TaskId(self._db.uuid(parent)))
        members, _ = find_cycle(task, lambda id: upwards.get(id, ()))
        if members:
            keys = {TaskId(self._db.uuid(id)): key for id, key in tx.query("keys", [(id,) for id in members]).rows()}
            raise cycle(members, keys.get)
        return len(edges) <= CYCLE_BUDGET


class Fire:
    """The transaction that submits a cron's batch, if it is the first to move the cron to its nominal time.

    It returns None if the cron is paused, has already fired for that time, or is in another version.
    """

    def __init__(
        self,
        db: Dialect,
        drafts: Sequence[Draft],
        cron: str,
        nominal: Micros,
        version: int | None = None,
        due: Micros | None = None,
    ) -> None:
        self._db = db
        self._drafts = drafts
        self._cron = cron
        self._nominal = nominal
        self._version = version
        self._due = due
        self._submit = Submit(db, drafts, joined=False)
        self._tried = self._again = False

    def __call__(self, tx: Transaction) -> Submitted | None:
        self._again, self._tried = self._tried, True
        place: dict[str, Any] = {"nominal": self._nominal, "version": self._version, "due": self._due}
        moved = tx.query("fire", name=self._cron, **place).rows()
        if not moved and not tx.query("cron_is_known", name=self._cron).rows():
            raise UnknownCron(self._cron)
        if not moved and not self._was_committed(tx):
            return None
        return self._submit(tx) if self._drafts else Submitted([], [], set())

    def _was_committed(self, tx: Transaction) -> bool:
        """Return True if an earlier try of this call was committed, and only its answer was lost."""
        if not self._again or not self._drafts:
            return False
        return len(tx.query("peek_parents", [(one.id,) for one in self._drafts]).rows()) == len(self._drafts)


@contextmanager
def naming_keys(drafts: Sequence[Draft]) -> Generator[None]:
    """Name the keys of a batch in the error for a key that is busy."""
    try:
        yield
    except KeyBusy as busy:
        raise KeyBusy([one.new.key for one in drafts if one.new.key is not None]) from busy


def _portions(initial: Iterable[tuple[int, InitialState]]) -> Iterator[list[tuple[int, InitialState]]]:
    """Split into parts of bounded number and size."""
    some: list[tuple[int, InitialState]] = []
    size = 0
    for nth, one in initial:
        some.append((nth, one))
        size += len(one.task.args)
        if len(some) >= CHUNK or size >= CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _defer(task: Task) -> Task:
    """Leave a runnable task to the sweep: a caller's old snapshot may not see the open claim partition."""
    return replace(task, state=State.SCHEDULED) if task.state is State.RUNNABLE else task


def _write_waits(tx: Transaction, tasks: Sequence[Task]) -> None:
    """Write what waits have besides other tasks: what they wait for, and the ends of events that are already set."""
    tx.execute("set_waits", [(task.id, encode_wait(task.wait)) for task in tasks])
    ended = [task for task in tasks if task.state is State.COMPLETED]
    tx.execute("add_completed", [(task.id, 0, task.session, task.claimed, task.finished) for task in ended])
    tx.execute("record_results", [(task.id, task.result) for task in ended if task.result is not None])


def _task_row(task: Task, initial: InitialState, one: Draft) -> Values:
    """Return a row for the statement `submit`."""
    return (
        task.id,
        task.queue,
        task.tenant,
        stored(task.state),
        *initial.place,
        task.due,
        task.expires,
        task.waiting,
        task.on_failure.value,
        None if task.state is State.COMPLETED else task.finished,
        task.reason,
        kind_of(task.handler, task.rules),
        task.handler,
        task.args,
        encode_rules(task.rules),
        task.workflow,
        None if task.workflow is None else task.tenant,
        task.key,
        _as_uuid(one.fingerprint),
        task.priority,
        task.deadline,
        task.due,
        task.submitted,
    )


def _as_uuid(fingerprint: bytes | None) -> UUID | None:
    return None if fingerprint is None else UUID(bytes=fingerprint)
