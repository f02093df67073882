"""Mistakes planted into the simulated cluster: in its store, in the code of its nodes, and in its clients.

The numbers M1 to M16 are those of `tests/mutants/README.md`, N marks mistakes of a node. Those of the store are often
the classes with which `tests/properties` checks its own model test. Nothing here is reachable from `src`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tests.properties import test_model_mutants as model
from tests.simulation.run import Mutant
from tests.simulation.scheduler import SimulatedClock
from tests.simulation.store import Connection, SharedStore
from windlass.core.ids import fresh_id
from windlass.core.settlement import Settlement, lost
from windlass.core.task import Lease, NewTask, SessionId
from windlass.core.times import Micros
from windlass.stores.memory import MemoryStore
from windlass.stores.memory import sweep as memory_sweep
from windlass.stores.operator import Filter
from windlass.stores.protocol import Receipt, Verdict
from windlass.worker.crons import Crons
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.settler import Settler
from windlass.worker.sweeper import Sweeper


class AnswerBeforeCommit(SharedStore):
    """M3: a submit is answered, and then its commit fails."""

    def submit(self, tasks: Sequence[NewTask], **options: Any) -> list[Receipt]:
        receipts = super().submit(tasks, **options)
        fresh = [receipt.id for receipt in receipts if receipt.created]
        if self.clock._scheduler.random.random() < 0.05:
            for id in reversed(fresh):
                self.tables.remove(id)
        return receipts


class OneStatement(SharedStore):
    """M5: a settle uses the edges as they were before it waited for its locks."""

    def begin(self, method: str) -> Any:
        return {above: [*below] for above, below in self.tables.dependents.items()} if method == "settle" else None

    def execute(self, method: str, args: tuple[Any, ...], options: dict[str, Any], seen: Any = None) -> Any:
        if seen is None:
            return super().execute(method, args, options)
        with patch.object(self._tables, "dependents", seen):
            return super().execute(method, args, options)


class TransactionTime(SharedStore):
    """M7: a call uses the time at which its transaction began, as `now()` does."""

    def begin(self, method: str) -> Any:
        return self.clock.now()

    def execute(self, method: str, args: tuple[Any, ...], options: dict[str, Any], seen: Any = None) -> Any:
        if seen is None:
            return super().execute(method, args, options)
        frozen = patch.object(self, "_clock", _Frozen(seen))
        with frozen:
            return super().execute(method, args, options)


class _Frozen(SimulatedClock):
    def __init__(self, now: Micros) -> None:
        self._now = now

    def now(self) -> Micros:
        return self._now


class LossesNotCounted(SharedStore):
    """M9: an attempt whose node was lost is not recorded."""

    def sweep(self) -> Any:
        kept = {id: [*attempts] for id, attempts in self.tables.attempts.items()}
        swept = super().sweep()
        if swept.requeued:
            self.tables.attempts.clear()
            self.tables.attempts.update(kept)
        return swept


class ClosedDropsAll(SharedStore):
    """M11: a closed session does not give back what it held."""

    def close_session(self, session: SessionId) -> None:
        self.tables.held[session].clear()
        super().close_session(session)


class FiresAgain(SharedStore):
    """M12: a cron fires whatever fired before."""

    def fire(self, cron: str, nominal: Micros, *args: Any, **options: Any) -> list[Receipt] | None:
        known = self.tables.cron(cron)
        if not known.paused and known.fired is not None:
            self.tables.crons[cron] = replace(known, fired=min(known.fired, nominal - 1))
        return super().fire(cron, nominal, *args, **options)


class AuditOutside(SharedStore):
    """M14: the record of an attempt is written in a transaction of its own, which fails at times."""

    def _settle(self, lease: Lease, settlement: Settlement, now: Micros) -> Verdict:
        verdict = super()._settle(lease, settlement, now)
        if self.tables.attempts[lease.task] and self.clock._scheduler.random.random() < 0.1:
            self.tables.attempts[lease.task].pop()
        return verdict


class ExpiryForgotten(SharedStore):
    """X7: an expired task stays runnable, and can be claimed."""

    def claim(self, *args: Any, **options: Any) -> Any:
        expiring = {id: task for id, task in self.tables.tasks.items() if task.expires is not None}
        hidden = {id: replace(task, expires=None) for id, task in expiring.items()}
        self.tables.tasks.update(hidden)
        try:
            return super().claim(*args, **options)
        finally:
            for id, task in expiring.items():
                self.tables.tasks[id] = replace(self.tables.tasks[id], expires=task.expires)


def _in_store(kind: type[MemoryStore]) -> type[SharedStore]:
    """Return the simulated store with a mistake that was made for the memory store."""
    mixed: Any = type(kind.__name__, (kind, SharedStore), {})
    return mixed


def _planted(*patches: tuple[Any, str, Any]) -> Callable[[], Any]:
    @contextmanager
    def plant() -> Iterator[None]:
        before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
        try:
            for owner, name, value in patches:
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)

    return plant


_call = Connection._call
_task = Crons._task
_write = Settler._write
_process_exited = Dispatcher.process_exited
_matches = Filter.matches


def _submit_with_fresh_ids(self: Connection, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if name == "submit" and all(task.key is None for task in args[0]):
        random, now = self._network.scheduler.random, self._network.store.clock.now()
        args = ([replace(task, id=fresh_id(now, random.getrandbits(62))) for task in args[0]],)
    return _call(self, name, args, options)


def _task_without_key(self: Crons, cron: Any, nominal: Micros) -> NewTask:
    new = _task(self, cron, nominal)
    return replace(new, key=f"{new.key}#{self._clock.now()}")


def _drop_unwritten(self: Settler) -> bool:
    return _write(self) or True


def _charge_all(self: Dispatcher, worker: Any, code: int, now: float, why: str = "") -> None:
    with patch.object(Dispatcher, "_take_back", lambda *_: False):
        _process_exited(self, worker, code, now, why)


def _match_any_tenant(self: Filter, task: Any, now: Micros) -> bool:
    return _matches(replace(self, tenant=None), task, now)


def _lose_as_any_other(losses: int, *, at_most_once: bool = False) -> Settlement:
    return lost(losses)


def _ignore(*_args: object, **_options: object) -> None: ...


MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant("M1 no fence in settle", _in_store(model.NoFenceInSettle)),
        Mutant("M2 a fence that does not grow", _in_store(model.SameFenceAgain)),
        Mutant("M3 an answer before the commit", AnswerBeforeCommit),
        Mutant("M4 prerequisites read without a lock", _in_store(model.LostWakeUp)),
        Mutant("M5 settle and announce in one statement", OneStatement),
        Mutant("M7 the time at which the transaction began", TransactionTime),
        Mutant(
            "M8 a fresh id for every try of a submit", planted=_planted((Connection, "_call", _submit_with_fresh_ids))
        ),
        Mutant("M8 a claim of unknown outcome forgotten", planted=_planted((SessionKeeper, "retire", _ignore))),
        Mutant("M9 crashes not counted", _in_store(model.CrashesNotCounted)),
        Mutant("M9 losses not recorded", LossesNotCounted),
        Mutant("M10 a sweep that ignores renewals", _in_store(model.RenewalsIgnored)),
        Mutant("M11 a closed session that drops what it holds", ClosedDropsAll),
        Mutant(
            "M12 a cron that fires whatever fired before",
            FiresAgain,
            _planted((Crons, "_task", _task_without_key)),
        ),
        Mutant("M13 no tenant in filters", planted=_planted((Filter, "matches", _match_any_tenant))),
        Mutant("M14 the record in a transaction of its own", AuditOutside),
        Mutant("M15 a child shared by two parents of a batch counted once", _in_store(model.SharedChildCountedOnce)),
        Mutant("M16 a cancelled child resurrected", _in_store(model.CancelledComesBack)),
        Mutant("X3 a failed prerequisite taken for a completed one", _in_store(model.BadEndIgnored)),
        Mutant("X7 an expired task that can be claimed", ExpiryForgotten),
        Mutant("N1 a result of unknown outcome dropped", planted=_planted((Settler, "_write", _drop_unwritten))),
        Mutant(
            "N2 what a dead process had not started is charged",
            planted=_planted((Dispatcher, "process_exited", _charge_all)),
        ),
        Mutant(
            "N4 at_most_once forgotten when a node is lost",
            planted=_planted((memory_sweep, "lost", _lose_as_any_other)),
        ),
        Mutant("N3 nobody sweeps", planted=_planted((Sweeper, "step", lambda self: self._clock.sleep(1.0)))),
    )
}
