"""`windlass cron`: when schedules run next, what the clocks' changes do to them, and their switches."""

from __future__ import annotations

from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

import click
import msgspec
from cronsim import CronSim
from msgspec import to_builtins

from windlass.cli.audit_options import because, by_option, entry, note, somebody, why_option
from windlass.cli.clock_changes import changes
from windlass.cli.completion import complete_cron
from windlass.cli.output import form_options, print_json_form, print_note, table
from windlass.cli.shapes import task_json
from windlass.cli.stores import clock, opened, store_option
from windlass.cli.task_selection import task_of
from windlass.cli.time_options import Times, named_zone, tz_option
from windlass.client.options import check_schedule
from windlass.core.manifest import CronState
from windlass.core.times import to_datetime, to_instant
from windlass.errors import UnknownCron
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.stores.protocol import TaskReader
from windlass.wire.shapes import cron_shape


@click.group()
def cron() -> None:
    """See when schedules run, run one now, pause and resume them."""


@cron.command("ls")
@store_option
@form_options
@tz_option
def ls(store_url: str | None, form: str | None, times: Times) -> None:
    """Every schedule: what it runs and when next, and who paused it."""
    store = opened(store_url)
    found, offers = store.crons(), HandlerCatalog(store)
    if form is not None:
        print_json_form(form, [_document(each, offers, times) for each in found])
        return
    heads = ("cron", "handler", "schedule", "in words", "zone", "next", "last")
    table(heads, [_row(each, times) for each in found])
    if not found:
        print_note("no cron yet: nodes publish those of their app when they start")


@cron.command("next")
@store_option
@form_options
@click.argument("what", metavar="NAME|EXPRESSION", shell_complete=complete_cron)
@click.option("-n", "--number", default=5, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--tz", metavar="ZONE", help="The zone of an expression, or to show times in.")
def next_(store_url: str | None, form: str | None, what: str, number: int, tz: str | None) -> None:
    """When a cron, or an expression such as "30 2 * * *", runs next."""
    schedule, zone = _schedule(store_url, what, tz)
    now = clock().now()
    times = Times(now=now, zone=named_zone(tz) if tz else zone)
    found = list(islice(CronSim(schedule, to_datetime(now).astimezone(zone)), number))
    if not print_json_form(form, [{"at": each, "local": each.isoformat()} for each in found]):
        for each in found:
            click.echo(f"{each.astimezone(times.zone):%a} {times.both(to_instant(each))}")


@cron.command()
@store_option
@form_options
@click.argument("name", shell_complete=complete_cron)
@why_option
@by_option
def run(store_url: str | None, form: str | None, name: str, why: str, by: str | None) -> None:
    """Submit its task now, beside its schedule, which goes on as if nothing had been."""
    store = opened(store_url)
    info = _known(store, name).info
    offers = HandlerCatalog(store)
    [receipt] = store.submit([offers.info(info.handler).new_task(msgspec.json.decode(info.args))])
    note(store, f"cron/{name}", "ran", f"ran the cron {name} by hand{because(why)}", by=by, task=str(receipt.id))
    if not print_json_form(form, task_json(task_of(store, str(receipt.id)), offers)):
        click.echo(str(receipt.id))


@cron.command()
@store_option
@click.argument("name", shell_complete=complete_cron)
@why_option
@by_option
def pause(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Let it fire no more, until it is resumed."""
    store = opened(store_url)
    told = entry(f"cron/{name}", "paused", f"paused the cron {name}{because(why)}", by=by)
    store.pause_cron(name, True, by=somebody(by), why=why, entries=[told])
    print_note(f"{name} is paused; `windlass cron resume {name}` ends it")


@cron.command()
@store_option
@click.argument("name", shell_complete=complete_cron)
@why_option
@by_option
def resume(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Let it fire again. What becomes of the times it missed is its misfire policy's to say."""
    store = opened(store_url)
    told = entry(f"cron/{name}", "resumed", f"resumed the cron {name}{because(why)}", by=by)
    store.pause_cron(name, False, entries=[told])
    print_note(f"{name} fires again; missed times: {_known(store, name).info.misfire}")


@cron.command()
@store_option
@form_options
@click.argument("what", metavar="NAME|EXPRESSION", shell_complete=complete_cron)
@click.option("--tz", metavar="ZONE", help="The zone of an expression.  [default: UTC]")
@click.option("--years", default=3, show_default=True, type=click.IntRange(1, 50))
def lint(store_url: str | None, form: str | None, what: str, tz: str | None, years: int) -> None:
    """Say which of its local times do not exist or come twice when the clocks change, and what happens then."""
    schedule, zone = _schedule(store_url, what, tz)
    now = to_datetime(clock().now()).astimezone(zone)
    found = changes(schedule, zone, now, years)
    if print_json_form(form, found):
        return
    click.echo(f'"{CronSim(schedule, now).explain()}" in {zone}')
    for change in found:
        click.echo(f"⚠ {change.day:%a %d %b %Y}, clocks {change.changed}: {change.text}")
    if not found:
        click.echo(f"✓ no run of it is missing or comes twice in the next {years} years")


def _schedule(store_url: str | None, what: str, tz: str | None) -> tuple[str, tzinfo]:
    """An expression as it is, or a cron by its name."""
    if len(what.split()) > 1:
        zone = tz or "UTC"
        check_schedule(what, zone, "last")
        return what, named_zone(zone)
    info = _known(opened(store_url), what).info
    return info.schedule, named_zone(info.timezone)


def _known(store: TaskReader, name: str) -> CronState:
    found = next((each for each in store.crons() if each.info.name == name), None)
    if found is None:
        raise UnknownCron(name)
    return found


def _next(state: CronState, times: Times) -> datetime | None:
    if state.paused:
        return None
    return next(CronSim(state.info.schedule, to_datetime(times.now).astimezone(named_zone(state.info.timezone))))


def _document(state: CronState, offers: HandlerCatalog, times: Times) -> dict[str, Any]:
    shape = cron_shape(state, offers.parameters(state.info.handler))
    return {**to_builtins(shape), "next": _next(state, times)}


def _row(state: CronState, times: Times) -> list[str]:
    info, moment = state.info, _next(state, times)
    if moment is None:
        by = f" by {state.paused_by}" if state.paused_by else ""
        shown = f"PAUSED{by}" + (f' "{state.paused_why}"' if state.paused_why else "")
    else:
        shown = times.both(to_instant(moment))
    words = CronSim(info.schedule, to_datetime(times.now)).explain()
    return [info.name, info.handler, info.schedule, words, info.timezone, shown, times.both(state.fired)]
