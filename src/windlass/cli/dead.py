"""`windlass dead`: list failed tasks by bug, retry, edit and drop them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.completion import complete_task
from windlass.cli.enqueue import parse_arguments
from windlass.cli.options import (
    Consent,
    author_options,
    consent_options,
    json_options,
    limit_option,
    queue_option,
    store_option,
    tenant_option,
    tz_option,
)
from windlass.cli.output import cut, echo, format_count, print_json, print_note, print_table
from windlass.core.times import duration
from windlass.operations import dead_letters, tasks
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.canary import run_canary
from windlass.operations.dead_letters import GroupRetried
from windlass.operations.presentation import Times, format_few
from windlass.stores.dead_letters import DeadGroup
from windlass.wire.dead_letters import Dropped, group_shape
from windlass.wire.tasks import receipt_shape

_SHOWN = 20
MOST_TASKS, LISTED_TASKS = 1_000, 3
"""How many tasks of a bug one JSON document has: of one bug, and of each bug in a list."""


@click.group()
def dead() -> None:
    """List failed tasks by bug, retry, edit and drop them."""


@dead.command("ls")
@store_option
@json_options
@tz_option
@queue_option
@tenant_option
@limit_option()
def ls(access: Access, form: str | None, times: Times, queue: str | None, tenant: str | None, limit: int) -> None:
    """List the bugs of failed tasks, most frequent first."""
    found = dead_letters.get_all(access, queue=queue, tenant=tenant)[:limit]
    if print_json(form, [group_shape(each, each.newest[:LISTED_TASKS]) for each in found], name="groups"):
        return
    heads = ("group", "#tasks", "error", "handler", "tenants", "first", "last")
    print_table(heads, [_row(each, times) for each in found], "No task has failed.")


@dead.command()
@store_option
@json_options
@tz_option
@click.argument("group_id", metavar="GROUP")
def show(access: Access, form: str | None, times: Times, group_id: str) -> None:
    """Show the newest traceback of a bug and the tasks that it failed."""
    found = dead_letters.get(access, group_id)
    if form is not None:
        print_json(form, group_shape(found, dead_letters.get_ids(access, found, limit=MOST_TASKS)))
        return
    error = found.error
    echo(f"{found.id}  {error.kind}: {error.message}  ({format_count(found.count)})")
    echo("".join(f"  {line}\n" for line in error.traceback.splitlines()), nl=False)
    rows = [
        [str(task.id), task.handler, task.tenant, times.format(task.finished), cut(task.args, 80)]
        for task in dead_letters.letters(access, found, limit=_SHOWN)
    ]
    print_table(("id", "handler", "tenant", "failed", "args"), rows)
    if found.count > _SHOWN:
        print_note(f"… and {found.count - _SHOWN:,} more. --json lists them.")


@dead.command()
@store_option
@json_options
@click.argument("group_id", metavar="GROUP")
@click.option("--canary", is_flag=True, help="Retry one task, then ten, then all; stop if the bug is back.")
@click.option("--patience", default="10m", show_default=True, metavar="TIME", help="Time limit of a canary step.")
@consent_options
@author_options
def retry(
    access: Access, form: str | None, group_id: str, canary: bool, patience: str, consent: Consent, author: Author
) -> None:
    """Retry the tasks that a bug failed, and those that were cancelled because of them.

    Exit status 1 if --canary finds that the bug is back.
    """
    found, seconds = dead_letters.get(access, group_id), duration(patience, "patience").total_seconds()
    if not consent.given("retry", found.count):
        print_json(form, GroupRetried(group=found.id, retried=0, left=found.count, fixed=None, text="nothing was done"))
        return
    if canary:
        done = run_canary(access, found, seconds, author, print_note)
    else:
        done = dead_letters.retry(access, found, author)
    if not print_json(form, done):
        more = f"; {done.text}" if canary else done.text.removeprefix(f"retried {done.retried}")
        echo(f"Retried {format_count(done.retried)}{more}.")
    if done.fixed is False:
        raise SystemExit(1)


@dead.command()
@store_option
@json_options
@click.argument("id", metavar="TASK", shell_complete=complete_task)
@click.argument("changes", nargs=-1, required=True, metavar="ARG=TEXT|ARG:=JSON...")
@author_options
def edit(access: Access, form: str | None, id: str, changes: Sequence[str], author: Author) -> None:
    """Submit a failed task again with other arguments; the old task stays as it is."""
    receipt = tasks.edit_and_retry(access, tasks.look_up(access, id).id, parse_arguments(changes), author)
    if not print_json(form, receipt_shape(receipt)):
        echo(str(receipt.id))
    if not receipt.created:
        print_note("The same change was submitted before. No second task was created.")


@dead.command()
@store_option
@json_options
@click.argument("group_id", metavar="GROUP")
@consent_options
@author_options
def drop(access: Access, form: str | None, group_id: str, consent: Consent, author: Author) -> None:
    """Delete the tasks that a bug failed."""
    found = dead_letters.get(access, group_id)
    dropped = 0
    if consent.given("drop", found.count):
        dropped = dead_letters.drop(access, found, author)
        if form is None:
            echo(f"Dropped {format_count(dropped)}.")
    print_json(form, Dropped(group=found.id, dropped=dropped))


def _row(found: DeadGroup, times: Times) -> list[str]:
    error = f"{found.error.kind}: {found.error.message}".removesuffix(": ").partition("\n")[0]
    return [
        found.id,
        f"{found.count:,}",
        cut(error, 60),
        format_few(found.handlers, 3),
        f"{len(found.tenants)}" if len(found.tenants) > 3 else ", ".join(found.tenants),
        times.format(found.first),
        times.format(found.last),
    ]
