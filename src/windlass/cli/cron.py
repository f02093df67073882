"""`windlass cron`: list, create, change, run, pause, resume and check crons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import click

from windlass.cli.completion import complete_cron, complete_handler
from windlass.cli.enqueue import parse_arguments
from windlass.cli.options import (
    TZ_HELP,
    author_options,
    find_zone,
    group_options,
    json_options,
    limit_option,
    new_store_option,
    parse_when,
    priority_option,
    queue_option,
    store_option,
    tenant_option,
    tz_option,
)
from windlass.cli.output import echo, format_pause, print_json, print_note, print_table
from windlass.core.manifest import CronInfo
from windlass.core.schedule import MISFIRES, check_schedule, explain, find_times, parse
from windlass.core.times import to_datetime, to_instant
from windlass.operations import crons
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.clock_changes import find_clock_changes
from windlass.operations.crons import CronView, NewCron
from windlass.operations.presentation import Times, escape_json
from windlass.wire.crons import NextTimes, cron_shape
from windlass.wire.tasks import receipt_shape

zone_option = click.option("--tz", "zone_name", metavar="ZONE", help=TZ_HELP)


@click.group()
def cron() -> None:
    """List, create, change, run, pause, resume and check crons."""


@cron.command("ls")
@store_option
@json_options
@tz_option
def ls(access: Access, form: str | None, times: Times) -> None:
    """List crons with their next and last run."""
    found = crons.get_all(access)
    if print_json(form, [cron_shape(each) for each in found], name="crons"):
        return
    heads = ("cron", "handler", "schedule", "in words", "zone", "next", "last")
    print_table(
        heads,
        [_row(each, times) for each in found],
        "No cron yet. Nodes publish the crons of their app when they start; `windlass cron create` makes others.",
    )


@cron.command()
@store_option
@json_options
@tz_option
@click.argument("name", shell_complete=complete_cron)
def show(access: Access, form: str | None, times: Times, name: str) -> None:
    """Show one cron: what it runs, when, and why it does not fire."""
    view = crons.get(access, name)
    if print_json(form, cron_shape(view)):
        return
    info = view.state.info
    origin = "created at run time" if view.state.at_run_time else "in the code of an app"
    facts = {
        "cron": f"{name} ({origin})",
        "handler": info.handler,
        "arguments": escape_json(info.args),
        "schedule": f"{info.schedule} · {explain(info.schedule)} · {info.timezone}",
        "misfire": info.misfire,
        "queue": info.queue or "that of the handler",
        "tenant": info.tenant or "that of the handler",
        "priority": "that of the handler" if info.priority is None else str(info.priority),
        "start": times.format(info.start),
        "end": times.format(info.end),
        "next": _next(view, times),
        "last": times.format(view.state.fired),
        "version": str(view.state.version),
    }
    for fact, value in facts.items():
        echo(f"{fact:<10} {value}")


schedule_options = group_options(
    click.option("--tz", "timezone", metavar="ZONE", help="Time zone, such as Europe/Berlin.  [default: UTC]"),
    click.option("--misfire", type=click.Choice(MISFIRES), help="Which missed runs to make up for.  [default: last]"),
    queue_option,
    tenant_option,
    priority_option,
    click.option("--start", metavar="WHEN", help="First possible run, and the anchor of an interval."),
    click.option("--end", metavar="WHEN", help="Last possible run."),
)


@cron.command()
@click.argument("name")
@click.argument("schedule")
@click.argument("handler", shell_complete=complete_handler)
@click.argument("args", nargs=-1)
@new_store_option
@json_options
@schedule_options
@click.option("--paused", is_flag=True, help="Create it paused.")
@click.option("--replace", is_flag=True, help="Change the cron if it exists.")
@author_options
def create(
    name: str,
    schedule: str,
    handler: str,
    args: Sequence[str],
    access: Access,
    form: str | None,
    paused: bool,
    replace: bool,
    author: Author,
    **options: Any,
) -> None:
    """Create a cron that runs HANDLER on SCHEDULE.

    SCHEDULE is five cron fields, an alias such as @daily, or an interval such as "every 90s". ARGS are name=text,
    name:=JSON, or @file.json with a JSON object of arguments.
    """
    fields = _parse_options(options)
    new = NewCron(name=name, schedule=schedule, handler=handler, args=parse_arguments(args), paused=paused, **fields)
    view = crons.create(access, new, author, replace=replace)
    if not print_json(form, cron_shape(view)):
        print_note(_created(view))


@cron.command("set")
@click.argument("name", shell_complete=complete_cron)
@click.argument("args", nargs=-1)
@store_option
@json_options
@click.option("--schedule", help="Cron fields, an alias such as @daily, or an interval.")
@click.option("--handler", shell_complete=complete_handler, help="Handler.")
@schedule_options
@click.option(
    "--unset", multiple=True, type=click.Choice(["queue", "priority", "start", "end"]), help="Remove it. Repeatable."
)
@author_options
def set_(
    name: str,
    args: Sequence[str],
    access: Access,
    form: str | None,
    unset: Sequence[str],
    author: Author,
    **options: Any,
) -> None:
    """Change a cron that was created at run time.

    ARGS, if any, replace all of its arguments: name=text, name:=JSON, or @file.json.
    """
    changes = _parse_options(options) | dict.fromkeys(unset)
    if args:
        changes["args"] = parse_arguments(args)
    view = crons.change(access, name, changes, author)
    if not print_json(form, cron_shape(view)):
        print_note(_created(view, "changed"))


@cron.command("next")
@store_option
@json_options
@click.argument("what", metavar="NAME|EXPRESSION", shell_complete=complete_cron)
@limit_option(5, 1_000)
@zone_option
def next_(access: Access, form: str | None, what: str, limit: int, zone_name: str | None) -> None:
    """Show when a cron, or an expression such as "30 2 * * *", runs next."""
    cron, paused = _find_schedule(access, what, zone_name)
    zone = find_zone(cron.timezone)
    times = Times(now=access.now, zone=find_zone(zone_name) if zone_name else zone)
    found = [to_datetime(each).astimezone(zone) for each in islice(find_times(cron, access.now), limit)]
    if not print_json(form, NextTimes(cron=what, paused=paused, times=found), found):
        for each in found:
            echo(f"{each.astimezone(times.zone):%a} {times.format(to_instant(each))}")


@cron.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_cron)
@author_options
def run(access: Access, form: str | None, name: str, author: Author) -> None:
    """Submit the task of a cron now; its schedule stays as it is."""
    receipt = crons.run(access, name, author)
    if not print_json(form, receipt_shape(receipt)):
        echo(str(receipt.id))


@cron.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_cron)
@author_options
def pause(access: Access, form: str | None, name: str, author: Author) -> None:
    """Pause a cron until it is resumed."""
    found = crons.pause(access, name, author)
    if not print_json(form, cron_shape(found)):
        print_note(f"Cron {name} is paused. `windlass cron resume {name}` resumes it.")


@cron.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_cron)
@author_options
def resume(access: Access, form: str | None, name: str, author: Author) -> None:
    """Resume a paused cron; its misfire policy decides about missed runs."""
    found = crons.resume(access, name, author)
    if not print_json(form, cron_shape(found)):
        print_note(f"Cron {name} is resumed. Misfire policy for missed runs: {found.state.info.misfire}.")


@cron.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_cron)
@author_options
def rm(access: Access, form: str | None, name: str, author: Author) -> None:
    """Remove a cron that was created at run time, or is no longer in the code."""
    found = crons.remove(access, name, author)
    if not print_json(form, cron_shape(found)):
        again = " A node whose app still has it publishes it again when it starts." if found.in_code else ""
        print_note(f"Cron {name} is removed.{again}")


@cron.command()
@store_option
@json_options
@click.argument("what", metavar="NAME|EXPRESSION", shell_complete=complete_cron)
@zone_option
@click.option("--years", default=3, show_default=True, type=click.IntRange(1, 50), help="How many years to check.")
def lint(access: Access, form: str | None, what: str, zone_name: str | None, years: int) -> None:
    """Show runs that a change of the clocks skips, moves or repeats."""
    cron, _ = _find_schedule(access, what, zone_name)
    schedule, zone = parse(cron.schedule), find_zone(cron.timezone)
    now = to_datetime(access.now).astimezone(zone)
    # An interval is elapsed time, which no change of the clocks affects.
    found = [] if isinstance(schedule, int) else find_clock_changes(schedule, zone, now, years)
    if print_json(form, found, name="changes"):
        return
    echo(f'"{explain(cron.schedule)}" in {zone}')
    for change in found:
        echo(f"⚠ {change.day:%a %d %b %Y}, clocks {change.changed}: {change.text}")
    if not found:
        echo(f"✓ No run is skipped or repeated in the next {years} years.")


def _find_schedule(access: Access, what: str, zone_name: str | None) -> tuple[CronInfo, bool]:
    """Return a cron, or one made of an expression, and whether it is paused."""
    if len(what.split()) > 1 or what.startswith("@"):
        zone_name = zone_name or "UTC"
        check_schedule(what, zone_name, "last")
        return CronInfo(name=what, handler="", schedule=what, timezone=zone_name), False
    state = crons.get(access, what).state
    return state.info, state.paused


def _parse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, in the types of the operations."""
    found = {name: value for name, value in options.items() if value is not None}
    return found | {name: parse_when(found[name], name) for name in ("start", "end") if name in found}


def _created(view: CronView, done: str = "created") -> str:
    name, problem = view.state.info.name, view.problem
    if problem is not None:
        return f"Cron {name} is {done}, but does not fire: {problem}."
    if view.next is None:
        return f"Cron {name} is {done} and paused. `windlass cron resume {name}` resumes it."
    return f"Cron {name} is {done}. Next run: {view.next.isoformat(sep=' ')}."


def _next(view: CronView, times: Times) -> str:
    if view.problem is not None:
        return view.problem
    if view.next is None:
        return format_pause(view.state.paused_by, view.state.paused_why)
    return times.format(to_instant(view.next))


def _row(view: CronView, times: Times) -> list[str]:
    state, info = view.state, view.state.info
    words = explain(info.schedule)
    return [info.name, info.handler, info.schedule, words, info.timezone, _next(view, times), times.format(state.fired)]
