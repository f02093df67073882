"""The write path of the memory store: submit, settle, and what operators do.

One lock makes every call a transaction; everything is checked before anything is changed, so a refusal changes
nothing. Nothing here decides by itself: states and places come from `core`, the passing of time is in `sweep.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from threading import Condition, Event, RLock
from uuid import UUID

from msgspec.structs import replace

from windlass.clock import Clock, SystemClock, entropy
from windlass.core.admission import check_placeholders, check_prerequisites, check_room, cycle, new_drafts
from windlass.core.graph import End, find_cycle
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import QUEUED, State
from windlass.core.names import check_name, check_text
from windlass.core.ordering import Queue, check_queue, place
from windlass.core.settlement import Settlement, stands_already
from windlass.core.submission import Draft, InitialState, begins, draft, initial_state
from windlass.core.task import Change, Lease, NewTask, Task, TaskId
from windlass.core.task_update import Version, retried_fields, update_fields, version_of
from windlass.core.times import Micros, micros, span
from windlass.core.validation import check_change, check_flag, check_id
from windlass.errors import (
    CYCLE_REASON,
    Conflict,
    NotAllowed,
    StaleLease,
    UnknownTask,
)
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.coordination import MemoryCoordination
from windlass.stores.memory.dead_letters import MemoryDeadLetters
from windlass.stores.memory.manifest import MemoryManifest
from windlass.stores.memory.read import MemoryReader
from windlass.stores.memory.sessions import MemorySessions
from windlass.stores.memory.settle import end_attempt, resolve, resolve_edges, taken_down_by
from windlass.stores.memory.sweep import sweep
from windlass.stores.memory.tables import Placeholder, Tables, Workflow
from windlass.stores.operator import check_which
from windlass.stores.protocol import (
    CANCEL_GRACE,
    RETENTION,
    Filter,
    LeaseLost,
    Receipt,
    Selection,
    Settled,
    Signal,
    Swept,
    Verdict,
)


class MemoryStore(MemorySessions, MemoryCoordination, MemoryReader, MemoryDeadLetters, MemoryManifest):
    """The specification of a store, and a fast store for tests and for work that may be lost with the process.

    >>> store = MemoryStore()
    >>> [receipt] = store.submit([NewTask(handler="hello")])
    >>> session = store.open_session("here")
    >>> [claim] = store.claim(session, ["default"], limit=10)
    >>> store.settle([(claim.lease, COMPLETED)])
    """

    def __init__(self, *, clock: Clock | None = None, retention: timedelta = RETENTION) -> None:
        self._clock = clock or SystemClock()
        self._retention = micros(retention)
        self._tables = Tables()
        self._lock = RLock()
        self._work = Condition(self._lock)
        self.unresolved: Signal = Event()

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        if conn is not None:
            raise NotAllowed("conn= joins a PostgreSQL transaction; this store is in memory")
        checked = check_entries(entries)
        with self._lock:
            now = self._clock.now()
            drafts = draft(tasks, now, entropy)
            if lease is not None and drafts and not self._tables.holds(lease):
                raise StaleLease(lease)
            fresh = new_drafts(drafts, self._tables.fingerprints)
            missing = self._check_prerequisites(fresh)
            self._check_room(fresh)
            batch = {one.id: one.new for one in fresh}
            births = [self._born(one, now, nth, batch) for nth, one in enumerate(fresh)]
            self._check_cycles(fresh)
            for one, birth in zip(fresh, births, strict=True):
                self._tables.placeholders.pop(one.id, None)
                self._tables.insert(birth, one.fingerprint)
            for above, placeholder in missing.items():
                self._tables.placeholders.setdefault(above, placeholder)
            resolve(self._tables, [birth.task.id for birth in births if birth.task.state.final], now)
            self._tables.note(checked if fresh else [], now)
            self._work.notify_all()
            new = {one.id for one in fresh}
            return [Receipt(one.id, one.id in new, self._tables.tasks[one.id].state) for one in drafts]

    def fire(self, cron: str, nominal: Micros, tasks: Sequence[NewTask]) -> list[Receipt] | None:
        with self._lock:
            known = self._cron(cron)
            if known.paused or (known.fired is not None and known.fired >= nominal):
                return None
            receipts = self.submit(tasks)
            self._tables.crons[cron] = replace(known, fired=nominal)
            return receipts

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        with self._lock:
            now = self._clock.now()
            verdicts = [self._settle(lease, settlement, now) for lease, settlement in reports]
            resolve(self._tables, [lease.task for lease, _ in reports if lease.task in self._tables.tasks], now)
            self._work.notify_all()
            return verdicts

    def sweep(self) -> Swept:
        with self._lock:
            swept = sweep(self._tables, self._clock.now(), self._retention)
            if not swept.quiet:
                self._work.notify_all()
            return swept

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        with self._work:
            return self._work.wait(timeout.total_seconds())

    def close(self) -> None:
        with self._work:
            self._work.notify_all()

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        check_text("reason", reason)
        check_which(which)
        patience, checked = span(grace, "grace"), check_entries(entries)
        with self._lock:
            now = self._clock.now()
            chosen = [task for task in self._chosen(which) if not task.state.final and not task.cancel_requested]
            for task in chosen:
                if task.state is State.LEASED:
                    self._tables.change(task.id, cancel_requested=True, reason=reason)
                    self._tables.cancel_by[task.id] = now + patience
                else:
                    self._tables.move(task.id, State.CANCELLED, finished=now, reason=reason)
            resolve(self._tables, [task.id for task in chosen if task.state is not State.LEASED], now)
            self._tables.note(checked if chosen else [], now)
            return len(chosen)

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        check_id(task)
        check_change(change)
        checked = check_entries(entries)
        with self._lock:
            now = self._clock.now()
            old = self._tables.tasks.get(task)
            if old is None:
                raise UnknownTask(task)
            if expect not in (None, version_of(old)):
                raise Conflict(f"task {task}")
            first_due = self._tables.first_due[task]
            changed = update_fields(old, first_due, self._tables.queue(old.queue), change, now)
            self._tables.note(checked if changed.differs(old, first_due) else [], now)
            self._tables.first_due[task] = changed.first_due
            self._tables.places[task] = changed.place
            updated = self._tables.move(
                task,
                changed.state,
                priority=changed.priority,
                deadline=changed.deadline,
                due=changed.due,
                expires=changed.expires,
            )
            self._work.notify_all()
            return updated

    def retry(
        self, which: Selection, *, dependents: bool = False, dry_run: bool = False, entries: Sequence[Entry] = ()
    ) -> int:
        check_which(which)
        checked = check_entries(entries)
        with self._lock:
            now = self._clock.now()
            coming_back = {task.id for task in self._chosen(which) if task.state.ended_badly}
            if dependents:
                coming_back |= taken_down_by(self._tables, coming_back)
            if dry_run:
                return len(coming_back)
            for id in coming_back:
                task = self._tables.tasks[id]
                waiting = task.waiting + self._reopen(id, coming_back)
                if task.workflow is not None and (task.reason or "").startswith(CYCLE_REASON):
                    self._tables.workflows[workflow_id(task.tenant, task.workflow)].check_later = True
                self._tables.move(id, **retried_fields(task, waiting, now))
            self._tables.note(checked if coming_back else [], now)
            self._work.notify_all()
            return len(coming_back)

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        check_which(which)
        checked = check_entries(entries)
        with self._lock:
            chosen = [task.id for task in self._chosen(which) if task.state.final]
            for id in chosen:
                self._tables.remove(id)
            self._tables.note(checked if chosen else [], self._clock.now())
            return len(chosen)

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        check_queue(queue)
        checked = check_entries(entries)
        with self._lock:
            before = self._tables.queue(queue.name)
            if expect not in (None, before):
                raise Conflict(f"queue {queue.name!r}")
            self._tables.note(checked if queue != before else [], self._clock.now())
            self._tables.queues[queue.name] = queue
            for task in [*self._tables.tasks.values()]:
                if task.queue == queue.name and not task.state.final:
                    due = self._tables.first_due[task.id]
                    self._tables.change(task.id, place(queue, priority=task.priority, deadline=task.deadline, due=due))
            self._work.notify_all()

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = "default",
        sealed: bool = True,
        forward: timedelta | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("sealed", sealed)
        checked, id = check_entries(entries), workflow_id(tenant, workflow)
        limit = None if forward is None else span(forward, "forward")
        with self._lock:
            if id not in self._tables.workflows:
                self._tables.workflows[id] = Workflow(sealed=sealed, forward=limit)
                self._tables.note(checked, self._clock.now())

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        check_name("tenant", tenant)
        check_text("workflow", workflow)
        check_flag("missing", missing)
        checked = check_entries(entries)
        with self._lock:
            id, now = workflow_id(tenant, workflow), self._clock.now()
            opened = self._tables.workflows.get(id)
            if opened is None:
                raise UnknownTask(f"workflow {workflow!r} of tenant {tenant!r}")
            open_ends = [
                above for above, placeholder in self._tables.placeholders.items() if placeholder.workflow == id
            ]
            if open_ends and not missing:
                raise NotAllowed(
                    f"workflow {workflow!r} has {len(open_ends)} open forward references; submit them first"
                )
            self._tables.note(checked if open_ends or not opened.sealed else [], now)
            opened.sealed = True
            for above in open_ends:
                del self._tables.placeholders[above]
            resolve_edges(self._tables, [(above, End.MISSING) for above in open_ends] + [(id, End.SEALED)], now)
            self._work.notify_all()

    def raise_epoch(self) -> int:
        with self._lock:
            self._tables.epoch += 1
            return self._tables.epoch

    def _check_prerequisites(self, fresh: Sequence[Draft]) -> dict[TaskId, Placeholder]:
        """Refuse what is unknown; what the workflow lets be named ahead of time becomes a placeholder."""
        now = self._clock.now()
        batch = {one.id: one.new for one in fresh}
        ahead = check_prerequisites(fresh, lambda id: batch.get(id) or self._tables.tasks.get(id), self._forward_limit)
        there = Counter(one.workflow for id, one in self._tables.placeholders.items() if id not in ahead)
        check_placeholders(ahead, fresh, {workflow: there[workflow] for workflow, _ in ahead.values()})
        return {id: Placeholder(workflow, now + limit) for id, (workflow, limit) in ahead.items()}

    def _forward_limit(self, workflow: UUID) -> Micros | None:
        opened = self._tables.workflows.get(workflow)
        return None if opened is None else opened.forward

    def _check_room(self, fresh: Sequence[Draft]) -> None:
        for name, more in Counter(one.new.queue for one in fresh).items():
            queue = self._tables.queue(name)
            if queue.max_waiting is not None:
                check_room(queue, sum(self._tables.counts[key] for key in self._queued(name)), more)

    def _queued(self, queue: str) -> list[tuple[str, str, State]]:
        return [key for key in self._tables.counts if key[0] == queue and key[2] in QUEUED]

    def _born(self, one: Draft, now: Micros, nth: int, batch: Mapping[TaskId, NewTask]) -> InitialState:
        ends: dict[UUID, End] = {
            above: end for above in one.prerequisites if (end := self._tables.end_of(above)) is not None
        }
        return initial_state(one, self._tables.queue(one.new.queue), now, nth, ends, self._seal(one, batch))

    def _seal(self, one: Draft, batch: Mapping[TaskId, NewTask]) -> Iterable[UUID]:
        """The roots of an unsealed workflow wait for its seal as for one more prerequisite."""
        if one.new.workflow is None or not begins(one, batch):
            return ()
        id = workflow_id(one.new.tenant, one.new.workflow)
        opened = self._tables.workflows.get(id)
        return () if opened is None or opened.sealed else (id,)

    def _check_cycles(self, fresh: Sequence[Draft]) -> None:
        """Only a task that others already wait for can close a cycle: look upwards from it, within a budget."""
        batch = {one.id: one.prerequisites for one in fresh}
        keys = {one.id: one.new.key for one in fresh}

        def key_of(id: TaskId) -> str | None:
            return keys[id] if id in keys else self._tables.tasks[id].key

        def above(id: TaskId) -> Iterable[TaskId]:
            stored = self._tables.prerequisites.get(id, {})
            return batch.get(id) or [TaskId(above) for above, resolved in stored.items() if not resolved]

        for one in fresh:
            if one.id not in self._tables.placeholders or not one.prerequisites:
                continue
            ring, complete = find_cycle(one.id, above)
            if ring:
                raise cycle(ring, key_of)
            if not complete:
                self._tables.workflows[workflow_id(one.new.tenant, one.new.workflow or "")].check_later = True

    def _chosen(self, which: Selection) -> list[Task]:
        tasks = self._tables.tasks
        if isinstance(which, Filter):
            now = self._clock.now()
            return [task for task in tasks.values() if which.matches(task, now)]
        return [tasks[id] for id in dict.fromkeys(which) if id in tasks]

    def _reopen(self, id: TaskId, coming_back: set[TaskId]) -> int:
        """Wait again for prerequisites that are unfinished, or are just being brought back; how many."""
        edges, tasks = self._tables.prerequisites.get(id, {}), self._tables.tasks
        reopened = [
            above
            for above, resolved in edges.items()
            if resolved and (above in coming_back or (above in tasks and not tasks[TaskId(above)].state.final))
        ]
        edges.update(dict.fromkeys(reopened, False))
        return len(reopened)

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is None or task.fence != lease.fence or task.session != lease.session:
            return LeaseLost(lease)
        if task.state is State.LEASED:
            return Settled(lease, end_attempt(self._tables, task, settlement, now))
        return Settled(lease, task.state) if stands_already(task, settlement) else LeaseLost(lease)
