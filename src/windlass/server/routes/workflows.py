"""Workflows over HTTP: submit them whole or in parts, see where they stand and what decides when they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.core.task import NewTask, TaskId
from windlass.core.times import duration
from windlass.errors import NotAllowed, Refused, UnknownTask
from windlass.operations.caller import Scope
from windlass.operations.workflows import (
    Slice,
    Summary,
    UnknownWorkflow,
    count_groups,
    find_step,
    list_workflows,
    page,
    submitted_page,
    tenant_of,
    workflow,
)
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.routes.tasks import SUBMIT_ERRORS, SubmitQuery, new_batch
from windlass.stores.workflow_reads import SCANNED, EdgeCursor, WorkflowCursor
from windlass.wire.cursors import decode_next, next_text
from windlass.wire.fields import Name, Text
from windlass.wire.tasks import Receipts, SubmitTask, receipt_shape
from windlass.wire.workflows import (
    AppendTasks,
    EdgeList,
    RetriedWorkflow,
    RetryWorkflow,
    SealedShape,
    SealWorkflow,
    StepList,
    SubmitWorkflow,
    WorkflowList,
    WorkflowShape,
    edge_list,
    row_shape,
    step_list,
    workflow_shape,
)

route = Routes("workflows")

SEAL = SealWorkflow()
ERRORS = (*SUBMIT_ERRORS, "duplicate_task")


class WhichTenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose, if several tenants have one of this name."""

    tenant: Name | None = None


class ListWorkflows(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose, and which page."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    after: str | None = None
    """`next` of the page before."""


class SomeSteps(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of steps."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    """How many steps; fewer come if they have very many prerequisites."""
    after: UUID | None = None
    """`next` of the page before, or any step."""


class SomeEdges(WhichTenant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of edges."""

    limit: Annotated[int, Meta(ge=1, le=SCANNED)] = SCANNED
    after: str | None = None
    """`next` of the page before."""


@route("POST", "/workflows", Scope.SUBMIT, status=201, errors=ERRORS)
def submit_workflow(call: Call, query: SubmitQuery, body: SubmitWorkflow) -> Receipts:
    """Submit a workflow of up to 10,000 tasks, whole or not at all; or, with `sealed` false, the first part of one.

    With keys, repeating it does no harm. One that is not sealed does not run before it is.
    """
    tenant = _tenant(call, body.tenant)
    if body.forward is not None and body.sealed:
        raise Refused("invalid_request", "forward: only a workflow with sealed=false takes it", field="forward")
    new = _new(call, body.name, tenant, body.tasks, trusted=query.unchecked)
    if not body.sealed:
        forward = None if body.forward is None else duration(body.forward, "forward")
        call.store.open_workflow(body.name, tenant=tenant, sealed=False, forward=forward)
    return Receipts(receipts=[receipt_shape(receipt) for receipt in call.store.submit(new)])


@route("POST", "/workflows/{name}/tasks", Scope.SUBMIT, status=201, errors=ERRORS)
def append_tasks(call: Call, name: Text, query: SubmitQuery, body: AppendTasks) -> Receipts:
    """Add tasks to a workflow, all of them or none. They may wait for those that are there, and for each other."""
    new = _new(call, name, _tenant(call, body.tenant), body.tasks, trusted=query.unchecked)
    return Receipts(receipts=[receipt_shape(receipt) for receipt in call.store.submit(new)])


@route("POST", "/workflows/{name}/seal", Scope.SUBMIT, errors=["unknown_workflow", "not_allowed", "invalid_task"])
def seal_workflow(call: Call, name: Text, body: SealWorkflow = SEAL) -> SealedShape:
    """Say that all of a workflow's tasks have come, so that it runs."""
    tenant = _tenant(call, body.tenant)
    _check_no_queue(call)
    text = f"sealed the workflow {name} of {tenant}"
    entry = call.author().entry(f"workflow/{name}", "sealed", text, missing=body.missing)
    try:
        call.store.seal_workflow(name, tenant=tenant, missing=body.missing, entries=[entry])
    except UnknownTask:
        raise UnknownWorkflow(f"workflow={name!r} of {tenant!r} was never opened, and has no task") from None
    return SealedShape(workflow=name, tenant=tenant)


@route("GET", "/workflows", Scope.READ, errors=["invalid_cursor"])
def get_workflows(call: Call, query: ListWorkflows) -> WorkflowList:
    """List workflows, the latest submit first, with their tasks by state. A page may be short: only `next` tells."""
    who = call.caller
    if who.tenant not in (None, query.tenant or who.tenant):
        return WorkflowList(workflows=[], next=None)
    found = list_workflows(
        call.store,
        tenant=query.tenant or who.tenant,
        queue=who.queue,
        limit=query.limit,
        after=decode_next(query.after, WorkflowCursor),
    )
    return WorkflowList(workflows=[row_shape(each) for each in found.workflows], next=next_text(found.next))


@route("GET", "/workflows/{name}", Scope.READ, errors=["unknown_workflow", "invalid_task"])
def get_workflow(call: Call, name: Text, query: SomeSteps) -> WorkflowShape:
    """Show a workflow: a page of its steps, what each waited and worked, and the path that decides when it ends.

    One of more than 100,000 tasks or 1,000,000 edges is counted instead (`aggregated`): page through `/steps` then.
    """
    tenant = visible_tenant(call, name, query.tenant)
    found = workflow(call.store, name, tenant=tenant)
    after = None if query.after is None else TaskId(query.after)
    now = call.now
    if isinstance(found, Summary):
        return workflow_shape(found, Slice([], None), now)
    return workflow_shape(found, page(call.store, found, limit=query.limit, after=after, now=now), now)


@route("GET", "/workflows/{name}/steps", Scope.READ, errors=["unknown_workflow", "invalid_task"])
def get_steps(call: Call, name: Text, query: SomeSteps) -> StepList:
    """List the steps of a workflow of any size in the order of their submit, page by page."""
    tenant = visible_tenant(call, name, query.tenant)
    after = None if query.after is None else TaskId(query.after)
    return step_list(submitted_page(call.store, name, tenant, limit=query.limit, after=after), call.now)


@route("GET", "/workflows/{name}/edges", Scope.READ, errors=["unknown_workflow", "invalid_task", "invalid_cursor"])
def get_edges(call: Call, name: Text, query: SomeEdges) -> EdgeList:
    """List the edges of a workflow of any size, page by page. A page may be short: only `next` tells."""
    tenant = visible_tenant(call, name, query.tenant)
    after = decode_next(query.after, EdgeCursor)
    return edge_list(call.store.workflow_edges(name, tenant=tenant, limit=query.limit, after=after))


@route(
    "POST",
    "/workflows/{name}/retry",
    Scope.OPERATE,
    errors=["unknown_workflow", "invalid_task", "not_allowed"],
)
def retry_workflow(call: Call, name: Text, body: RetryWorkflow) -> RetriedWorkflow:
    """Bring back a step that ended badly, and everything that was cancelled because of it."""
    _check_no_queue(call)
    tenant = visible_tenant(call, name, body.tenant)
    task = find_step(call.store, name, tenant, body.step)
    if not task.state.ended_badly:
        raise NotAllowed(f"step {body.step} is {task.state.value}; only one that ended badly is retried")
    if body.dry_run:
        return RetriedWorkflow(retried=0, matching=call.store.retry([task.id], dependents=True, dry_run=True))
    text = f"retried the workflow {name} of {tenant} from {body.step}"
    entry = call.author(body).entry(f"workflow/{name}", "retried", text, step=body.step)
    retried = call.store.retry([task.id], dependents=True, entries=[entry])
    return RetriedWorkflow(retried=retried, matching=retried)


def visible_tenant(call: Call, name: str, given: str | None) -> str:
    """Whose workflow is meant, if this caller sees all of it. Another's is answered as one that does not exist."""
    who = call.caller
    if who.tenant not in (None, given or who.tenant):
        raise _unknown(name)
    try:
        tenant = tenant_of(call.store, name, given or who.tenant)
    except UnknownWorkflow:
        raise _unknown(name) from None
    if who.queue is None:
        groups = call.store.workflow_groups(name, tenant=tenant, limit=1).groups
    else:
        groups = count_groups(call.store, name, tenant)
    if not groups or (who.queue is not None and {group.queue for group in groups} != {who.queue}):
        raise _unknown(name)
    return tenant


def _check_no_queue(call: Call) -> None:
    if call.caller.queue is not None:
        raise Refused("forbidden", "a workflow may be in many queues, and this token is limited to one of them")


def _unknown(name: str) -> UnknownWorkflow:
    return UnknownWorkflow(f"workflow={name!r} has no task")


def _new(call: Call, name: str, tenant: str, tasks: Sequence[SubmitTask], *, trusted: bool) -> list[NewTask]:
    placed = [_placed(index, given, name, tenant) for index, given in enumerate(tasks)]
    return new_batch(call, placed, unchecked=trusted)


def _placed(index: int, given: SubmitTask, name: str, tenant: str) -> SubmitTask:
    """The task as one of this workflow; it may say so itself, but nothing else."""
    for field, said, meant in (("workflow", given.workflow, name), ("tenant", given.tenant or None, tenant)):
        if said not in (None, meant):
            text = f"tasks[{index}].{field}={said!r} is not {meant!r}; leave it out"
            raise Refused("invalid_request", text, field=f"tasks[{index}].{field}", index=index)
    return replace(given, workflow=name, tenant=tenant)


def _tenant(call: Call, given: str | None) -> str:
    """On whose behalf: as it is said, else as the token says."""
    own = call.caller.tenant
    if given is not None and own not in (None, given):
        raise Refused("forbidden", f"tenant={given!r}: this token submits for {own} only", field="tenant")
    return given or own or "default"
