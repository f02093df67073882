"""Decides which worker of this node runs which task. It does no I/O and starts no threads.

The socket hub passes it messages and ticks; the claimer passes it tasks. It acts through its collaborators: the hub as
its `Transport`, the settler, the breakers, the session keeper and the handler calls. Every method is called under one
lock. `now` is the node's monotonic clock.
"""

from __future__ import annotations

import itertools
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from windlass.config import PoolSettings
from windlass.core.lifecycle import State
from windlass.core.payload import MAX_BYTES
from windlass.core.retry import Error, storable
from windlass.core.settlement import AT_MOST_ONCE, Crashed, Outcome, Raised, Released, Returned, Settlement, Stopped
from windlass.core.task import Claim, Lease, SessionId
from windlass.custom_decider import PoolSituation
from windlass.events import Events, HandlerWaits, PoolResized, TaskBounced, WorkerParentFailed
from windlass.worker.breakers import Breakers
from windlass.worker.call_queue import CallScope
from windlass.worker.end_checks import find_fault, make_storable
from windlass.worker.pool import Pool
from windlass.worker.tickets import EXIT_TICKET
from windlass.worker.wire import (
    Call,
    Done,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Measure,
    Measured,
    Output,
    ParentFailed,
    RequestStop,
    ToWorker,
    Valid,
    Waiting,
    decode_outcome,
)
from windlass.worker.worker import RunningAttempt, Worker, WorkerState

RECALL_AFTER_SECONDS = 1.0
"""How long an assignment may wait in a worker for its turn before it is taken back."""

RELIEVE_AFTER_SECONDS = 0.1
"""How long an attempt may run before what waits behind it is taken back."""

CANCEL_SECONDS = 2.0
"""How long an attempt that has overrun its limits may take to end when it is cancelled. Its worker runs others too."""

TAKE_SECONDS = 0.05
"""How long a worker that has a free slot may take to start an assignment."""

EXIT_SECONDS = 30.0
"""How long a worker without attempts may take to exit. Its stop hooks run in this time."""

REAP_SECONDS = 1.0
"""How long after its socket closed a worker may take to be reported dead."""


MAX_UNANSWERED = 3
"""How often a worker is asked for a signal that it does not answer."""

_RETURNED = Returned()

MeasuredListener: TypeAlias = Callable[[str, str, float | None, str], None]


class Transport(Protocol):
    """The way to the worker processes. No method blocks."""

    def send(self, worker: Worker, message: ToWorker) -> None: ...
    def run(self, worker: Worker, session: SessionId, until: float, attempts: Sequence[RunningAttempt]) -> None: ...
    def offer(self, worker: Worker, tickets: list[int]) -> bool: ...
    def take_back(self, worker: Worker) -> list[int]: ...
    def fork(self, worker: Worker) -> None: ...
    def kill(self, worker: Worker) -> None: ...
    def end_stray(self, pid: int) -> None: ...
    def memory(self, worker: Worker) -> int: ...


class Results(Protocol):
    """Takes the outcomes of attempts; `windlass.worker.settler.Settler` in a node."""

    def put(self, pool: str, claim: Claim, outcome: Outcome, seconds: float, log: str | None) -> Settlement: ...
    def put_completed(self, pool: str, ended: Sequence[tuple[Claim, float]]) -> None: ...


class Sessions(Protocol):
    """Knows how long sessions are valid; `windlass.worker.session_keeper.SessionKeeper` in a node."""

    def valid_until(self, session: SessionId) -> float: ...


class Calls(Protocol):
    """Serves what handlers ask of the store; `windlass.worker.handler_calls.HandlerCalls` in a node."""

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None: ...
    def output(self, worker: Worker, ticket: int) -> None: ...
    def call(self, worker: Worker, scope: CallScope, call: Call) -> None: ...


class Dispatcher:
    """All pools of a node and their workers."""

    def __init__(
        self,
        pools: Sequence[PoolSettings],
        transport: Transport,
        results: Results,
        breakers: Breakers,
        sessions: Sessions,
        calls: Calls,
        events: Events,
    ) -> None:
        self.pools = {settings.name: Pool(settings) for settings in pools}
        self.workers: dict[int, Worker] = {}
        self.draining = False
        self.has_parent = False
        """Whether there is a worker parent to fork from."""
        self.max_result_bytes = MAX_BYTES
        """The largest result that the app allows."""
        self.on_measured: MeasuredListener = lambda _pool, _name, _value, _error: None
        """Called with the value of a signal that a worker has measured: pool, signal, value or None, error."""
        self._waited: set[str] = set()
        """The handlers that have waited for another task."""
        self._strays: dict[int, set[int]] = {}
        self._transport = transport
        self._results = results
        self._breakers = breakers
        self._shut: tuple[str, ...] = ()
        """The downstreams for which no waiting task is kept: what `Breakers.shut` was at the last look."""
        self._sessions = sessions
        self._calls = calls
        self._events = events
        self._numbers = itertools.count(1)
        self._tickets = itertools.count(1)

    @property
    def held(self) -> int:
        """How many tasks workers and backlogs hold."""
        return sum(pool.assigned for pool in self.pools.values())

    @property
    def running(self) -> int:
        """How many tasks have started in workers and not ended."""
        return sum(len(worker.started) for worker in self.workers.values())

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to watch: every worker is idle, and every pool has its size."""
        at_size = all(pool.wanted - pool.asleep == len(pool.workers) for pool in self.pools.values())
        return at_size and all(worker.state is WorkerState.IDLE for worker in self.workers.values())

    def all_have_backlog(self) -> bool:
        """Return True if every worker that takes tasks has more of them waiting."""
        working = [worker for worker in self.workers.values() if worker.takes]
        return bool(working) and all(worker.taken > worker.threads for worker in working)

    def sessions(self) -> set[SessionId]:
        """Return the sessions under which workers or backlogs hold a task."""
        leases = [one.claim.lease for worker in self.workers.values() for one in worker.running.values()]
        leases += [one.claim.lease for pool in self.pools.values() for one in pool.backlog]
        return {lease.session for lease in leases}

    def measure(self, name: str, signal: str, situation: PoolSituation | None = None) -> bool:
        """Ask a worker of the pool for a signal, or for a decider's answer. Return False without a worker."""
        workers = self.pools[name].workers.values()
        takers = [worker for worker in workers if worker.takes and worker.asked[signal] < MAX_UNANSWERED]
        if takers:
            least_loaded = min(takers, key=lambda worker: (worker.taken, worker.number))
            least_loaded.asked[signal] += 1
            self._transport.send(least_loaded, Measure(signal, situation))
        return bool(takers)

    def resize(self, name: str, size: int, why: str) -> None:
        """Set the size of a pool. Workers start and exit until it is reached."""
        pool = self.pools[name]
        if size != pool.target:
            before, pool.target, pool.resized_because = pool.target, size, why
            self._events.emit(PoolResized(pool=name, before=before, after=size, why=why))

    # Assigning

    def assign(
        self,
        pool: Pool,
        claims: Sequence[Claim],
        claimed_at: float,
        now: float,
        *,
        only_room: bool = False,
        holds: bool = False,
    ) -> None:
        """Give tasks of one claim to the workers of the pool, the least loaded first. Release what cannot run here.

        A task that needs several slots goes to a worker that has them free, because it would hold up what comes after
        it. With `holds`, the first one need not.
        """
        session = claims[0].lease.session
        until = self._sessions.valid_until(session)
        if self.draining or now >= until:
            for claim in claims:
                self._settle(pool, claim, Released())
            return
        loads, tickets, shut = pool.loads(now), self._tickets, self._breakers.shut
        assigned: dict[Worker, list[RunningAttempt]] = {}
        for claim in claims:
            if shut and self._breakers.forbids(claim):
                self._settle(pool, claim, Released())
                continue
            slots = pool.count_slots(claim)
            must_fit = claim.rules.slots > 1 and not claim.crashes and not holds
            holds = holds and slots == 1
            worker = loads.take(slots, only_room=only_room, only_free=must_fit)
            if worker is None:
                self._settle(pool, claim, Released())
            else:
                attempt = RunningAttempt(claim, next(tickets), slots, claimed_at, now)
                assigned.setdefault(worker, []).append(attempt)
        for worker, attempts in assigned.items():
            worker.add(attempts, now)
            worker.announced[session] = until
            pool.counters.record_started([one.claim for one in attempts])
            self._transport.run(worker, session, until, attempts)
            self._offer(worker, now)

    def refuse(self, pool: Pool, claim: Claim, outcome: Outcome) -> None:
        """Settle a claimed task that cannot be assigned. Its downstream was not called."""
        self._breakers.record_end(claim, Released())
        pool.record_ended(claim, self._results.put(pool.settings.name, claim, outcome, 0.0, None), 0.0)

    def _release_shut(self, now: float) -> None:
        """Release the tasks that wait in workers for a downstream whose breaker has opened since the last look."""
        opened, self._shut = {*self._breakers.shut} - {*self._shut}, self._breakers.shut
        if opened:
            for worker in self.workers.values():
                if worker.has_waiting and any(one.claim.rules.downstream in opened for one in worker.running.values()):
                    self._take_back(worker, now)
            for pool in self.pools.values():
                self._clear_backlog(pool, now)

    def _offer(self, worker: Worker, now: float) -> None:
        tickets = worker.next_offers()
        if tickets and not self._transport.offer(worker, tickets):  # A pool never has this many tasks waiting.
            self.protocol_error(worker, "bytes that fill its queue of tickets", now)

    def _announce(self, worker: Worker, session: SessionId, until: float) -> None:
        """Send the worker the end of a session's validity, unless it has it."""
        if worker.announced.get(session) != until:
            worker.announced[session] = until
            self._transport.send(worker, Valid(session, until))

    # Messages and exits

    def receive(self, worker: Worker, messages: Sequence[FromWorker], now: float) -> None:
        """Act on messages of a worker, in their order. Ends in a row are settled together."""
        for kind, group in itertools.groupby(messages, type):
            if worker.crash is not None:
                return
            worker.unresponsive = False
            if kind is Done:
                self._end(worker, [message for message in group if isinstance(message, Done)], now)
            else:
                for message in group:
                    self._act_on(worker, message, now)

    def _act_on(self, worker: Worker, message: FromWorker, now: float) -> None:
        match message:
            case Heartbeat(ticket, share, text):
                attempt = worker.running.get(ticket)
                if attempt is not None:
                    attempt.progress_at = now
                    self._calls.progress(attempt.claim.lease, share, text)
            case Output(ticket, text):
                attempt = worker.running.get(ticket)
                if attempt is not None:
                    attempt.output = storable(text)
                    self._calls.output(worker, ticket)
            case Waiting(ticket, waits):
                self._record_waiting(worker, worker.running.get(ticket), waits)
            case Call(_, ticket):
                attempt = worker.running.get(ticket)
                tenants = {one.claim.lease: one.claim.tenant for one in worker.running.values()}
                self._calls.call(worker, CallScope(attempt.claim.lease if attempt else None, tenants), message)
            case Hello():
                if worker.state is WorkerState.STARTING:
                    self.pools[worker.pool].counters.record_worker_start(now - worker.since)
                    worker.move(WorkerState.IDLE, now)
            case ParentFailed(text) if worker.state is WorkerState.STARTING:
                self._events.emit(WorkerParentFailed(why=text))
            case ParentFailed():
                self.protocol_error(worker, "the failure of a start hook, although it has started", now)
            case Measured(name, value, error):
                self._record_measured(worker, name, value, error, now)
            case Done():
                raise AssertionError("ends are settled together")

    def _record_waiting(self, worker: Worker, attempt: RunningAttempt | None, waits: bool) -> None:
        """Record that an attempt waits for another task, so that a stand-in for its worker starts."""
        if attempt is None or attempt.waits == waits:
            return
        attempt.waits = waits
        worker.waiting += 1 if waits else -1
        handler = attempt.claim.handler
        if waits and handler not in self._waited:
            self._waited.add(handler)
            self._events.emit(HandlerWaits(lease=attempt.claim.lease, handler=handler, pool=worker.pool))

    def _record_measured(self, worker: Worker, name: str, value: float | None, error: str, now: float) -> None:
        if worker.asked[name] < 1:
            self.protocol_error(worker, f"the value of a signal that it was not asked for ({name!r:.100})", now)
            return
        worker.asked[name] -= 1
        self.on_measured(worker.pool, name, value, storable(error))

    def complete(self, worker: Worker, ended: Sequence[tuple[int, float]], now: float) -> None:
        """Settle attempts that returned without a result, by ticket, with the seconds that each ran."""
        if worker.crash is not None:
            return
        worker.unresponsive = False
        if worker.kill_reason is not None:  # Its session may have been lost, and its attempts with it.
            ended = [end for end in ended if end[0] in worker.running]
        attempts = worker.remove([ticket for ticket, _ in ended], now)
        if attempts:
            self._settle_completed(worker, attempts, [seconds for _, seconds in ended[: len(attempts)]], now)
        if len(attempts) < len(ended):
            self._report_unknown(worker, ended[len(attempts)][0], now)

    def _settle_completed(
        self, worker: Worker, attempts: Sequence[RunningAttempt], seconds: Sequence[float], now: float
    ) -> None:
        pool, claims = self.pools[worker.pool], [one.claim for one in attempts]
        pool.record_completed(claims, seconds)
        for claim in claims:
            if claim.rules.downstream is not None:
                self._breakers.record_end(claim, _RETURNED)
        self._results.put_completed(pool.settings.name, list(zip(claims, seconds, strict=True)))
        self._on_ended(worker, pool, len(claims), now)

    def _end(self, worker: Worker, ended: Sequence[Done], now: float) -> None:
        """Settle attempts that ended in any way, up to the first end that is invalid."""
        if worker.kill_reason is not None:
            ended = [done for done in ended if done.ticket in worker.running]
        faults = ((place, find_fault(done, self.max_result_bytes)) for place, done in enumerate(ended))
        place, fault = next(((place, fault) for place, fault in faults if fault is not None), (len(ended), None))
        ended = ended[:place]
        attempts = worker.remove([done.ticket for done in ended], now)
        pool = self.pools[worker.pool]
        for attempt, done in zip(attempts, map(make_storable, ended), strict=False):
            outcome = decode_outcome(done)
            if attempt.outcome is not None and not isinstance(outcome, Returned):
                outcome = attempt.outcome  # It was cancelled because of its limits.
            elif isinstance(outcome, Stopped):
                outcome = Stopped(attempt.stop_state, outcome.reason)
            if not isinstance(outcome, Released):
                pool.record_run_time(done.seconds)
            elif outcome.delay:
                bounced = TaskBounced(
                    lease=attempt.claim.lease, handler=attempt.claim.handler, again_in=outcome.delay / 1e6
                )
                self._events.emit(bounced)
            self._settle(pool, attempt.claim, outcome, done.seconds, done.log or attempt.output)
        if attempts:
            self._on_ended(worker, pool, len(attempts), now)
        if len(attempts) < len(ended):
            self._report_unknown(worker, ended[len(attempts)].ticket, now)
        elif fault is not None:
            self.protocol_error(worker, fault, now)

    def _on_ended(self, worker: Worker, pool: Pool, attempts: int, now: float) -> None:
        """Record that a worker has ended attempts, and offer it what it has slots for now."""
        worker.ran += attempts
        pool.reset_back_off()
        if self._breakers.shut != self._shut:
            self._release_shut(now)
        self._offer(worker, now)
        if not worker.runs_left and not worker.running:
            self._maintain(pool, now)

    def _report_unknown(self, worker: Worker, ticket: int, now: float) -> None:
        self.protocol_error(worker, f"the result of an attempt that it does not have ({ticket})", now)

    def _take_back(self, worker: Worker, now: float) -> bool:
        """Take back what a worker has not started. Return True if it had a free slot for some of it."""
        return self._withdraw(worker, self._transport.take_back(worker), now)

    def _relieve(self, worker: Worker, now: float) -> None:
        """Take back what waits in a worker behind attempts that take long."""
        tickets = self._transport.take_back(worker)
        if any(ticket in worker.running and worker.running[ticket].started_at is not None for ticket in tickets):
            # It may not have started what we think runs long. `RECALL_AFTER_SECONDS` decides about that.
            self._transport.offer(worker, tickets)
        else:
            self._withdraw(worker, tickets, now)

    def _relieve_blocked(self, worker: Worker, now: float) -> None:
        """Take back a `def` task that waits for the `async def` tasks of a worker, if another worker is idle.

        Without one it is released after some time, so that another node can run it.
        """
        blocked = worker.blocked
        if blocked is None or now - blocked.assigned_at < RELIEVE_AFTER_SECONDS:
            return
        pool = self.pools[worker.pool]
        if pool.has_idle_worker():
            self._take_back(worker, now)
        elif now - blocked.assigned_at >= pool.hold_for_def:
            pool.skip_def_tasks(now)
            self._take_back(worker, now)

    def _withdraw(self, worker: Worker, tickets: list[int], now: float) -> bool:
        """Move attempts that a worker cannot start any more to the backlog. Return True if it had a free slot for some.

        What the worker keeps has started: it has taken the tickets.
        """
        found = (worker.running.get(ticket) for ticket in tickets + worker.withdraw_unoffered())
        unstarted = [one for one in found if one is not None]
        stalled = any(one.started_at is not None and now - one.started_at >= TAKE_SECONDS for one in unstarted)
        worker.remove([one.ticket for one in unstarted], now)
        for one in worker.running.values():
            one.taken = True
        self.pools[worker.pool].backlog.extend(unstarted)
        return stalled

    def socket_closed(self, worker: Worker, now: float) -> None:
        """Record that a worker's socket has closed. The worker parent reports how the process ended."""
        worker.socket_closed_at = worker.socket_closed_at or now

    def protocol_error(self, worker: Worker, why: str, now: float) -> None:
        """Treat a message that breaks the protocol as a crash of the worker, and ignore what else it sends."""
        if worker.crash is None and worker.kill_reason is None:
            worker.crash = f"broke the protocol: {why}"
        self._transport.kill(worker)
        self.socket_closed(worker, now)

    def process_exited(self, worker: Worker, code: int, now: float, why: str = "") -> None:
        """Settle what an exited worker ran, reassign what it had not started, and replace it."""
        if worker.state.over:
            return
        pool = self.pools[worker.pool]
        expected = worker.state is WorkerState.DRAINING and code == 0 and not worker.started
        how = why or worker.crash or worker.kill_reason or ("left" if expected else _describe_exit(code))
        self._take_back(worker, now)
        for attempt in worker.running.values():
            seconds = now - (attempt.started_at or now)
            self._settle(pool, attempt.claim, self._outcome_of_exit(worker, attempt, how), seconds, attempt.output)
        worker.running.clear()
        del self.workers[worker.number], pool.workers[worker.number]
        worker.move(WorkerState.STOPPED if expected else WorkerState.FAILED, now, how)
        if not expected and worker.kill_reason is None and self.has_parent:  # The parent has a back-off of its own.
            pool.back_off(now)
            pool.counters.deaths += 1
        self._clear_backlog(pool, now)

    def _outcome_of_exit(self, worker: Worker, attempt: RunningAttempt, how: str) -> Outcome:
        """Return the outcome of an attempt whose worker died: why it was killed, a release, or a crash."""
        if attempt.outcome is not None:
            return attempt.outcome
        if worker.kill_reason is not None and attempt.claim.rules.at_most_once:
            error = Error(kind="Interrupted", message=f"{AT_MOST_ONCE}: its process was ended ({how})")
            return Raised(error, give_up=True)
        if worker.kill_reason is not None:
            return Released()  # The worker was killed because of another attempt.
        kind = "OutOfMemory" if "memory" in how else "WorkerDied"
        return Crashed(Error(kind=kind, message=f"the worker process {how}"))

    # Ticks

    def tick(self, now: float) -> None:
        """Check every limit; start, retire and replace workers. Cheap enough for ten times a second."""
        for worker in list(self.workers.values()):
            if worker.socket_closed_at is not None and now - worker.socket_closed_at > REAP_SECONDS:
                self._transport.kill(worker)
                self.process_exited(worker, 0, now, worker.crash or "closed its socket")
                continue
            self._watch(worker, now)
        if self._breakers.shut != self._shut:
            self._release_shut(now)
        for pool in self.pools.values():
            self._maintain(pool, now)
            self._clear_backlog(pool, now)
        self._end_strays()

    def add_strays(self, pids: Iterable[int]) -> None:
        """Record processes that handlers left without a parent. The attempts that run now may still need them."""
        tickets = {one.ticket for worker in self.workers.values() for one in worker.started}
        self._strays.update((pid, tickets) for pid in pids)

    def _end_strays(self) -> None:
        """End the strays that no attempt can need any more."""
        if self._strays:
            running = {ticket for worker in self.workers.values() for ticket in worker.running}
            for pid in [pid for pid, tickets in self._strays.items() if not tickets & running]:
                del self._strays[pid]
                self._transport.end_stray(pid)

    def _watch(self, worker: Worker, now: float) -> None:
        if worker.state is WorkerState.STARTING:
            self._check_start(worker, now)
        if worker.state is WorkerState.DRAINING and not worker.running and now - worker.busy_at > EXIT_SECONDS:
            self._kill(worker, "was killed: it did not exit")
        if worker.stop_at is not None and now >= worker.stop_at:
            self._kill(worker, worker.stop_reason)
        for session in list(worker.announced):
            if until := self._sessions.valid_until(session):
                self._announce(worker, session, until)
            else:
                del worker.announced[session]
        for attempt in worker.started:
            self._enforce_limits(worker, attempt, now)
        if worker.has_waiting and worker.count_long_running(now, RELIEVE_AFTER_SECONDS) >= worker.threads:
            self._relieve(worker, now)
        self._relieve_blocked(worker, now)
        waiting = next((one for one in worker.running.values() if not one.taken), None)
        is_late = waiting is not None and now - waiting.assigned_at > RECALL_AFTER_SECONDS
        if is_late and waiting is not worker.blocked:
            self._reclaim(worker, now)

    def _check_start(self, worker: Worker, now: float) -> None:
        """Kill a worker that does not become ready: a start hook may hang, and the pool would wait for it forever."""
        limit = self.pools[worker.pool].settings.start_timeout
        if worker.crash is None and now - worker.since >= limit.total_seconds():
            worker.crash = f"was killed: it was not ready after its start_timeout of {limit}"
            self._events.emit(WorkerParentFailed(why=f"worker {worker.number} of {worker.pool} {worker.crash}"))
            self._transport.kill(worker)

    def _enforce_limits(self, worker: Worker, attempt: RunningAttempt, now: float) -> None:
        if attempt.stop_requested_at is None and attempt.expired(now):
            self._request_stop(worker, attempt, State.EXPIRED, now)
        cancelled = attempt.find_interrupt(now)
        if cancelled is not None:
            attempt.interrupted, attempt.soft_limit_raised = cancelled, True
            self._transport.send(worker, Interrupt(attempt.ticket, cancelled))
        outcome = attempt.find_overrun(now)
        if outcome is not None and worker.kill_reason is None:
            self._stop_overrun(worker, attempt, outcome, now)

    def _stop_overrun(self, worker: Worker, attempt: RunningAttempt, outcome: Outcome, now: float) -> None:
        """Kill the worker of an attempt that overran its limits. Among others on an event loop, cancel it first."""
        if attempt.outcome is None:
            self._reclaim(worker, now)  # It may never have started.
            if attempt.ticket not in worker.running:
                return
            attempt.outcome, attempt.overrun_at = outcome, now
            if worker.shares_loop and len(worker.started) > 1:
                self._transport.send(worker, Interrupt(attempt.ticket, True))
                return
        elif now - attempt.overrun_at < CANCEL_SECONDS:
            return
        self._kill(worker, f"was killed: {attempt.claim.handler} had overrun its limits")

    def _reclaim(self, worker: Worker, now: float) -> None:
        """Take back what should have started by now. What the worker runs meanwhile has its own limits."""
        tickets = self._transport.take_back(worker)
        missed = any(ticket in worker.running and worker.running[ticket].started_at is not None for ticket in tickets)
        if worker.blocked is not None and not missed:  # It has taken all it could. The next one may wait longer.
            self._transport.offer(worker, tickets)
            for one in worker.started:
                one.taken = True
            return
        if self._withdraw(worker, tickets, now):
            worker.unresponsive = True
            if not worker.running:
                self._kill(worker, "was killed: it did not start its tasks")

    def _maintain(self, pool: Pool, now: float) -> None:
        for worker in pool.find_surplus():
            why = "the node shuts down" if self.draining else f"the pool shrinks: {pool.resized_because}"
            self.retire(worker, now, why)
        for worker in pool.find_unneeded(now):
            pool.asleep += 1
            self.retire(worker, now, "was idle for long")
        for worker in list(pool.workers.values()):
            if worker.state.working and (why := self._recycle_reason(pool, worker, now)):
                self.retire(worker, now, why)
        for _ in range(pool.count_missing(now) if self.has_parent and not self.draining else 0):
            worker = self._new_worker(pool.settings, now)
            self.workers[worker.number] = pool.workers[worker.number] = worker
            self._transport.fork(worker)

    def _new_worker(self, settings: PoolSettings, now: float) -> Worker:
        number = next(self._numbers)
        pool = self.pools[settings.name]
        return Worker(
            number,
            settings.name,
            pool.slots_per_worker,
            now,
            self._events,
            settings.recycle_after,
            shares_loop=pool.shares_loop,
        )

    def _recycle_reason(self, pool: Pool, worker: Worker, now: float) -> str | None:
        """Return why a worker must be replaced; None if it may stay."""
        settings = pool.settings
        if not worker.runs_left and not worker.running:
            return f"ran {worker.ran} tasks"
        if worker.threads != pool.slots_per_worker:
            return f"has {worker.threads} threads, and its pool now {pool.slots_per_worker}"
        if settings.memory_limit is None or now - worker.measured_at < 1.0:
            return None
        worker.measured_at = now
        memory = self._transport.memory(worker)
        return f"holds {memory:,} bytes" if memory > settings.memory_limit else None

    def _clear_backlog(self, pool: Pool, now: float) -> None:
        """Give attempts that were taken back to workers with room; release the rest for other nodes."""
        taken_back, pool.backlog = pool.backlog, deque()
        for (_, claimed_at), attempts in itertools.groupby(
            taken_back, lambda one: (one.claim.lease.session, one.claimed_at)
        ):
            self.assign(pool, [one.claim for one in attempts], claimed_at, now, only_room=True)

    # Stopping

    def retire(self, worker: Worker, now: float, why: str) -> None:
        """Let a worker finish what it has started, then exit."""
        worker.move(WorkerState.DRAINING, now, why)
        self._take_back(worker, now)
        self._transport.offer(worker, [EXIT_TICKET])

    def drain_worker(self, number: int, now: float, why: str, grace: float | None = None) -> bool:
        """Retire a worker, and kill it if it has not exited after `grace` seconds. Return True if that is new.

        A worker that has ended is ignored. Asking again changes nothing, unless it is for a shorter time.
        """
        worker = self.workers.get(number)
        if worker is None:
            return False
        is_new = worker.state is not WorkerState.DRAINING
        if is_new:
            self.retire(worker, now, why)
        if grace is not None and (worker.stop_at is None or now + grace < worker.stop_at):
            worker.stop_at, worker.stop_reason = now + grace, f"was killed: it was {why}"
            is_new = True
        return is_new

    def cancel(self, leases: Iterable[Lease], now: float) -> None:
        """Ask the handlers of these attempts to stop."""
        wanted = {(lease.task, lease.fence) for lease in leases}
        for worker in self.workers.values():
            for attempt in worker.running.values():
                lease = attempt.claim.lease
                if (lease.task, lease.fence) in wanted and attempt.stop_requested_at is None:
                    self._request_stop(worker, attempt, State.CANCELLED, now)

    def drain(self, now: float) -> None:
        """Let every worker finish what it has started and exit. Nothing new is assigned."""
        self.draining = True
        for pool in self.pools.values():
            pool.target = 0
            self._maintain(pool, now)
            self._clear_backlog(pool, now)

    def stop_now(self, why: str) -> None:
        """Kill every worker. Their attempts are released and charged nothing."""
        for worker in self.workers.values():
            self._kill(worker, why)

    def drop_session(self, session: SessionId, why: str) -> None:
        """Stop everything that runs under a lost session. Its leases are lost too, so nothing is settled."""
        for pool in self.pools.values():
            pool.record_lost(one.claim for one in pool.backlog if one.claim.lease.session == session)
            pool.backlog = deque(one for one in pool.backlog if one.claim.lease.session != session)
        for worker in list(self.workers.values()):
            lost = [one for one in worker.running.values() if one.claim.lease.session == session]
            if lost:
                self.pools[worker.pool].record_lost(one.claim for one in lost)
                worker.forget(lost)
                self._kill(worker, why)

    def _request_stop(self, worker: Worker, attempt: RunningAttempt, state: State, now: float) -> None:
        attempt.stop_requested_at, attempt.stop_state = now, state
        self._transport.send(worker, RequestStop(attempt.ticket))

    def _kill(self, worker: Worker, why: str) -> None:
        if worker.kill_reason is None:
            worker.kill_reason = why
            self._transport.kill(worker)

    def _settle(self, pool: Pool, claim: Claim, outcome: Outcome, seconds: float = 0.0, log: str | None = None) -> None:
        """Pass an outcome to the settler, which decides once what it does to the task, and count it."""
        self._breakers.record_end(claim, outcome)
        pool.record_ended(claim, self._results.put(pool.settings.name, claim, outcome, seconds, log), seconds)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended by itself with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
