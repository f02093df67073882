"""Workflows over HTTP: submit them whole or in parts, see where they stand and what decides when they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.core.task import NewTask
from windlass.core.times import duration
from windlass.errors import UnknownTask
from windlass.server.calls import Call
from windlass.server.problems import Refused
from windlass.server.routes import Routes
from windlass.server.schemas import Name, Receipts, SubmitTask, Text
from windlass.server.scopes import Scope
from windlass.server.tasks import SUBMIT_ERRORS, Trust, indexed, receipt
from windlass.server.workflow_shapes import (
    AppendTasks,
    SealedShape,
    SealWorkflow,
    SubmitWorkflow,
    WorkflowRow,
    WorkflowShape,
    row_shape,
    workflow_shape,
)
from windlass.stores.protocol import Filter
from windlass.workflow_view import UnknownWorkflow, listed, workflow

route = Routes("workflows")

SEAL = SealWorkflow()
ERRORS = (*SUBMIT_ERRORS, "duplicate_task")


class ListWorkflows(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose, and how far back."""

    tenant: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """How many of the newest tasks are looked at."""


class WhichTenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose, if several tenants have one of this name."""

    tenant: Name | None = None


@route("POST", "/workflows", Scope.SUBMIT, status=201, errors=ERRORS)
def submit_workflow(call: Call, query: Trust, body: SubmitWorkflow) -> Receipts:
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
    return Receipts(receipts=[receipt(written) for written in call.store.submit(new)])


@route("POST", "/workflows/{name}/tasks", Scope.SUBMIT, status=201, errors=ERRORS)
def append_tasks(call: Call, name: Text, query: Trust, body: AppendTasks) -> Receipts:
    """Add tasks to a workflow, all of them or none. They may wait for those that are there, and for each other."""
    new = _new(call, name, _tenant(call, body.tenant), body.tasks, trusted=query.unchecked)
    return Receipts(receipts=[receipt(written) for written in call.store.submit(new)])


@route("POST", "/workflows/{name}/seal", Scope.SUBMIT, errors=["unknown_workflow", "not_allowed", "invalid_task"])
def seal_workflow(call: Call, name: Text, body: SealWorkflow = SEAL) -> SealedShape:
    """Say that all of a workflow's tasks have come, so that it runs."""
    tenant = _tenant(call, body.tenant)
    if call.who.queue is not None:
        raise Refused("forbidden", "a workflow may be in many queues, and this token is limited to one of them")
    text = f"sealed the workflow {name} of {tenant}"
    entry = call.entry(f"workflow/{name}", "sealed", text, missing=body.missing)
    try:
        call.store.seal_workflow(name, tenant=tenant, missing=body.missing, entries=[entry])
    except UnknownTask:
        raise UnknownWorkflow(f"workflow={name!r} of {tenant!r} was never opened, and has no task") from None
    return SealedShape(workflow=name, tenant=tenant)


@route("GET", "/workflows", Scope.READ)
def list_workflows(call: Call, query: ListWorkflows) -> list[WorkflowRow]:
    """Every workflow that one of the newest tasks belongs to, the newest first, with its tasks by state."""
    if call.who.tenant not in (None, query.tenant or call.who.tenant):
        return []
    filter = Filter(tenant=query.tenant or call.who.tenant, queue=call.who.queue)
    return [row_shape(each) for each in listed(call.store, filter, limit=query.limit)]


@route("GET", "/workflows/{name}", Scope.READ, errors=["unknown_workflow", "invalid_task"])
def get_workflow(call: Call, name: Text, query: WhichTenant) -> WorkflowShape:
    """A workflow's tasks and edges, what each waited and worked, and the path that decides when it ends."""
    who = call.who
    unknown = UnknownWorkflow(f"workflow={name!r} has no task")
    if who.tenant not in (None, query.tenant or who.tenant):
        raise unknown
    try:
        found = workflow(call.store, name, tenant=query.tenant or who.tenant)
    except UnknownWorkflow:
        raise unknown from None
    if not all(who.sees(step.task) for step in found.steps):
        raise unknown
    return workflow_shape(found, call.now)


def _new(call: Call, name: str, tenant: str, tasks: Sequence[SubmitTask], *, trusted: bool) -> list[NewTask]:
    placed = [_placed(index, given, name, tenant) for index, given in enumerate(tasks)]
    return [indexed(index, call, given, trusted=trusted) for index, given in enumerate(placed)]


def _placed(index: int, given: SubmitTask, name: str, tenant: str) -> SubmitTask:
    """The task as one of this workflow; it may say so itself, but nothing else."""
    for field, said, meant in (("workflow", given.workflow, name), ("tenant", given.tenant or None, tenant)):
        if said not in (None, meant):
            text = f"tasks[{index}].{field}={said!r} is not {meant!r}; leave it out"
            raise Refused("invalid_request", text, field=f"tasks[{index}].{field}", index=index)
    return replace(given, workflow=name, tenant=tenant)


def _tenant(call: Call, given: str | None) -> str:
    """On whose behalf: as it is said, else as the token says."""
    own = call.who.tenant
    if given is not None and own not in (None, given):
        raise Refused("forbidden", f"tenant={given!r}: this token submits for {own} only", field="tenant")
    return given or own or "default"
