"""The sweep of the memory store.

It does in one pass what the SQL stores do in chunks. The order of the steps is the same.
"""

from __future__ import annotations

from uuid import UUID

from windlass.core.fingerprint import error_group
from windlass.core.graph import End, find_any_cycle
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.settlement import CANCEL_OVERDUE, lost
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.errors import CycleFound
from windlass.stores.coordination import AUDIT_KEPT
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.graph import resolve, resolve_edges
from windlass.stores.memory.series import roll_up
from windlass.stores.memory.settle import end_attempt
from windlass.stores.memory.tables import Tables
from windlass.stores.memory.waits import end_wait
from windlass.stores.protocol import Swept


class MemorySweep(MemoryBase):
    """Do what time requires: lost sessions, due tasks, expiry, forced cancels, pruning."""

    def sweep(self) -> Swept:
        with self._lock:
            now = self._clock.now()
            roll_up(self._tables, now, self._series_kept)
            swept = _sweep(self._tables, now, self._retention)
            if not swept.quiet:
                self._work.notify_all()
            return swept


def _sweep(tables: Tables, now: Micros, retention: Micros) -> Swept:
    _forget_audit(tables, now - micros(AUDIT_KEPT))
    _forget_accounts(tables, now)
    _forget_locks(tables, now)
    return Swept(
        lost_sessions=_mark_lost_sessions(tables, now),
        requeued=_requeue_lost(tables, now),
        cancelled=_force_cancels(tables, now),
        expired=_expire(tables, now),
        due=_make_due_runnable(tables, now),
        missing=_end_placeholders(tables, now),
        cycles=_fail_cycles(tables, now),
        pruned=_prune(tables, now - retention),
        next_due=(tables.next_due() or (None,))[0],
    )


def _forget_locks(tables: Tables, now: Micros) -> None:
    for lock, (id, until) in [*tables.locks.items()]:
        if until <= now and (id not in tables.tasks or tables.tasks[id].state is State.COMPLETED):
            del tables.locks[lock]


def _mark_lost_sessions(tables: Tables, now: Micros) -> int:
    for session in tables.sessions.values():
        if not session.lost and session.renewed - session.ttl > now:
            session.renewed = now  # The clock was set back. A dead session would keep its leases until then.
    lost = [s for s in tables.sessions.values() if not s.lost and s.renewed + s.ttl < now]
    for session in lost:
        session.lost = True
    return len(lost)


def _requeue_lost(tables: Tables, now: Micros) -> int:
    gone = [id for id, session in tables.sessions.items() if session.lost]
    tasks = [tables.tasks[id] for session in gone for id in tables.held[session]]
    for task in tasks:
        end_attempt(tables, task, lost(task.losses, at_most_once=task.rules.at_most_once), now)
    resolve(tables, [task.id for task in tasks], now)
    return len(tasks)


def _force_cancels(tables: Tables, now: Micros) -> int:
    late = [id for id, by in tables.cancel_by.items() if by <= now]
    for id in late:
        task = tables.tasks[id]
        end_attempt(tables, task, CANCEL_OVERDUE, now)
        # Raise the fence, so that the attempt can no longer report anything if it is still running.
        tables.change(id, fence=task.fence + 1)
    resolve(tables, late, now)
    return len(late)


def _expire(tables: Tables, now: Micros) -> int:
    expired: list[TaskId] = []
    while (id := tables.next_expired(now)) is not None:
        tables.move(id, State.EXPIRED, finished=now, reason=EXPIRED)
        expired.append(id)
    resolve(tables, expired, now)
    return len(expired)


def _make_due_runnable(tables: Tables, now: Micros) -> int:
    moved, over = 0, list[TaskId]()
    while (due := tables.next_due()) is not None and due[0] <= now:
        if tables.tasks[due[1]].wait is None:
            tables.move(due[1], State.RUNNABLE)
        else:
            end_wait(tables, due[1], now)
            over.append(due[1])
        moved += 1
    resolve(tables, over, now)
    return moved


def _end_placeholders(tables: Tables, now: Micros) -> int:
    late = [id for id, placeholder in tables.placeholders.items() if placeholder.expires <= now]
    for id in late:
        del tables.placeholders[id]
    resolve_edges(tables, [(id, End.MISSING) for id in late], now)
    return len(late)


def _fail_cycles(tables: Tables, now: Micros) -> int:
    failed = 0
    for id, workflow in tables.workflows.items():
        while workflow.check_later and (members := find_any_cycle(_open_edges(tables, id))):
            reason = str(CycleFound(members))
            for member in members:
                tables.error_groups[member] = error_group(None, reason)
                tables.point(tables.tasks[member].queue, now).failed += 1
                tables.move(member, State.FAILED, finished=now, reason=reason)
            resolve(tables, members, now)
            failed += len(members)
        workflow.check_later = False
    return failed


def _open_edges(tables: Tables, workflow: UUID) -> dict[TaskId, list[TaskId]]:
    return {
        id: [TaskId(above) for above, resolved in tables.prerequisites.get(id, {}).items() if not resolved]
        for id in tables.members[workflow]
        if tables.tasks[id].state is State.WAITING
    }


def _prune(tables: Tables, limit: Micros) -> int:
    """Remove old finished tasks, except dead letters and the tasks of workflows that have not ended."""
    tasks = tables.tasks
    busy = {w for w, members in tables.members.items() if any(not tasks[id].state.final for id in members)}
    kept = {id for workflow in busy for id in tables.members[workflow]}
    old = [
        task.id
        for task in tasks.values()
        if task.finished is not None
        and task.finished < limit
        and task.state is not State.FAILED
        and task.id not in kept
    ]
    for id in old:
        tables.remove(id)
    return len(old)


def _forget_audit(tables: Tables, limit: Micros) -> None:
    """Remove old audit entries. The first entry is the oldest, so it decides whether there is anything to do."""
    if tables.audit and tables.audit[0].at < limit:
        tables.audit = [entry for entry in tables.audit if entry.at >= limit]


def _forget_accounts(tables: Tables, now: Micros) -> None:
    """Forget buckets that are full, and the accounts of tenants that have had no tasks for a while."""
    tables.full_at = {name: at for name, at in tables.full_at.items() if at > now}
    for queue, accounts in tables.accounts.items():
        floor = accounts[""].charged if "" in accounts else 0
        idle = [one for one in accounts.values() if one.tenant and one.tenant not in tables.active[queue]]
        for account in idle:
            if account.is_forgettable(floor, now):
                del accounts[account.tenant]
