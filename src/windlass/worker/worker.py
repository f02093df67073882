"""One worker process as its node sees it: its state, the attempts assigned to it, and their time limits.

A worker starts its assignments in the order in which they came, so the node infers from its free slots which attempts
have started.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import takewhile

from windlass.core.lifecycle import EXPIRED, State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Stopped
from windlass.core.task import Claim, SessionId
from windlass.events import Events, WorkerStateChanged
from windlass.worker.call_queue import CallQueue

INTERRUPT_AFTER = 4.0
"""Seconds between asking a handler to stop and raising an exception in it."""
KILL_AFTER = 7.0
"""Seconds between asking a handler to stop and killing its worker. With one renewal before, this stays within the
store's grace period of ten seconds."""
_UNLIMITED = 1 << 30


class WorkerState(StrEnum):
    """The state of a worker. Only idle and busy workers get tasks."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    """It finishes what it has started and then exits."""
    STOPPED = "stopped"
    FAILED = "failed"
    """It died, was killed, or could not start."""

    @property
    def over(self) -> bool:
        """Whether the process is gone."""
        return self in (WorkerState.STOPPED, WorkerState.FAILED)

    @property
    def working(self) -> bool:
        """Whether it takes tasks."""
        return self in (WorkerState.IDLE, WorkerState.BUSY)


MOVES: Mapping[WorkerState, frozenset[WorkerState]] = {
    WorkerState.STARTING: frozenset({WorkerState.IDLE, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.IDLE: frozenset({WorkerState.BUSY, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.BUSY: frozenset({WorkerState.IDLE, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.DRAINING: frozenset({WorkerState.STOPPED, WorkerState.FAILED}),
    WorkerState.STOPPED: frozenset(),
    WorkerState.FAILED: frozenset(),
}
"""Every allowed change of state."""


class RunningAttempt:
    """A claimed task that is assigned to a worker. If it is taken back and assigned again, it becomes a new one."""

    # Most attempts start, end and need no more than their claim, so the other values are set only when they change.
    started_at: float | None = None
    progress_at = 0.0
    taken = False
    """Whether the worker is known to have taken the ticket, so that the attempt has started or will at once."""
    waits = False
    """Whether its handler waits for the result of another task."""
    stop_requested_at: float | None = None
    stop_state = State.CANCELLED
    soft_limit_raised = interrupted = False
    """Whether `SoftTimeout` and `Cancelled` were raised in the handler."""
    outcome: Outcome | None = None
    """The outcome of the attempt, if it is cancelled, or its worker killed, because of it."""
    overrun_at = 0.0
    """When it had overrun its limits."""
    output: str | None = None
    """What it has printed and logged, as far as its worker has sent it."""

    def __init__(self, claim: Claim, ticket: int, slots: int, claimed_at: float, now: float) -> None:
        self.claim = claim
        self.ticket = ticket
        self.slots = slots
        self.claimed_at = claimed_at
        """When the claim was sent, on the monotonic clock: before the store granted the lease."""
        self.assigned_at = now

    def start(self, now: float) -> None:
        """Record that the worker has reached the attempt."""
        self.started_at = self.progress_at = now

    def find_overrun(self, now: float) -> Outcome | None:
        """Return the outcome of an attempt that must be killed now; None if it may continue."""
        if self.started_at is None:
            return None
        rules = self.claim.rules
        if rules.timeout is not None and now - self.started_at >= rules.timeout.total_seconds():
            return Raised(Error(kind="Timeout", message=f"ran longer than its timeout of {rules.timeout}"))
        limit = rules.heartbeat_timeout
        if limit is not None and now - self.progress_at >= limit.total_seconds():
            return Raised(Error(kind="HeartbeatTimeout", message=f"reported no progress for {limit}"))
        if self.stop_requested_at is not None and now - self.stop_requested_at >= KILL_AFTER:
            expired = self.stop_state is State.EXPIRED
            return Stopped(self.stop_state, EXPIRED if expired else "did not stop when asked")
        return None

    def find_interrupt(self, now: float) -> bool | None:
        """Return what to raise in the handler now: True for `Cancelled`, False for `SoftTimeout`, None for nothing."""
        if self.started_at is None or self.interrupted:
            return None
        if self.stop_requested_at is not None and now - self.stop_requested_at >= INTERRUPT_AFTER:
            return True
        soft = None if self.soft_limit_raised else self.claim.rules.soft_timeout
        return False if soft is not None and now - self.started_at >= soft.total_seconds() else None

    def expired(self, now: float) -> bool:
        """Return True if the hard limit of the task has passed, counted from the store's time of the claim."""
        claim = self.claim
        return claim.expires is not None and now - self.claimed_at >= (claim.expires - claim.claimed) / 1e6


class Worker:
    """A worker process, from the request to fork it to its exit."""

    def __init__(
        self,
        number: int,
        pool: str,
        threads: int,
        now: float,
        events: Events,
        lifetime: int | None = None,
        *,
        shares_loop: bool = False,
    ) -> None:
        self.number = number
        self.pool = pool
        self.threads = threads
        """How many slots it has."""
        self.shares_loop = shares_loop
        """Whether its slots are for `async def` handlers, and a `def` handler takes all of them."""
        self.waiting = 0
        """How many of its attempts wait for another task."""
        self.lifetime = lifetime
        """How many tasks it may run before it is replaced; None for no limit."""
        self.state = WorkerState.STARTING
        self.since = now
        self.pid = 0
        self.running: dict[int, RunningAttempt] = {}
        """Its attempts by ticket, started or not."""
        self.announced: dict[SessionId, float] = {}
        """Until when the sessions of its attempts are valid, as last sent to it."""
        self.asked: Counter[str] = Counter()
        """How often it was asked for each signal or decider and has not answered yet."""
        self.calls = CallQueue()
        self.ran = 0
        self.measured_at = now
        self.busy_at = now
        """When it last had something to do, including to exit."""
        self.taken = 0
        """Slots of all its attempts. Slots of the started ones are in `_used`."""
        self.kill_reason: str | None = None
        """Why the node killed it; None if it did not."""
        self.stop_at: float | None = None
        """When to kill it if it has not exited, because a person stopped it."""
        self.stop_reason = ""
        self.crash: str | None = None
        """What it did that counts as a crash, although its process has not exited by itself."""
        self.socket_closed_at: float | None = None
        """When its socket closed, if it is not known yet how the process ended."""
        self._events = events
        self._used = 0
        self._partial = 0
        """How many of its attempts need only a part of it."""
        self._unstarted: deque[RunningAttempt] = deque()
        self._unoffered: deque[RunningAttempt] = deque()
        self.unresponsive = False
        """Whether it did not start an attempt that it had a free slot for, while it runs another. It gets nothing more
        until its next message."""

    @property
    def takes(self) -> bool:
        """Whether it may get tasks. A worker that is about to die may not: its death would be charged to them."""
        healthy = self.kill_reason is None and self.socket_closed_at is None and not self.unresponsive
        return self.state.working and healthy and self.runs_left > 0

    @property
    def runs_left(self) -> int:
        """How many more tasks it may get before it is replaced."""
        return _UNLIMITED if self.lifetime is None else self.lifetime - self.ran - len(self.running)

    @property
    def started(self) -> list[RunningAttempt]:
        """The attempts that it has started: the first ones, because it starts them in order."""
        return list(takewhile(lambda one: one.started_at is not None, self.running.values()))

    @property
    def free(self) -> int:
        """Slots without an attempt."""
        return max(0, self.threads - self.taken)

    @property
    def blocked(self) -> RunningAttempt | None:
        """The first attempt that has not started, if it is one that needs all slots of the event loop."""
        if not self.shares_loop or not self.has_waiting:
            return None
        first = next((one for one in self._unstarted if one.ticket in self.running), None)
        return first if first is not None and first.slots == self.threads else None

    @property
    def has_waiting(self) -> bool:
        """Whether it has an attempt that it has not started."""
        return self.taken > self._used

    def count_long_running(self, now: float, seconds: float) -> int:
        """Return how many slots are used by attempts that have run for longer than this."""
        return sum(one.slots for one in self.started if now - (one.started_at or now) > seconds)

    def next_offers(self) -> list[int]:
        """Return the tickets that the worker may take now and could not take before.

        An attempt that needs several slots is offered once they are free: a ticket that was taken cannot be taken back.
        While all attempts need the whole worker, it takes the next ticket only when it has ended the one before.
        """
        tickets: list[int] = []
        unoffered = self._unoffered
        early = self.threads if self.shares_loop and not self._partial else 1
        while unoffered and (unoffered[0].slots in (1, early) or unoffered[0].started_at is not None):
            tickets.append(unoffered.popleft().ticket)
        return tickets

    def withdraw_unoffered(self) -> list[int]:
        """Return the tickets that were never offered to the worker, and do not offer them any more."""
        tickets = [one.ticket for one in self._unoffered]
        self._unoffered.clear()
        return tickets

    def add(self, attempts: Sequence[RunningAttempt], now: float) -> None:
        """Record attempts that were assigned to the worker."""
        for one in attempts:
            self.running[one.ticket] = one
            self.taken += one.slots
            self._partial += one.slots < self.threads
        self._unstarted.extend(attempts)
        self._unoffered.extend(attempts)
        self._start_next(now)
        if self.state is WorkerState.IDLE:
            self.move(WorkerState.BUSY, now)

    def remove(self, tickets: Iterable[int], now: float) -> list[RunningAttempt]:
        """Remove and return attempts that have ended or were taken back, up to the first that the worker lacks."""
        removed: list[RunningAttempt] = []
        running = self.running
        for ticket in tickets:
            one = running.pop(ticket, None)
            if one is None:
                break
            self.taken -= one.slots
            self._partial -= one.slots < self.threads
            self.waiting -= one.waits
            if one.started_at is not None:
                self._used -= one.slots
            removed.append(one)
        self.busy_at = now
        self._start_next(now)
        if not running and self.state is WorkerState.BUSY:
            self.move(WorkerState.IDLE, now)
        return removed

    def forget(self, attempts: Iterable[RunningAttempt]) -> None:
        """Drop attempts. What the worker reports about them later is ignored."""
        for one in attempts:
            del self.running[one.ticket]
        self._unstarted = deque(one for one in self._unstarted if one.ticket in self.running)
        self._unoffered = deque(one for one in self._unoffered if one.ticket in self.running)

    def move(self, after: WorkerState, now: float, why: str = "") -> None:
        """Change the state. A change that `MOVES` does not list is a bug."""
        assert after in MOVES[self.state], f"worker {self.number}: {self.state} → {after}"
        before, since, self.state, self.since = self.state, self.since, after, now
        self.busy_at = now
        self._events.emit(
            WorkerStateChanged(
                pool=self.pool,
                worker=self.number,
                pid=self.pid,
                before=before,
                after=after,
                why=why,
                seconds=now - since,
            )
        )

    def _start_next(self, now: float) -> None:
        """Record which attempts have started, now that slots are free. Skip those that were removed meanwhile."""
        unstarted = self._unstarted
        while unstarted:
            one = unstarted[0]
            if one.ticket in self.running:
                if self._used + one.slots > self.threads:
                    return
                self._used += one.slots
                one.start(now)
            unstarted.popleft()
