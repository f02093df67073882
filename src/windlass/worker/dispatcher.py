"""Who runs what on this node: the rules of the floor, without a socket, a thread or a store in sight.

The hub tells the crew what it hears and that time passes; the claimer hands it tasks. What the crew decides it says to
its `Outlet`: send this, fork, kill, settle. Every method is called under one lock; `now` is the machine's steady clock.
"""

from __future__ import annotations

import itertools
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from windlass.config import PoolSettings
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import AT_MOST_ONCE, Crashed, Outcome, Raised, Released, Stopped
from windlass.core.task import Claim, Lease, SessionId
from windlass.custom_decider import PoolSituation
from windlass.events import Events, PoolResized, WorkerParentFailed
from windlass.worker.pool import Pool
from windlass.worker.tickets import LEAVE
from windlass.worker.wire import (
    Call,
    Done,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Measure,
    Measured,
    ParentFailed,
    RequestStop,
    Run,
    ToWorker,
    Valid,
    outcome_of,
)
from windlass.worker.worker import ReadyTask, RunningAttempt, Worker, WorkerState

RECALL_AFTER_SECONDS = 1.0
"""How long an order may wait in a worker for its turn before it is taken back."""

TAKE_SECONDS = 0.05
"""How long a worker that has a free slot may take to begin an order."""

EXIT_SECONDS = 30.0
"""How long a worker that has nothing left to end may take to leave: what its stop hooks have."""

REAP_SECONDS = 1.0
"""How long a worker whose socket has closed may take to be reported dead."""


MeasuredListener: TypeAlias = Callable[[str, str, float | None, str], None]


class DispatcherActions(Protocol):
    """What the crew has done by others. None of it blocks."""

    def send(self, worker: Worker, message: ToWorker) -> None: ...
    def offer(self, worker: Worker, tickets: list[int]) -> bool: ...
    def take_back(self, worker: Worker) -> list[int]: ...
    def fork(self, worker: Worker) -> None: ...
    def kill(self, worker: Worker) -> None: ...
    def end_stray(self, pid: int) -> None: ...
    def memory(self, worker: Worker) -> int: ...
    def valid_until(self, session: SessionId) -> float: ...
    def settle(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None: ...
    def progress(self, lease: Lease, share: float | None, message: str | None) -> None: ...
    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None: ...


class Dispatcher:
    """All pools of a node and their workers."""

    def __init__(self, pools: Sequence[PoolSettings], outlet: DispatcherActions, events: Events) -> None:
        self.pools = {settings.name: Pool(settings) for settings in pools}
        self.workers: dict[int, Worker] = {}
        self.draining = False
        self.has_parent = False
        """Whether there is a nursery to fork from."""
        self.measured: MeasuredListener = lambda _pool, _name, _value, _error: None
        """Told when a worker has said what a signal is: pool, signal, value, or why there is none."""
        self._strays: dict[int, set[int]] = {}
        self._actions = outlet
        self._events = events
        self._numbers = itertools.count(1)
        self._tickets = itertools.count(1)

    @property
    def held(self) -> int:
        """How many tasks the crew has in its hands."""
        given = sum(len(worker.running) for worker in self.workers.values())
        return given + sum(len(pool.backlog) for pool in self.pools.values())

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to watch: every worker is idle, and there are as many as there shall be."""
        at_rest = all(pool.target - pool.asleep == len(pool.workers) for pool in self.pools.values())
        return at_rest and all(worker.state is WorkerState.IDLE for worker in self.workers.values())

    def all_have_backlog(self) -> bool:
        """Whether every worker that takes tasks has some more waiting for it."""
        working = [worker for worker in self.workers.values() if worker.takes]
        return bool(working) and all(worker.taken > worker.threads for worker in working)

    def sessions(self) -> set[SessionId]:
        """The sessions under which something is still in somebody's hands."""
        leases = [one.work.claim.lease for worker in self.workers.values() for one in worker.running.values()]
        leases += [work.claim.lease for pool in self.pools.values() for work in pool.backlog]
        return {lease.session for lease in leases}

    def measure(self, name: str, signal: str, situation: PoolSituation | None = None) -> bool:
        """Have a worker of the pool say what a signal is now, or what a decider answers; whether there is one."""
        takers = [worker for worker in self.pools[name].workers.values() if worker.takes]
        if takers:
            self._actions.send(
                min(takers, key=lambda worker: (worker.taken, worker.number)), Measure(signal, situation)
            )
        return bool(takers)

    def resize(self, name: str, size: int, why: str) -> None:
        """Give a pool another size; it is reached as workers start and end."""
        pool = self.pools[name]
        if size != pool.target:
            before, pool.target = pool.target, size
            self._events.emit(PoolResized(pool=name, before=before, after=size, why=why))

    # Handing out

    def assign(self, pool: Pool, work: Iterable[ReadyTask], now: float) -> None:
        """Give tasks to the pool's workers, the least loaded first."""
        parcels: dict[Worker, list[RunningAttempt]] = {}
        capacities, untils = pool.capacities(now), dict[SessionId, float]()
        for one in work:
            needs = self._slots_needed(pool, one.claim)
            session = one.claim.lease.session
            until = untils[session] = untils.get(session) or self._actions.valid_until(session)
            worker = None if self.draining or now >= until else pool.next_worker(needs, capacities)
            if worker is None:
                self._release(pool, one.claim)
                continue
            self._announce(worker, session, until)
            given = RunningAttempt(next(self._tickets), one, needs, now)
            worker.add(given, now)
            pool.counters.record_started(one.claim)
            parcels.setdefault(worker, []).append(given)
        for worker, orders in parcels.items():
            self._actions.send(worker, Run([(one.ticket, one.assignment) for one in orders]))
            self._offer(worker)

    def _offer(self, worker: Worker) -> None:
        tickets = worker.offers()
        if tickets and not self._actions.offer(worker, tickets):
            self._kill(worker, "was killed: it let its queue of tickets fill up")

    def _announce(self, worker: Worker, session: SessionId, until: float) -> None:
        """Tell a worker until when a session is valid, unless it knows."""
        if worker.announced.get(session) != until:
            worker.announced[session] = until
            self._actions.send(worker, Valid(session, until))

    def _slots_needed(self, pool: Pool, claim: Claim) -> int:
        """A task that was there when a process died runs alone, so that nobody else can be suspected in its place."""
        return pool.settings.threads if claim.task.crashes else claim.task.rules.slots

    # Hearing

    def receive(self, worker: Worker, message: FromWorker, now: float) -> None:
        """Act on a worker's message."""
        if worker.crash is not None:
            return
        worker.unresponsive = False
        match message:
            case Done():
                self._done(worker, message, now)
            case Heartbeat(ticket, share, text):
                given = worker.running.get(ticket)
                if given is not None:
                    given.beat_at = now
                    self._actions.progress(given.work.claim.lease, share, text)
            case Call(_, ticket):
                given = worker.running.get(ticket)
                self._actions.call(worker, given.work.claim.lease if given else None, message)
            case Hello(pid):
                worker.pid = worker.pid or pid
                if worker.state is WorkerState.STARTING:
                    self.pools[worker.pool].counters.worker_started(now - worker.since)
                    worker.move(WorkerState.IDLE, now)
            case ParentFailed(text):
                self._events.emit(WorkerParentFailed(why=text))
            case Measured(name, value, error):
                self.measured(worker.pool, name, value, error)

    def _done(self, worker: Worker, said: Done, now: float) -> None:
        given = worker.take(said.ticket, now)
        if given is None:
            if worker.verdict is None:  # Otherwise its session was lost, the task with it, and it is being killed.
                self.protocol_error(worker, f"the end of an order that it does not have ({said.ticket})", now)
            return
        outcome = outcome_of(said)
        if isinstance(outcome, Stopped):
            outcome = Stopped(given.stop, outcome.reason)
        self._offer(worker)
        worker.ran += 1
        pool = self.pools[worker.pool]
        if not isinstance(outcome, Released):
            pool.record_run_time(said.seconds)
        pool.reset_back_off()
        self._settle(pool, given.work.claim, outcome, said.seconds, said.log)
        if not worker.runs_left and not worker.running:
            self._upkeep(pool, now)

    def _take_back(self, worker: Worker, now: float) -> bool:
        """Take back what a worker has not begun; return True if it had a free slot for some of it.

        What it is left with has begun: it has taken the tickets.
        """
        tickets = self._actions.take_back(worker) + worker.withheld()
        given = [worker.running[ticket] for ticket in tickets if ticket in worker.running]
        idled = any(one.begun_at is not None and now - one.begun_at >= TAKE_SECONDS for one in given)
        for one in given:
            worker.take(one.ticket, now)
        for left in worker.running.values():
            left.taken_up = True
        self.pools[worker.pool].backlog.extend(one.work for one in given)
        return idled

    def socket_closed(self, worker: Worker, now: float) -> None:
        """Its socket has closed; how it ended is reported by the nursery."""
        worker.socket_closed_at = worker.socket_closed_at or now

    def protocol_error(self, worker: Worker, why: str, now: float) -> None:
        """Treat a message that breaks the protocol as a crash of the worker, and ignore what else it sends."""
        if worker.crash is None and worker.verdict is None:
            worker.crash = f"broke the protocol: {why}"
        self._actions.kill(worker)
        self.socket_closed(worker, now)

    def process_exited(self, worker: Worker, code: int, now: float, why: str = "") -> None:
        """Its process has ended: settle what it ran, hand on what it had not begun, replace it."""
        if worker.state.over:
            return
        pool = self.pools[worker.pool]
        left_well = worker.state is WorkerState.DRAINING and code == 0 and not worker.started
        how = why or worker.crash or worker.verdict or ("left" if left_well else _describe_exit(code))
        self._take_back(worker, now)
        for given in worker.running.values():
            seconds = now - (given.begun_at or now)
            self._settle(pool, given.work.claim, self._outcome_of_exit(worker, given, how), seconds)
        worker.running.clear()
        del self.workers[worker.number], pool.workers[worker.number]
        worker.move(WorkerState.STOPPED if left_well else WorkerState.FAILED, now, how)
        if (
            not left_well and worker.verdict is None and self.has_parent
        ):  # The nursery's own death puts off its own start.
            pool.back_off(now)
            pool.counters.deaths += 1
        self._clear_backlog(pool, now)

    def _outcome_of_exit(self, worker: Worker, given: RunningAttempt, how: str) -> Outcome:
        """What a worker's death means for what it ran: the reason for which it was killed, nothing, or a crash."""
        if given.verdict is not None:
            return given.verdict
        if worker.verdict is not None and given.work.claim.task.rules.at_most_once:
            return _interrupted(how)
        if worker.verdict is not None:
            return Released()  # An innocent neighbour of what was killed.
        kind = "OutOfMemory" if "memory" in how else "WorkerDied"
        return Crashed(Error(kind=kind, message=f"the worker process {how}"))

    # The passing of time

    def tick(self, now: float) -> None:
        """Look at every limit; start, retire and replace workers. Cheap enough for ten times a second."""
        for worker in list(self.workers.values()):
            if worker.socket_closed_at is not None and now - worker.socket_closed_at > REAP_SECONDS:
                self._actions.kill(worker)
                self.process_exited(worker, 0, now, worker.crash or "closed its socket")
                continue
            self._watch(worker, now)
        for pool in self.pools.values():
            self._upkeep(pool, now)
            self._clear_backlog(pool, now)
        self._end_strays()

    def found_strays(self, pids: Iterable[int]) -> None:
        """Handlers have left these processes without a parent. Any attempt that runs now may still need them."""
        tickets = {given.ticket for worker in self.workers.values() for given in worker.started}
        self._strays.update((pid, tickets) for pid in pids)

    def _end_strays(self) -> None:
        """End the strays that no attempt can need any more."""
        if self._strays:
            running = {ticket for worker in self.workers.values() for ticket in worker.running}
            for pid in [pid for pid, tickets in self._strays.items() if not tickets & running]:
                del self._strays[pid]
                self._actions.end_stray(pid)

    def _watch(self, worker: Worker, now: float) -> None:
        if worker.state is WorkerState.DRAINING and not worker.running and now - worker.busy_at > EXIT_SECONDS:
            self._kill(worker, "was killed: it did not leave")
        for session in list(worker.announced):
            if until := self._actions.valid_until(session):
                self._announce(worker, session, until)
            else:
                del worker.announced[session]
        for given in worker.started:
            if given.asked_at is None and given.expired(now):
                self._ask(worker, given, State.EXPIRED, now)
            cancelled = given.to_interrupt(now)
            if cancelled is not None:
                given.interrupted, given.softened = cancelled, True
                self._actions.send(worker, Interrupt(given.ticket, cancelled))
            outcome = given.overrun(now)
            if outcome is not None and worker.verdict is None:
                self._reclaim(worker, now)  # It may be that it never began.
                if given.ticket in worker.running:
                    given.verdict = outcome
                    self._kill(worker, f"was killed: {given.work.claim.task.handler} had overrun its limits")
        waiting = next((given for given in worker.running.values() if not given.taken_up), None)
        if waiting is not None and now - waiting.given_at > RECALL_AFTER_SECONDS:
            self._reclaim(worker, now)

    def _reclaim(self, worker: Worker, now: float) -> None:
        """Take back what should have begun by now. What the worker runs meanwhile is judged by its own limits."""
        if self._take_back(worker, now):
            worker.unresponsive = True
            if not worker.running:
                self._kill(worker, "was killed: it did not begin what it was given")

    def _upkeep(self, pool: Pool, now: float) -> None:
        for worker in pool.surplus():
            self.retire(worker, now, "the pool shrinks")
        for worker in pool.unneeded(now):
            pool.asleep += 1
            self.retire(worker, now, "had nothing to do for long")
        for worker in list(pool.workers.values()):
            if worker.state.working and (why := self._recycle_reason(pool, worker, now)):
                self.retire(worker, now, why)
        for _ in range(pool.missing(now) if self.has_parent and not self.draining else 0):
            worker = self._new_worker(pool.settings, now)
            self.workers[worker.number] = pool.workers[worker.number] = worker
            self._actions.fork(worker)

    def _new_worker(self, settings: PoolSettings, now: float) -> Worker:
        number = next(self._numbers)
        return Worker(number, settings.name, settings.threads, now, self._events, settings.recycle_after)

    def _recycle_reason(self, pool: Pool, worker: Worker, now: float) -> str | None:
        """Why a worker is to be replaced by a fresh one."""
        settings = pool.settings
        if not worker.runs_left and not worker.running:
            return f"ran {worker.ran} tasks"
        if worker.threads != settings.threads:
            return f"has {worker.threads} threads, and its pool now {settings.threads}"
        if settings.memory_limit is None or now - worker.measured_at < 1.0:
            return None
        worker.measured_at = now
        held = self._actions.memory(worker)
        return f"holds {held:,} bytes" if held > settings.memory_limit else None

    def _clear_backlog(self, pool: Pool, now: float) -> None:
        """Give what came back to whoever is free; the rest goes back to the store, where others may take it."""
        while pool.backlog:
            needs = self._slots_needed(pool, pool.backlog[0].claim)
            if self.draining or pool.next_worker(needs, {}, only_free=True) is None:
                break
            self.assign(pool, [pool.backlog.popleft()], now)
        while pool.backlog:
            self._release(pool, pool.backlog.popleft().claim)

    # Stopping

    def retire(self, worker: Worker, now: float, why: str) -> None:
        """Let a worker end what it has begun, and leave."""
        worker.move(WorkerState.DRAINING, now, why)
        self._take_back(worker, now)
        self._actions.offer(worker, [LEAVE])

    def cancel(self, leases: Iterable[Lease], now: float) -> None:
        """These are to be cancelled: ask their handlers to stop."""
        wanted = {(lease.task, lease.fence) for lease in leases}
        for worker in self.workers.values():
            for given in worker.running.values():
                lease = given.work.claim.lease
                if (lease.task, lease.fence) in wanted and given.asked_at is None:
                    self._ask(worker, given, State.CANCELLED, now)

    def drain(self, now: float) -> None:
        """Let every worker end what it has begun and leave; nothing new is taken."""
        self.draining = True
        for pool in self.pools.values():
            pool.target = 0
            self._upkeep(pool, now)
            self._clear_backlog(pool, now)

    def stop_now(self, why: str) -> None:
        """Kill every worker; what they ran is released and charged nothing."""
        for worker in self.workers.values():
            self._kill(worker, why)

    def drop_session(self, session: SessionId, why: str) -> None:
        """The session is lost, and with it every lease: stop what runs under it, and report none of it."""
        for pool in self.pools.values():
            pool.backlog = deque(work for work in pool.backlog if work.claim.lease.session != session)
        for worker in list(self.workers.values()):
            mine = [one for one in worker.running.values() if one.work.claim.lease.session == session]
            if mine:
                worker.forget(mine)
                self._kill(worker, why)

    def _ask(self, worker: Worker, given: RunningAttempt, stop: State, now: float) -> None:
        given.asked_at, given.stop = now, stop
        self._actions.send(worker, RequestStop(given.ticket))

    def _kill(self, worker: Worker, why: str) -> None:
        if worker.verdict is None:
            worker.verdict = why
            self._actions.kill(worker)

    def _release(self, pool: Pool, claim: Claim) -> None:
        self._settle(pool, claim, Released())

    def _settle(self, pool: Pool, claim: Claim, outcome: Outcome, seconds: float = 0.0, log: str | None = None) -> None:
        pool.counters.record_ended(claim, outcome, seconds)
        self._actions.settle(claim, outcome, seconds=seconds, log=log)


def _interrupted(how: str) -> Outcome:
    """The end of an attempt that may have begun, of a task that must not run again."""
    error = Error(kind="Interrupted", message=f"{AT_MOST_ONCE}: its process was ended ({how})")
    return Raised(error, give_up=True)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended by itself with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
