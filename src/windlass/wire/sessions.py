"""Shapes of worker sessions over HTTP: sessions, claims and reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field

from windlass.core.task import Claim
from windlass.wire.fields import Length, Moment, Name, Text, as_datetime
from windlass.wire.problems import Problem

MAX_CLAIMED = 500
MAX_REPORTS = 1_000

Fence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_CLAIM_QUEUES = 100
"""How many queues one session or claim may name: a claim looks at each of them."""
Names = Annotated[list[Name], Meta(max_length=1_000)]
Queues = Annotated[list[Name], Meta(max_length=MAX_CLAIM_QUEUES)]
LongText = Annotated[str, Meta(max_length=65_536)]


class OpenSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new worker session, and what the worker can run."""

    node: Text
    """The name under which people see the worker."""
    queues: Annotated[list[Name], Meta(min_length=1, max_length=MAX_CLAIM_QUEUES)] = field(
        default_factory=lambda: ["default"]
    )
    pools: Annotated[dict[Name, Queues], Meta(max_length=100)] = {}
    """The pools it belongs to, with their queues. Shown by `why`; claims do not depend on it."""
    handlers: Names | None = None
    """The handlers it can run. Without it, all."""
    tags: Names = []
    """The tags it has, which tasks may require."""
    slots: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """The most slots a claimed task may need."""
    memory: Annotated[int, Meta(ge=0, le=2**50)] | None = None
    """The most bytes of memory a claimed task may need. Without it, any number."""
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

    queues: Queues = []
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
    deadline: Moment | None
    expires: Moment | None
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
    output: Annotated[str, Meta(max_length=262_144)] | None = None
    """All that the attempt has printed so far. It replaces what was sent before. A report of output alone leaves the
    progress as it is."""


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
    ran_seconds: Annotated[float, Meta(ge=0, le=315_360_000)] | None = None
    """How long the handler ran, for the share of its tenant in a fair queue. Without it, the time since the claim
    counts."""


class VerdictShape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one report: the new state of the task, or an error if nothing was written."""

    task: UUID
    fence: int
    state: str | None = None
    error: Problem | None = None


class Verdicts(Struct, frozen=True, kw_only=True):
    """One verdict per report, in the same order."""

    verdicts: list[VerdictShape]


def claimed_task(claim: Claim, args: str) -> ClaimedTask:
    """Return the shape of a claimed task. `args` are its arguments with referenced results filled in."""
    rules = claim.rules
    return ClaimedTask(
        task=claim.lease.task,
        fence=claim.lease.fence,
        handler=claim.handler,
        args=msgspec.json.decode(args, type=dict[str, Any]),
        attempt=claim.attempts + 1,
        queue=claim.queue,
        tenant=claim.tenant,
        workflow=claim.workflow,
        key=claim.key,
        deadline=as_datetime(claim.deadline),
        expires=as_datetime(claim.expires),
        timeout_seconds=_seconds(rules.timeout),
        soft_timeout_seconds=_seconds(rules.soft_timeout),
        heartbeat_timeout_seconds=_seconds(rules.heartbeat_timeout),
        trace=rules.trace,
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
