"""The values that callers, stores and nodes exchange: `NewTask`, `Task`, `Lease`, `Claim` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, NewType
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry, storable
from windlass.core.times import Micros

TaskId = NewType("TaskId", UUID)
SessionId = NewType("SessionId", UUID)


class OnFailure(StrEnum):
    """What a task does when a prerequisite fails, expires or is cancelled."""

    CANCEL = "cancel"
    """The task is cancelled, and so are its dependents. The default."""
    RUN = "run"
    """The task runs anyway."""


class Rate(Struct, frozen=True):
    """A number of tasks that may start within a period."""

    tasks: int
    period: timedelta


class Wait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step waits for instead of running a handler: an event, or only a time (`core.waits`)."""

    event: str | None = None
    """The name of the event; None for a sleep."""
    delay: Micros | None = None
    """How long it lasts once its prerequisites have ended; then a sleep completes, and an event has timed out. Without
    it, the task's due time says when."""
    is_set: bool = False
    """True if the event was set while the prerequisites were open, or before anything waited for it."""
    value: str | None = None
    """The JSON text that came with an event that `is_set`."""


class Origin(Struct, frozen=True):
    """Where a step comes from that a running task has added."""

    task: UUID
    """The task that added it."""
    depth: int
    """How many tasks added each other before it, at least 1."""


class Unique(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which equal tasks are not created a second time (`core.unique`)."""

    key: str | None = None
    """What equal tasks have in common; None for all of their arguments."""
    period: timedelta = timedelta(0)
    """How long after its submit a task counts although it runs or has completed."""
    debounce: timedelta | None = None
    """How long after the latest equal submit it starts."""
    max_wait: timedelta | None = None
    """How long after its own submit it starts at the latest; None for ten times `debounce`."""
    replace_args: bool = False
    """Whether the queued task gets the arguments of the latest equal submit."""


class NewTask(Struct, frozen=True, kw_only=True, gc=False):
    """A task as a caller submits it.

    >>> NewTask(handler="mail.send", args={"to": "a@b.c"}, queue="mail", priority=5, key="welcome:42")

    Times are a `timedelta` from the time of the submit, or a `datetime` with a time zone.
    """

    handler: str = ""
    args: Mapping[str, Any] = {}
    """Arguments by name, as plain JSON values."""
    id: Any = None
    """For `Scheduler`, any hashable, orderable value. Stores make ids themselves, from `key` if there is one. Without a
    key a caller may pass a version 7 UUID, to refer to the task before it is submitted."""
    key: str | None = None
    workflow: str | None = None
    tenant: str = "default"
    queue: str = "default"
    priority: int = 0
    deadline: Any = None
    """When the task should be done. It determines the order; nothing happens when it passes. For `Scheduler`, any
    orderable value."""
    delay: timedelta | None = None
    at: Any = None
    expires: Any = None
    """When the task is no longer useful: a queued task then expires, a running attempt is stopped."""
    prerequisites: Sequence[Any] = ()
    """Keys of the same workflow, or task ids (`UUID`). For `Scheduler`, ids."""
    on_failure: OnFailure = OnFailure.CANCEL
    retry: Retry = Retry()
    max_crashes: int | None = None
    """How many crashes of its process the task survives; None for the default of `Rules`."""
    at_most_once: bool = False
    """Never start a second attempt once the first may have started. Excludes retries of any kind."""
    timeout: timedelta | None = None
    soft_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    slots: int = 1
    memory: int | None = None
    """The bytes of memory that it needs, of those that its pool has."""
    requires: tuple[str, ...] = ()
    downstream: str | None = None
    limit: str | None = None
    """A key: of the tasks with the same one, at most `max_running` run at once, and start at most at `rate`."""
    max_running: int | None = None
    rate: Rate | None = None
    trace: str | None = None
    unique: Unique | None = None
    """Do not create it while an equal task is queued. Stores do not store it with the task."""
    raise_prerequisites: bool = True
    """Whether its prerequisites inherit its priority and deadline, if it has a priority above 0 or a deadline."""
    admit: Literal["strict"] | None = None
    """`strict`: the Python API, HTTP and the command line refuse the task if its queue cannot make its deadline at the
    present rate. Stores do not check it and do not store it."""
    wait: Wait | None = None
    """For a step that runs no handler: what it waits for. Made by `core.waits`."""
    origin: Origin | None = None
    """The running task that adds it. Stores set it."""


class Rules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a task that only the node reads, stored as one JSON text; NULL for the defaults."""

    retry: Retry = Retry()
    max_crashes: int = 2
    """How many crashes the task survives. After one more it fails."""
    at_most_once: bool = False
    timeout: timedelta | None = None
    soft_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    slots: int = 1
    memory: int | None = None
    requires: tuple[str, ...] = ()
    downstream: str | None = None
    limit: str | None = None
    """The key of its limit."""
    max_running: int | None = None
    rate: Rate | None = None
    trace: str | None = None
    origin: Origin | None = None
    """The running task that added it."""


class Task(Struct, frozen=True, kw_only=True, gc=False):
    """A stored task. Times are microseconds since 1970, UTC."""

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
    """When it may run."""
    expires: Micros | None = None
    submitted: Micros
    claimed: Micros | None = None
    """When the latest lease was granted."""
    finished: Micros | None = None
    waiting: int = 0
    """The number of open prerequisites."""
    on_failure: OnFailure = OnFailure.CANCEL
    fence: int = 0
    session: SessionId | None = None
    """The session that holds the lease, or held the latest one."""
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    generation: int = 0
    """How often an operator has retried it."""
    cancel_requested: bool = False
    reason: str | None = None
    """Why it failed, expired or was cancelled."""
    result: str | None = None
    """JSON text."""
    rules: Rules = Rules()
    wait: Wait | None = None
    """What it waits for, if it runs no handler."""


class Lease(Struct, frozen=True, gc=False):
    """The right to run one attempt of a task. It is valid as long as its session is."""

    task: TaskId
    fence: int
    session: SessionId


class Claim(Struct, frozen=True, gc=False):
    """A claimed task: the lease that every report of the attempt must name, and what is needed to run the attempt."""

    lease: Lease
    handler: str
    args: str
    """JSON text of an object, by argument name."""
    rules: Rules
    queue: str
    tenant: str
    due: Micros
    """When the task could run first."""
    claimed: Micros
    """When the lease was granted."""
    attempts: int = 0
    """The attempts before this one."""
    crashes: int = 0
    losses: int = 0
    expires: Micros | None = None
    deadline: Micros | None = None
    workflow: str | None = None
    key: str | None = None
    charge: int | None = None
    """In a fair queue, what was charged to the tenant. The settlement must then say how long it `ran`."""

    @property
    def id(self) -> TaskId:
        """The id of the task."""
        return self.lease.task


def claim_of(task: Task, lease: Lease) -> Claim:
    """Return the claim of a stored task under a lease."""
    return Claim(
        lease,
        task.handler,
        task.args,
        task.rules,
        task.queue,
        task.tenant,
        task.due,
        task.claimed or 0,
        task.attempts,
        task.crashes,
        task.losses,
        task.expires,
        task.deadline,
        task.workflow,
        task.key,
    )


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    """A finished attempt: one run of a task under one lease."""

    fence: int
    session: SessionId
    started: Micros
    ended: Micros
    state: State
    """The state of the task after the attempt."""
    error: Error | None = None


class Added(Struct, frozen=True, kw_only=True):
    """What a handler adds to its workflow when its attempt ends (`core.continuation`)."""

    steps: Sequence[NewTask] = ()
    then: NewTask | None = None
    """As what the task itself continues when its prerequisites have ended; None if it ends."""


class Progress(Struct, frozen=True, kw_only=True, gc=False):
    """The progress of a running attempt, as its handler reports it."""

    lease: Lease
    share: float | None = None
    """From 0 to 1."""
    message: str | None = None

    def storable(self) -> Progress:
        """Return the progress as a store keeps it. Values that cannot be stored are replaced, never refused."""
        share = None if self.share is None or self.share != self.share else min(1.0, max(0.0, float(self.share)))
        message = None if self.message is None else storable(self.message)
        return Progress(lease=self.lease, share=share, message=message)


class Change(Struct, frozen=True, kw_only=True):
    """What `update` changes on an unfinished task. Fields that are left out stay."""

    priority: int | UnsetType = UNSET
    deadline: Any = UNSET
    at: Any = UNSET
    expires: Any = UNSET
