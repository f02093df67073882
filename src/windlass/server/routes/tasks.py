"""Tasks over HTTP: submit, find, change, cancel, retry."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import NewTask, Task, TaskId
from windlass.core.task_update import Version, version_of
from windlass.errors import Conflict, Refused, WindlassError
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.stores.protocol import Filter
from windlass.wire.cursors import parse_cursor
from windlass.wire.fields import MAX_BATCH, NO_REASON, Name, Reason, Text
from windlass.wire.problems import problem_of
from windlass.wire.tasks import (
    AttemptShape,
    Cancelled,
    ChangeTask,
    EditTask,
    GraphShape,
    LogShape,
    ProgressShape,
    Receipt,
    Receipts,
    Retried,
    SubmitTask,
    TaskPage,
    TaskShape,
    WhyShape,
    attempt_shape,
    cancelled_shape,
    graph_shape,
    log_shape,
    new_task,
    progress_shape,
    receipt_shape,
    receipts_shape,
    retried_shape,
    task_change,
    task_page,
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
    "key_busy",
    "deadline_unreachable",
    "queue_full",
)


class SubmitQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a submit is checked."""

    unchecked: bool = False
    """Accept handlers that no node has published yet."""


class FindTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks to list, and how many."""

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
    """Submit one task. 201 if it is new, 200 if its key was submitted before."""
    key = call.headers.get("idempotency-key")
    if key and body.key is None:
        body = replace(body, key=key)
    [receipt] = tasks.submit(call.access, [new_task(call.access, body, unchecked=query.unchecked)])
    if not receipt.created:
        call.status = 200
    call.response_headers["Location"] = f"tasks/{receipt.id}"
    return receipt_shape(receipt)


@route("POST", "/tasks:batch", Scope.SUBMIT, errors=[*SUBMIT_ERRORS, "duplicate_task", "too_many_tasks"])
def submit_batch(call: Call, query: SubmitQuery, body: list[SubmitTask]) -> Receipts:
    """Submit up to 10,000 tasks, all of them or none. They may depend on each other."""
    if len(body) > MAX_BATCH:
        raise Refused("too_many_tasks", f"{len(body):,} tasks in one batch. The limit is {MAX_BATCH:,}.")
    return receipts_shape(tasks.submit(call.access, new_batch(call, body, unchecked=query.unchecked)))


@route("GET", "/tasks", Scope.READ, errors=["invalid_filter", "invalid_cursor"])
def find_tasks(call: Call, query: FindTasks) -> TaskPage:
    """List tasks, newest first. A short page is not the last one unless `after` is null."""
    filter = Filter(
        states=frozenset(query.state),
        queue=query.queue,
        tenant=query.tenant,
        workflow=query.workflow,
        handler=query.handler,
        query=parse(query.q) if query.q else None,
    )
    seal = call.access.seal
    page = tasks.find(call.access, filter, limit=query.limit, after=parse_cursor(query.after, seal))
    return task_page(page, seal)


@route("GET", "/tasks/{id}", Scope.READ, errors=["unknown_task"])
def get_task(call: Call, id: UUID) -> TaskShape:
    """Get one task."""
    return _tagged(call, tasks.get(call.access, TaskId(id)))


@route(
    "PATCH",
    "/tasks/{id}",
    Scope.OPERATE,
    headers=["If-Match"],
    errors=["unknown_task", "not_allowed", "version_conflict", "invalid_task"],
)
def change_task(call: Call, id: UUID, body: ChangeTask) -> TaskShape:
    """Change the priority or the times of an unfinished task."""
    expect = _expected(call, tasks.get(call.access, TaskId(id)))
    return _tagged(call, tasks.change(call.access, TaskId(id), task_change(body), call.author(body), expect=expect))


@route("POST", "/tasks/{id}/cancel", Scope.OPERATE, errors=["unknown_task", "invalid_task"])
def cancel_task(call: Call, id: UUID, body: Reason = NO_REASON) -> Cancelled:
    """Cancel a task. A running task is asked to stop, and killed after ten seconds."""
    return cancelled_shape(tasks.cancel(call.access, TaskId(id), call.author(body)))


@route("POST", "/tasks/{id}/retry", Scope.OPERATE, errors=["unknown_task", "invalid_task"])
def retry_task(call: Call, id: UUID, body: Reason = NO_REASON) -> Retried:
    """Retry a failed, cancelled or expired task, with fresh counters."""
    return retried_shape(tasks.retry(call.access, TaskId(id), call.author(body)))


@route(
    "POST",
    "/tasks/{id}/edit-and-retry",
    Scope.OPERATE,
    status=201,
    also=[200],
    errors=["unknown_task", "not_allowed", *SUBMIT_ERRORS],
)
def edit_and_retry(call: Call, id: UUID, body: EditTask) -> Receipt:
    """Submit a task that ended badly again, with other arguments. The old task stays as it is.

    201 for the new task; 200 if the same change was submitted before.
    """
    receipt = tasks.edit_and_retry(call.access, TaskId(id), body.args, call.author(body))
    if not receipt.created:
        call.status = 200
    call.response_headers["Location"] = f"../{receipt.id}"
    return receipt_shape(receipt)


@route("GET", "/tasks/{id}/attempts", Scope.READ, errors=["unknown_task"])
def list_attempts(call: Call, id: UUID) -> list[AttemptShape]:
    """List the ended attempts of a task with their errors, oldest first."""
    return [attempt_shape(attempt) for attempt in tasks.attempts(call.access, TaskId(id))]


@route("GET", "/tasks/{id}/logs", Scope.READ, errors=["unknown_task"])
def list_logs(call: Call, id: UUID) -> list[LogShape]:
    """List the output of the attempts of a task, oldest first. The last one may still run."""
    return [log_shape(log) for log in tasks.logs(call.access, TaskId(id))]


@route("GET", "/tasks/{id}/progress", Scope.READ, errors=["unknown_task"])
def get_progress(call: Call, id: UUID) -> ProgressShape | None:
    """Get the latest progress that a task reported; null if it reported none."""
    seen = tasks.progress(call.access, TaskId(id))
    return None if seen is None else progress_shape(seen)


@route("GET", "/tasks/{id}/graph", Scope.READ, errors=["unknown_task"])
def get_graph(call: Call, id: UUID) -> GraphShape:
    """Get the prerequisites and the dependents of a task, up to 1,000 of each."""
    return graph_shape(tasks.graph(call.access, TaskId(id)))


@route("GET", "/tasks/{id}/why", Scope.READ, errors=["unknown_task"])
def get_why(call: Call, id: UUID) -> WhyShape:
    """Explain what a task waits for, and what would let it run."""
    return why_shape(tasks.why(call.access, TaskId(id)))


def new_batch(call: Call, given: list[SubmitTask], *, unchecked: bool) -> list[NewTask]:
    """Return the tasks of a batch. A refusal names the position of the task."""
    return [_numbered(index, call.access, each, unchecked=unchecked) for index, each in enumerate(given)]


def etag(task: Task) -> str:
    """Return a tag that changes with the task's lease, its state, and everything that `PATCH` can set."""
    return f'"{sha256(msgspec.json.encode(version_of(task))).hexdigest()[:20]}"'


def _numbered(index: int, access: Access, given: SubmitTask, *, unchecked: bool) -> NewTask:
    try:
        return new_task(access, given, unchecked=unchecked)
    except WindlassError as error:
        found = problem_of(error)
        field = found.errors[0].field if found.errors else None
        raise Refused(error.code, f"tasks[{index}]: {error}", field=field, index=index) from error


def _tagged(call: Call, task: Task) -> TaskShape:
    call.response_headers["ETag"] = etag(task)
    return task_shape(task)


def _expected(call: Call, task: Task) -> Version | None:
    """Return the version that the caller has seen, for the store to compare; None if any version will do."""
    wanted = call.headers.get("if-match")
    if not wanted or wanted == "*":
        return None
    if etag(task) not in [each.strip() for each in wanted.split(",")]:
        raise Conflict(f"task {task.id}")
    return version_of(task)
