"""One worker as its node sees it: its state, what it was given, what of that has begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from windlass.core.assignment import Assignment
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Stopped
from windlass.core.task import Claim, SessionId
from windlass.events import Events, WorkerStateChanged


class WorkerState(StrEnum):
    """Where a worker stands. Only an idle or a busy one gets tasks."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    """It ends what it has begun and then leaves."""
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


INTERRUPT_AFTER = 4.0
"""Seconds between asking a handler to stop and raising in it."""

KILL_AFTER = 7.0
"""Seconds between asking and killing: with a renewal before, within the store's own grace of ten."""


class ReadyTask(NamedTuple):
    """A claimed task, ready to be given to a worker."""

    claim: Claim
    assignment: Assignment
    claimed_at: float
    """When the claim was sent, on this machine's steady clock: before the store granted the lease."""


class RunningAttempt:
    """An order in a worker's hands. What has begun is inferred: a worker runs its orders in turn."""

    __slots__ = (
        "asked_at",
        "beat_at",
        "begun_at",
        "given_at",
        "interrupted",
        "needs",
        "softened",
        "stop",
        "taken_up",
        "ticket",
        "verdict",
        "work",
    )

    def __init__(self, ticket: int, work: ReadyTask, needs: int, now: float) -> None:
        self.ticket = ticket
        self.work = work
        self.needs = needs
        self.given_at = now
        self.begun_at: float | None = None
        self.beat_at = now
        self.taken_up = False
        """Whether the worker is known to have taken its ticket: then it has begun, or will at once."""
        self.asked_at: float | None = None
        self.stop = State.CANCELLED
        self.softened = self.interrupted = False
        """Whether it was raised in the handler that its soft limit has passed; that it shall stop."""
        self.verdict: Outcome | None = None
        """What the attempt comes to, once its worker is being killed because of it."""

    @property
    def assignment(self) -> Assignment:
        """What the worker is told; it must count slots as we do, or what shall run alone would not."""
        order = self.work.assignment
        return order if order.slots == self.needs else replace(order, slots=self.needs)

    def begin(self, now: float) -> None:
        """The worker has reached it."""
        self.begun_at = self.beat_at = now

    def overrun(self, now: float) -> Outcome | None:
        """What the attempt comes to if it must be killed now; None while it need not be."""
        if self.begun_at is None:
            return None
        rules = self.work.claim.task.rules
        if rules.timeout is not None and now - self.begun_at >= rules.timeout.total_seconds():
            return Raised(Error(kind="Timeout", message=f"ran longer than its timeout of {rules.timeout}"))
        patience = rules.heartbeat_timeout
        if patience is not None and now - self.beat_at >= patience.total_seconds():
            return Raised(Error(kind="HeartbeatTimeout", message=f"reported no progress for {patience}"))
        if self.asked_at is not None and now - self.asked_at >= KILL_AFTER:
            return Stopped(self.stop, EXPIRED if self.stop is State.EXPIRED else "did not stop when asked")
        return None

    def to_interrupt(self, now: float) -> bool | None:
        """Whether it is time to raise in the handler: True for a cancel, False for its soft limit, None for not yet."""
        if self.begun_at is None or self.interrupted:
            return None
        if self.asked_at is not None and now - self.asked_at >= INTERRUPT_AFTER:
            return True
        soft = None if self.softened else self.work.claim.task.rules.soft_timeout
        return False if soft is not None and now - self.begun_at >= soft.total_seconds() else None

    def expired(self, now: float) -> bool:
        """Whether the task's hard limit has passed, counted from the store's own moment of the claim."""
        task = self.work.claim.task
        if task.expires is None or task.claimed is None:
            return False
        return now - self.work.claimed_at >= (task.expires - task.claimed) / 1e6


_ENDLESS = 1 << 30


class Worker:
    """A worker process, from the order to fork it to its end."""

    def __init__(
        self, number: int, pool: str, threads: int, now: float, events: Events, lifetime: int | None = None
    ) -> None:
        self.number = number
        self.pool = pool
        self.threads = threads
        self.lifetime = lifetime
        """How many tasks it may run in all."""
        self.state = WorkerState.STARTING
        self.since = now
        self.pid = 0
        self.running: dict[int, RunningAttempt] = {}
        self.announced: dict[SessionId, float] = {}
        """Until when the sessions of its orders are valid, as it was told."""
        self.ran = 0
        self.measured_at = now
        self.busy_at = now
        """When it last had something to do, were it only to leave."""
        self.taken = 0
        """Slots of everything given; of what has begun, `_used`."""
        self.verdict: str | None = None
        """Why it was killed by us; None as long as it was not."""
        self.crash: str | None = None
        """What it did that counts as its crash, although its process has not ended by itself."""
        self.socket_closed_at: float | None = None
        """When its socket closed, if we do not know yet how it ended."""
        self._events = events
        self._used = 0
        self._unbegun: deque[RunningAttempt] = deque()
        self._unoffered: deque[RunningAttempt] = deque()
        self.unresponsive = False
        """Whether it did not begin what it had a free slot for, although it runs something. It is given nothing more
        until it is heard of."""

    @property
    def takes(self) -> bool:
        """Whether it may be given tasks. One that is as good as dead may not: its death would be charged to them."""
        well = self.verdict is None and self.socket_closed_at is None and not self.unresponsive
        return self.state.working and well and self.runs_left > 0

    @property
    def runs_left(self) -> int:
        """How many more tasks it may be given before it is replaced."""
        return _ENDLESS if self.lifetime is None else self.lifetime - self.ran - len(self.running)

    @property
    def started(self) -> list[RunningAttempt]:
        """What it runs."""
        return [one for one in self.running.values() if one.begun_at is not None]

    @property
    def free(self) -> int:
        """Slots that nothing has been given for."""
        return max(0, self.threads - self.taken)

    def held_up(self, now: float, longest: float) -> int:
        """Return how many slots are held by what has run for longer than this."""
        return sum(one.needs for one in self.started if now - (one.begun_at or now) > longest)

    def offers(self) -> list[int]:
        """Return the tickets that it may take now and could not before.

        What needs several slots is offered when they are free: a ticket that was taken can no longer be taken back.
        """
        tickets: list[int] = []
        while self._unoffered and (self._unoffered[0].needs == 1 or self._unoffered[0].begun_at is not None):
            tickets.append(self._unoffered.popleft().ticket)
        return tickets

    def withheld(self) -> list[int]:
        """Return the tickets that were not offered to it, and forget that they are to be."""
        tickets = [one.ticket for one in self._unoffered]
        self._unoffered.clear()
        return tickets

    def add(self, one: RunningAttempt, now: float) -> None:
        """It was sent this order."""
        self.running[one.ticket] = one
        self.taken += one.needs
        self._unbegun.append(one)
        self._unoffered.append(one)
        self._begin_next(now)
        if self.state is WorkerState.IDLE:
            self.move(WorkerState.BUSY, now)

    def take(self, ticket: int, now: float) -> RunningAttempt | None:
        """This order is over, or came back."""
        one = self.running.pop(ticket, None)
        if one is None:
            return None
        self.taken -= one.needs
        self.busy_at = now
        if one.begun_at is None:
            self._unbegun.remove(one)
        else:
            self._used -= one.needs
        self._begin_next(now)
        if not self.running and self.state is WorkerState.BUSY:
            self.move(WorkerState.IDLE, now)
        return one

    def forget(self, given: Iterable[RunningAttempt]) -> None:
        """These orders count no more, whatever the worker says of them."""
        for one in given:
            del self.running[one.ticket]
        self._unbegun = deque(one for one in self._unbegun if one.ticket in self.running)
        self._unoffered = deque(one for one in self._unoffered if one.ticket in self.running)

    def move(self, after: WorkerState, now: float, why: str = "") -> None:
        """Go to another state. One that the table does not have is a mistake of ours."""
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

    def _begin_next(self, now: float) -> None:
        while self._unbegun and self._used + self._unbegun[0].needs <= self.threads:
            one = self._unbegun.popleft()
            self._used += one.needs
            one.begin(now)
