"""The JSON shapes of workflows."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.lifecycle import State
from windlass.core.times import Micros, to_datetime
from windlass.operations.cursor_seal import CursorSeal
from windlass.operations.workflow_graph import StepView, Summary, Workflow
from windlass.operations.workflows import Listed, ListPage, Slice
from windlass.stores.workflow_reads import EdgePage, StepGroup
from windlass.wire.cursors import next_text
from windlass.wire.fields import MAX_BATCH, Length, Moment, Name, Reason, Text, as_datetime
from windlass.wire.tasks import SubmitTask

MOST_PATH = 1_000
"""How many steps of the critical path one response has."""
Tasks = Annotated[list[SubmitTask], Meta(max_length=MAX_BATCH)]


class SubmitWorkflow(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A workflow to submit. Its tasks name each other by key in `after`."""

    name: Text
    tenant: Name | None = None
    tasks: Tasks = []  # noqa: RUF012 - msgspec copies it
    sealed: bool = True
    """False: it waits, and accepts more tasks, until it is sealed."""
    forward: Length | None = None
    """How long a key in `after` may wait for its task to be submitted; only with `sealed` false."""


class AppendTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tasks to add to a workflow."""

    tasks: Annotated[list[SubmitTask], Meta(min_length=1, max_length=MAX_BATCH)]
    tenant: Name | None = None


class SealWorkflow(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to seal a workflow."""

    tenant: Name | None = None
    missing: bool = False
    """Count tasks that were named but never submitted as ended badly; `on_failure` of their dependents decides."""


class SealedShape(Struct, frozen=True, kw_only=True):
    """A sealed workflow, which may run."""

    workflow: str
    tenant: str


class SetEvent(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The value of an event, and why it is set."""

    value: Any = None
    """What the steps after the event get, any JSON."""
    tenant: Name | None = None


class EventShape(Struct, frozen=True, kw_only=True):
    """An event that is set."""

    workflow: str
    event: str
    task: UUID
    """The step of the event."""
    changed: bool
    """False if it was set to the same value before."""
    state: State
    """The state of the step: completed, or waiting while its prerequisites are open."""


class WorkflowRow(Struct, frozen=True, kw_only=True):
    """A workflow in a list, with its tasks by state."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    complete: bool
    """False if only its first 10,000 tasks were counted."""
    submitted: Moment
    """When its first task was submitted."""
    latest: Moment
    """When its latest task was submitted."""


class WorkflowList(Struct, frozen=True, kw_only=True):
    """Some workflows, the latest submit first. If `next` is not null there may be more: pass it as `after`."""

    workflows: list[WorkflowRow]
    next: str | None


class StepShape(Struct, frozen=True, kw_only=True):
    """A task of a workflow, with its times."""

    id: UUID
    name: str
    """Its key, or its handler and the end of its id."""
    handler: str
    state: State
    prerequisites: list[UUID]
    """Prerequisites in the same workflow."""
    ready: Moment
    """When it could have run: when it was submitted, or its last prerequisite ended."""
    began: Moment | None
    ended: Moment | None
    waited_seconds: float
    worked_seconds: float
    slack_seconds: float | None
    """How much longer it could have taken without delaying the end; null if steps are in submit order."""
    critical: bool | None
    """Whether it is on the critical path; null if steps are in submit order."""
    reason: str | None


class StepList(Struct, frozen=True, kw_only=True):
    """Some steps of a workflow in submit order. If `next` is not null there are more: pass it as `after`."""

    steps: list[StepShape]
    next: UUID | None


class EdgeShape(Struct, frozen=True, kw_only=True):
    """An edge: `after` waits for `before`."""

    before: UUID
    after: UUID


class EdgeList(Struct, frozen=True, kw_only=True):
    """Some edges of a workflow. If `next` is not null there may be more: pass it as `after`."""

    edges: list[EdgeShape]
    next: str | None


class StepGroupShape(Struct, frozen=True, kw_only=True):
    """The number of tasks of a workflow with one queue, handler and state."""

    queue: str
    handler: str
    state: State
    tasks: int


class WorkflowShape(Struct, frozen=True, kw_only=True):
    """A workflow with a page of its steps, in an order in which prerequisites come first."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    submitted: Moment
    ended: Moment | None
    aggregated: bool
    """True if it has too many steps or edges for an order and a critical path. Then `steps` is empty."""
    groups: list[StepGroupShape]
    """If `aggregated`: its tasks by queue, handler and state."""
    critical_path: list[UUID]
    """The first 1,000 steps of the path that decides when it ends; empty if `aggregated`."""
    critical_steps: int | None
    """How many steps are on the critical path; null if `aggregated`."""
    steps: list[StepShape]
    edges: list[EdgeShape]
    """The edges that lead to these steps."""
    next: UUID | None
    """If not null there are more steps: pass it as `after`."""


class RetryWorkflow(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which step to retry."""

    step: Text
    """A step that failed, expired or was cancelled: its key, its name or its id."""
    tenant: Name | None = None
    dry_run: bool = False
    """Only count."""


class RetriedWorkflow(Struct, frozen=True, kw_only=True):
    """How many tasks were retried."""

    retried: int
    matching: int
    """With `dry_run`: how many it would be."""


def _row_shape(found: Listed) -> WorkflowRow:
    """Convert a workflow in a list."""
    return WorkflowRow(
        workflow=found.name,
        tenant=found.tenant,
        tasks={state.value: number for state, number in found.tasks.items()},
        complete=found.complete,
        submitted=to_datetime(found.submitted),
        latest=to_datetime(found.latest),
    )


def workflow_list(page: ListPage, seal: CursorSeal) -> WorkflowList:
    """Convert a page of workflows."""
    return WorkflowList(workflows=[_row_shape(each) for each in page.workflows], next=next_text(page.after, seal))


def step_list(some: Slice, now: Micros) -> StepList:
    """Convert a page of steps."""
    return StepList(steps=[_step_shape(view, now) for view in some.steps], next=some.next)


def workflow_shape(found: Workflow | Summary, some: Slice, now: Micros) -> WorkflowShape:
    """Convert a workflow with some of its steps."""
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


def edge_list(page: EdgePage, seal: CursorSeal) -> EdgeList:
    """Convert a page of edges."""
    edges = [EdgeShape(before=edge.parent, after=edge.child) for edge in page.edges]
    return EdgeList(edges=edges, next=next_text(page.after, seal))


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
