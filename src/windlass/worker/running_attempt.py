"""One order given to one worker, as the node remembers it, and the limits on its time."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from windlass.core.assignment import Assignment
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Stopped
from windlass.core.task import Claim

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
