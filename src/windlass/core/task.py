"""The values that travel between callers, stores and nodes: what is submitted, what is stored, what is leased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry, storable
from windlass.core.times import Micros

TaskId = NewType("TaskId", UUID)
SessionId = NewType("SessionId", UUID)


class OnFailure(StrEnum):
    """What a task does when one of its prerequisites ends in any other way than completed."""

    CANCEL = "cancel"
    """It is cancelled, and so is what waits for it. The default."""
    RUN = "run"
    """It runs all the same."""


class NewTask(Struct, frozen=True, kw_only=True, gc=False):
    """A task as its caller writes it.

    >>> NewTask(handler="mail.send", args={"to": "a@b.c"}, queue="mail", priority=5, key="welcome:42")

    Times are a `timedelta` from the moment of the submit or a `datetime` with a zone.
    """

    handler: str = ""
    args: Mapping[str, Any] = {}
    """Plain JSON by argument name."""
    id: Any = None
    """For `Scheduler` any hashable, orderable value. Stores make ids themselves, from `key` if there is one; without a
    key they take a version 7 UUID that the caller has made, so that a task can be referred to before it is there."""
    key: str | None = None
    workflow: str | None = None
    tenant: str = "default"
    queue: str = "default"
    priority: int = 0
    deadline: Any = None
    """Soft: it orders, and lateness is measured. For `Scheduler` any orderable value."""
    delay: timedelta | None = None
    at: Any = None
    expires: Any = None
    """Hard: a queued task expires, a running attempt is stopped."""
    prerequisites: Sequence[Any] = ()
    """Keys of the same workflow, or task ids (`UUID`). For `Scheduler`: ids."""
    on_failure: OnFailure = OnFailure.CANCEL
    retry: Retry = Retry()
    max_crashes: int | None = None
    """After how many deaths of its process it still runs again; None for the default of `Rules`."""
    at_most_once: bool = False
    """Never run it again once an attempt may have begun, whatever happened to that. Without retries of any kind."""
    timeout: timedelta | None = None
    soft_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    slots: int = 1
    requires: tuple[str, ...] = ()
    downstream: str | None = None
    trace: str | None = None


class Rules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a task that only the node reads: stored as one JSON text, empty when all is default."""

    retry: Retry = Retry()
    max_crashes: int = 2
    """How many crashes are forgiven; one more and the task is poison and goes to the dead letters."""
    at_most_once: bool = False
    timeout: timedelta | None = None
    soft_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    slots: int = 1
    requires: tuple[str, ...] = ()
    downstream: str | None = None
    trace: str | None = None


class Task(Struct, frozen=True, kw_only=True, gc=False):
    """A task as a store knows it. Times are microseconds since 1970, UTC."""

    id: TaskId
    handler: str
    args: str
    """JSON text of an object, by argument name."""
    state: State
    queue: str
    tenant: str
    workflow: str | None = None
    key: str | None = None
    priority: int = 0
    deadline: Micros | None = None
    due: Micros
    """When it may run next."""
    expires: Micros | None = None
    submitted: Micros
    claimed: Micros | None = None
    """When the latest lease was granted."""
    finished: Micros | None = None
    waiting: int = 0
    """How many prerequisites are open."""
    on_failure: OnFailure = OnFailure.CANCEL
    fence: int = 0
    session: SessionId | None = None
    """Who holds the lease; of an unleased task, who held the latest one."""
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    generation: int = 0
    """How often an operator has brought it back."""
    cancel_requested: bool = False
    reason: str | None = None
    """Why it ended as it did, for every end but completed."""
    result: str | None = None
    """JSON text."""
    rules: Rules = Rules()


class Lease(Struct, frozen=True, gc=False):
    """The right to run one attempt of one task. Valid while the session is."""

    task: TaskId
    fence: int
    session: SessionId


class Claim(Struct, frozen=True, gc=False):
    """A task just claimed, and the lease under which every report of the attempt must come."""

    lease: Lease
    task: Task


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a task under one lease, once it has ended."""

    fence: int
    session: SessionId
    started: Micros
    ended: Micros
    state: State
    """Where the attempt left the task."""
    error: Error | None = None


class Progress(Struct, frozen=True, kw_only=True, gc=False):
    """How far an attempt has come, in its own words."""

    lease: Lease
    share: float | None = None
    """From 0 to 1."""
    message: str | None = None

    def storable(self) -> Progress:
        """The same as a store keeps it: a report is never refused for what a handler has put into it."""
        share = None if self.share is None or self.share != self.share else min(1.0, max(0.0, float(self.share)))
        message = None if self.message is None else storable(self.message)
        return Progress(lease=self.lease, share=share, message=message)


class Change(Struct, frozen=True, kw_only=True):
    """What `update` may change on an unfinished task; what is left out stays."""

    priority: int | UnsetType = UNSET
    deadline: Any = UNSET
    at: Any = UNSET
    expires: Any = UNSET
