"""The JSON shapes of workflows: submitted whole or in parts, listed, and seen as a graph."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.lifecycle import State
from windlass.core.times import Micros, to_datetime
from windlass.redaction import redacted_text
from windlass.server.schemas import Length, Name, SubmitTask, Text
from windlass.server.settings import MAX_BATCH
from windlass.workflow_view import Listed, Step, Workflow, slack

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
    """A workflow, with how many of its tasks are in each state, of those that were looked at."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    submitted: datetime


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
    slack_seconds: float
    """How much longer it could have taken without the end coming later."""
    critical: bool
    reason: str | None


class EdgeShape(Struct, frozen=True, kw_only=True):
    """One step that waits for another."""

    before: UUID
    after: UUID


class WorkflowShape(Struct, frozen=True, kw_only=True):
    """All of a workflow, in an order in which prerequisites come first."""

    workflow: str
    tenant: str
    tasks: dict[str, int]
    submitted: datetime
    ended: datetime | None
    steps: list[StepShape]
    edges: list[EdgeShape]
    critical_path: list[UUID]
    """The steps that decide when it ends."""


def row_shape(found: Listed) -> WorkflowRow:
    """A workflow in a list."""
    tasks = {state.value: number for state, number in found.tasks.items()}
    return WorkflowRow(workflow=found.name, tenant=found.tenant, tasks=tasks, submitted=to_datetime(found.submitted))


def workflow_shape(found: Workflow, now: Micros) -> WorkflowShape:
    """All of it."""
    spare, critical = slack(found.steps, now), set(found.critical)
    return WorkflowShape(
        workflow=found.name,
        tenant=found.tenant,
        tasks={state.value: number for state, number in found.states.items()},
        submitted=to_datetime(found.submitted),
        ended=_moment(found.ended),
        steps=[_step(step, now, spare[step.task.id], critical=step.task.id in critical) for step in found.steps],
        edges=[EdgeShape(before=id, after=step.task.id) for step in found.steps for id in step.prerequisites],
        critical_path=list(found.critical),
    )


def _step(step: Step, now: Micros, spare: Micros, *, critical: bool) -> StepShape:
    task = step.task
    return StepShape(
        id=task.id,
        name=step.name,
        handler=task.handler,
        state=task.state,
        prerequisites=list(step.prerequisites),
        ready=to_datetime(step.ready),
        began=_moment(step.began),
        ended=_moment(step.ended),
        waited_seconds=step.waited(now) / 1e6,
        worked_seconds=step.worked(now) / 1e6,
        slack_seconds=spare / 1e6,
        critical=critical,
        reason=None if task.reason is None else redacted_text(task.reason),
    )


def _moment(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
