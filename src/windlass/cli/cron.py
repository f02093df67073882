"""`windlass cron`: list, run, pause, resume and check crons."""

from __future__ import annotations

from datetime import tzinfo
from itertools import islice

import click
from cronsim import CronSim

from windlass.cli.completion import complete_cron
from windlass.cli.options import (
    TZ_HELP,
    author_options,
    find_zone,
    json_options,
    limit_option,
    store_option,
    tz_option,
)
from windlass.cli.output import echo, format_pause, print_json, print_note, print_table
from windlass.client.options import check_schedule
from windlass.core.times import to_datetime, to_instant
from windlass.operations import crons
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.clock_changes import find_clock_changes
from windlass.operations.crons import CronView
from windlass.operations.presentation import Times
from windlass.wire.crons import NextTimes, cron_shape
from windlass.wire.tasks import receipt_shape

zone_option = click.option("--tz", "zone_name", metavar="ZONE", help=TZ_HELP)


@click.group()
def cron() -> None:
    """List, run, pause, resume and check crons."""


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
        "No cron yet. Nodes publish the crons of their app when they start.",
    )


@cron.command("next")
@store_option
@json_options
@click.argument("what", metavar="NAME|EXPRESSION", shell_complete=complete_cron)
@limit_option(5, 1_000)
@zone_option
def next_(access: Access, form: str | None, what: str, limit: int, zone_name: str | None) -> None:
    """Show when a cron, or an expression such as "30 2 * * *", runs next."""
    schedule, zone, paused = _find_schedule(access, what, zone_name)
    times = Times(now=access.now, zone=find_zone(zone_name) if zone_name else zone)
    found = list(islice(CronSim(schedule, to_datetime(access.now).astimezone(zone)), limit))
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
    """Remove a cron that is no longer in the code."""
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
    schedule, zone, _ = _find_schedule(access, what, zone_name)
    now = to_datetime(access.now).astimezone(zone)
    found = find_clock_changes(schedule, zone, now, years)
    if print_json(form, found, name="changes"):
        return
    echo(f'"{CronSim(schedule, now).explain()}" in {zone}')
    for change in found:
        echo(f"⚠ {change.day:%a %d %b %Y}, clocks {change.changed}: {change.text}")
    if not found:
        echo(f"✓ No run is skipped or repeated in the next {years} years.")


def _find_schedule(access: Access, what: str, zone_name: str | None) -> tuple[str, tzinfo, bool]:
    """Return the schedule and the zone of a cron or an expression, and whether the cron is paused."""
    if len(what.split()) > 1:
        zone_name = zone_name or "UTC"
        check_schedule(what, zone_name, "last")
        return what, find_zone(zone_name), False
    state = crons.get(access, what).state
    return state.info.schedule, find_zone(state.info.timezone), state.paused


def _row(view: CronView, times: Times) -> list[str]:
    state = view.state
    info = state.info
    if view.in_code is False:
        next_run = "not in the code of any live node"
    elif view.next is None:
        next_run = format_pause(state.paused_by, state.paused_why)
    else:
        next_run = times.format(to_instant(view.next))
    words = CronSim(info.schedule, to_datetime(times.now)).explain()
    return [info.name, info.handler, info.schedule, words, info.timezone, next_run, times.format(state.fired)]
