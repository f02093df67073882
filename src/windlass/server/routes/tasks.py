"""Tasks over HTTP: submit, look, change, cancel, bring back."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, UnsetType
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import Change, Task, TaskId
from windlass.core.task_update import Version, version_of
from windlass.errors import Conflict, Refused, WindlassError
from windlass.operations.caller import Scope
from windlass.operations.explain import explain
from windlass.operations.find_tasks import find_shown
from windlass.server.http.call import Call
from windlass.server.http.problems import problem_of
from windlass.server.http.routing import Routes
from windlass.server.routes.submission import new_task, when
from windlass.stores.protocol import Filter
from windlass.stores.protocol import Receipt as Written
from windlass.wire.cursors import cursor, cursor_text
from windlass.wire.schemas import (
    MAX_BATCH,
    NO_REASON,
    AttemptShape,
    Cancelled,
    ChangeTask,
    GraphShape,
    LogShape,
    Name,
    ProgressShape,
    Reason,
    Receipt,
    Receipts,
    Retried,
    SubmitTask,
    TaskPage,
    TaskShape,
    Text,
    WhyShape,
)
from windlass.wire.shapes import (
    attempt_shape,
    graph_shape,
    log_shape,
    progress_shape,
    task_shape,
    why_shape,
)

route = Routes("tasks")

SUBMIT_ERRORS = (
    "invalid_payload",
    "invalid_task",
    "unknown_handler",
    "unknown_prerequisite",
    "cycle",
    "key_conflict",
    "queue_full",
)


class SubmitQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is checked."""

    unchecked: bool = False
    """Take handlers that no node has published yet."""


class FindTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks, and how many."""

    q: Annotated[str, Meta(max_length=4_000)] = ""
    """The filter language, as in `state:failed age>10m -tenant:demo`."""
    state: list[State] = []
    queue: Name | None = None
    tenant: Name | None = None
    workflow: Text | None = None
    handler: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    after: Annotated[str, Meta(max_length=200)] | None = None


@route("POST", "/tasks", Scope.SUBMIT, status=201, also=[200], headers=["Idempotency-Key"], errors=SUBMIT_ERRORS)
def submit_task(call: Call, query: SubmitQuery, body: SubmitTask) -> Receipt:
    """Submit one task. 201 when it is new, 200 when its key had been submitted before."""
    key = call.headers.get("idempotency-key")
    if key and body.key is None:
        body = replace(body, key=key)
    [written] = call.store.submit([new_task(call.handlers, call.caller, body, trusted=query.unchecked)])
    if not written.created:
        call.status = 200
    call.response_headers["Location"] = f"tasks/{written.id}"
    return receipt(written)


@route("POST", "/tasks:batch", Scope.SUBMIT, errors=[*SUBMIT_ERRORS, "duplicate_task", "too_many_tasks"])
def submit_batch(call: Call, query: SubmitQuery, body: list[SubmitTask]) -> Receipts:
    """Submit up to 10,000 tasks, whole or not at all. They may wait for each other."""
    if len(body) > MAX_BATCH:
        raise Refused("too_many_tasks", f"{len(body):,} tasks in one batch; at most {MAX_BATCH:,} are taken")
    new = [indexed(index, call, given, trusted=query.unchecked) for index, given in enumerate(body)]
    return Receipts(receipts=[receipt(written) for written in call.store.submit(new)])


@route("GET", "/tasks", Scope.READ, errors=["invalid_filter", "invalid_cursor"])
def find_tasks(call: Call, query: FindTasks) -> TaskPage:
    """The tasks that match, newest first, a page at a time; a page may be short while there are more."""
    if call.caller.tenant not in (None, query.tenant or call.caller.tenant):
        return TaskPage(tasks=[], after=None)
    if call.caller.queue not in (None, query.queue or call.caller.queue):
        return TaskPage(tasks=[], after=None)
    filter = Filter(
        states=frozenset(query.state),
        queue=query.queue or call.caller.queue,
        tenant=query.tenant or call.caller.tenant,
        workflow=query.workflow,
        handler=query.handler,
        query=parse(query.q) if query.q else None,
    )
    page = find_shown(call.store, call.handlers, filter, query.limit, cursor(query.after))
    after = None if page.after is None else cursor_text(page.after)
    return TaskPage(tasks=[shown(call, task) for task in page.tasks], after=after)


@route("GET", "/tasks/{id}", Scope.READ, errors=["unknown_task"])
def get_task(call: Call, id: UUID) -> TaskShape:
    """One task as it stands now."""
    task = call.task(TaskId(id))
    call.response_headers["ETag"] = etag(task)
    return shown(call, task)


@route(
    "PATCH",
    "/tasks/{id}",
    Scope.OPERATE,
    headers=["If-Match"],
    errors=["unknown_task", "not_allowed", "version_conflict", "invalid_task"],
)
def change_task(call: Call, id: UUID, body: ChangeTask) -> TaskShape:
    """Change the priority or the times of an unfinished task, and its place in the queue with them."""
    task = call.task(TaskId(id))
    expect = _expected(call, task)
    given: dict[str, Any] = {} if isinstance(body.priority, UnsetType) else {"priority": body.priority}
    for field in ("deadline", "at", "expires"):
        value = getattr(body, field)
        if not isinstance(value, UnsetType):
            given[field] = when(value, field)
    entry = call.entry(f"task/{id}", "changed", f"changed {', '.join(given)} of {task.handler} {id}")
    changed = call.store.update(task.id, Change(**given), expect=expect, entries=[entry])
    call.response_headers["ETag"] = etag(changed)
    return shown(call, changed)


@route("POST", "/tasks/{id}/cancel", Scope.OPERATE, errors=["unknown_task"])
def cancel_task(call: Call, id: UUID, body: Reason = NO_REASON) -> Cancelled:
    """Cancel a task. A running one is asked to stop, and made to after ten seconds."""
    task = call.task(TaskId(id))
    why = body.why or f"cancelled by {body.by or call.caller.name}"
    entry = call.entry(f"task/{id}", "cancelled", f"cancelled {task.handler} {id}: {why}")
    number = call.store.cancel([task.id], reason=why, entries=[entry])
    return Cancelled(cancelled=number, state=call.task(task.id).state)


@route("POST", "/tasks/{id}/retry", Scope.OPERATE, errors=["unknown_task"])
def retry_task(call: Call, id: UUID, body: Reason = NO_REASON) -> Retried:
    """Bring a failed, cancelled or expired task back with fresh counters."""
    task = call.task(TaskId(id))
    text = f"brought {task.handler} {id} back{': ' if body.why else ''}{body.why}"
    number = call.store.retry([task.id], entries=[call.entry(f"task/{id}", "retried", text)])
    return Retried(retried=number, state=call.task(task.id).state)


@route("GET", "/tasks/{id}/attempts", Scope.READ, errors=["unknown_task"])
def list_attempts(call: Call, id: UUID) -> list[AttemptShape]:
    """Every ended attempt with its error, oldest first."""
    return [attempt_shape(attempt) for attempt in call.store.attempts(call.task(TaskId(id)).id)]


@route("GET", "/tasks/{id}/logs", Scope.READ, errors=["unknown_task"])
def list_logs(call: Call, id: UUID) -> list[LogShape]:
    """What each ended attempt printed, oldest first."""
    return [log_shape(log) for log in call.store.logs(call.task(TaskId(id)).id)]


@route("GET", "/tasks/{id}/progress", Scope.READ, errors=["unknown_task"])
def get_progress(call: Call, id: UUID) -> ProgressShape | None:
    """The latest that the task has said about how far it has come; null if it never did."""
    [seen] = call.store.progress_of([call.task(TaskId(id)).id])
    return None if seen is None else progress_shape(seen)


@route("GET", "/tasks/{id}/graph", Scope.READ, errors=["unknown_task"])
def get_graph(call: Call, id: UUID) -> GraphShape:
    """What the task waits for, and what waits for it; a thousand of each at the most."""
    return graph_shape(call.store.neighbourhood(call.task(TaskId(id)).id))


@route("GET", "/tasks/{id}/why", Scope.READ, errors=["unknown_task"])
def get_why(call: Call, id: UUID) -> WhyShape:
    """What holds the task back, and what would free it."""
    return why_shape(explain(call.store, call.task(TaskId(id))))


def shown(call: Call, task: Task) -> TaskShape:
    """A task as this caller sees it."""
    return task_shape(task, call.handlers.parameters(task.handler))


def receipt(written: Written) -> Receipt:
    """A store's receipt."""
    return Receipt(id=written.id, created=written.created, state=written.state)


def indexed(index: int, call: Call, given: SubmitTask, *, trusted: bool) -> Any:
    """One task of a batch; a refusal says which one it was."""
    try:
        return new_task(call.handlers, call.caller, given, trusted=trusted)
    except WindlassError as error:
        found = problem_of(error)
        field = found.errors[0].field if found.errors else None
        raise Refused(error.code, f"tasks[{index}]: {error}", field=field, index=index) from error


def etag(task: Task) -> str:
    """Changes with everything that a change may depend on: its lease, its state, what `PATCH` can set."""
    return f'"{sha256(msgspec.json.encode(version_of(task))).hexdigest()[:20]}"'


def _expected(call: Call, task: Task) -> Version | None:
    """The version that the caller has seen, which the store compares once more; None if any will do."""
    wanted = call.headers.get("if-match")
    if not wanted or wanted == "*":
        return None
    if etag(task) not in [each.strip() for each in wanted.split(",")]:
        raise Conflict(f"task {task.id}")
    return version_of(task)
