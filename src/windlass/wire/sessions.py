"""The JSON shapes of work over HTTP: sessions, claims, reports, and what a worker publishes of itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field

from windlass.core.task import Claim
from windlass.wire.fields import Length, Name, Text, as_datetime
from windlass.wire.problems import Problem

MOST_CLAIMED = 500
MOST_REPORTS = 1_000

Fence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Names = Annotated[list[Name], Meta(max_length=1_000)]
Words = Annotated[str, Meta(max_length=65_536)]


class OpenSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker that comes to work, and what it can do."""

    node: Text
    """What people will call it."""
    queues: Annotated[list[Name], Meta(min_length=1, max_length=1_000)] = field(default_factory=lambda: ["default"])
    pools: dict[str, Names] = {}
    """The pools that it stands for, with their queues; for `why` and for people."""
    handlers: Names | None = None
    """What it can run; other tasks are left for others. Left out: everything."""
    tags: Names = []
    """What tasks may require."""
    slots: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """The largest task that it takes."""
    ttl_seconds: Annotated[float, Meta(ge=2, le=600)] = 15
    """Renew within this time, again and again, or all that you hold goes to others."""


class SessionShape(Struct, frozen=True, kw_only=True):
    """A session."""

    session: UUID
    ttl_seconds: float
    renew_seconds: float
    """How often it is best renewed."""


class ClaimTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to claim."""

    queues: Annotated[list[Name], Meta(max_length=1_000)] = []
    """The first named first; those of the session if there are none."""
    limit: Annotated[int, Meta(ge=1, le=MOST_CLAIMED)] = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=30)] = 0
    """How long to wait if there is nothing yet."""


class LeaseShape(Struct, frozen=True, kw_only=True):
    """The right to run one attempt. Every report names it."""

    task: UUID
    fence: Fence


class OrderShape(Struct, frozen=True, kw_only=True):
    """One attempt to run. The time limits are the worker's to keep."""

    task: UUID
    fence: int
    handler: str
    args: dict[str, Any]
    """As they were submitted, secrets too, with the results that they refer to."""
    attempt: int
    """Which one this is, from 1."""
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


class Orders(Struct, frozen=True, kw_only=True):
    """What was claimed; nothing if there was nothing."""

    tasks: list[OrderShape]


class Renewed(Struct, frozen=True, kw_only=True):
    """The session goes on. Stop the attempts in `cancel`, and settle them, in whatever way."""

    cancel: list[LeaseShape]


class GiveProgress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far one attempt has come."""

    task: UUID
    fence: Fence
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    message: Annotated[str, Meta(max_length=2_000)] | None = None


class Progressed(Struct, frozen=True, kw_only=True):
    """Which of the attempts have ended meanwhile: stop them, nobody waits for them."""

    ended: list[LeaseShape]


class GiveError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What went wrong."""

    kind: Text
    """The name of its kind, by which retry rules and people know it."""
    message: Words = ""
    traceback: Words = ""


class GiveEnd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one attempt ended. The task's own policy decides whether and when it is tried again."""

    task: UUID
    fence: Fence
    outcome: Literal["completed", "failed", "released"]
    """Released: it was not begun, or stopped unharmed; that costs no attempt."""
    result: Any = None
    error: GiveError | None = None
    retry_in: Length | None = None
    """After a failure: when to try again, if it is tried again. Released: when it may run next."""
    give_up: bool = False
    """Do not try again."""
    log: Annotated[str, Meta(max_length=262_144)] | None = None


class VerdictShape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one report: the state of the task now, or why nothing was written."""

    task: UUID
    fence: int
    state: str | None = None
    error: Problem | None = None


class Verdicts(Struct, frozen=True, kw_only=True):
    """One for each report, in their order."""

    verdicts: list[VerdictShape]


def order_shape(claim: Claim, args: str) -> OrderShape:
    """A claimed task, with its arguments as they are to be passed."""
    task, rules = claim.task, claim.task.rules
    return OrderShape(
        task=task.id,
        fence=claim.lease.fence,
        handler=task.handler,
        args=msgspec.json.decode(args),
        attempt=task.attempts + 1,
        queue=task.queue,
        tenant=task.tenant,
        workflow=task.workflow,
        key=task.key,
        deadline=as_datetime(task.deadline),
        expires=as_datetime(task.expires),
        timeout_seconds=_seconds(rules.timeout),
        soft_timeout_seconds=_seconds(rules.soft_timeout),
        heartbeat_timeout_seconds=_seconds(rules.heartbeat_timeout),
        trace=rules.trace,
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
