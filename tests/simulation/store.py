"""The simulated store: the real memory store behind connections that are slow, fail, or lose their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from tests.checker.records import Choice, Lost, Renewal, Transition
from tests.simulation.faults import Faults
from tests.simulation.scheduler import Host, Process, Scheduler, SimulatedClock, SimulatedEvent
from tests.support.builders import find_delays
from windlass.core.fairness import TENANT, decode_tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, decode_limit
from windlass.core.ordering import Strategy
from windlass.core.task import Claim, SessionId, Task, TaskId
from windlass.errors import CommitUnknown, StoreUnavailable
from windlass.stores.memory import MemoryStore
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import TaskReader

START = 1_800_000_000 * 1_000_000
"""The wall-clock time at which every run starts."""

READS = frozenset(dir(TaskReader)) | {"look", "crons_to_fire"}
"""The calls that change nothing, so that one without an answer has failed."""
LONGEST_DELAY = 4.0
"""Seconds after which a call of which nobody knows is committed, at the latest."""


class Violation(BaseException):
    """Something happened that must never happen. Not an `Exception`, which a node would survive."""


class WatchedTables(Tables):
    """Tables that record every change of a task, and check each lease when it is granted."""

    def __init__(self, store: SharedStore) -> None:
        super().__init__()
        self._store = store
        self.ended: set[TaskId] = set()
        """The tasks that have ended at least once. An operator may have retried them since."""

    def insert(self, initial: Any, fingerprint: bytes | None) -> None:
        super().insert(initial, fingerprint)
        if initial.task.state.final:
            self.ended.add(initial.task.id)
        self._store.record(None, initial.task)

    def move(self, id: TaskId, state: State, **changes: Any) -> Task:
        before = self.tasks[id]
        if state is State.LEASED and before.state is State.RUNNABLE:
            self._check_grant(before, changes["fence"])
        after = super().move(id, state, **changes)
        if after.state.final:
            self.ended.add(id)
        if before.state is not after.state or before.fence != after.fence:
            self._store.record(before, after)
        return after

    def _check_grant(self, task: Task, fence: int) -> None:
        """Raise `Violation` if this task must not start now. It does not use the columns that the store used."""
        now = self._store.clock.now()
        if fence <= task.fence:
            raise Violation(f"R3: task {task.id} got fence {fence} after {task.fence}")
        if task.cancel_requested:
            raise Violation(f"R11: task {task.id} was leased although its cancel was requested")
        if task.expires is not None and task.expires <= now:
            raise Violation(f"R12: task {task.id} was leased after it had expired")
        if task.due > now:
            raise Violation(f"R12: task {task.id} was leased before it was due")
        if self.queue(task.queue).is_paused(now):
            raise Violation(f"R11: task {task.id} was leased from a paused queue")
        for above, resolved in self.prerequisites.get(task.id, {}).items():
            if not resolved or (above in self.tasks and above not in self.ended):
                raise Violation(f"R6: task {task.id} was leased before its prerequisite {above} had ended")
        self._store.check_limits(task)


class WorkSignal:
    """Stands in for the condition of the memory store: wakes up the claimers that wait for work."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Process] = deque()

    def notify_all(self) -> None:
        while self._waiting:
            self._scheduler.wake(self._waiting.popleft())

    def wait(self, seconds: float) -> bool:
        """Let the current process wait for work."""
        return self._scheduler.wait(self._waiting, seconds)


class SharedStore(MemoryStore):
    """The database of all nodes and clients, and the record of what happened in it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.clock = SimulatedClock(scheduler, START)
        super().__init__(clock=self.clock)
        self._tables = WatchedTables(self)
        self._work: Any = WorkSignal(scheduler)
        self.work: WorkSignal = self._work
        self.records: list[Any] = []
        self.transaction = 0

    @property
    def tables(self) -> WatchedTables:
        tables: Any = self._tables
        return tables

    def begin(self, method: str) -> Any:
        """Return what a call has seen of the store before it waits for its turn: nothing. Mutants do otherwise."""

    def execute(self, method: str, args: tuple[Any, ...], options: dict[str, Any], seen: Any = None) -> Any:
        """Run one call as one transaction."""
        self.transaction += 1
        return getattr(self, method)(*args, **options)

    def record(self, before: Task | None, task: Task) -> None:
        """Record a change of a task."""
        now = self.clock.now()
        is_retrying = task.state is State.RETRYING
        change = Transition(
            at=now / 1e6,
            transaction=self.transaction,
            task=str(task.id),
            before="" if before is None else before.state.value,
            after=task.state.value,
            fence=task.fence,
            session="" if task.session is None else str(task.session),
            generation=task.generation,
            due=task.due / 1e6,
            attempts=task.attempts,
            retry=find_delays(task.rules.retry, task.attempts) if is_retrying else (0.0, 0.0),
        )
        self.records.append(change)

    def check_limits(self, task: Task) -> None:
        """Raise `Violation` if this task starts beyond a limit, counted from the leases themselves."""
        leased = [one for one in self.tables.tasks.values() if one.state is State.LEASED]
        for (kind, name), control in self.tables.controls.items():
            if kind == TENANT and name == task.tenant and decode_tenant(control.value).is_paused(self.clock.now()):
                raise Violation(f"P11: task {task.id} was leased although its tenant {name} is paused")
            limit = decode_limit(control.value) if kind == LIMIT else None
            if limit is not None and limit.queue == task.queue and limit.max_running is not None:
                running = sum(one.queue == task.queue for one in leased)
                _check_limit(task, name, running, limit.max_running)
        if task.rules.limit is not None and task.rules.max_running is not None:
            running = sum(one.rules.limit == task.rules.limit for one in leased)
            _check_limit(task, task.rules.limit, running, task.rules.max_running)

    def claim(self, session: SessionId, queues: Sequence[str], limit: int, **options: Any) -> list[Claim]:
        claims = super().claim(session, queues, limit, **options)
        self._record_choice(claims, options)
        return claims

    def _record_choice(self, claims: Sequence[Claim], options: dict[str, Any]) -> None:
        """Record what a claim has passed over, if only the priority decided."""
        serves = options["serves"]
        for queue in sorted({claim.queue for claim in claims}):
            settings = self.tables.queue(queue)
            held_back = any(kind in (LIMIT, TENANT) for kind, _ in self.tables.controls)
            if held_back or settings.fair or settings.strategy is not Strategy.PRIORITY:
                continue
            now, tables = self.clock.now(), self.tables
            left = [
                task.priority
                for task in tables.tasks.values()
                if task.state is State.RUNNABLE
                and task.queue == queue
                and task.rules.limit is None
                and (task.expires is None or task.expires > now)
                and serves.can_run(task.handler, task.rules)
            ]
            taken = tuple(tables.tasks[claim.id].priority for claim in claims if claim.queue == queue)
            self.records.append(Choice(at=now / 1e6, queue=queue, taken=taken, left=tuple(left)))

    def open_session(self, node: str, *args: Any, **options: Any) -> SessionId:
        session = super().open_session(node, *args, **options)
        self._record_renewal(session)
        return session

    def renew(self, session: SessionId, **options: Any) -> Any:
        cancelled = super().renew(session, **options)
        self._record_renewal(session)
        return cancelled

    def sweep(self) -> Any:
        alive = [id for id, session in self.tables.sessions.items() if not session.lost]
        swept = super().sweep()
        for id in alive:
            if self.tables.sessions[id].lost:
                self.records.append(Lost(session=str(id), at=self.clock.now() / 1e6))
        if swept.healed or swept.cycles:
            raise Violation(f"R8: a sweep had to repair the graph: {swept}")
        return swept

    def _record_renewal(self, session: SessionId) -> None:
        now = self.clock.now()
        until = now + self.tables.sessions[session].ttl
        self.records.append(Renewal(session=str(session), at=now / 1e6, until=until / 1e6))


def _check_limit(task: Task, name: str, running: int, most: int) -> None:
    if running >= most:
        raise Violation(f"limit: task {task.id} was leased while {running} of at most {most} ran ({name})")


class Network:
    """The way from every host to the store, and what is wrong with it at the moment."""

    def __init__(self, scheduler: Scheduler, store: SharedStore, faults: Faults) -> None:
        self.scheduler = scheduler
        self.store = store
        self.faults = faults
        self.down_until = 0
        """Until when the store is unavailable for everyone."""
        self.cut_until: dict[str, int] = {}
        """Until when the store is unavailable for one host."""
        self.calls = 0

    def happens(self, kind: str) -> bool:
        """Draw whether a fault happens now."""
        if self.scheduler.now >= self.faults.until:
            return False
        chance = self.faults.chance(kind)
        return chance > 0 and self.scheduler.random.random() < chance

    def is_cut(self, host: Host) -> bool:
        """Return True if the host cannot reach the store now."""
        return self.scheduler.now < max(self.down_until, self.cut_until.get(host.name, 0))


def _draw_latency(random: Random) -> float:
    """Return the seconds for one way to the store: usually few, at times many, so that calls overtake each other."""
    return random.uniform(0.0001, 0.001) if random.random() < 0.85 else random.uniform(0.001, 0.05)


class Connection:
    """The store as one process sees it. Every call takes time, and may fail before or after it was committed."""

    def __init__(self, network: Network, host: Host) -> None:
        self.unresolved = SimulatedEvent(network.scheduler)
        self._network = network
        self._host = host
        self._closed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            return self._call(name, args, options)

        self.__dict__[name] = call
        return call

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        network = self._network
        token = network.store.tables.next_token
        seconds = timeout.total_seconds()
        if token is not None:
            seconds = min(seconds, max(0, token - network.store.clock.now()) / 1e6)
        woken = network.store.work.wait(max(seconds, 1e-6))
        return (woken and not network.happens("lost_hints")) or token is not None

    def close(self) -> None:
        self._closed = True

    def _call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        network, scheduler = self._network, self._network.scheduler
        random = scheduler.random
        network.calls += 1
        if self._closed:
            raise StoreUnavailable("the store is closed")
        seen = network.store.begin(name)
        scheduler.sleep(_draw_latency(random))
        if network.happens("slow_store"):
            scheduler.sleep(random.uniform(0.05, 1.5))
        if network.is_cut(self._host):
            scheduler.sleep(random.uniform(0.01, 0.5))
            raise StoreUnavailable(f"no connection for {name}")
        if network.happens("refused"):
            raise StoreUnavailable(f"refused {name}")
        if name not in READS and network.happens("late_commits"):
            delay = random.uniform(0.001, random.choice((0.1, 1.0, LONGEST_DELAY)))
            scheduler.call_after(delay, lambda: self._execute_late(name, args, options))
            scheduler.sleep(random.uniform(0.001, 0.5))
            raise CommitUnknown(f"no answer to {name}, which may be committed later")
        answer = network.store.execute(name, args, options, seen)
        if network.happens("lost_answers") or (scheduler.now < network.faults.until and network.is_cut(self._host)):
            scheduler.sleep(random.uniform(0.001, 0.3))
            raise (StoreUnavailable if name in READS else CommitUnknown)(f"no answer to {name}")
        scheduler.sleep(_draw_latency(random))
        return answer

    def _execute_late(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        from windlass.errors import WindlassError

        try:
            self._network.store.execute(name, args, options)
        except WindlassError:
            return  # The caller has given up.
