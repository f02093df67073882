"""`windlass tasks`: list, show, wait for, change, cancel, retry and purge tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import click

from windlass.cli import bulk
from windlass.cli.completion import complete_task
from windlass.cli.options import (
    FilterCommand,
    TaskOptions,
    at_option,
    author_options,
    deadline_option,
    expires_option,
    json_options,
    limit_option,
    parse_when,
    priority_option,
    store_option,
    task_options,
    tz_option,
    wait_timeout_option,
    words_argument,
)
from windlass.cli.output import (
    FollowedLogs,
    echo,
    format_progress,
    format_state,
    print_json,
    print_logs,
    print_note,
    print_task,
    print_tasks,
)
from windlass.client.app import App
from windlass.clock import sleep
from windlass.core.lifecycle import State
from windlass.core.task import Change, Task
from windlass.core.times import duration
from windlass.operations import tasks as operations
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.presentation import Times
from windlass.stores.protocol import Cursor, Log, Page, ProgressSeen
from windlass.wire.tasks import details_shape, log_shape, task_page, task_shape

POLL_SECONDS = 0.5


@click.group()
def tasks() -> None:
    """List, show, wait for, change, cancel, retry and purge tasks."""


for command in bulk.COMMANDS:
    tasks.add_command(command)


@tasks.command("ls", cls=FilterCommand)
@store_option
@json_options
@tz_option
@task_options
@words_argument("[FILTER]...")
@limit_option()
def ls(access: Access, form: str | None, times: Times, chosen: TaskOptions, words: Sequence[str], limit: int) -> None:
    """List tasks, newest first.

    FILTER example: state:failed queue:mail -tenant:demo args.order.id:42 "age>10m" error~timeout
    """
    found = list(islice(operations.each(access, chosen.filter(words)), limit + 1))
    last = found[limit - 1] if len(found) > limit else None
    page = Page(found[:limit], None if last is None else Cursor(last.submitted, last.id))
    shape = task_page(page, access.seal)
    if print_json(form, shape, shape.tasks):
        return
    print_tasks(page.tasks, times)
    if page.after is not None:
        print_note(f"Only the newest {limit} tasks are shown. Use --limit to see more.")


@tasks.command()
@store_option
@json_options
@tz_option
@click.argument("id", shell_complete=complete_task)
def show(access: Access, form: str | None, times: Times, id: str) -> None:
    """Show one task with its attempts, errors and output."""
    task = operations.look_up(access, id)
    attempts, logs = operations.attempts(access, task.id), operations.logs(access, task.id)
    if not print_json(form, details_shape(task, attempts, logs)):
        print_task(task, attempts, times)
        print_logs(logs)


@tasks.command()
@store_option
@json_options
@click.argument("id", shell_complete=complete_task)
@click.option("-f", "--follow", is_flag=True, help="Print output and progress until the task ends.")
def logs(access: Access, form: str | None, id: str, follow: bool) -> None:
    """Print the output of a task's attempts, including the running one.

    With --follow and --jsonl, the output of an attempt is printed again, as a whole, when it has changed.
    """
    task, progress = operations.look_up(access, id), None
    found: list[Log] = []
    followed = FollowedLogs()
    while True:
        before, found = found, operations.logs(access, task.id)
        if form == "jsonl":
            print_json(form, [log_shape(log) for log in found if log not in before], name="logs")
        elif form is None and follow:
            followed.print_new(found)
        elif form is None:
            print_logs(found)
        if not follow or task.state.final:
            break
        progress = _print_progress(access, task, progress)
        sleep(POLL_SECONDS)
        task = operations.get(access, task.id)
    if form == "json":
        print_json(form, [log_shape(log) for log in found], name="logs")


def _print_progress(access: Access, task: Task, before: ProgressSeen | None) -> ProgressSeen | None:
    progress = operations.progress(access, task.id)
    if progress is not None and progress != before:
        print_note(format_progress(progress))
    return progress


@tasks.command()
@store_option
@json_options
@click.argument("ids", nargs=-1, required=True, shell_complete=complete_task)
@wait_timeout_option
def wait(access: Access, form: str | None, ids: Sequence[str], wait_timeout: str | None) -> None:
    """Wait until tasks end.

    Exit status: 0 all completed, 1 a task failed, was cancelled or expired, 7 the timeout passed.
    """
    limit = None if wait_timeout is None else duration(wait_timeout, "wait_timeout").total_seconds()
    app = App(store=access.store)
    found = [operations.look_up(access, id) for id in ids]
    for task in found:
        app.handle(task.id).wait(limit)
    ended = [operations.get(access, task.id) for task in found]
    if not print_json(form, [task_shape(task) for task in ended], name="tasks"):
        for task in ended:
            echo(f"{task.id}  {format_state(task.state)}" + (f"  {task.reason}" if task.reason else ""))
    if any(task.state is not State.COMPLETED for task in ended):
        raise SystemExit(1)


@tasks.command()
@store_option
@json_options
@tz_option
@click.argument("id", shell_complete=complete_task)
@priority_option
@deadline_option
@at_option
@expires_option()
@author_options
def edit(access: Access, form: str | None, times: Times, id: str, author: Author, **changes: Any) -> None:
    """Change the priority or the times of an unfinished task.

    --deadline and --expires also take "none".
    """
    given = {field: _parse(field, value) for field, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("Nothing to change. Use --priority, --deadline, --at or --expires.")
    task = operations.change(access, operations.look_up(access, id).id, Change(**given), author)
    if not print_json(form, task_shape(task)):
        print_task(task, [], times)


def _parse(field: str, value: Any) -> Any:
    if field == "priority":
        return value
    return None if value == "none" and field != "at" else parse_when(value, field)
