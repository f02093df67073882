"""The store machine catches planted bugs: each mutant is the memory store with one promise broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from tests.properties.machine import StoreMachine
from windlass.clock import ManualClock
from windlass.core.graph import End
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import Change, Claim, Lease, NewTask, SessionId, Task, TaskId, claim_of
from windlass.core.task_update import Version
from windlass.core.times import Micros
from windlass.core.unique import Matched
from windlass.stores.coordination import Entry
from windlass.stores.dead_letters import DeadGroups
from windlass.stores.memory import MemoryStore, graph
from windlass.stores.operator import EventSet
from windlass.stores.protocol import LeaseLost, Receipt, Selection, Settled, Store, Verdict
from windlass.stores.series import Point, Resolution
from windlass.stores.totals import COUNTED

CATCH = settings(
    max_examples=1_000,  # most are caught within twenty, the rarest after some hundred
    stateful_step_count=30,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class NoFenceInSettle(MemoryStore):
    """M1: a session that once held the task may end it."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is not None and task.state is State.LEASED:
            lease = Lease(lease.task, task.fence, task.session or lease.session)
        return super()._settle(lease, settlement, now)


class NoSessionInSettle(MemoryStore):
    """A lost session's fence is enough, if nobody has claimed the task since."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is not None and task.state is State.RUNNABLE and task.fence == lease.fence and settlement.attempts:
            return Settled(lease, settlement.state)
        return super()._settle(lease, settlement, now)


class SameFenceAgain(MemoryStore):
    """M2: a fence that does not grow with the grant."""

    def _lease(self, id: TaskId, charge: int | None, session: SessionId, now: Micros) -> Claim:
        claim = super()._lease(id, charge, session, now)
        if claim.lease.fence <= 1:
            return claim
        task = self._tables.change(id, fence=claim.lease.fence - 1)
        return claim_of(task, Lease(id, task.fence, session))


class CrashesNotCounted(MemoryStore):
    """M9: an attempt that took its process down costs nothing."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        return super()._settle(lease, replace(settlement, crashes=0), now)


class RenewalsIgnored(MemoryStore):
    """M10: a renewed session is swept all the same."""

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        renewed = self._tables.live_session(session).renewed
        leases = super().renew(session, about=about, workers=workers)
        self._tables.live_session(session).renewed = renewed
        return leases


class SharedChildCountedOnce(MemoryStore):
    """M15: two parents that end in one batch are counted as one."""

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        honest = graph.unblock

        def wrong(state: Any, waiting: int, on_failure: Any, ended: Any, **times: Micros) -> Any:
            return honest(state, waiting, on_failure, list(ended)[:1], **times)

        with patch.object(graph, "unblock", wrong):
            return super().settle(reports)


class CancelledComesBack(MemoryStore):
    """M16: the last prerequisite brings a cancelled task back."""

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        before = {id: task.waiting for id, task in self._tables.tasks.items()}
        verdicts = super().settle(reports)
        for task in [*self._tables.tasks.values()]:
            if task.state is State.CANCELLED and before[task.id] and not task.waiting and task.reason == "not wanted":
                self._tables.move(task.id, State.RUNNABLE, finished=None)
        return verdicts


class CancelRequestForgotten(MemoryStore):
    """A leased task that was to be cancelled completes."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is not None and task.cancel_requested and task.state is State.LEASED:
            self._tables.change(task.id, cancel_requested=False)
        return super()._settle(lease, settlement, now)


class ExpiredStarts(MemoryStore):
    """A task past its hard limit is claimed."""

    def claim(self, *args: Any, **options: Any) -> list[Claim]:
        expiring = {id: task for id, task in self._tables.tasks.items() if task.expires is not None}
        self._tables.tasks.update({id: replace(task, expires=None) for id, task in expiring.items()})
        claims = super().claim(*args, **options)
        for id, task in expiring.items():
            self._tables.tasks[id] = replace(self._tables.tasks[id], expires=task.expires)
        return [
            replace(claim, expires=expiring[claim.id].expires) if claim.id in expiring else claim for claim in claims
        ]


class CountsDrift(MemoryStore):
    """A purged task stays in the counts."""

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        counts = self._tables.counts.copy()
        purged = super().purge(which, entries=entries)
        self._tables.counts = counts
        return purged


class HalfABatch(MemoryStore):
    """P9: a batch that is refused leaves its first task behind."""

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        try:
            return super().submit(tasks, conn=conn, lease=lease, entries=entries)
        except ValueError:
            super().submit([replace(tasks[0], prerequisites=())])
            raise


class AuditedWhenNothingChanged(MemoryStore):
    """An act that finds nothing to do is in the audit log."""

    def retry(self, which: Selection, *, dry_run: bool = False, entries: Sequence[Entry] = (), **options: Any) -> int:
        count = super().retry(which, **options, dry_run=dry_run)
        self.note(entries)
        return count


class ExpectationIgnored(MemoryStore):
    """A task is changed although it is no longer as it was seen."""

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        return super().update(task, change, entries=entries)


class LostWakeUp(MemoryStore):
    """M4: a task submitted while its prerequisite ends waits forever."""

    def _initial_state(self, one: Any, now: Micros, nth: int, batch: Any, lent: Any) -> Any:
        with patch.object(self._tables, "end_of", lambda above: None):
            return super()._initial_state(one, now, nth, batch, lent)


class RetryKeepsCounting(MemoryStore):
    """An operator's retry does not give fresh attempts."""

    def retry(self, which: Selection, **options: Any) -> int:
        attempts = {task.id: task.attempts for task in self._chosen(which)}
        count = super().retry(which, **options)
        for id, number in attempts.items():
            self._tables.change(id, attempts=number)
        return count


class RestoreStartsAfresh(MemoryStore):
    """A task that is restored loses its due time."""

    def retry(self, which: Selection, **options: Any) -> int:
        return super().retry(which, **{**options, "restore": False})


class AttemptNotWritten(MemoryStore):
    """M14: the record of an attempt is missing."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        verdict = super()._settle(lease, settlement, now)
        if isinstance(verdict, Settled) and settlement.error is not None:
            self._tables.attempts[lease.task].clear()
        return verdict


class BadEndIgnored(MemoryStore):
    """P10: a failure of a prerequisite is taken for success."""

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        with patch.object(self._tables, "end_of", self._end):
            return super().settle(reports)

    def _end(self, above: UUID) -> End | None:
        task: Task | None = self._tables.tasks.get(TaskId(above))
        return None if task is None or not task.state.final else End.COMPLETED


class ReplayRefused(MemoryStore):
    """Reporting the same end twice is answered as lost."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        task = self._tables.tasks.get(lease.task)
        if task is None or task.state is not State.LEASED:
            return LeaseLost(lease)
        return super()._settle(lease, settlement, now)


class WaitsNotCounted(MemoryStore):
    """The time series has no waits."""

    def series(self, queue: str | None, resolution: Resolution, since: Micros) -> list[Point]:
        return [replace(point, waited=0) for point in super().series(queue, resolution, since)]


class NewestDeadLetterOnly(MemoryStore):
    """The groups of dead letters count one task."""

    def dead_groups(self, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED) -> DeadGroups:
        found = super().dead_groups(queue=queue, tenant=tenant, limit=1)
        return DeadGroups(found.groups, complete=True)


class OutputAfterTheEnd(MemoryStore):
    """An attempt that has ended replaces the output of its end."""

    def record_output(self, outputs: Sequence[tuple[Lease, str]]) -> list[Lease]:
        for lease, text in outputs:
            if lease.task in self._tables.tasks:
                self._tables.outputs[lease.task][lease.fence] = text
        return super().record_output(outputs)


class OutputGoesWithAnEndWithoutOutput(MemoryStore):
    """An attempt that ends without output loses what it had printed."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        verdict = super()._settle(lease, settlement, now)
        if isinstance(verdict, Settled) and settlement.log is None:
            self._tables.outputs[lease.task].pop(lease.fence, None)
        return verdict


class PeriodForgotten(MemoryStore):
    """A unique task counts only while it is queued."""

    def _write_unique(self, matched: Matched, now: Micros) -> None:
        super()._write_unique(matched, now)
        self._tables.locks.update({lock: (one.id, now) for lock, one in matched.takes.items()})


class NotPutOff(MemoryStore):
    """An equal submit does not put off the queued task."""

    def _write_unique(self, matched: Matched, now: Micros) -> None:
        super()._write_unique(replace(matched, put_off={}), now)


class EventWithoutValue(MemoryStore):
    """An event loses the value that it is set to."""

    def set_event(
        self,
        workflow: str,
        event: str,
        value: str | None = None,
        *,
        tenant: str = "default",
        entries: Sequence[Entry] = (),
    ) -> EventSet:
        return super().set_event(workflow, event, tenant=tenant, entries=entries)


MUTANTS = [
    PeriodForgotten,
    NotPutOff,
    EventWithoutValue,
    OutputAfterTheEnd,
    OutputGoesWithAnEndWithoutOutput,
    NoFenceInSettle,
    NoSessionInSettle,
    SameFenceAgain,
    CrashesNotCounted,
    RenewalsIgnored,
    SharedChildCountedOnce,
    CancelledComesBack,
    CancelRequestForgotten,
    ExpiredStarts,
    CountsDrift,
    HalfABatch,
    AuditedWhenNothingChanged,
    ExpectationIgnored,
    LostWakeUp,
    RetryKeepsCounting,
    RestoreStartsAfresh,
    AttemptNotWritten,
    BadEndIgnored,
    ReplayRefused,
    WaitsNotCounted,
    NewestDeadLetterOnly,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_machine_catches(mutant: type[MemoryStore]) -> None:
    def opened(clock: ManualClock) -> Store:
        return mutant(clock=clock)

    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(lambda: StoreMachine(opened), settings=CATCH)
