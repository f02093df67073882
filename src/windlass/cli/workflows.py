"""`windlass workflows`: what is slow, what is next, and the way back after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click

from windlass.cli.audit_options import because, by_option, entry, why_option
from windlass.cli.bulk import bulk_options, confirm
from windlass.cli.drawing import CRITICAL, Gap, Row, Tree, digest, gantt, group_name, names, tallied
from windlass.cli.output import form_options, number_of, print_json_form, print_note, table
from windlass.cli.shapes import task_json
from windlass.cli.stores import opened, store_option
from windlass.cli.task_pages import state_shown
from windlass.cli.time_options import Times, length, tz_option
from windlass.cli.verbs import CANCEL, Asked, perform
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import to_datetime
from windlass.errors import NotAllowed
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.legacy_workflows import (
    Listed,
    Slice,
    StepView,
    Summary,
    Workflow,
    find_step,
    first_in,
    list_workflows,
    page,
    step_name,
    tenant_of,
    workflow,
)
from windlass.stores.protocol import Filter, Store

ROWS, LINES = 50, 100
"""How much of a large workflow is shown, unless more is asked for."""
PAGE = 1_000
"""How many steps one JSON document has."""
MOST_PATH = 1_000
"""How many steps of the critical path one JSON document has."""
_FAILED, _RUNNING = (State.FAILED, State.EXPIRED), (State.LEASED, State.RETRYING)

tenant_option = click.option("--tenant", help="Whose, if several tenants have one of this name.")
limit_option = click.option("--limit", type=click.IntRange(1), help="Show so many steps, or lines of a picture.")
after_option = click.option("--after", "step", metavar="STEP", help="Begin behind this step: its key, name or id.")


@click.group()
def workflows() -> None:
    """See workflows: their steps, graph, times and critical path; cancel one, or retry from a step."""


@workflows.command("ls")
@store_option
@form_options
@tz_option
@click.option("--tenant", help="Only this tenant's.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000))
def ls(store_url: str | None, form: str | None, times: Times, tenant: str | None, limit: int) -> None:
    """List workflows, the latest submit first."""
    store = opened(store_url)
    found: list[Listed] = []
    after = None
    while len(found) < limit:
        some = list_workflows(store, tenant=tenant, limit=min(PAGE, limit - len(found)), after=after)
        found, after = found + some.workflows, some.next
        if after is None:
            break
    if not print_json_form(form, [_summary(each) for each in found]):
        rows = [
            [each.name, each.tenant, _size(each), _states(each.tasks), times.both(each.submitted)] for each in found
        ]
        table(("workflow", "tenant", "#tasks", "states", "submitted"), rows)
        if not found:
            print_note("no task belongs to a workflow")
    if after is not None:
        print_note(f"… and more; the latest {limit} are shown (--limit)")


@workflows.command()
@store_option
@form_options
@tz_option
@click.argument("name")
@tenant_option
@limit_option
@after_option
def show(
    store_url: str | None,
    form: str | None,
    times: Times,
    name: str,
    tenant: str | None,
    limit: int | None,
    step: str | None,
) -> None:
    """Its steps in order, how long each waited and worked, and which of them decide when it ends.

    Of many steps those that matter most are shown; --limit and --after go through all of them, --jsonl prints them all.
    """
    store = opened(store_url)
    found = workflow(store, name, tenant=tenant)
    after = None if step is None else find_step(store, name, found.tenant, step).id
    if form is not None:
        _print_json(store, found, form, times, limit, after)
        return
    _print_head(found, times)
    if isinstance(found, Summary):
        _print_summary(store, found, times, limit, after)
    elif limit is None and after is None:
        rows = digest(found, ROWS)
        _print_rows(found, rows, times)
        _say_how_to_see_more(found, [row for row in rows if isinstance(row, Gap)])
    else:
        _print_page(page(store, found, limit=limit or ROWS, after=after, now=times.now), found, times)


@workflows.command()
@store_option
@tz_option
@form_options
@click.argument("name")
@tenant_option
@limit_option
@after_option
def graph(
    store_url: str | None,
    form: str | None,
    times: Times,
    name: str,
    tenant: str | None,
    limit: int | None,
    step: str | None,
) -> None:
    """Its steps as a tree, each under the one that held it longest; ◆ marks the critical path.

    Steps that are alike are one line, and long chains are cut in the middle. With --after what hangs below a step.
    """
    drawable = _to_draw(store_url, form, times, name, tenant, limit, step)
    if drawable is None:
        return
    found, place = drawable
    for line in Tree(found, times.now).lines(limit or LINES, place):
        click.echo(line)


@workflows.command("gantt")
@store_option
@tz_option
@form_options
@click.argument("name")
@tenant_option
@limit_option
@after_option
def chart(
    store_url: str | None,
    form: str | None,
    times: Times,
    name: str,
    tenant: str | None,
    limit: int | None,
    step: str | None,
) -> None:
    """Its steps over time: ░ waited, ▓ worked, ◆ on the critical path. Steps that are alike are one bar."""
    drawable = _to_draw(store_url, form, times, name, tenant, limit, step)
    if drawable is None:
        return
    found, place = drawable
    rows: Sequence[Row] = digest(found, limit or ROWS)
    if place is not None:
        rows = range(place + 1, min(found.tasks, place + 1 + (limit or ROWS)))
    for line in gantt(found, times.now, rows):
        click.echo(line)


@workflows.command()
@store_option
@form_options
@click.argument("name")
@click.option("--from", "step", required=True, metavar="STEP", help="A step that ended badly: its key, name or id.")
@tenant_option
@bulk_options
@why_option
@by_option
def retry(
    store_url: str | None,
    form: str | None,
    name: str,
    step: str,
    tenant: str | None,
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Bring back a step that ended badly, and everything that was cancelled because of it."""
    store = opened(store_url)
    task = find_step(store, name, tenant_of(store, name, tenant), step)
    if not task.state.ended_badly:
        raise NotAllowed(f"step {step} is {task.state.value}; only one that ended badly is retried")
    count = 1 if yes and not dry_run else store.retry([task.id], dependents=True, dry_run=True)
    if not confirm("retry", count, yes=yes, dry_run=dry_run, most=count):
        print_json_form(form, {"retried": 0, "matching": count})
        return
    text = f"retried the workflow {name} from {step}{because(why)}"
    done = store.retry([task.id], dependents=True, entries=[entry(f"workflow/{name}", "retried", text, by=by)])
    if not print_json_form(form, {"retried": done}):
        click.echo(f"retried {number_of(done)}")


@workflows.command()
@store_option
@form_options
@click.argument("name")
@tenant_option
@bulk_options
@why_option
@by_option
def cancel(
    store_url: str | None,
    form: str | None,
    name: str,
    tenant: str | None,
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Cancel all unfinished tasks of a workflow. Running ones are asked to stop."""
    store = opened(store_url)
    which = Filter(workflow=name, tenant=tenant_of(store, name, tenant))
    asked = Asked(form=form, yes=yes, dry_run=dry_run, why=why, by=by)
    perform(store, CANCEL, which, partial(store.cancel, reason=why or "cancelled with its workflow"), asked)


def _to_draw(
    store_url: str | None,
    form: str | None,
    times: Times,
    name: str,
    tenant: str | None,
    limit: int | None,
    step: str | None,
) -> tuple[Workflow, int | None] | None:
    """Return a workflow to draw and the place of the step to start after.

    Returns None if everything was printed already: as JSON, or as counts because there are too many steps to draw.
    """
    store = opened(store_url)
    found = workflow(store, name, tenant=tenant)
    after = None if step is None else find_step(store, name, found.tenant, step).id
    if form is not None:
        _print_json(store, found, form, times, limit, after)
        return None
    _print_head(found, times)
    if isinstance(found, Summary):
        _print_summary(store, found, times, limit, None)
        return None
    return found, None if after is None else found.places[after]


def _print_head(found: Workflow | Summary, times: Times) -> None:
    end = "still open" if found.ended is None else f"ended {times.both(found.ended)}"
    lasted = length((found.ended or times.now) - found.submitted)
    click.echo(f"{found.name}  tenant {found.tenant}  {tallied(found.states)}")
    click.echo(f"submitted {times.both(found.submitted)}, {end}, {lasted} in all")


def _print_rows(found: Workflow, rows: Sequence[Row], times: Times) -> None:
    table(_HEADS, [_cells(found, row, times) for row in rows])


def _print_page(some: Slice, found: Workflow | Summary, times: Times) -> None:
    table(_HEADS, [_step_cells(view, _after(found, view), times) for view in some.steps])
    if some.next is not None:
        print_note(f"… and more: --after {some.next}")


_HEADS = ("", "step", "state", "#waited", "#worked", "after", "id")


def _cells(found: Workflow, row: Row, times: Times) -> list[str]:
    if isinstance(row, Gap):
        return ["", row.text, "", "", "", "", ""]
    if isinstance(row, int):
        view = found.view(row)
        return _step_cells(view, _after(found, view), times)
    views = [found.view(place) for place in row.places]
    ran = [view for view in views if view.began is not None]
    waited = max(view.waited(times.now) for view in views)
    worked = f"≤ {length(max(view.worked(times.now) for view in ran))}" if ran else "–"
    above = names(found, found.prerequisites[row.places[0]])
    some = f"{views[0].step.id} …"
    return [
        "",
        group_name(found, row.places),
        state_shown(views[0].step.state),
        f"≤ {length(waited)}",
        worked,
        above,
        some,
    ]


def _step_cells(view: StepView, above: str, times: Times) -> list[str]:
    return [
        CRITICAL if view.critical else "",
        view.name,
        state_shown(view.step.state),
        length(view.waited(times.now)),
        length(view.worked(times.now)) if view.began is not None else "–",
        above,
        str(view.step.id),
    ]


def _after(found: Workflow | Summary, view: StepView) -> str:
    if isinstance(found, Workflow):
        return names(found, found.prerequisites[found.places[view.step.id]])
    more = f" and {len(view.prerequisites) - 1:,} more" if len(view.prerequisites) > 1 else ""
    return f"{view.prerequisites[0]}{more}" if view.prerequisites else ""


def _say_how_to_see_more(found: Workflow, gaps: Sequence[Gap]) -> None:
    if gaps:
        hidden = sum(sum(gap.states.values()) for gap in gaps)
        print_note(f"{hidden:,} of {found.tasks:,} steps are not shown: --limit and --after page through all of them")


def _print_summary(store: Store, found: Summary, times: Times, limit: int | None, after: TaskId | None) -> None:
    """A workflow that was only counted: by handler, with the first steps that failed, and that run."""
    if limit is not None or after is not None:
        _print_page(page(store, found, limit=limit or ROWS, after=after, now=times.now), found, times)
        return
    click.echo(f"{found.tasks:,} steps are too many for a graph and a critical path; here they are counted:")
    handlers: dict[str, dict[State, int]] = {}
    for group in found.groups:
        states = handlers.setdefault(group.handler, {})
        states[group.state] = states.get(group.state, 0) + group.tasks
    largest = sorted(handlers, key=lambda handler: (-sum(handlers[handler].values()), handler))
    rows = [[handler, f"{sum(handlers[handler].values()):,}", _states(handlers[handler])] for handler in largest[:ROWS]]
    table(("handler", "#tasks", "states"), rows)
    if len(largest) > ROWS:
        click.echo(f"… {len(largest) - ROWS:,} more handlers: --json lists all")
    for title, states in (("failed", _FAILED), ("running", _RUNNING), ("next", (State.RUNNABLE,))):
        number = sum(found.states.get(state, 0) for state in states)
        if number:
            steps = first_in(store, found, states, 10)
            click.echo(f"{title}: {', '.join(step_name(step) for step in steps)}" + _and_more(number - len(steps)))
    print_note("--limit and --after page through the steps in submit order; --jsonl prints them all")


def _and_more(number: int) -> str:
    return f" and {number:,} more" if number > 0 else ""


def _print_json(
    store: Store, found: Workflow | Summary, form: str, times: Times, limit: int | None, after: TaskId | None
) -> None:
    """One document with a page of steps; or with `--jsonl` all steps from there on, a line each."""
    offers = HandlerCatalog(store)
    if form == "jsonl":
        for line in _step_lines(store, found, offers, times, limit, after):
            print_json_form(form, line)
        return
    some = page(store, found, limit=limit or PAGE, after=after, now=times.now)
    print_json_form(form, {**_document(found), "steps": _documents(store, some, offers, times), "next": some.next})


def _step_lines(
    store: Store,
    found: Workflow | Summary,
    offers: HandlerCatalog,
    times: Times,
    limit: int | None,
    after: TaskId | None,
) -> Iterator[dict[str, Any]]:
    left = limit
    while left is None or left > 0:
        some = page(store, found, limit=PAGE if left is None else min(PAGE, left), after=after, now=times.now)
        yield from _documents(store, some, offers, times)
        after = some.next
        if after is None:
            return
        left = None if left is None else left - len(some.steps)


def _document(found: Workflow | Summary) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "workflow": found.name,
        "tenant": found.tenant,
        "tasks": {state.value: number for state, number in found.states.items()},
        "submitted": to_datetime(found.submitted),
        "ended": None if found.ended is None else to_datetime(found.ended),
        "aggregated": isinstance(found, Summary),
    }
    if isinstance(found, Summary):
        groups = [
            {"handler": g.handler, "queue": g.queue, "state": g.state.value, "tasks": g.tasks} for g in found.groups
        ]
        return {**whole, "groups": groups, "critical_path": None, "critical_steps": None}
    path = [found.steps[place].id for place in found.critical[:MOST_PATH]]
    return {**whole, "critical_path": path, "critical_steps": len(found.critical)}


def _documents(store: Store, some: Slice, offers: HandlerCatalog, times: Times) -> list[dict[str, Any]]:
    tasks = store.get([view.step.id for view in some.steps])
    return [
        {
            **task_json(task, offers),
            "name": view.name,
            "prerequisites": view.prerequisites,
            "critical": view.critical,
            "waited_seconds": view.waited(times.now) / 1e6,
            "worked_seconds": view.worked(times.now) / 1e6,
        }
        for view, task in zip(some.steps, tasks, strict=True)
        if task is not None  # It was removed meanwhile.
    ]


def _summary(found: Listed) -> dict[str, Any]:
    return {
        "workflow": found.name,
        "tenant": found.tenant,
        "tasks": {state.value: number for state, number in found.tasks.items()},
        "complete": found.complete,
        "submitted": to_datetime(found.submitted),
    }


def _size(found: Listed) -> str:
    return f"{sum(found.tasks.values()):,}{'' if found.complete else '+'}"


def _states(tasks: dict[State, int]) -> str:
    return ", ".join(f"{tasks[state]:,} {state.value}" for state in State if tasks.get(state))
