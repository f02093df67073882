"""The JSON shapes of workflows: submitted whole or in parts, listed, and seen as a graph."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.lifecycle import State
from windlass.core.times import Micros, to_datetime
from windlass.operations.workflows import Listed, Slice, StepView, Summary, Workflow
from windlass.stores.workflow_reads import EdgePage, StepGroup
from windlass.wire.cursors import next_text
from windlass.wire.fields import MAX_BATCH, Length, Name, Reason, Text, as_datetime
from windlass.wire.tasks import SubmitTask

MOST_PATH = 1_000
"""How many steps of the critical path one answer has."""
Tasks = Annotated[list[SubmitTask], Meta(max_length=MAX_BATCH)]


class SubmitWorkflow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tasks that belong together. They name each other by key in `after`."""

    name: Text
    tenant: Name | None = None
    tasks: Tasks = []
    sealed: bool = True
    """False: it waits, and takes more tasks, until it is sealed."""
    forward: Length | None = None
    """How long a key may be named in `after` before its task comes; only with `sealed` false."""


class AppendTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """More tasks of a workflow."""

    tasks: Annotated[list[SubmitTask], Meta(min_length=1, max_length=MAX_BATCH)]
    tenant: Name | None = None


class SealWorkflow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All of its tasks have come."""

    tenant: Name | None = None
    missing: bool = False
    """End what was named and never came: its dependents' own policy decides what that means for them."""


class SealedShape(Struct, frozen=True, kw_only=True):
    """A workflow that is complete, and may run."""

    workflow: str
    tenant: str


class WorkflowRow(Struct, frozen=True, kw_only=True):
    """A workflow in a list, with how many of its tasks are in each state."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    complete: bool
    """False: only its first 10,000 tasks were counted, and there are more."""
    submitted: datetime
    """When its first task was submitted."""
    latest: datetime
    """When its latest task was submitted."""


class WorkflowList(Struct, frozen=True, kw_only=True):
    """Some workflows, the latest submit first. With `next` there may be more: pass it on as `after`."""

    workflows: list[WorkflowRow]
    next: str | None


class StepShape(Struct, frozen=True, kw_only=True):
    """One task of a workflow, with its times put in order."""

    id: UUID
    name: str
    """Its key, or its handler and the end of its id."""
    handler: str
    state: State
    prerequisites: list[UUID]
    """Those of the same workflow."""
    ready: datetime
    """When it could have run: submitted, and its prerequisites ended."""
    began: datetime | None
    ended: datetime | None
    waited_seconds: float
    worked_seconds: float
    slack_seconds: float | None
    """How much longer it could have taken without the end coming later; null where steps come in submit order."""
    critical: bool | None
    """Whether it is on the critical path; null where steps come in submit order."""
    reason: str | None


class StepList(Struct, frozen=True, kw_only=True):
    """Some steps of a workflow in the order of their submit. With `next` there are more: pass it on as `after`."""

    steps: list[StepShape]
    next: UUID | None


class EdgeShape(Struct, frozen=True, kw_only=True):
    """One step that waits for another."""

    before: UUID
    after: UUID


class EdgeList(Struct, frozen=True, kw_only=True):
    """Some edges of a workflow. With `next` there may be more: pass it on as `after`."""

    edges: list[EdgeShape]
    next: str | None


class StepGroupShape(Struct, frozen=True, kw_only=True):
    """How many tasks of a workflow have one queue, handler and state."""

    queue: str
    handler: str
    state: State
    tasks: int


class WorkflowShape(Struct, frozen=True, kw_only=True):
    """A workflow, with a page of its steps in an order in which prerequisites come first."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    submitted: datetime
    ended: datetime | None
    aggregated: bool
    """True: it has too many steps or edges for an order and a critical path. It is counted, and has no steps here."""
    groups: list[StepGroupShape]
    """If `aggregated`: its tasks by queue, handler and state."""
    critical_path: list[UUID]
    """The steps that decide when it ends, the first 1,000 of them; empty if `aggregated`."""
    critical_steps: int | None
    """How many steps are on the critical path; null if `aggregated`."""
    steps: list[StepShape]
    edges: list[EdgeShape]
    """Those that lead to these steps."""
    next: UUID | None
    """With it there are more steps: pass it on as `after`."""


class RetryWorkflow(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which step to go on."""

    step: Text
    """A step that ended badly: its key, its name or its id."""
    tenant: Name | None = None
    dry_run: bool = False
    """Only count."""


class RetriedWorkflow(Struct, frozen=True, kw_only=True):
    """How many tasks came back."""

    retried: int
    matching: int
    """With `dry_run`: how many it would be."""


def row_shape(found: Listed) -> WorkflowRow:
    """A workflow in a list."""
    return WorkflowRow(
        workflow=found.name,
        tenant=found.tenant,
        tasks={state.value: number for state, number in found.tasks.items()},
        complete=found.complete,
        submitted=to_datetime(found.submitted),
        latest=to_datetime(found.latest),
    )


def step_list(some: Slice, now: Micros) -> StepList:
    """Some steps."""
    return StepList(steps=[_step_shape(view, now) for view in some.steps], next=some.next)


def workflow_shape(found: Workflow | Summary, some: Slice, now: Micros) -> WorkflowShape:
    """A workflow with some of its steps."""
    whole = isinstance(found, Workflow)
    return WorkflowShape(
        workflow=found.name,
        tenant=found.tenant,
        tasks={state.value: number for state, number in found.states.items()},
        submitted=to_datetime(found.submitted),
        ended=as_datetime(found.ended),
        aggregated=not whole,
        groups=[] if whole else [_group_shape(group) for group in found.groups],
        critical_path=[found.steps[place].id for place in found.critical[:MOST_PATH]] if whole else [],
        critical_steps=len(found.critical) if whole else None,
        steps=[_step_shape(view, now) for view in some.steps],
        edges=[EdgeShape(before=id, after=view.step.id) for view in some.steps for id in view.prerequisites],
        next=some.next,
    )


def edge_list(page: EdgePage) -> EdgeList:
    """Some edges."""
    edges = [EdgeShape(before=edge.parent, after=edge.child) for edge in page.edges]
    return EdgeList(edges=edges, next=next_text(page.after))


def _group_shape(group: StepGroup) -> StepGroupShape:
    return StepGroupShape(queue=group.queue, handler=group.handler, state=group.state, tasks=group.tasks)


def _step_shape(view: StepView, now: Micros) -> StepShape:
    step = view.step
    return StepShape(
        id=step.id,
        name=view.name,
        handler=step.handler,
        state=step.state,
        prerequisites=list(view.prerequisites),
        ready=to_datetime(view.ready),
        began=as_datetime(view.began),
        ended=as_datetime(view.ended),
        waited_seconds=view.waited(now) / 1e6,
        worked_seconds=view.worked(now) / 1e6,
        slack_seconds=None if view.slack is None else view.slack / 1e6,
        critical=view.critical,
        reason=step.reason,
    )
