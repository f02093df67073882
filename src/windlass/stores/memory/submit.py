"""Submits to the memory store. `core` decides what is accepted and in which state a task starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from msgspec.structs import replace

from windlass.clock import entropy
from windlass.core.admission import check_placeholders, check_prerequisites, check_room, cycle, new_drafts, seal_for
from windlass.core.graph import End, find_cycle
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import QUEUED, State
from windlass.core.ordering import place
from windlass.core.submission import Draft, InitialState, Urgency, draft, initial_state
from windlass.core.task import Lease, NewTask, TaskId
from windlass.core.times import Micros
from windlass.core.unique import NOTHING, Holder, Matched, match, put_off, until
from windlass.core.urgency import Above, find_raised, get_outside, spread_urgency
from windlass.errors import NotAllowed, StaleLease
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.graph import resolve
from windlass.stores.memory.tables import Placeholder
from windlass.stores.memory.waits import record_end
from windlass.stores.protocol import Receipt


class MemorySubmit(MemoryBase):
    """Submit batches of tasks."""

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
            matched = self._match(drafts, now)
            fresh = new_drafts(matched.to_store(drafts), self._tables.fingerprints)
            missing = self._check_prerequisites(fresh, now)
            self._check_room(fresh)
            batch = {one.id: one.new for one in fresh}
            lent = spread_urgency(matched.to_store(drafts), now) if fresh else {}
            initial = [self._initial_state(one, now, nth, batch, lent.get(one.id)) for nth, one in enumerate(fresh)]
            self._check_cycles(fresh)
            for one, state in zip(fresh, initial, strict=True):
                self._tables.placeholders.pop(one.id, None)
                self._tables.insert(state, one.fingerprint)
                self._tables.point(one.new.queue, now).arrived += 1
                if state.task.state is State.COMPLETED:
                    record_end(self._tables, state.task, now)
            for above, placeholder in missing.items():
                self._tables.placeholders.setdefault(above, placeholder)
            self._raise_stored(get_outside(lent, drafts))
            self._write_unique(matched, now)
            resolve(self._tables, [state.task.id for state in initial if state.task.state.final], now)
            self._tables.note(checked if fresh else [], now)
            self._work.notify_all()
            new = {one.id for one in fresh}
            ids = [matched.same.get(one.id, one.id) for one in drafts]
            return [
                Receipt(id, one.id in new, self._tables.tasks[id].state) for one, id in zip(drafts, ids, strict=True)
            ]

    def fire(
        self,
        cron: str,
        nominal: Micros,
        tasks: Sequence[NewTask],
        *,
        version: int | None = None,
        due: Micros | None = None,
    ) -> list[Receipt] | None:
        with self._lock:
            known = self._tables.cron(cron)
            if known.paused or (known.fired is not None and known.fired >= nominal):
                return None
            if version not in (None, known.version):
                return None
            receipts = self.submit(tasks)
            self._tables.crons[cron] = replace(known, fired=nominal, due=due)
            return receipts

    def _match(self, drafts: Sequence[Draft], now: Micros) -> Matched:
        tables = self._tables
        wanted = {one.lock for one in drafts if one.lock is not None}
        if not wanted:
            return NOTHING
        held = {lock: tables.locks[lock] for lock in wanted if lock in tables.locks}
        holders = {lock: Holder(task, until, self._state_of(task)) for lock, (task, until) in held.items()}
        return match(drafts, holders, tables.tasks, now)

    def _state_of(self, id: TaskId) -> State | None:
        return self._tables.tasks[id].state if id in self._tables.tasks else None

    def _write_unique(self, matched: Matched, now: Micros) -> None:
        """Give locks to new tasks, and put off those that are queued."""
        tables = self._tables
        for lock, one in matched.takes.items():
            assert one.new.unique is not None
            tables.locks[lock] = one.id, until(one.new.unique, now)
        for id, one in matched.put_off.items():
            assert one.new.unique is not None
            task = tables.tasks[id]
            new = put_off(task, tables.first_due[id], tables.queue(task.queue), one.new.unique, now)
            args = one.args if one.new.unique.replace_args else task.args
            tables.first_due[id], tables.places[id] = new.first_due, new.place
            tables.move(id, new.state, due=new.due, args=args)

    def _check_prerequisites(self, fresh: Sequence[Draft], now: Micros) -> dict[TaskId, Placeholder]:
        """Refuse unknown prerequisites. Return placeholders for those that the workflow allows ahead of their tasks."""
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
                counts = self._tables.counts.items()
                check_room(queue, sum(n for (of, _, state), n in counts if of == name and state in QUEUED), more)

    def _initial_state(
        self, one: Draft, now: Micros, nth: int, batch: Mapping[TaskId, NewTask], lent: Urgency | None
    ) -> InitialState:
        ends: dict[UUID, End] = {
            above: end for above in one.prerequisites if (end := self._tables.end_of(above)) is not None
        }
        seal = seal_for(one, batch, self._is_unsealed, self._waits_for_seal)
        return initial_state(one, self._tables.queue(one.new.queue), now, nth, ends, seal, lent)

    def _raise_stored(self, lent: Mapping[TaskId, Urgency]) -> None:
        """Let stored prerequisites inherit the urgency of the new tasks."""
        for id, (priority, deadline) in find_raised(lent, self._look_above).items() if lent else ():
            queue, due = self._tables.queue(self._tables.tasks[id].queue), self._tables.first_due[id]
            to = place(queue, priority=priority, deadline=deadline, due=due)
            self._tables.change(id, to, priority=priority, deadline=deadline)

    def _look_above(self, ids: Sequence[TaskId]) -> dict[TaskId, Above]:
        tables, found = self._tables, dict[TaskId, Above]()
        for task in (tables.tasks[id] for id in ids if id in tables.tasks):
            edges = tables.prerequisites.get(task.id, {})
            above = [TaskId(parent) for parent, resolved in edges.items() if not resolved]
            found[task.id] = Above(task.state, Urgency(task.priority, task.deadline), above)
        return found

    def _is_unsealed(self, workflow: UUID) -> bool:
        opened = self._tables.workflows.get(workflow)
        return opened is not None and not opened.sealed

    def _waits_for_seal(self, id: TaskId) -> bool:
        """Return True if a stored task waits for the seal of its workflow."""
        task = self._tables.tasks.get(id)
        if task is None or task.workflow is None or task.state is not State.WAITING:
            return False
        return self._tables.prerequisites.get(id, {}).get(workflow_id(task.tenant, task.workflow)) is False

    def _check_cycles(self, fresh: Sequence[Draft]) -> None:
        """Refuse a task that closes a cycle.

        Only a task that others already wait for can close one. The search goes up from it and has a budget; beyond
        that, the sweep searches the whole workflow.
        """
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
            members, complete = find_cycle(one.id, above)
            if members:
                raise cycle(members, key_of)
            if not complete:
                self._tables.workflows[workflow_id(one.new.tenant, one.new.workflow or "")].check_later = True
