"""`windlass tasks`: look at tasks, cancel and retry them; `windlass why`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import click

from windlass.cli.shapes import print_json, print_task, print_tasks, task_json
from windlass.cli.stores import json_option, opened, store_option
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.errors import InvalidTask, UnknownTask
from windlass.reasons import explain
from windlass.server.offers import Offers
from windlass.server.shapes import attempt_shape, log_shape, why_shape
from windlass.stores.protocol import Filter, Store, Which

WILL_NOT_RUN, WAITS = 4, 3


@click.group()
def tasks() -> None:
    """Look at tasks, cancel and retry them."""


@tasks.command("ls")
@store_option
@json_option
@click.option("--state", "states", multiple=True, type=click.Choice([state.value for state in State]))
@click.option("--queue")
@click.option("--tenant")
@click.option("--workflow")
@click.option("--handler")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000))
def ls(
    store_url: str | None,
    as_json: bool,
    states: Sequence[str],
    queue: str | None,
    tenant: str | None,
    workflow: str | None,
    handler: str | None,
    limit: int,
) -> None:
    """List tasks, the newest first."""
    store = opened(store_url)
    page = store.find(_filter(states, queue, tenant, workflow, handler), limit=limit)
    if as_json:
        offers = Offers(store)
        print_json([task_json(task, offers) for task in page.tasks])
    else:
        print_tasks(page.tasks)
        if page.after is not None:
            click.echo(f"… and more; the newest {limit} are shown (--limit)", err=True)


@tasks.command()
@store_option
@json_option
@click.argument("id")
def show(store_url: str | None, as_json: bool, id: str) -> None:
    """All about one task: its times, attempts, errors and output."""
    store = opened(store_url)
    task = _task(store, id)
    attempts, logs = store.attempts(task.id), store.logs(task.id)
    if as_json:
        print_json(
            {
                **task_json(task, Offers(store)),
                "attempt_list": [attempt_shape(attempt) for attempt in attempts],
                "logs": [log_shape(log) for log in logs],
            }
        )
    else:
        print_task(task, attempts, logs, Offers(store))


@tasks.command()
@store_option
@json_option
@click.argument("ids", nargs=-1)
@click.option("--state", "states", multiple=True, type=click.Choice([state.value for state in State]))
@click.option("--queue")
@click.option("--tenant")
@click.option("--workflow")
@click.option("--handler")
@click.option("--reason", default="cancelled from the command line", show_default=True)
def cancel(
    store_url: str | None,
    as_json: bool,
    ids: Sequence[str],
    states: Sequence[str],
    queue: str | None,
    tenant: str | None,
    workflow: str | None,
    handler: str | None,
    reason: str,
) -> None:
    """Cancel the tasks with these IDS, or all that the filter matches. A running one is asked to stop."""
    which = _which(ids, _filter(states, queue, tenant, workflow, handler))
    _say("cancelled", opened(store_url).cancel(which, reason=reason), as_json=as_json)


@tasks.command()
@store_option
@json_option
@click.argument("ids", nargs=-1)
@click.option("--state", "states", multiple=True, type=click.Choice(["failed", "cancelled", "expired"]))
@click.option("--queue")
@click.option("--tenant")
@click.option("--workflow")
@click.option("--handler")
def retry(
    store_url: str | None,
    as_json: bool,
    ids: Sequence[str],
    states: Sequence[str],
    queue: str | None,
    tenant: str | None,
    workflow: str | None,
    handler: str | None,
) -> None:
    """Bring back failed, cancelled or expired tasks: those with these IDS, or all that the filter matches."""
    which = _which(ids, _filter(states, queue, tenant, workflow, handler))
    _say("retried", opened(store_url).retry(which), as_json=as_json)


@click.command()
@store_option
@json_option
@click.argument("id")
def why(store_url: str | None, as_json: bool, id: str) -> None:
    """Say what holds a task back. Exit status: 0 it runs or ran, 3 it waits, 4 it cannot run as things stand."""
    store = opened(store_url)
    answer = explain(store, _task(store, id))
    if as_json:
        print_json(why_shape(answer))
    else:
        click.echo(str(answer))
    raise SystemExit(_status(answer.task.state, closed=answer.closed is not None))


def _status(state: State, *, closed: bool) -> int:
    if state in (State.FAILED, State.CANCELLED, State.EXPIRED):
        return WILL_NOT_RUN
    return WAITS if closed and state is not State.COMPLETED else 0


def _filter(
    states: Sequence[str], queue: str | None, tenant: str | None, workflow: str | None, handler: str | None
) -> Filter:
    return Filter(states=frozenset(map(State, states)), queue=queue, tenant=tenant, workflow=workflow, handler=handler)


def _which(ids: Sequence[str], filter: Filter) -> Which:
    """Tasks by id or by filter, never all of them by mistake."""
    if ids:
        return [_id(id) for id in ids]
    if filter == Filter():
        raise InvalidTask("tasks: name some ids, or a filter such as --queue mail or --state failed")
    return filter


def _task(store: Store, id: str) -> Task:
    [task] = store.get([_id(id)])
    if task is None:
        raise UnknownTask(id)
    return task


def _id(text: str) -> TaskId:
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise InvalidTask(f"id={text!r} is not a task id; `windlass tasks ls` shows them") from None


def _say(deed: str, number: int, *, as_json: bool) -> None:
    if as_json:
        print_json({deed: number})
    else:
        click.echo(f"{deed} {number} task{'' if number == 1 else 's'}")
