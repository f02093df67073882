"""Every JSON shape that leaves Windlass or comes in: the one source for HTTP, OpenAPI and the command line's `--json`.

Times are ISO 8601 in UTC, lengths of time are seconds or text such as "30s", arguments and results are plain JSON and
without what is secret. Nothing here knows HTTP.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from windlass.core.forecast import Forecast
from windlass.core.lifecycle import State
from windlass.core.ordering import Strategy
from windlass.core.task import OnFailure, Rules

MAX_BATCH = 10_000
"""How many tasks one HTTP batch or atomic stream may have."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Text = Annotated[str, Meta(min_length=1, max_length=512)]
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]
When = Annotated[
    str | float, Meta(description='An ISO 8601 moment with a zone, or a time from now: seconds, or text as "10m".')
]
Length = Annotated[str | float, Meta(description='Seconds, or text such as "30s" or "1h30m".')]
Priority = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]


class FieldProblem(Struct, frozen=True, kw_only=True):
    """One field that is not right."""

    field: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong (RFC 9457). `code` is stable and for programs, `detail` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = []
    id: str | None = None
    """Under which the server's log has more."""
    index: int | None = None
    """Which task of a batch it was, from 0."""
    line: int | None = None
    """Which line of a stream it was, from 1."""
    keys: list[str] = []
    tasks: list[str] = []
    cycle: list[str] = []
    queue: str | None = None


class SubmitTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task to be. What is left out is as its handler says."""

    handler: Name
    args: dict[str, Any] = {}
    key: Text | None = None
    """Your own id for it: the same key means the same task."""
    workflow: Text | None = None
    tenant: Name | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    deadline: When | None = None
    """Soft: it orders, and lateness is measured."""
    delay: Length | None = None
    at: When | None = None
    expires: When | None = None
    """Hard: after it the task is no longer wanted."""
    after: Annotated[list[Text], Meta(max_length=10_000)] = []
    """What must be completed before: task ids, or keys of the same workflow."""
    on_failure: OnFailure | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET
    max_crashes: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET
    """After how many deaths of its worker process it still runs again."""
    at_most_once: bool | UnsetType = UNSET
    """Fail instead of running again once an attempt may have begun. Without retries."""
    timeout: Length | UnsetType = UNSET
    soft_timeout: Length | UnsetType = UNSET
    heartbeat_timeout: Length | UnsetType = UNSET
    slots: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    requires: list[Name] | UnsetType = UNSET
    downstream: Name | UnsetType = UNSET
    trace: Text | None = None


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer to one submitted task. `created` is false when its key had been submitted before."""

    id: UUID
    created: bool
    state: State


class Receipts(Struct, frozen=True, kw_only=True):
    """The answers to a batch, in its order."""

    receipts: list[Receipt]


class LineReceipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one line of a stream: either `id`, `created` and `state`, or `error`."""

    line: int
    id: UUID | None = None
    created: bool | None = None
    state: State | None = None
    error: Problem | None = None


class TaskShape(Struct, frozen=True, kw_only=True):
    """A task as it stands now."""

    id: UUID
    handler: str
    args: dict[str, Any]
    """Without what is secret."""
    state: State
    queue: str
    tenant: str
    workflow: str | None
    key: str | None
    priority: int
    deadline: datetime | None
    due: datetime
    """When it may run next."""
    expires: datetime | None
    submitted: datetime
    claimed: datetime | None
    """When the latest lease was granted."""
    finished: datetime | None
    waiting: int
    """How many prerequisites are open."""
    on_failure: OnFailure
    fence: int
    session: UUID | None
    attempts: int
    crashes: int
    losses: int
    generation: int
    """How often an operator has brought it back."""
    cancel_requested: bool
    reason: str | None
    """Why it ended as it did, for every end but completed."""
    result: Any
    rules: Rules


class TaskPage(Struct, frozen=True, kw_only=True):
    """Some tasks, newest first. With `after` there may be more: pass it on to see them."""

    tasks: list[TaskShape]
    after: str | None


class ChangeTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to change; what is left out stays, and null takes a time away."""

    priority: Priority | UnsetType = UNSET
    deadline: When | UnsetType | None = UNSET
    at: When | UnsetType | None = UNSET
    expires: When | UnsetType | None = UNSET


class Reason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why somebody does something, for those who come later."""

    why: Annotated[str, Meta(max_length=512)] = ""
    by: Annotated[str, Meta(max_length=128)] = ""
    """Who wants it, if that is somebody else than the token's name says."""


NO_REASON = Reason()


class Cancelled(Struct, frozen=True, kw_only=True):
    """How many tasks were cancelled: 0 if it had ended already. A running one is asked to stop first."""

    cancelled: int
    state: State


class Retried(Struct, frozen=True, kw_only=True):
    """How many tasks were brought back: 0 if it had not ended badly."""

    retried: int
    state: State


class ErrorShape(Struct, frozen=True, kw_only=True):
    """What went wrong in an attempt, as text."""

    kind: str
    message: str
    traceback: str


class AttemptShape(Struct, frozen=True, kw_only=True):
    """One run of a task under one lease, once it has ended."""

    fence: int
    session: UUID
    started: datetime
    ended: datetime
    seconds: float
    state: State
    """Where the attempt left the task."""
    error: ErrorShape | None


class LogShape(Struct, frozen=True, kw_only=True):
    """What the handler printed during one attempt."""

    fence: int
    text: str


class ProgressShape(Struct, frozen=True, kw_only=True):
    """The latest that an attempt has said about how far it has come."""

    fence: int
    share: float | None
    """From 0 to 1."""
    message: str | None
    at: datetime


class NeighbourShape(Struct, frozen=True, kw_only=True):
    """A prerequisite or a dependent. `state` is null for one that was named but not submitted yet."""

    id: UUID
    state: State | None
    resolved: bool


class GraphShape(Struct, frozen=True, kw_only=True):
    """What a task waits for, and what waits for it."""

    prerequisites: list[NeighbourShape]
    dependents: list[NeighbourShape]


class GateShape(Struct, frozen=True, kw_only=True):
    """One thing that must be so before the task runs."""

    name: str
    open: bool
    text: str
    fix: str | None
    """What would open it, where anything would."""


class WhyShape(Struct, frozen=True, kw_only=True):
    """What holds a task back: the first gate that is not open, if there is one."""

    task: UUID
    state: State
    closed: str | None
    """The name of the gate at which it stands."""
    gates: list[GateShape]
    outlook: Forecast | None = None
    """When it will start, if nothing but its turn holds it and its pool has been measured."""


class SetQueue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A queue's settings, all of them: what is left out takes its default. A pause stays as it is."""

    strategy: Strategy = Strategy.PRIORITY
    horizon_seconds: Seconds = 3_600
    step_seconds: Seconds = 60
    max_waiting: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    max_leased: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    weight: Annotated[int, Meta(ge=1, le=1_000)] = 1
    fair: bool = False


class QueueShape(Struct, frozen=True, kw_only=True):
    """A queue: its settings, and how many tasks it has in each state."""

    name: str
    strategy: Strategy
    horizon_seconds: float
    step_seconds: float
    paused: bool
    paused_by: str | None
    paused_why: str | None
    max_waiting: int | None
    max_leased: int | None
    weight: int
    fair: bool
    tasks: dict[str, int]


class HandlerShape(Struct, frozen=True, kw_only=True):
    """A handler that some node has offered, and when the last one did."""

    name: str
    queue: str
    doc: str
    is_async: bool
    parameters: dict[str, Any]
    """The JSON schema of its arguments; empty when it is not known."""
    returns: dict[str, Any]
    seen: datetime


class CronShape(Struct, frozen=True, kw_only=True):
    """A schedule."""

    name: str
    handler: str
    schedule: str
    timezone: str
    misfire: str
    args: dict[str, Any]
    fired: datetime | None
    """The latest nominal time for which it was fired, or passed over."""
    paused: bool
    paused_by: str | None
    paused_why: str | None


class EntryShape(Struct, frozen=True, kw_only=True):
    """One line of the audit log: what a person or the autoscaler did."""

    number: int
    at: datetime
    subject: str
    action: str
    text: str
    by: str
    data: dict[str, Any]
    """Inputs and arithmetic."""


class EntryPage(Struct, frozen=True, kw_only=True):
    """Some entries, newest first. With `before` there may be more: pass it on to see them."""

    entries: list[EntryShape]
    before: int | None


class TokenShape(Struct, frozen=True, kw_only=True):
    """What is known of a token. The token itself is not."""

    name: str
    scopes: list[str]
    tenant: str | None
    queue: str | None
    rate: float | None
    created: datetime
    expires: datetime | None
    by: str


class DesiredShape(Struct, frozen=True, kw_only=True):
    """How large a pool should be, over all nodes."""

    pool: str
    workers: int
    slots: int
    """How many tasks so many workers run at once."""
