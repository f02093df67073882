"""The JSON shapes of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from windlass.client.options import task_fields as option_fields
from windlass.core.forecast import Forecast
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Attempt, Change, NewTask, OnFailure, Rules, Task
from windlass.core.times import duration, to_datetime
from windlass.core.validation import MAX_LABELS
from windlass.core.why import Why
from windlass.errors import InvalidTask
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.cursor_seal import CursorSeal
from windlass.operations.tasks import Changed
from windlass.stores.protocol import Log, Neighbour, Neighbourhood, Page, ProgressSeen
from windlass.stores.protocol import Receipt as StoreReceipt
from windlass.wire.cursors import cursor_text
from windlass.wire.fields import (
    Bytes,
    Length,
    LimitKey,
    MaxRunning,
    Moment,
    Name,
    Priority,
    RateText,
    Reason,
    Retries,
    Slots,
    Text,
    When,
    as_datetime,
)
from windlass.wire.problems import Problem

MAX_LISTED = 4_096
"""How many bytes of a task's arguments, and of its result, a list shows."""
MAX_LISTED_VALUE = 512
"""How many bytes of one argument it shows if they are more."""


class SubmitTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task to submit. Fields that are left out have the handler's defaults."""

    handler: Name
    args: dict[str, Any] = {}
    key: Text | None = None
    """Your own id for it: the same key means the same task."""
    workflow: Text | None = None
    tenant: Name | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    deadline: When | None = None
    """Soft: it affects the order, and lateness is measured."""
    delay: Length | None = None
    at: When | None = None
    expires: When | None = None
    """Hard: the task does not run after it."""
    after: Annotated[list[Text], Meta(max_length=10_000)] = []
    """What must be completed first: task ids, or keys of the same workflow."""
    on_failure: OnFailure | UnsetType = UNSET
    retries: Retries | UnsetType = UNSET
    max_crashes: Retries | UnsetType = UNSET
    """How many crashes of its worker process it survives."""
    at_most_once: bool | UnsetType = UNSET
    """Fail instead of running again once an attempt may have started. Without retries."""
    timeout: Length | UnsetType = UNSET
    soft_timeout: Length | UnsetType = UNSET
    heartbeat_timeout: Length | UnsetType = UNSET
    slots: Slots | UnsetType = UNSET
    requires: Annotated[list[Name], Meta(max_length=MAX_LABELS)] | UnsetType = UNSET
    downstream: Name | UnsetType = UNSET
    memory: Bytes | UnsetType = UNSET
    """The bytes of memory that it needs, of those that its pool has."""
    limit: LimitKey | UnsetType = UNSET
    """Of the tasks with the same key, at most `max_running` run at once, and start at most at `rate`."""
    max_running: MaxRunning | UnsetType = UNSET
    rate: RateText | UnsetType = UNSET
    unique_for: Length | UnsetType = UNSET
    """Return the equal task, if one is queued or was submitted within this time; "0s" counts only queued ones."""
    unique_key: LimitKey | UnsetType = UNSET
    """What equal tasks have in common; left out, all of their arguments."""
    debounce: Length | UnsetType = UNSET
    """Start this long after the latest equal submit."""
    max_wait: Length | UnsetType = UNSET
    """How long equal submits may put it off; ten times `debounce` by default."""
    replace_args: bool | UnsetType = UNSET
    """With `debounce`: run with the arguments of the latest equal submit."""
    trace: Text | None = None
    raise_prerequisites: bool | UnsetType = UNSET
    """False: prerequisites do not inherit its priority and deadline."""
    admit: Literal["strict"] | UnsetType = UNSET
    """`strict`: refuse the task (`deadline_unreachable`) if its queue cannot make its deadline at the present rate."""


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer to one submitted task. `created` is false if its key was submitted before, or an equal one exists."""

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
    """A task, without secrets."""

    id: UUID
    handler: str
    args: dict[str, Any]
    state: State
    queue: str
    tenant: str
    workflow: str | None
    key: str | None
    priority: int
    deadline: Moment | None
    due: Moment
    """When it may run next."""
    expires: Moment | None
    submitted: Moment
    claimed: Moment | None
    """When the latest lease was granted."""
    finished: Moment | None
    waiting: int
    """How many prerequisites are open."""
    on_failure: OnFailure
    fence: int
    session: UUID | None
    attempts: int
    crashes: int
    losses: int
    generation: int
    """How often an operator has retried it."""
    cancel_requested: bool
    reason: str | None
    """Why it failed, expired or was cancelled."""
    result: Any
    rules: Rules
    cut: list[str] = []
    """The fields of which a list shows only a part, `args` or `result`. Get the task to see them whole."""


class TaskPage(Struct, frozen=True, kw_only=True):
    """Some tasks, newest first. If `after` is not null there may be more: pass it in the next request."""

    tasks: list[TaskShape]
    after: str | None


class ChangeTask(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to change. Fields that are left out stay; null removes a time."""

    priority: Priority | UnsetType = UNSET
    deadline: When | UnsetType | None = UNSET
    at: When | UnsetType | None = UNSET
    expires: When | UnsetType | None = UNSET


class EditTask(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other arguments for a task."""

    args: Annotated[dict[str, Any], Meta(min_length=1)]
    """The arguments to change, by name; the others stay."""


class Cancelled(Struct, frozen=True, kw_only=True):
    """How many tasks were cancelled: 0 if the task had ended. A running task is asked to stop first."""

    cancelled: int
    state: State


class Retried(Struct, frozen=True, kw_only=True):
    """How many tasks were retried: 0 unless the task had failed, expired or been cancelled."""

    retried: int
    state: State


class ByFilter(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks to change."""

    q: Annotated[str, Meta(min_length=1, max_length=4_000)]
    """The filter language, as in `state:failed handler:mail`. A filter that matches everything is refused."""
    dry_run: bool = False
    """Only count."""


class Done(Struct, frozen=True, kw_only=True):
    """Progress of a bulk action."""

    done: int
    total: int
    """How many tasks matched when it began. Above 100,000 there may be more."""


class ErrorShape(Struct, frozen=True, kw_only=True):
    """The error of an attempt."""

    kind: str
    message: str
    traceback: str


class AttemptShape(Struct, frozen=True, kw_only=True):
    """An ended attempt: one run of a task under one lease."""

    fence: int
    session: UUID
    started: Moment
    ended: Moment
    seconds: float
    state: State
    """The state in which the attempt left the task."""
    error: ErrorShape | None


class LogShape(Struct, frozen=True, kw_only=True):
    """The output of one attempt."""

    fence: int
    text: str
    running: bool
    """True if the attempt has not ended, so that there may be more."""


class ProgressShape(Struct, frozen=True, kw_only=True):
    """The latest progress that an attempt reported."""

    fence: int
    share: float | None
    """From 0 to 1."""
    message: str | None
    at: Moment


class TaskDetailsShape(TaskShape, frozen=True, kw_only=True):
    """A task with its attempts and their output."""

    attempt_list: list[AttemptShape]
    logs: list[LogShape]


class NeighbourShape(Struct, frozen=True, kw_only=True):
    """A prerequisite or a dependent. `state` is null for a task that was named but not submitted yet."""

    id: UUID
    state: State | None
    resolved: bool


class GraphShape(Struct, frozen=True, kw_only=True):
    """The prerequisites and the dependents of a task."""

    prerequisites: list[NeighbourShape]
    dependents: list[NeighbourShape]


class GateShape(Struct, frozen=True, kw_only=True):
    """One condition that must hold before a task runs."""

    name: str
    open: bool
    text: str
    fix: str | None
    """What would open it, if anything would."""


class WhyShape(Struct, frozen=True, kw_only=True):
    """What a task waits for: the first gate that is not open, if there is one."""

    task: UUID
    state: State
    closed: str | None
    """The name of the gate at which the task waits."""
    gates: list[GateShape]
    outlook: Forecast | None = None
    """When it will start, if it only waits for its turn and its pool has been measured."""


def new_task(access: Access, given: SubmitTask, *, unchecked: bool) -> NewTask:
    """Return the task that a caller wants to submit. With `unchecked`, its handler may be unknown."""
    return tasks.new_task(access, given.handler, given.args, task_fields(given), unchecked=unchecked)


def task_fields(given: SubmitTask) -> dict[str, Any]:
    """Return the options of a submitted task as fields of `NewTask`."""
    options = {name: value for name, value in asdict(given).items() if not isinstance(value, UnsetType)}
    for name in ("handler", "args"):
        del options[name]
    trace = options.pop("trace")
    for name in ("deadline", "at", "expires"):
        options[name] = parse_when(options[name], name)
    options["after"] = [_prerequisite(name) for name in given.after]
    fields = option_fields({name: value for name, value in options.items() if value not in (None, [])}, {})
    return fields if trace is None else {**fields, "trace": trace}


def task_change(given: ChangeTask) -> Change:
    """Return a requested change of a task."""
    times = {name: getattr(given, name) for name in ("deadline", "at", "expires")}
    changed = {name: parse_when(value, name) for name, value in times.items() if not isinstance(value, UnsetType)}
    return Change(priority=given.priority, **changed)


def parse_when(value: object, field: str) -> datetime | timedelta | None:
    """Return a time as JSON gives it: ISO 8601 with a zone, or a time from now."""
    if value is None or not isinstance(value, str):
        return None if value is None else duration(value, field)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return duration(value, field)
    if moment.tzinfo is None:
        raise InvalidTask(f"{field}={value!r} has no time zone. End it with Z or an offset such as +01:00.")
    return moment


def receipt_shape(receipt: StoreReceipt) -> Receipt:
    """Convert a receipt."""
    return Receipt(id=receipt.id, created=receipt.created, state=receipt.state)


def receipts_shape(receipts: Sequence[StoreReceipt]) -> Receipts:
    """Convert the receipts of a batch."""
    return Receipts(receipts=[receipt_shape(receipt) for receipt in receipts])


def task_shape(task: Task) -> TaskShape:
    """Convert a task that operations returned."""
    return TaskShape(**_task_fields(task))


def task_page(page: Page, seal: CursorSeal) -> TaskPage:
    """Convert a page of tasks."""
    after = None if page.after is None else cursor_text(page.after, seal)
    return TaskPage(tasks=[listed_shape(task) for task in page.tasks], after=after)


def listed_shape(task: Task) -> TaskShape:
    """Convert a task for a list, in which large arguments and results are cut."""
    fields = _task_fields(task)
    cut: list[str] = []
    if len(task.args) > MAX_LISTED:
        fields["args"], cut = _cut_members(fields["args"]), ["args"]
    if task.result is not None and len(task.result) > MAX_LISTED:
        fields["result"], cut = _cut_note(len(task.result)), [*cut, "result"]
    return TaskShape(**fields, cut=cut)


def _cut_members(args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without their large values, and without the last ones if there are too many."""
    kept: dict[str, Any] = {}
    left = MAX_LISTED
    for name, value in args.items():
        size = len(msgspec.json.encode(value))
        shown = value if size <= MAX_LISTED_VALUE else _cut_note(size)
        left -= len(name) + min(size, MAX_LISTED_VALUE)
        if left < 0:
            break
        kept[name] = shown
    return kept


def _cut_note(size: int) -> str:
    return f"[cut: {size:,} bytes]"


def details_shape(task: Task, attempts: list[Attempt], logs: list[Log]) -> TaskDetailsShape:
    """Convert a task with its attempts and their output."""
    return TaskDetailsShape(
        **_task_fields(task),
        attempt_list=[attempt_shape(attempt) for attempt in attempts],
        logs=[log_shape(log) for log in logs],
    )


def cancelled_shape(changed: Changed) -> Cancelled:
    """Convert the result of a cancel."""
    return Cancelled(cancelled=changed.tasks, state=changed.state)


def retried_shape(changed: Changed) -> Retried:
    """Convert the result of a retry."""
    return Retried(retried=changed.tasks, state=changed.state)


def attempt_shape(attempt: Attempt) -> AttemptShape:
    """Convert an ended attempt."""
    return AttemptShape(
        fence=attempt.fence,
        session=attempt.session,
        started=to_datetime(attempt.started),
        ended=to_datetime(attempt.ended),
        seconds=timedelta(microseconds=attempt.ended - attempt.started).total_seconds(),
        state=attempt.state,
        error=None if attempt.error is None else error_shape(attempt.error),
    )


def error_shape(error: Error) -> ErrorShape:
    """Convert the error of an attempt."""
    return ErrorShape(kind=error.kind, message=error.message, traceback=error.traceback)


def log_shape(log: Log) -> LogShape:
    """Convert the output of an attempt."""
    return LogShape(fence=log.fence, text=log.text, running=log.running)


def progress_shape(seen: ProgressSeen) -> ProgressShape:
    """Convert a progress report."""
    return ProgressShape(fence=seen.fence, share=seen.share, message=seen.message, at=to_datetime(seen.at))


def graph_shape(around: Neighbourhood) -> GraphShape:
    """Convert a task's prerequisites and dependents."""
    return GraphShape(
        prerequisites=[_neighbour_shape(each) for each in around.prerequisites],
        dependents=[_neighbour_shape(each) for each in around.dependents],
    )


def why_shape(why: Why) -> WhyShape:
    """Convert the explanation of what a task waits for."""
    gates = [GateShape(name=gate.name, open=gate.open, text=gate.text, fix=gate.fix) for gate in why.gates]
    closed = None if why.closed is None else why.closed.name
    return WhyShape(task=why.task.id, state=why.task.state, closed=closed, gates=gates, outlook=why.outlook)


def _task_fields(task: Task) -> dict[str, Any]:
    fields = {name: getattr(task, name) for name in TaskShape.__struct_fields__ if name != "cut"}
    times = ("deadline", "due", "expires", "submitted", "claimed", "finished")
    return {
        **fields,
        **{name: as_datetime(fields[name]) for name in times},
        "args": msgspec.json.decode(task.args),
        "result": None if task.result is None else msgspec.json.decode(task.result),
    }


def _neighbour_shape(each: Neighbour) -> NeighbourShape:
    return NeighbourShape(id=each.id, state=each.state, resolved=each.resolved)


def _prerequisite(text: str) -> UUID | str:
    """Return a task id, or a key in the same workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text
