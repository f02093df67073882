"""`windlass workflows`: what is slow, what is next, and the way back after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from windlass.cli.bulk import agreed, bulk_options
from windlass.cli.deeds import because, by_option, entry, why_option
from windlass.cli.drawing import gantt as chart
from windlass.cli.drawing import tallied, tree
from windlass.cli.moments import Times, length, tz_option
from windlass.cli.output import for_programs, form_options, number_of, say, table
from windlass.cli.shapes import task_json
from windlass.cli.stores import opened, store_option
from windlass.cli.task_pages import state_shown
from windlass.core.times import Micros, to_datetime
from windlass.errors import NotAllowed
from windlass.server.offers import Offers
from windlass.stores.protocol import Filter, Store
from windlass.workflow_view import Listed, Workflow, listed, workflow

_LOOKED_AT = 10_000

tenant_option = click.option("--tenant", help="Whose, if several tenants have one of this name.")


@click.group()
def workflows() -> None:
    """See workflows: their steps, graph, times and critical path; retry from a step."""


@workflows.command("ls")
@store_option
@form_options
@tz_option
@click.option("--tenant")
@click.option("--limit", default=_LOOKED_AT, show_default=True, type=click.IntRange(1), help="Look at so many tasks.")
def ls(store_url: str | None, form: str | None, times: Times, tenant: str | None, limit: int) -> None:
    """Every workflow that one of the newest tasks belongs to, the newest first."""
    found = listed(opened(store_url), Filter(tenant=tenant), limit=limit)
    if for_programs(form, [_summary(each) for each in found]):
        return
    rows = [
        [each.name, each.tenant, f"{sum(each.tasks.values()):,}", _states(each), times.both(each.submitted)]
        for each in found
    ]
    table(("workflow", "tenant", "#tasks", "states", "submitted"), rows)
    if not found:
        say("no task of late belongs to a workflow")


@workflows.command()
@store_option
@form_options
@tz_option
@click.argument("name")
@tenant_option
def show(store_url: str | None, form: str | None, times: Times, name: str, tenant: str | None) -> None:
    """Its steps in order, how long each waited and worked, and which of them decide when it ends."""
    store = opened(store_url)
    found = workflow(store, name, tenant=tenant)
    if form is not None:
        for_programs(form, _document(found, Offers(store), times))
        return
    _print_head(found, times)
    names = {step.task.id: step.name for step in found.steps}
    rows = [
        [
            "◆" if step.task.id in found.critical else "",
            step.name,
            state_shown(step.task.state),
            length(step.waited(times.now)),
            length(step.worked(times.now)) if step.began is not None else "–",
            ", ".join(names[id] for id in step.prerequisites[:4]) + ("…" if len(step.prerequisites) > 4 else ""),
            str(step.task.id),
        ]
        for step in found.steps
    ]
    table(("", "step", "state", "#waited", "#worked", "after", "id"), rows)


@workflows.command()
@store_option
@tz_option
@form_options
@click.argument("name")
@tenant_option
def graph(store_url: str | None, form: str | None, times: Times, name: str, tenant: str | None) -> None:
    """Its steps as a tree, each under the one that held it longest; ◆ marks the critical path."""
    _draw(opened(store_url), form, times, name, tenant, tree)


@workflows.command()
@store_option
@tz_option
@form_options
@click.argument("name")
@tenant_option
def gantt(store_url: str | None, form: str | None, times: Times, name: str, tenant: str | None) -> None:
    """Its steps over time: ░ waited, ▓ worked, ◆ on the critical path."""
    _draw(opened(store_url), form, times, name, tenant, chart)


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
    found = workflow(store, name, tenant=tenant)
    first = found.step(step)
    if not first.task.state.ended_badly:
        raise NotAllowed(f"step {first.name} is {first.task.state.value}; only one that ended badly is retried")
    count = store.retry([first.task.id], dependents=True, dry_run=True)
    if not agreed("retry", count, yes=yes, dry_run=dry_run):
        for_programs(form, {"retried": 0, "matching": count})
        return
    text = f"retried the workflow {name} from {first.name}, {number_of(count)}{because(why)}"
    told = [entry(f"workflow/{name}", "retried", text, by=by)]
    done = store.retry([first.task.id], dependents=True, entries=told)
    if not for_programs(form, {"retried": done}):
        click.echo(f"retried {number_of(done)}")


def _draw(
    store: Store,
    form: str | None,
    times: Times,
    name: str,
    tenant: str | None,
    picture: Callable[[Workflow, Micros], Iterable[str]],
) -> None:
    """One workflow for programs, or as a picture for people."""
    found = workflow(store, name, tenant=tenant)
    if form is not None:
        for_programs(form, _document(found, Offers(store), times))
        return
    _print_head(found, times)
    for line in picture(found, times.now):
        click.echo(line)


def _print_head(found: Workflow, times: Times) -> None:
    end = "still open" if found.ended is None else f"ended {times.both(found.ended)}"
    lasted = length((found.ended or times.now) - found.submitted)
    click.echo(f"{found.name}  tenant {found.tenant}  {tallied(found.steps)}")
    click.echo(f"submitted {times.both(found.submitted)}, {end}, {lasted} in all")


def _summary(found: Listed) -> dict[str, Any]:
    return {
        "workflow": found.name,
        "tenant": found.tenant,
        "tasks": {state.value: number for state, number in found.tasks.items()},
        "submitted": to_datetime(found.submitted),
    }


def _states(found: Listed) -> str:
    return ", ".join(f"{number:,} {state.value}" for state, number in found.tasks.items())


def _document(found: Workflow, offers: Offers, times: Times) -> dict[str, Any]:
    steps = [
        {
            **task_json(step.task, offers),
            "name": step.name,
            "prerequisites": step.prerequisites,
            "waited_seconds": step.waited(times.now) / 1e6,
            "worked_seconds": step.worked(times.now) / 1e6,
        }
        for step in found.steps
    ]
    return {"workflow": found.name, "tenant": found.tenant, "steps": steps, "critical_path": found.critical}
