"""Shapes of worker sessions over HTTP: sessions, claims and reports."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from windlass.core.task import Claim
from windlass.core.times import Micros, to_datetime
from windlass.wire.schemas import Length, Name, Priority, Problem, Text

MAX_CLAIMED = 500
MAX_REPORTS = 1_000

Fence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Names = Annotated[list[Name], Meta(max_length=1_000)]
LongText = Annotated[str, Meta(max_length=65_536)]


class OpenSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new worker session, and what the worker can run."""

    node: Text
    """The name under which people see the worker."""
    queues: Annotated[list[Name], Meta(min_length=1, max_length=1_000)] = field(default_factory=lambda: ["default"])
    pools: dict[str, Names] = {}
    """The pools it belongs to, with their queues. Shown by `why`; claims do not depend on it."""
    handlers: Names | None = None
    """The handlers it can run. Without it, all."""
    tags: Names = []
    """The tags it has, which tasks may require."""
    slots: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """The most slots a claimed task may need."""
    ttl_seconds: Annotated[float, Meta(ge=2, le=600)] = 15
    """Renew the session within this time, or its leases are released."""


class SessionShape(Struct, frozen=True, kw_only=True):
    """An open session."""

    session: UUID
    ttl_seconds: float
    renew_seconds: float
    """The recommended time between renewals."""


class ClaimTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which tasks to claim, and how many."""

    queues: Annotated[list[Name], Meta(max_length=1_000)] = []
    """In order of preference. Without it, the queues of the session."""
    limit: Annotated[int, Meta(ge=1, le=MAX_CLAIMED)] = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=30)] = 0
    """How long to wait if there are no tasks yet."""


class LeaseShape(Struct, frozen=True, kw_only=True):
    """The right to run one attempt. Every report names its lease."""

    task: UUID
    fence: Fence


class ClaimedTask(Struct, frozen=True, kw_only=True):
    """A claimed task: one attempt to run. The worker enforces the time limits."""

    task: UUID
    fence: int
    handler: str
    args: dict[str, Any]
    """The submitted arguments, including secrets, with referenced results filled in."""
    attempt: int
    """The number of this attempt, from 1."""
    queue: str
    tenant: str
    workflow: str | None
    key: str | None
    deadline: datetime | None
    expires: datetime | None
    timeout_seconds: float | None
    soft_timeout_seconds: float | None
    heartbeat_timeout_seconds: float | None
    trace: str | None


class ClaimedTasks(Struct, frozen=True, kw_only=True):
    """The claimed tasks. Empty if there were none."""

    tasks: list[ClaimedTask]


class RenewedSession(Struct, frozen=True, kw_only=True):
    """The session was renewed. Stop the attempts in `cancel`, and settle them with any outcome."""

    cancel: list[LeaseShape]


class ProgressReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The progress of one attempt."""

    task: UUID
    fence: Fence
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    message: Annotated[str, Meta(max_length=2_000)] | None = None


class EndedAttempts(Struct, frozen=True, kw_only=True):
    """The attempts that no longer hold their lease. Stop them."""

    ended: list[LeaseShape]


class AttemptError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The error of a failed attempt."""

    kind: Text
    """The name of the error type. Retry rules match on it."""
    message: LongText = ""
    traceback: LongText = ""


class AttemptReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one attempt ended. The task's retry policy decides whether and when it runs again."""

    task: UUID
    fence: Fence
    outcome: Literal["completed", "failed", "released"]
    """`released`: the attempt did not start, or stopped safely. It does not count."""
    result: Any = None
    error: AttemptError | None = None
    retry_in: Length | None = None
    """When the task may run again, if it does."""
    give_up: bool = False
    """Fail the task without further retries."""
    log: Annotated[str, Meta(max_length=262_144)] | None = None


class VerdictShape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one report: the new state of the task, or an error if nothing was written."""

    task: UUID
    fence: int
    state: str | None = None
    error: Problem | None = None


class Verdicts(Struct, frozen=True, kw_only=True):
    """One verdict per report, in the same order."""

    verdicts: list[VerdictShape]


class HandlerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What holds for all tasks of a handler, unless whoever submits one says otherwise."""

    priority: Priority | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET
    max_crashes: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET
    """After how many deaths of its worker process it still runs again."""
    at_most_once: bool | UnsetType = UNSET
    """Fail instead of running again once an attempt may have begun. Without retries."""
    timeout: Length | UnsetType = UNSET
    soft_timeout: Length | UnsetType = UNSET
    heartbeat_timeout: Length | UnsetType = UNSET
    slots: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    requires: Names | UnsetType = UNSET
    downstream: Name | UnsetType = UNSET


class GiveHandler(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A handler that workers of some language have."""

    name: Name
    queue: Name = "default"
    doc: Annotated[str, Meta(max_length=4_000)] = ""
    parameters: dict[str, Any] = {}
    """The JSON schema of its arguments: an object's, by whose names submits are checked."""
    returns: dict[str, Any] = {}
    options: HandlerOptions = HandlerOptions()


class GiveManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What workers have to offer."""

    handlers: Annotated[list[GiveHandler], Meta(min_length=1, max_length=1_000)]


class Published(Struct, frozen=True, kw_only=True):
    """Which handlers were new, or had changed."""

    changed: list[str]


def claimed_task(claim: Claim, args: str) -> ClaimedTask:
    """Return the shape of a claimed task. `args` are its arguments with referenced results filled in."""
    task, rules = claim.task, claim.task.rules
    return ClaimedTask(
        task=task.id,
        fence=claim.lease.fence,
        handler=task.handler,
        args=msgspec.json.decode(args),
        attempt=task.attempts + 1,
        queue=task.queue,
        tenant=task.tenant,
        workflow=task.workflow,
        key=task.key,
        deadline=_moment(task.deadline),
        expires=_moment(task.expires),
        timeout_seconds=_seconds(rules.timeout),
        soft_timeout_seconds=_seconds(rules.soft_timeout),
        heartbeat_timeout_seconds=_seconds(rules.heartbeat_timeout),
        trace=rules.trace,
    )


def _moment(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
