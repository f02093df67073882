"""`windlass workflows`: list, show, draw, cancel and retry workflows, and set their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from windlass.cli.bulk import apply_verb
from windlass.cli.options import (
    Consent,
    Decorator,
    author_options,
    consent_options,
    json_options,
    limit_option,
    store_option,
    tenant_option,
    tz_option,
)
from windlass.cli.output import echo, format_count, format_state, print_json, print_note, print_table
from windlass.cli.workflow_drawing import CRITICAL, Tree, draw_gantt
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.operations import events
from windlass.operations import workflows as operations
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import Verb
from windlass.operations.presentation import Times, format_span
from windlass.operations.workflow_graph import StepView, Summary, Workflow, step_name
from windlass.operations.workflow_rows import Gap, Row, format_group, format_states, format_steps, summarize
from windlass.operations.workflows import Listed, ListPage, Slice
from windlass.stores.protocol import Filter
from windlass.wire.workflows import EventShape, RetriedWorkflow, step_list, workflow_list, workflow_shape

ROWS, LINES = 50, 100
"""How many rows and lines of a large workflow are shown without --limit."""
PAGE = 1_000
"""How many steps one JSON document has."""
_FAILED, _RUNNING = (State.FAILED, State.EXPIRED), (State.LEASED, State.RETRYING)

after_option: Decorator = click.option(
    "--after-step", metavar="STEP", help="Start after this step: its key, name or id."
)


@click.group()
def workflows() -> None:
    """List, show, draw, cancel and retry workflows; set their events."""


@workflows.command("ls")
@store_option
@json_options
@tz_option
@tenant_option
@limit_option()
def ls(access: Access, form: str | None, times: Times, tenant: str | None, limit: int) -> None:
    """List workflows, newest first."""
    page = _find_newest(access, tenant, limit)
    shape = workflow_list(page, access.seal)
    if not print_json(form, shape, shape.workflows):
        rows = [
            [
                each.name,
                each.tenant,
                f"{sum(each.tasks.values()):,}{'' if each.complete else '+'}",
                _count_states(each.tasks),
                times.format(each.submitted),
            ]
            for each in page.workflows
        ]
        heads = ("workflow", "tenant", "#tasks", "states", "submitted")
        print_table(heads, rows, "No task belongs to a workflow.")
    if page.after is not None:
        print_note(f"Only the newest {limit} workflows are shown. Use --limit to see more.")


@workflows.command()
@store_option
@json_options
@tz_option
@click.argument("name")
@tenant_option
@limit_option(None)
@after_option
def show(access: Access, form: str | None, times: Times, **options: Any) -> None:
    """Show the steps of a workflow, their times and the critical path.

    Of many steps the most important are shown; --limit and --after-step page through all, --jsonl prints all.
    """
    view = WorkflowView(access, form, times, **options)
    if view.print_json_or_summary():
        return
    found = view.found
    assert isinstance(found, Workflow)
    if view.limit is None and view.after is None:
        rows = summarize(found, ROWS)
        print_table(_HEADS, [_cells(found, row, times) for row in rows])
        _print_hidden(found, [row for row in rows if isinstance(row, Gap)])
    else:
        view.print_page()


@workflows.command()
@store_option
@json_options
@tz_option
@click.argument("name")
@tenant_option
@limit_option(None)
@after_option
def graph(access: Access, form: str | None, times: Times, **options: Any) -> None:
    """Draw the steps of a workflow as a tree.

    Each step is drawn under the prerequisite that delayed it longest; ◆ marks the critical path. Similar steps share a
    line, and long chains are cut in the middle. With --after-step, the tree starts below that step.
    """
    view = WorkflowView(access, form, times, **options)
    if view.print_json_or_summary():
        return
    assert isinstance(view.found, Workflow)
    for line in Tree(view.found, times.now).lines(view.limit or LINES, view.place):
        echo(line)


@workflows.command("gantt")
@store_option
@json_options
@tz_option
@click.argument("name")
@tenant_option
@limit_option(None)
@after_option
def chart(access: Access, form: str | None, times: Times, **options: Any) -> None:
    """Draw the steps of a workflow over time.

    ░ waited, ▓ worked, ◆ on the critical path. Similar steps share a bar.
    """
    view = WorkflowView(access, form, times, **options)
    if view.print_json_or_summary():
        return
    found, limit = view.found, view.limit or ROWS
    assert isinstance(found, Workflow)
    rows: Sequence[Row] = summarize(found, limit)
    if view.place is not None:
        rows = range(view.place + 1, min(found.tasks, view.place + 1 + limit))
    for line in draw_gantt(found, times.now, rows):
        echo(line)


@workflows.command()
@store_option
@json_options
@click.argument("name")
@click.option("--from", "step", required=True, metavar="STEP", help="Step to retry from: its key, name or id.")
@tenant_option
@consent_options
@author_options
def retry(
    access: Access, form: str | None, name: str, step: str, tenant: str | None, consent: Consent, author: Author
) -> None:
    """Retry a failed step and everything that was cancelled because of it."""
    count = operations.retry(access, name, step, author, tenant=tenant, dry_run=True)
    done = 0
    if consent.given("retry", count):
        done = operations.retry(access, name, step, author, tenant=tenant)
        if form is None:
            echo(f"Retried {format_count(done)}.")
    print_json(form, RetriedWorkflow(retried=done, matching=count))


@workflows.command()
@store_option
@json_options
@click.argument("name")
@click.argument("event")
@click.option("--data", metavar="JSON", help="Value of the event, which the steps after it get.")
@tenant_option
@author_options
def signal(
    access: Access, form: str | None, name: str, event: str, data: str | None, tenant: str | None, author: Author
) -> None:
    """Set an event that a workflow waits for, such as an approval.

    It may be set before the workflow exists. Setting it again to the same value does nothing.
    """
    done = events.set_event(access, name, event, _decode(data), author, tenant=tenant)
    shape = EventShape(workflow=name, event=event, task=done.task, changed=done.changed, state=done.state)
    if print_json(form, shape):
        return
    if not done.changed:
        echo(f"Event {event} of {name} was already set to this value.")
    elif done.state is State.COMPLETED:
        echo(f"Set event {event} of {name}.")
    else:
        echo(f"Set event {event} of {name}. Its step completes when its prerequisites have ended.")


def _decode(data: str | None) -> Any:
    try:
        return None if data is None else msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"{data!r} is not JSON ({error}). Text needs quotes: '\"yes\"'.", param_hint="--data"
        ) from None


@workflows.command()
@store_option
@json_options
@click.argument("name")
@tenant_option
@consent_options
@author_options
def cancel(access: Access, form: str | None, name: str, tenant: str | None, consent: Consent, author: Author) -> None:
    """Cancel the unfinished tasks of a workflow; running tasks are asked to stop."""
    which = Filter(workflow=name, tenant=operations.find_tenant(access, name, tenant))
    apply_verb(access, Verb.CANCEL, which, consent, author, form)


def _find_newest(access: Access, tenant: str | None, limit: int) -> ListPage:
    found: list[Listed] = []
    after = None
    while len(found) < limit:
        page = operations.find(access, tenant=tenant, limit=min(PAGE, limit - len(found)), after=after)
        found, after = found + page.workflows, page.after
        if after is None:
            break
    return ListPage(found, after)


class WorkflowView:
    """A workflow to show, with the options that `show`, `graph` and `gantt` share."""

    def __init__(
        self,
        access: Access,
        form: str | None,
        times: Times,
        *,
        name: str,
        tenant: str | None,
        limit: int | None,
        after_step: str | None,
    ) -> None:
        self.access, self.form, self.times, self.limit = access, form, times, limit
        self.found = operations.get(access, name, tenant=tenant)
        self.after: TaskId | None = None
        if after_step is not None:
            self.after = operations.find_step(access, name, after_step, tenant=self.found.tenant).id

    @property
    def place(self) -> int | None:
        """Return the place of the step to start after."""
        assert isinstance(self.found, Workflow)
        return None if self.after is None else self.found.places[self.after]

    def print_json_or_summary(self) -> bool:
        """Print JSON, or the head and the counts of a workflow too large to draw. Return True if nothing is left."""
        if self.form is not None:
            self._print_json()
            return True
        _print_head(self.found, self.times)
        if not isinstance(self.found, Summary):
            return False
        if self.limit is not None or self.after is not None:
            self.print_page()
        else:
            _print_summary(self.access, self.found)
        return True

    def print_page(self) -> None:
        """Print a table of the next steps."""
        page = self._page(self.limit or ROWS, self.after)
        rows = [_step_cells(step, _prerequisites(self.found, step), self.times) for step in page.steps]
        print_table(_HEADS, rows)
        if page.next is not None:
            print_note(f"… and more: --after-step {page.next}")

    def _print_json(self) -> None:
        """Print one document with a page of steps; with --jsonl, all steps from there on, one per line."""
        if self.form == "json":
            page = self._page(self.limit or PAGE, self.after)
            print_json(self.form, workflow_shape(self.found, page, self.times.now))
            return
        left, after = self.limit, self.after
        while left is None or left > 0:
            page = self._page(PAGE if left is None else min(PAGE, left), after)
            print_json(self.form, step_list(page, self.times.now).steps, name="steps")
            after = page.next
            if after is None:
                return
            left = None if left is None else left - len(page.steps)

    def _page(self, limit: int, after: TaskId | None) -> Slice:
        return operations.page(self.access, self.found, limit=limit, after=after)


_HEADS = ("", "step", "state", "#waited", "#worked", "after", "id")


def _print_head(found: Workflow | Summary, times: Times) -> None:
    end = "unfinished" if found.ended is None else f"ended {times.format(found.ended)}"
    lasted = format_span((found.ended or times.now) - found.submitted)
    echo(f"{found.name}  tenant {found.tenant}  {format_states(found.states)}")
    echo(f"submitted {times.format(found.submitted)}, {end}, {lasted} in total")


def _cells(found: Workflow, row: Row, times: Times) -> list[str]:
    if isinstance(row, Gap):
        return ["", row.text, "", "", "", "", ""]
    if isinstance(row, int):
        view = found.view(row)
        return _step_cells(view, _prerequisites(found, view), times)
    views = [found.view(place) for place in row.places]
    ran = [view for view in views if view.began is not None]
    return [
        "",
        format_group(found, row.places),
        format_state(views[0].step.state),
        f"≤ {format_span(max(view.waited(times.now) for view in views))}",
        f"≤ {format_span(max(view.worked(times.now) for view in ran))}" if ran else "–",
        format_steps(found, found.prerequisites[row.places[0]]),
        f"{views[0].step.id} …",
    ]


def _step_cells(view: StepView, prerequisites: str, times: Times) -> list[str]:
    return [
        CRITICAL if view.critical else "",
        view.name,
        format_state(view.step.state),
        format_span(view.waited(times.now)),
        format_span(view.worked(times.now)) if view.began is not None else "–",
        prerequisites,
        str(view.step.id),
    ]


def _prerequisites(found: Workflow | Summary, view: StepView) -> str:
    if isinstance(found, Workflow):
        return format_steps(found, found.prerequisites[found.places[view.step.id]])
    more = f" and {len(view.prerequisites) - 1:,} more" if len(view.prerequisites) > 1 else ""
    return f"{view.prerequisites[0]}{more}" if view.prerequisites else ""


def _print_hidden(found: Workflow, gaps: Sequence[Gap]) -> None:
    if gaps:
        hidden = sum(sum(gap.states.values()) for gap in gaps)
        print_note(f"{hidden:,} of {found.tasks:,} steps are not shown. --limit and --after-step page through all.")


def _print_summary(access: Access, found: Summary) -> None:
    """Print the counts of a large workflow by handler, and its first failed, running and runnable steps."""
    echo(f"{found.tasks:,} steps are too many for a graph and a critical path. Counts:")
    handlers: dict[str, dict[State, int]] = {}
    for group in found.groups:
        states = handlers.setdefault(group.handler, {})
        states[group.state] = states.get(group.state, 0) + group.tasks
    largest = sorted(handlers, key=lambda handler: (-sum(handlers[handler].values()), handler))
    rows = [
        [handler, f"{sum(handlers[handler].values()):,}", _count_states(handlers[handler])]
        for handler in largest[:ROWS]
    ]
    print_table(("handler", "#tasks", "states"), rows)
    if len(largest) > ROWS:
        echo(f"… {len(largest) - ROWS:,} more handlers. --json lists all.")
    for title, states in (("failed", _FAILED), ("running", _RUNNING), ("next", (State.RUNNABLE,))):
        number = sum(found.states.get(state, 0) for state in states)
        if number:
            steps = operations.find_first(access, found, states, 10)
            more = f" and {number - len(steps):,} more" if number > len(steps) else ""
            echo(f"{title}: {', '.join(step_name(step) for step in steps)}{more}")
    print_note("--limit and --after-step page through the steps in submit order. --jsonl prints all.")


def _count_states(tasks: dict[State, int]) -> str:
    return ", ".join(f"{tasks[state]:,} {state.value}" for state in State if tasks.get(state))
