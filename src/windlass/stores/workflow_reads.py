"""Reads of whole workflows, in pages: the list of workflows, and the steps, groups of steps, and edges of one.

Steps come in submit order: by submit time, then by id. No call looks at more than `SCANNED` rows and those next to
them, however large the workflow is. The pages of one workflow are read at different moments: a step may have moved on
between two of them, but a step that stays is on exactly one page. A cursor stays valid after its step is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros

SCANNED = 10_000
"""How many tasks, edges or submits one call looks at, at most."""


class StepCursor(Struct, frozen=True):
    """Where a page of steps ended: the last step that was looked at."""

    submitted: Micros
    id: TaskId


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """A task of a workflow, without its arguments, rules and result."""

    id: TaskId
    key: str | None
    handler: str
    queue: str
    state: State
    submitted: Micros
    claimed: Micros | None
    finished: Micros | None
    reason: str | None


class StepPage(Struct, frozen=True):
    """Some steps. `after` is None on the last page; a page before it may be short, or empty."""

    steps: list[Step]
    after: StepCursor | None


class StepGroup(Struct, frozen=True, kw_only=True, gc=False):
    """The steps of one queue, handler and state: how many they are, and their first and last times."""

    queue: str
    handler: str
    state: State
    tasks: int
    submitted: Micros
    """The first."""
    claimed: Micros | None
    """The first."""
    finished: Micros | None
    """The last."""


class GroupPage(Struct, frozen=True):
    """Some steps, counted. The same group may be on several pages; `after` is None on the last one."""

    groups: list[StepGroup]
    after: StepCursor | None


class Edge(Struct, frozen=True, gc=False):
    """One step that waits for another, or has waited for it."""

    parent: TaskId
    child: TaskId


class EdgeCursor(Struct, frozen=True):
    """Where a page of edges ended: the last child, and its last parent; None if the child has no edge."""

    submitted: Micros
    child: TaskId
    parent: TaskId | None


class EdgePage(Struct, frozen=True):
    """Some edges. `after` is None on the last page; a page before it may be short, or empty."""

    edges: list[Edge]
    after: EdgeCursor | None


class WorkflowCursor(Struct, frozen=True):
    """Where a page of workflows ended."""

    submitted: Micros
    workflow: str
    tenant: str


class WorkflowSeen(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    workflow: str
    tenant: str
    submitted: Micros
    """When its first step was submitted."""
    latest: Micros
    """When its latest step was submitted."""
    groups: list[StepGroup]
    """Its first `SCANNED` steps, counted."""
    complete: bool
    """Whether `groups` counts all of its steps."""


class WorkflowPage(Struct, frozen=True):
    """Some workflows. `after` is None on the last page; a page before it may be short, or empty."""

    workflows: list[WorkflowSeen]
    after: WorkflowCursor | None


class WorkflowReader(Protocol):
    """The part of the read path that is about workflows. A limit above `SCANNED` counts as `SCANNED`."""

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        """A page of the workflows that have tasks, of all tenants or of one; the latest submit comes first.

        A workflow that takes in more tasks between two pages may be missing from both.
        """
        ...

    def workflow_tenants(self, workflow: str, *, limit: int = 100) -> list[str]:
        """The tenants that have a workflow of this name, in order, up to `limit`."""
        ...

    def workflow_steps(
        self,
        workflow: str,
        *,
        tenant: str,
        states: Collection[State] = (),
        limit: int = 1_000,
        after: StepCursor | None = None,
    ) -> StepPage:
        """A page of the steps of a workflow, in submit order; with `states` only those in one of these states."""
        ...

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        """Count the next `limit` steps of a workflow by queue, handler and state, in that order."""
        ...

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        """A page of the edges between steps of a workflow: by child in submit order, then by the parent's id."""
        ...
