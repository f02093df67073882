"""`windlass dead`: what is broken, by bug; and is it fixed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from windlass.cli.audit_options import because, by_option, entry, note, why_option
from windlass.cli.bulk import bulk_options, confirm
from windlass.cli.completion import complete_queue, complete_task
from windlass.cli.enqueue import arguments
from windlass.cli.output import form_options, number_of, print_json_form, print_note, table
from windlass.cli.shapes import task_json
from windlass.cli.stores import opened, store_option
from windlass.cli.task_selection import task_of
from windlass.cli.time_options import Times, tz_option
from windlass.core.task import TaskId
from windlass.core.times import duration, to_datetime
from windlass.operations.edit_task import edit_task
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.legacy_canary import canary as try_step_by_step
from windlass.operations.legacy_dead_letters import LOOKED_AT, group, groups, letters
from windlass.redaction import redact
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter, TaskReader
from windlass.wire.shapes import error_shape

_SHOWN = 20


@click.group()
def dead() -> None:
    """See failed tasks by bug, retry them with care, edit or drop them."""


@dead.command("ls")
@store_option
@form_options
@tz_option
@click.option("--queue", shell_complete=complete_queue)
@click.option("--tenant")
@click.option("--limit", default=LOOKED_AT, show_default=True, type=click.IntRange(1), help="Look at so many tasks.")
def ls(
    store_url: str | None, form: str | None, times: Times, queue: str | None, tenant: str | None, limit: int
) -> None:
    """Every bug among the newest failed tasks, the most frequent first."""
    store = opened(store_url)
    found = groups(store, Filter(queue=queue, tenant=tenant), limit=limit)
    if print_json_form(form, [_document(each, each.newest) for each in found]):
        return
    table(("group", "#tasks", "error", "handler", "tenants", "first", "last"), [_row(each, times) for each in found])
    if not found:
        print_note("nothing is failed")


@dead.command()
@store_option
@form_options
@tz_option
@click.argument("group_id", metavar="GROUP")
def show(store_url: str | None, form: str | None, times: Times, group_id: str) -> None:
    """One bug: its newest traceback, and the tasks that it has hit."""
    store = opened(store_url)
    found, offers = group(store, group_id), HandlerCatalog(store)
    if print_json_form(form, _document(found, [task.id for task in letters(store, found)])):
        return
    error = error_shape(found.error)
    click.echo(f"{found.id}  {error.kind}: {error.message}  ({number_of(found.count)})")
    click.echo("".join(f"  {line}\n" for line in error.traceback.splitlines()), nl=False)
    rows = [
        [
            str(task.id),
            task.handler,
            task.tenant,
            times.both(task.finished),
            _arguments(task.args, offers, task.handler),
        ]
        for task in letters(store, found, limit=_SHOWN)
    ]
    table(("id", "handler", "tenant", "failed", "args"), rows)
    if found.count > _SHOWN:
        print_note(f"… and {found.count - _SHOWN} more; --json has them all")


@dead.command()
@store_option
@form_options
@click.argument("group_id", metavar="GROUP")
@click.option("--canary", is_flag=True, help="Retry one, wait for its end, then ten, then all; stop if it is back.")
@click.option("--patience", default="10m", show_default=True, help="How long a step of --canary may take.")
@bulk_options
@why_option
@by_option
def retry(
    store_url: str | None,
    form: str | None,
    group_id: str,
    canary: bool,
    patience: str,
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Bring back every task that a bug has hit. Exit status 1 if --canary finds the bug still there."""
    store = opened(store_url)
    found, seconds = group(store, group_id), duration(patience, "patience").total_seconds()
    if not confirm("retry", found.count, yes=yes, dry_run=dry_run):
        print_json_form(form, {"group": found.id, "retried": 0, "matching": found.count})
        return
    how = " with a canary" if canary else ""
    told = f"retried {found.id}{how}, {number_of(found.count)}{because(why)}"
    retried = entry(f"dead/{found.id}", "retried", told, by=by)
    if canary:
        verdict = try_step_by_step(store, found, letters(store, found), seconds, retried, print_note)
        done, fixed, text = verdict.retried, verdict.fixed, verdict.text
    else:
        done, fixed, text = store.retry(_ids(store, found), entries=[retried]), True, ""
    if not print_json_form(
        form, {"group": found.id, "retried": done, "fixed": fixed if canary else None, "text": text}
    ):
        click.echo(f"retried {number_of(done)}" + (f"; {text}" if text else ""))
    if not fixed:
        raise SystemExit(1)


@dead.command()
@store_option
@form_options
@click.argument("id", metavar="TASK", shell_complete=complete_task)
@click.argument("changes", nargs=-1, required=True, metavar="ARG=TEXT|ARG:=JSON...")
@why_option
@by_option
def edit(store_url: str | None, form: str | None, id: str, changes: Sequence[str], why: str, by: str | None) -> None:
    """Submit a failed task once more with other arguments. The old one is kept as it is, and names the new one."""
    store = opened(store_url)
    old, offers = task_of(store, id), HandlerCatalog(store)
    [receipt] = store.submit([edit_task(old, arguments(changes), offers.parameters(old.handler))])
    if receipt.created:
        text = f"submitted {receipt.id} in place of {old.id}, with other arguments{because(why)}"
        note(store, f"task/{old.id}", "edited", text, by=by, successor=receipt.id, changed=sorted(arguments(changes)))
    if not print_json_form(form, {**task_json(task_of(store, str(receipt.id)), offers), "predecessor": old.id}):
        click.echo(str(receipt.id))
    if not receipt.created:
        print_note("this change was submitted before; nothing was made twice")


@dead.command()
@store_option
@form_options
@click.argument("group_id", metavar="GROUP")
@bulk_options
@why_option
@by_option
def drop(
    store_url: str | None, form: str | None, group_id: str, yes: bool, dry_run: bool, why: str, by: str | None
) -> None:
    """Remove every task that a bug has hit, for good."""
    store = opened(store_url)
    found = group(store, group_id)
    if not confirm("drop", found.count, yes=yes, dry_run=dry_run):
        print_json_form(form, {"group": found.id, "dropped": 0, "matching": found.count})
        return
    told = f"dropped {found.id}, {number_of(found.count)}{because(why)}"
    done = store.purge(_ids(store, found), entries=[entry(f"dead/{found.id}", "dropped", told, by=by)])
    if not print_json_form(form, {"group": found.id, "dropped": done}):
        click.echo(f"dropped {number_of(done)}")


def _ids(store: TaskReader, found: DeadGroup) -> list[TaskId]:
    return [task.id for task in letters(store, found)]


def _document(found: DeadGroup, tasks: Sequence[TaskId]) -> dict[str, Any]:
    return {
        "group": found.id,
        "error": error_shape(found.error),
        "handlers": found.handlers,
        "count": found.count,
        "tenants": found.tenants,
        "first": to_datetime(found.first),
        "last": to_datetime(found.last),
        "tasks": tasks,
    }


def _row(found: DeadGroup, times: Times) -> list[str]:
    error = error_shape(found.error)
    said = f"{error.kind}: {error.message}".removesuffix(": ").partition("\n")[0]
    return [
        found.id,
        f"{found.count:,}",
        said if len(said) <= 60 else said[:59] + "…",
        ", ".join(found.handlers[:3]) + ("…" if len(found.handlers) > 3 else ""),
        f"{len(found.tenants)}" if len(found.tenants) > 3 else ", ".join(found.tenants),
        times.both(found.first),
        times.both(found.last),
    ]


def _arguments(text: str, offers: HandlerCatalog, handler: str) -> str:
    shown = msgspec.json.encode(redact(msgspec.json.decode(text), offers.parameters(handler))).decode()
    return shown if len(shown) <= 80 else shown[:79] + "…"
