"""The ends of attempts in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.fairness import Usage
from windlass.core.lifecycle import FINAL, State
from windlass.core.settlement import Settlement, add_error_group, apply_store_facts, stands_already
from windlass.core.task import Attempt, Lease, Progress, Task
from windlass.core.times import Micros
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.graph import resolve
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import LeaseLost, Log, ProgressSeen, Settled, Verdict


class MemorySettle(MemoryBase):
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

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is None or task.fence != lease.fence or task.session != lease.session:
            return LeaseLost(lease)
        if task.state is State.LEASED:
            return Settled(lease, end_attempt(self._tables, task, settlement, now))
        return Settled(lease, task.state) if stands_already(task, settlement) else LeaseLost(lease)


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
        tables.logs[task.id].append(Log(task.fence, end.log))
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
