"""Workflows over HTTP: submit them whole or in parts, list them, get their graph, retry a step, set an event."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.core.task import NewTask, TaskId
from windlass.core.times import duration
from windlass.errors import Refused
from windlass.operations import events, tasks, workflows
from windlass.operations.caller import Scope
from windlass.operations.workflow_graph import Summary
from windlass.operations.workflows import Slice
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.routes.tasks import SUBMIT_ERRORS, SubmitQuery, new_batch
from windlass.stores.workflow_reads import SCANNED, EdgeCursor, WorkflowCursor
from windlass.wire.cursors import decode_next
from windlass.wire.fields import Name, Text
from windlass.wire.tasks import Receipts, SubmitTask, receipts_shape
from windlass.wire.workflows import (
    AppendTasks,
    EdgeList,
    EventShape,
    RetriedWorkflow,
    RetryWorkflow,
    SealedShape,
    SealWorkflow,
    SetEvent,
    StepList,
    SubmitWorkflow,
    WorkflowList,
    WorkflowShape,
    edge_list,
    step_list,
    workflow_list,
    workflow_shape,
)

route = Routes("workflows")

SEAL = SealWorkflow()
SET = SetEvent()
WORKFLOW_ERRORS = ("unknown_workflow", "invalid_task")
BATCH_ERRORS = (*SUBMIT_ERRORS, "duplicate_task")


class WhichTenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose workflow it is."""

    tenant: Name | None = None
    """Needed only if several tenants have a workflow of this name."""


class ListWorkflows(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of workflows."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    after: str | None = None
    """`next` of the previous page."""


class SomeSteps(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of steps."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    """How many steps. A page has fewer if they have very many prerequisites."""
    after: UUID | None = None
    """`next` of the previous page, or any step."""


class SomeEdges(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of edges."""

    limit: Annotated[int, Meta(ge=1, le=SCANNED)] = SCANNED
    after: str | None = None
    """`next` of the previous page."""


@route("POST", "/workflows", Scope.SUBMIT, status=201, errors=BATCH_ERRORS)
def submit_workflow(call: Call, query: SubmitQuery, body: SubmitWorkflow) -> Receipts:
    """Submit a workflow of up to 10,000 tasks, whole or not at all; or, with `sealed` false, its first part.

    If its tasks have keys, repeating the request is harmless. It does not run before it is sealed. A token limited to
    a queue cannot submit an unsealed workflow.
    """
    tenant = workflows.choose_tenant(call.access, body.tenant)
    if body.forward is not None and body.sealed:
        raise Refused("invalid_request", "forward: allowed only with sealed=false.", field="forward")
    new = _new_tasks(call, body.name, tenant, body.tasks, unchecked=query.unchecked)
    if body.sealed:
        return receipts_shape(tasks.submit(call.access, new))
    forward = None if body.forward is None else duration(body.forward, "forward")
    author = call.author(body)
    receipts = workflows.open_unsealed(call.access, body.name, new, author, tenant=tenant, forward=forward)
    return receipts_shape(receipts)


@route("POST", "/workflows/{name}/tasks", Scope.SUBMIT, status=201, errors=BATCH_ERRORS)
def append_tasks(call: Call, name: Text, query: SubmitQuery, body: AppendTasks) -> Receipts:
    """Add tasks to a workflow, all of them or none. They may wait for existing tasks and for each other."""
    tenant = workflows.choose_tenant(call.access, body.tenant)
    new = _new_tasks(call, name, tenant, body.tasks, unchecked=query.unchecked)
    return receipts_shape(tasks.submit(call.access, new))


@route("POST", "/workflows/{name}/seal", Scope.SUBMIT, errors=[*WORKFLOW_ERRORS, "not_allowed"])
def seal_workflow(call: Call, name: Text, body: SealWorkflow = SEAL) -> SealedShape:
    """Seal a workflow, so that it runs: all of its tasks have been submitted."""
    tenant = workflows.seal(call.access, name, call.author(body), tenant=body.tenant, missing=body.missing)
    return SealedShape(workflow=name, tenant=tenant)


@route(
    "POST",
    "/workflows/{name}/events/{event}",
    Scope.OPERATE,
    errors=["invalid_task", "invalid_payload", "event_conflict", "not_allowed", "forbidden"],
)
def set_workflow_event(call: Call, name: Text, event: Name, body: SetEvent = SET) -> EventShape:
    """Set an event of a workflow, so that the steps after it run. It may be set before the workflow exists.

    Repeating the request is harmless; another value is refused, because an event is set once.
    """
    done = events.set_event(call.access, name, event, body.value, call.author(body), tenant=body.tenant)
    return EventShape(workflow=name, event=event, task=done.task, changed=done.changed, state=done.state)


@route("GET", "/workflows", Scope.READ, errors=["invalid_cursor"])
def get_workflows(call: Call, query: ListWorkflows) -> WorkflowList:
    """List workflows, the latest submit first. A short page is not the last one unless `next` is null."""
    after = decode_next(query.after, WorkflowCursor, call.access.seal)
    page = workflows.find(call.access, tenant=query.tenant, limit=query.limit, after=after)
    return workflow_list(page, call.access.seal)


@route("GET", "/workflows/{name}", Scope.READ, errors=WORKFLOW_ERRORS)
def get_workflow(call: Call, name: Text, query: SomeSteps) -> WorkflowShape:
    """Get a workflow: a page of its steps with their times, and the critical path.

    One of more than 100,000 tasks or 1,000,000 edges is only counted (`aggregated`): use `/steps` for its steps.
    """
    found = workflows.get(call.access, name, tenant=query.tenant)
    if isinstance(found, Summary):
        return workflow_shape(found, Slice([], None), call.now)
    return workflow_shape(found, workflows.page(call.access, found, limit=query.limit, after=_step(query)), call.now)


@route("GET", "/workflows/{name}/steps", Scope.READ, errors=WORKFLOW_ERRORS)
def get_steps(call: Call, name: Text, query: SomeSteps) -> StepList:
    """List the steps of a workflow of any size, in submit order."""
    found = workflows.steps(call.access, name, tenant=query.tenant, limit=query.limit, after=_step(query))
    return step_list(found, call.now)


@route("GET", "/workflows/{name}/edges", Scope.READ, errors=[*WORKFLOW_ERRORS, "invalid_cursor"])
def get_edges(call: Call, name: Text, query: SomeEdges) -> EdgeList:
    """List the edges of a workflow of any size. A short page is not the last one unless `next` is null."""
    after = decode_next(query.after, EdgeCursor, call.access.seal)
    page = workflows.edges(call.access, name, tenant=query.tenant, limit=query.limit, after=after)
    return edge_list(page, call.access.seal)


@route("POST", "/workflows/{name}/retry", Scope.OPERATE, errors=[*WORKFLOW_ERRORS, "not_allowed"])
def retry_workflow(call: Call, name: Text, body: RetryWorkflow) -> RetriedWorkflow:
    """Retry a step that ended badly, and everything that was cancelled because of it."""
    author = call.author(body)
    number = workflows.retry(call.access, name, body.step, author, tenant=body.tenant, dry_run=body.dry_run)
    return RetriedWorkflow(retried=0 if body.dry_run else number, matching=number)


def _step(query: SomeSteps) -> TaskId | None:
    return None if query.after is None else TaskId(query.after)


def _new_tasks(call: Call, name: str, tenant: str, given: list[SubmitTask], *, unchecked: bool) -> list[NewTask]:
    placed = [_place(index, each, name, tenant) for index, each in enumerate(given)]
    return new_batch(call, placed, unchecked=unchecked)


def _place(index: int, given: SubmitTask, name: str, tenant: str) -> SubmitTask:
    """Return a task as part of a workflow. Refuse one that names another workflow or tenant."""
    for field, value, expected in (("workflow", given.workflow, name), ("tenant", given.tenant or None, tenant)):
        if value not in (None, expected):
            text = f"tasks[{index}].{field}={value!r} is not {expected!r}. Leave it out."
            raise Refused("invalid_request", text, field=f"tasks[{index}].{field}", index=index)
    return replace(given, workflow=name, tenant=tenant)
