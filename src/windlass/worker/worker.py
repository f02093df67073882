"""One worker as its node sees it: its state, what it was given, what of that has begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from windlass.core.task import SessionId
from windlass.events import Events, WorkerStateChanged
from windlass.worker.running_attempt import RunningAttempt
from windlass.worker.states import MOVES, WorkerState

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
