"""`windlass queues`: list, pause, resume and configure queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from windlass.cli.completion import complete_queue
from windlass.cli.options import author_options, create_option, for_option, json_options, store_option, tz_option
from windlass.cli.output import STATES, format_pause, print_json, print_note, print_table
from windlass.core.lifecycle import QUEUED
from windlass.core.ordering import Strategy
from windlass.core.times import duration, format_duration, micros
from windlass.errors import InvalidTask
from windlass.operations import queues as operations
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.presentation import Times, format_span
from windlass.operations.queues import QueueView
from windlass.stores.series import Point
from windlass.wire.queues import Every, point_shape, queue_shape


@click.group()
def queues() -> None:
    """List, pause, resume and configure queues."""


@queues.command("ls")
@store_option
@json_options
@tz_option
def ls(access: Access, form: str | None, times: Times) -> None:
    """List queues with their settings and task counts."""
    found = operations.get_all(access)
    if print_json(form, [queue_shape(each) for each in found], name="queues"):
        return
    heads = ("queue", *(f"#{state.value}" for state in STATES), "oldest wait", "p95 wait", "settings")
    print_table(
        heads,
        [_row(each, times) for each in found],
        "No queue yet. Submit a task, or start a node with `windlass worker APP`.",
    )


@queues.command()
@store_option
@json_options
@tz_option
@click.argument("name", required=False, shell_complete=complete_queue)
@click.option(
    "--every",
    type=click.Choice([each.value for each in Every]),
    default=Every.MINUTE.value,
    show_default=True,
    help="Time that one line covers; seconds are kept for 15 minutes.",
)
@click.option("--last", metavar="TIME", default="1h", show_default=True, help="How far back.")
def series(access: Access, form: str | None, times: Times, name: str | None, every: str, last: str) -> None:
    """Show arrivals, completions, failures and waits of a queue over time, or of all queues."""
    found = operations.series(access, name, Every(every).resolution, duration(last, "last"))
    if print_json(form, [point_shape(each) for each in found], name="points"):
        return
    heads = ("from", "#arrived", "#started", "#completed", "#failed", "#retried", "mean wait", "longest wait")
    print_table(heads, [_point_row(each, times) for each in found], f"Nothing happened in the last {last}.")


@queues.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_queue)
@for_option
@create_option
@author_options
def pause(access: Access, form: str | None, name: str, lasts: str | None, create: bool, author: Author) -> None:
    """Pause a queue: running tasks continue, no other task starts."""
    if not print_json(form, queue_shape(operations.pause(access, name, author, lasts=lasts, create=create))):
        length = "" if lasts is None else f" for {lasts}"
        print_note(f"Queue {name} is paused{length}. `windlass queues resume {name}` resumes it.")


@queues.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_queue)
@author_options
def resume(access: Access, form: str | None, name: str, author: Author) -> None:
    """Resume a paused queue."""
    if not print_json(form, queue_shape(operations.resume(access, name, author))):
        print_note(f"Queue {name} is open.")


@queues.command("set")
@store_option
@json_options
@click.argument("name", shell_complete=complete_queue)
@click.option("--strategy", type=click.Choice([each.value for each in Strategy]), help="Order of the tasks.")
@click.option("--horizon", metavar="TIME", help="Deadline of tasks without one, counted from when they are due.")
@click.option("--step", metavar="TIME", help="With aging: the wait that adds one point of priority.")
@click.option("--max-waiting", metavar="N", help="Refuse submits above this number of tasks; none removes the limit.")
@click.option("--weight", type=int, help="Share of the workers relative to other queues, 1 to 1000.")
@click.option("--fair/--no-fair", default=None, help="Share the workers between tenants by their weights.")
@create_option
@author_options
def set_(
    access: Access, form: str | None, name: str, author: Author, create: bool, **options: str | int | None
) -> None:
    """Change settings of a queue; the others stay as they are."""
    settings = {field: _parse(field, value) for field, value in options.items() if value is not None}
    if not settings:
        raise click.UsageError("Nothing to set. Use --strategy, --horizon, --step, --max-waiting, --weight or --fair.")
    if not print_json(form, queue_shape(operations.change(access, name, settings, author, create=create))):
        changed = ", ".join(f"{field}={_format(value)}" for field, value in settings.items())
        print_note(f"Queue {name}: {changed}")


@queues.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_queue)
@author_options
def rm(access: Access, form: str | None, name: str, author: Author) -> None:
    """Remove the settings of a queue that has no unfinished tasks."""
    found = operations.remove(access, name, author)
    if not print_json(form, queue_shape(found)):
        kept = " Its finished tasks stay until their retention is over." if any(found.tasks.values()) else ""
        print_note(f"Queue {name} has the default settings.{kept}")


def _parse(field: str, value: str | int) -> Any:
    match field:
        case "strategy":
            return Strategy(value)
        case "horizon" | "step":
            return duration(value, field)
        case "max_waiting":
            return _parse_limit(str(value))
        case _:
            return value


def _parse_limit(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise InvalidTask(f"max_waiting={text!r} is not a limit. Use a number from 0, or none.")
    return int(text)


def _format(value: Any) -> str:
    return format_duration(micros(value)) if isinstance(value, timedelta) else str(value).lower()


def _row(view: QueueView, times: Times) -> list[str]:
    wait = "–" if view.oldest is None else times.format_age(view.oldest).removesuffix(" ago")
    p95 = "–" if view.waits is None else format_span(view.waits.p95)
    return [view.name, *(f"{view.tasks.get(state, 0):,}" for state in STATES), wait, p95, _settings(view, times)]


def _point_row(point: Point, times: Times) -> list[str]:
    counts = (point.arrived, point.started, point.completed, point.failed, point.retried)
    waits = ("–", "–") if point.mean_wait is None else (point.mean_wait, point.longest_wait)
    shown = [wait if isinstance(wait, str) else format_span(wait) for wait in waits]
    return [times.format(point.at), *(f"{number:,}" for number in counts), *shown]


def _settings(view: QueueView, times: Times) -> str:
    """List the settings that differ from the defaults, the pause first."""
    queue = view.settings
    until = None if queue.paused_until is None else times.format(queue.paused_until)
    found = [format_pause(queue.paused_by, queue.paused_why, until)] if queue.paused else []
    found.append(queue.strategy.value)
    if queue.strategy in (Strategy.DEADLINE, Strategy.AGING):
        found.append(f"horizon {format_duration(micros(queue.horizon))}")
    if queue.strategy is Strategy.AGING:
        found.append(f"step {format_duration(micros(queue.step))}")
    if queue.max_waiting is not None:
        waiting = sum(view.tasks.get(state, 0) for state in QUEUED)
        found.append(f"{waiting:,} of at most {queue.max_waiting:,} waiting")
    if queue.weight != 1:
        found.append(f"weight {queue.weight}")
    if queue.fair:
        found.append("fair")
    return ", ".join(found)
