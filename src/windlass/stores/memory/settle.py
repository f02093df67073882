"""The ends of attempts in the memory store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from msgspec.structs import replace

from windlass.clock import entropy
from windlass.core.continuation import REFUSALS, check_added, check_no_cycle, check_outside, continue_as
from windlass.core.fairness import Usage
from windlass.core.graph import End
from windlass.core.lifecycle import FINAL, State
from windlass.core.retry import storable
from windlass.core.settlement import Settlement, add_error_group, apply_store_facts, refuse_steps, stands_already
from windlass.core.task import Added, Attempt, Lease, Progress, Task, TaskId
from windlass.core.times import Micros
from windlass.stores.memory.graph import resolve
from windlass.stores.memory.submit import MemorySubmit
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import LeaseLost, ProgressSeen, Settled, Verdict


class MemorySettle(MemorySubmit):
    """Write the ends and the progress of attempts, each only while its lease is valid."""

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        reports = [(lease, add_error_group(settlement)) for lease, settlement in reports]
        with self._lock:
            now = self._clock.now()
            verdicts = [self._settle(lease, settlement, now) for lease, settlement in reports]
            resolve(self._tables, [lease.task for lease, _ in reports if lease.task in self._tables.tasks], now)
            self._work.notify_all()
            return verdicts

    def progress(self, reports: Sequence[Progress]) -> list[Lease]:
        with self._lock:
            now = self._clock.now()
            for one in (report.storable() for report in reports if self._tables.holds(report.lease)):
                seen = ProgressSeen(one.lease.fence, one.share, one.message, now)
                self._tables.progress[one.lease.task] = seen
            stale = (report.lease for report in reports if not self._tables.holds(report.lease))
            return list(dict.fromkeys(stale))

    def record_output(self, outputs: Sequence[tuple[Lease, str]]) -> list[Lease]:
        with self._lock:
            latest = {lease: storable(text) for lease, text in outputs if text}
            for lease, text in latest.items():
                if self._tables.holds(lease):
                    self._tables.outputs[lease.task][lease.fence] = text
            return [lease for lease in latest if not self._tables.holds(lease)]

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is None or task.fence != lease.fence or task.session != lease.session:
            return LeaseLost(lease)
        if task.state is State.LEASED:
            added = apply_store_facts(task, settlement, now).added
            if added is None:
                return Settled(lease, end_attempt(self._tables, task, settlement, now))
            try:
                return Settled(lease, self._end_adding(task, settlement, added, now))
            except REFUSALS as error:
                return Settled(lease, end_attempt(self._tables, task, refuse_steps(settlement, error), now))
        return Settled(lease, task.state) if stands_already(task, settlement) else LeaseLost(lease)

    def _end_adding(self, task: Task, settlement: Settlement, added: Added, now: Micros) -> State:
        """Write the end of an attempt and the steps that it adds, or raise one of `REFUSALS` and write nothing."""
        tables = self._tables
        drafts = check_added(task, added, now, entropy)
        check_outside(task, drafts, tables.tasks.get)
        check_no_cycle(task, drafts, self._open_prerequisites)
        named = [one.new if one.new.key is not None else replace(one.new, id=one.id) for one in drafts.steps]
        if named:
            self.submit(named)
        if drafts.then is None:
            return end_attempt(tables, task, settlement, now)
        ends: dict[UUID, End] = {
            above: end for above in drafts.then.prerequisites if (end := tables.end_of(above)) is not None
        }
        queue = tables.queue(drafts.then.new.queue)
        continuation = continue_as(task, drafts.then, queue, tables.first_due[task.id], ends, now)
        end_attempt(
            tables, task, replace(settlement, state=continuation.state, reason=continuation.reason, added=None), now
        )
        tables.continue_as(task.id, continuation)
        return continuation.state

    def _open_prerequisites(self, id: TaskId) -> Iterator[TaskId]:
        edges = self._tables.prerequisites.get(id, {})
        return (TaskId(above) for above, resolved in edges.items() if not resolved)


def end_attempt(tables: Tables, task: Task, settlement: Settlement, now: Micros) -> State:
    """Write the end of an attempt and return the task's new state. The caller resolves the edges from the task."""
    assert task.session is not None
    assert task.claimed is not None
    end = apply_store_facts(task, add_error_group(settlement), now)
    if end.charged:
        tables.attempts[task.id].append(
            Attempt(
                fence=task.fence,
                session=task.session,
                started=task.claimed,
                ended=now,
                state=end.state,
                error=end.error,
            )
        )
    charge = tables.charges.pop(task.id, None)
    if charge is not None:
        ran = end.get_run_time(task.claimed, now)
        tables.usage[task.queue].append(Usage(task.tenant, ran, charge, int(end.charged), now))
    if end.log:
        tables.outputs[task.id][task.fence] = end.log
    tables.cancel_by.pop(task.id, None)
    if end.state is State.FAILED and end.error_group is not None:
        tables.error_groups[task.id] = end.error_group
    tables.point(task.queue, now).count_moves(end.state, 1)
    tables.move(
        task.id,
        end.state,
        due=task.due if end.state in FINAL else now + end.delay,
        finished=now if end.state in FINAL else None,
        attempts=task.attempts + end.attempts,
        crashes=task.crashes + end.crashes,
        losses=task.losses + end.losses,
        result=end.result,
        reason=end.reason,
    )
    return end.state
