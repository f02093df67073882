"""Reads of workflows, in pages: the list of workflows, and the steps, groups of steps, and edges of one.

Steps come in submit order: by submit time, then by id. One call reads at most `SCANNED` rows and their neighbors,
however large the workflow is. Pages are read at different times: a step may change its state between two of them, but
every step is on exactly one page. A cursor stays valid after its step is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros

SCANNED = 10_000
"""The largest number of tasks, edges or submits that one call reads."""


class StepCursor(Struct, frozen=True):
    """The end of a page of steps: the last step that was read."""

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
    """A page of steps. `after` is None on the last page. Earlier pages may be short or empty."""

    steps: list[Step]
    after: StepCursor | None


class StepGroup(Struct, frozen=True, kw_only=True, gc=False):
    """The steps of one queue, handler and state: their number, and their first and last times."""

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
    """A page of groups. The same group may be on several pages; `after` is None on the last one."""

    groups: list[StepGroup]
    after: StepCursor | None


class Edge(Struct, frozen=True, gc=False):
    """An edge: the child waits, or has waited, for the parent."""

    parent: TaskId
    child: TaskId


class EdgeCursor(Struct, frozen=True):
    """The end of a page of edges: the last child, and its last parent or None if it has none."""

    submitted: Micros
    child: TaskId
    parent: TaskId | None


class EdgePage(Struct, frozen=True):
    """A page of edges. `after` is None on the last page. Earlier pages may be short or empty."""

    edges: list[Edge]
    after: EdgeCursor | None


class WorkflowCursor(Struct, frozen=True):
    """The end of a page of workflows."""

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
    """The groups of its first `SCANNED` steps."""
    complete: bool
    """True if `groups` includes all steps."""


class WorkflowPage(Struct, frozen=True):
    """A page of workflows. `after` is None on the last page. Earlier pages may be short or empty."""

    workflows: list[WorkflowSeen]
    after: WorkflowCursor | None


class WorkflowReader(Protocol):
    """The part of the read path that is about workflows. A limit above `SCANNED` counts as `SCANNED`."""

    def workflows(
        self, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
    ) -> WorkflowPage:
        """Return a page of the workflows that have tasks, of all tenants or of one, latest submit first.

        A workflow that gets more tasks between the reads of two pages may be missing from both.
        """
        ...

    def workflow_tenants(self, workflow: str, *, limit: int = 100) -> list[str]:
        """Return the tenants that have a workflow of this name, sorted, up to `limit`."""
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
        """Return a page of the steps of a workflow in submit order; with `states`, only those in these states."""
        ...

    def workflow_groups(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: StepCursor | None = None
    ) -> GroupPage:
        """Count the next `limit` steps of a workflow by queue, handler and state, in that order."""
        ...

    def workflow_edges(
        self, workflow: str, *, tenant: str, limit: int = SCANNED, after: EdgeCursor | None = None
    ) -> EdgePage:
        """Return a page of the edges of a workflow, by child in submit order, then by the parent's id."""
        ...
