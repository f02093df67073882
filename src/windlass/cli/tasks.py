"""`windlass tasks`: look at tasks, wait for them, change them; the verbs for many at once are in `cli.verbs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from windlass.cli.audit_options import because, by_option, entry, why_option
from windlass.cli.bulk import every
from windlass.cli.completion import complete_task
from windlass.cli.output import form_options, print_json_form, print_note
from windlass.cli.shapes import task_json
from windlass.cli.stores import opened, store_option
from windlass.cli.task_pages import print_logs, print_task, print_tasks, progress_told, state_shown
from windlass.cli.task_selection import Filtered, TaskSelection, filter_options, id_of, task_of, words_argument
from windlass.cli.time_options import Times, tz_option, when
from windlass.cli.verbs import cancel, purge, retry
from windlass.client.app import App
from windlass.clock import sleep
from windlass.core.lifecycle import State
from windlass.core.task import Change, Task
from windlass.core.times import duration
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.redaction import redact_text
from windlass.stores.protocol import Log, ProgressSeen, Store
from windlass.wire.shapes import attempt_shape, log_shape

POLL_SECONDS = 0.5


@click.group()
def tasks() -> None:
    """Look at tasks, wait for them, change, cancel, retry and purge them."""


for verb in (cancel, retry, purge):
    tasks.add_command(verb)


@tasks.command("ls", cls=Filtered)
@store_option
@form_options
@tz_option
@filter_options
@words_argument("[FILTER]...")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000))
def ls(
    store_url: str | None, form: str | None, times: Times, chosen: TaskSelection, words: Sequence[str], limit: int
) -> None:
    """List tasks, the newest first.

    FILTER is as in: state:failed queue:mail -tenant:demo args.order.id:42 "age>10m" error~timeout
    """
    store = opened(store_url)
    found = every(store, chosen.filter(words), limit=limit + 1)
    offers = HandlerCatalog(store)
    if form is not None:
        print_json_form(form, [task_json(task, offers) for task in found[:limit]])
        return
    print_tasks(found[:limit], times)
    if len(found) > limit:
        print_note(f"… and more; the newest {limit} are shown (--limit)")


@tasks.command()
@store_option
@form_options
@tz_option
@click.argument("id", shell_complete=complete_task)
def show(store_url: str | None, form: str | None, times: Times, id: str) -> None:
    """All about one task: its times, attempts, errors and output."""
    store = opened(store_url)
    task = task_of(store, id)
    attempts, logs, offers = store.attempts(task.id), store.logs(task.id), HandlerCatalog(store)
    whole: dict[str, Any] = {
        **task_json(task, offers),
        "attempt_list": [attempt_shape(attempt) for attempt in attempts],
        "logs": [log_shape(log) for log in logs],
    }
    if print_json_form(form, whole):
        return
    print_task(task, attempts, offers, times)
    print_logs(logs)


@tasks.command()
@store_option
@form_options
@click.argument("id", shell_complete=complete_task)
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended, with its progress.")
def logs(store_url: str | None, form: str | None, id: str, follow: bool) -> None:
    """What its attempts printed. An attempt's output comes when it has ended; its progress comes as it is made."""
    store = opened(store_url)
    task, told = task_of(store, id), None
    seen: list[Log] = []
    while True:
        found = store.logs(task.id)
        fresh, before, seen = found[len(seen) :], len(seen), found
        if form is None:
            print_logs(fresh, before + 1)
        elif form == "jsonl":
            print_json_form(form, [log_shape(log) for log in fresh])
        if not follow or task.state.final:
            break
        told = _tell_progress(store, task, told)
        sleep(POLL_SECONDS)
        task = task_of(store, id)
    if form == "json":
        print_json_form(form, [log_shape(log) for log in seen])


def _tell_progress(store: Store, task: Task, before: ProgressSeen | None) -> ProgressSeen | None:
    [seen] = store.progress_of([task.id])
    if seen is not None and seen != before:
        print_note(progress_told(seen))
    return seen


@tasks.command()
@store_option
@form_options
@click.argument("ids", nargs=-1, required=True, shell_complete=complete_task)
@click.option("--timeout", metavar="TIME", help="Stop waiting after so long (exit status 7).")
def wait(store_url: str | None, form: str | None, ids: Sequence[str], timeout: str | None) -> None:
    """Wait until tasks have ended. Exit status: 0 all are completed, 1 one ended badly, 7 the time was up."""
    store = opened(store_url)
    limit = None if timeout is None else duration(timeout, "timeout").total_seconds()
    app = App(store=store)
    for task in [task_of(store, id) for id in ids]:
        app.handle(task.id).wait(limit)
    ended = [task_of(store, id) for id in ids]
    offers = HandlerCatalog(store)
    if form is not None:
        print_json_form(form, [task_json(task, offers) for task in ended])
    else:
        for task in ended:
            reason = f"  {redact_text(task.reason)}" if task.reason else ""
            click.echo(f"{task.id}  {state_shown(task.state)}{reason}")
    if any(task.state is not State.COMPLETED for task in ended):
        raise SystemExit(1)


@tasks.command()
@store_option
@form_options
@tz_option
@click.argument("id", shell_complete=complete_task)
@click.option("--priority", type=int)
@click.option("--deadline", metavar="WHEN", help="A time from now, a moment, or none.")
@click.option("--at", metavar="WHEN", help="When it may run: a time from now, or a moment.")
@click.option("--expires", metavar="WHEN", help="When it is no longer wanted: a time from now, a moment, or none.")
@why_option
@by_option
def edit(
    store_url: str | None, form: str | None, times: Times, id: str, why: str, by: str | None, **changes: Any
) -> None:
    """Change an unfinished task, and with it its place in its queue."""
    given = {field: _changed(field, value) for field, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("nothing to change: give --priority, --deadline, --at or --expires")
    store = opened(store_url)
    found, told = id_of(id), ", ".join(f"{field}={changes[field]}" for field in given)
    text = f"set {told} of the task {found}{because(why)}"
    task = store.update(found, Change(**given), entries=[entry(f"task/{found}", "changed", text, by=by)])
    if not print_json_form(form, task_json(task, HandlerCatalog(store))):
        print_task(task, [], HandlerCatalog(store), times)


def _changed(field: str, value: Any) -> Any:
    if field == "priority":
        return value
    return None if value == "none" and field != "at" else when(value, field)
