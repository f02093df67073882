"""The pages Workflows and Workflow: what is slow, what failed, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.core.filter import Condition, Op, Pattern, Query
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.dashboard.forms import Named
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.bars import draw_states
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.gantt import draw_gantt
from windlass.dashboard.svg.graph import draw_graph
from windlass.dashboard.svg.step_groups import Group, collapse
from windlass.dashboard.visit import Visit
from windlass.operations import workflows
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.presentation import shorten_handler
from windlass.operations.workflow_graph import StepView, Summary, Workflow, step_name
from windlass.operations.workflow_path import CriticalPath, describe_path
from windlass.operations.workflow_rows import Bar, make_bars, summarize
from windlass.operations.workflows import Stage
from windlass.server.events.topics import Topic, WorkflowTopic
from windlass.stores.protocol import Filter
from windlass.stores.workflow_reads import Step, WorkflowCursor
from windlass.wire.cursors import decode_next, next_text

pages = Pages()

LISTED = 50
STEPS = 100
"""How many steps a page of the table has."""
BARS = 60
"""How many bars the Gantt chart has at most."""
FAILED_STEPS = 5
BAD = (State.FAILED, State.EXPIRED)
Text = Annotated[str, Meta(max_length=512)]


class Shown(StrEnum):
    """How the steps of a workflow are shown."""

    GRAPH = "graph"
    GANTT = "gantt"
    TABLE = "table"


class WorkflowsQuery(Struct, frozen=True, kw_only=True):
    """Which workflows."""

    name: Text = ""
    stage: Stage = Stage.ANY
    tenant: Text = ""
    after: str = ""


class WorkflowRow(Struct, frozen=True, kw_only=True):
    """A workflow in the list."""

    name: str
    tenant: str
    tasks: int
    complete: bool
    states: Mapping[State, int]
    bar: Markup
    done: float
    """The share of its steps that have ended."""
    submitted: Micros
    latest: Micros


class WorkflowsPage(Struct, frozen=True, kw_only=True):
    """What the list shows."""

    query: WorkflowsQuery
    rows: Sequence[WorkflowRow]
    next: str | None
    stages: Sequence[Stage] = tuple(Stage)

    @property
    def filtered(self) -> bool:
        """Return True if only some workflows are asked for."""
        return self.query != WorkflowsQuery()


@pages.show("/workflows", "workflows.html", title="Workflows", nav=Nav("Workflows", "w"))
def show_workflows(visit: Visit, query: WorkflowsQuery) -> WorkflowsPage:
    """List workflows, the latest submit first."""
    access = visit.access
    after = decode_next(query.after or None, WorkflowCursor, access.seal)
    found = workflows.search(
        access, name=query.name, stage=query.stage, tenant=query.tenant or None, limit=LISTED, after=after
    )
    return WorkflowsPage(
        query=query, rows=[_row(each) for each in found.workflows], next=next_text(found.after, access.seal)
    )


def _row(listed: workflows.Listed) -> WorkflowRow:
    total = sum(listed.tasks.values())
    ended = sum(number for state, number in listed.tasks.items() if state.final)
    return WorkflowRow(
        name=listed.name,
        tenant=listed.tenant,
        tasks=total,
        complete=listed.complete,
        states=listed.tasks,
        bar=draw_states(listed.tasks),
        done=ended / max(1, total),
        submitted=listed.submitted,
        latest=listed.latest,
    )


class WorkflowQuery(Struct, frozen=True, kw_only=True):
    """Which workflow, and how it is shown."""

    name: Text = ""
    tenant: Text = ""
    show: Shown = Shown.GRAPH
    after: UUID | None = None
    """The step after which the table begins."""
    state: State | None = None
    """The only state that the table shows."""
    retry: Text = ""
    """The step from which to retry: shows what that would do."""


class RetryPlan(Struct, frozen=True, kw_only=True):
    """What a retry from a step would do."""

    step: str
    name: str
    tasks: int
    problem: str = ""


class Line(Struct, frozen=True, kw_only=True):
    """A step in the table."""

    view: StepView
    after: str
    """The names of its prerequisites."""


class WorkflowPage(Struct, frozen=True, kw_only=True):
    """What the page of one workflow shows."""

    name: str
    tenant: str
    show: Shown
    tasks: int
    states: Mapping[State, int]
    submitted: Micros
    ended: Micros | None
    bar: Markup
    counted: bool
    """True if the workflow is too large for a graph, so that it has only a table."""
    drawing: Markup | None = None
    boxes: int = 0
    """How many boxes or bars the drawing has."""
    hidden: int = 0
    """How many steps have no bar."""
    path: CriticalPath | None = None
    deadline: Micros | None = None
    failed: Sequence[Step] = ()
    lines: Sequence[Line] = ()
    next: TaskId | None = None
    state: State | None = None
    retry: RetryPlan | None = None
    views: Sequence[Shown] = tuple(Shown)

    @property
    def params(self) -> Mapping[str, Any]:
        """Return what identifies the workflow in an address."""
        return {"name": self.name, "tenant": self.tenant}

    @property
    def unfinished(self) -> int:
        """Return how many steps have not ended."""
        return sum(number for state, number in self.states.items() if not state.final)

    @property
    def running(self) -> int:
        """Return how many steps run."""
        return self.states.get(State.LEASED, 0)

    def query(self, **conditions: str) -> str:
        """Return a filter for tasks of the workflow."""
        return make_query(workflow=self.name, tenant=self.tenant, **conditions)


def follow_workflow(visit: Visit, query: WorkflowQuery) -> Topic:
    """Follow the steps of one workflow."""
    caller = visit.caller
    tenant = workflows.find_tenant(visit.access, query.name, query.tenant or None)
    return WorkflowTopic(name=query.name, tenant=tenant, queue=caller.queue, unrestricted=not caller.limited)


@pages.show("/workflows/view", "workflow.html", title="Workflow", follows=follow_workflow)
def show_workflow(visit: Visit, query: WorkflowQuery) -> WorkflowPage:
    """Show one workflow. Its name is in the query, because it may contain anything."""
    access = visit.access
    found = workflows.get(access, query.name, tenant=query.tenant or None)
    page = _describe(visit, found, query)
    if query.retry:
        page = replace(page, retry=_plan_retry(visit, page, query.retry))
    return page


def _describe(visit: Visit, found: Workflow | Summary, query: WorkflowQuery) -> WorkflowPage:
    counted = isinstance(found, Summary)
    page = WorkflowPage(
        name=found.name,
        tenant=found.tenant,
        show=Shown.TABLE if counted else query.show,
        tasks=found.tasks,
        states=found.states,
        submitted=found.submitted,
        ended=found.ended,
        bar=draw_states(found.states),
        counted=counted,
        state=query.state,
    )
    if isinstance(found, Summary):
        failed = workflows.find_first(visit.access, found, BAD, FAILED_STEPS)
    else:
        failed = [step for step in found.steps if step.state in BAD][:FAILED_STEPS]
        page = replace(
            page, path=describe_path(found, visit.now), deadline=workflows.find_deadline(visit.access, found)
        )
    page = replace(page, failed=failed)
    if page.show is Shown.TABLE or isinstance(found, Summary):
        return _with_table(visit, found, page, query)
    return _with_drawing(visit, found, page)


def _with_drawing(visit: Visit, found: Workflow, page: WorkflowPage) -> WorkflowPage:
    if page.show is Shown.GRAPH:
        graph = collapse(found)

        def link(group: Group) -> str:
            if group.tasks == 1:
                return visit.url(f"tasks/{found.steps[group.places[0]].id}")
            conditions = {} if group.handler is None else {"handler": group.handler}
            return visit.url("tasks", q=page.query(**conditions))

        drawing = draw_graph(found, graph, visit.now, link=link, title=f"Steps of {found.name}")
        return replace(page, drawing=drawing, boxes=len(graph.groups))
    bars, left_out = make_bars(found, summarize(found, BARS), visit.now)

    def link_bar(bar: Bar) -> str:
        step = found.steps[bar.places[0]]
        if len(bar.places) == 1:
            return visit.url(f"tasks/{step.id}")
        return visit.url("tasks", q=page.query(handler=step.handler))

    drawing = draw_gantt(
        bars,
        start=found.submitted,
        end=found.ended or visit.now,
        title=f"Steps of {found.name} over time",
        deadline=page.deadline,
        link=link_bar,
    )
    return replace(page, drawing=drawing, boxes=len(bars), hidden=sum(left_out.values()))


def _with_table(visit: Visit, found: Workflow | Summary, page: WorkflowPage, query: WorkflowQuery) -> WorkflowPage:
    after = None if query.after is None else TaskId(query.after)
    if isinstance(found, Workflow) and query.state is not None:
        views, next_step = _in_state(visit, found, query.state, after)
    else:
        part = workflows.page(visit.access, found, limit=STEPS, after=after)
        views, next_step = part.steps, part.next
    lines = [Line(view=view, after=_prerequisites(found, view)) for view in views]
    return replace(page, lines=lines, next=next_step)


def _in_state(
    visit: Visit, found: Workflow, state: State, after: TaskId | None
) -> tuple[list[StepView], TaskId | None]:
    first = 0 if after is None else found.places.get(after, -1) + 1
    places = [place for place in range(first, found.tasks) if found.steps[place].state is state]
    views = [found.view(place, visit.now) for place in places[:STEPS]]
    return views, views[-1].step.id if len(places) > STEPS else None


def _prerequisites(found: Workflow | Summary, view: StepView) -> str:
    if isinstance(found, Workflow):
        above = found.prerequisites[found.places[view.step.id]]
        names = [step.key or shorten_handler(step_name(step)) for step in (found.steps[place] for place in above[:3])]
        return ", ".join(names) + (f" and {len(above) - 3:,} more" if len(above) > 3 else "")
    return "" if not view.prerequisites else f"{len(view.prerequisites):,} steps"


def _plan_retry(visit: Visit, page: WorkflowPage, step: str) -> RetryPlan:
    task = workflows.find_step(visit.access, page.name, step, tenant=page.tenant)
    name = task.key or shorten_handler(task.handler)
    if not task.state.ended_badly:
        problem = f"Step {name} is {task.state.value}. Only a failed, cancelled or expired step can be retried."
        return RetryPlan(step=step, name=name, tasks=0, problem=problem)
    tasks = workflows.retry(visit.access, page.name, step, visit.author(), tenant=page.tenant, dry_run=True)
    return RetryPlan(step=step, name=name, tasks=tasks)


class WorkflowForm(Named, frozen=True, kw_only=True):
    """Which workflow to change, and why."""

    tenant: Text


class RetryForm(WorkflowForm, frozen=True, kw_only=True):
    """From which step to retry."""

    step: Text


@pages.act("/workflows/cancel")
def cancel_workflow(visit: Visit, form: WorkflowForm) -> Goto:
    """Cancel the unfinished steps of a workflow."""
    tenant = workflows.find_tenant(visit.access, form.name, form.tenant)
    which = Filter(workflow=form.name, tenant=tenant)
    bulk = BulkAction(visit.access, Verb.CANCEL, which, visit.author(form.why))
    bulk.count()
    done = bulk.run()
    return _back(form, f"Cancelled {_tasks(done)} of {form.name}. Running tasks are asked to stop.")


@pages.act("/workflows/retry")
def retry_workflow(visit: Visit, form: RetryForm) -> Goto:
    """Retry a step that ended badly, and everything that was cancelled because of it."""
    done = workflows.retry(visit.access, form.name, form.step, visit.author(form.why), tenant=form.tenant)
    return _back(form, f"Retried {_tasks(done)} of {form.name}.")


def _back(form: WorkflowForm, text: str) -> Goto:
    return Goto(path="workflows/view", params={"name": form.name, "tenant": form.tenant}, text=text)


def _tasks(number: int) -> str:
    return f"{number:,} task{'' if number == 1 else 's'}"


def make_query(**conditions: str) -> str:
    """Return a filter in which fields have these values, with quotes where they are needed."""
    return str(
        Query(
            tuple(Condition(field=field, op=Op.IS, values=(Pattern((value,)),)) for field, value in conditions.items())
        )
    )
