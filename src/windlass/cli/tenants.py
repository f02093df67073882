"""`windlass tenants`: show tenants and their shares, and change weights, limits and pauses."""

from __future__ import annotations

import click

from windlass.cli.completion import complete_tenant
from windlass.cli.limits import amount_options, format_limits
from windlass.cli.options import (
    author_options,
    create_option,
    for_option,
    json_options,
    queue_option,
    store_option,
    tz_option,
)
from windlass.cli.output import STATES, echo, format_pause, print_json, print_note, print_table
from windlass.core.fairness import SetBy
from windlass.core.lifecycle import State
from windlass.core.limit_text import describe_amounts, describe_scope
from windlass.core.limits import Limit
from windlass.core.shares import Share
from windlass.core.task import Rate
from windlass.errors import InvalidTask
from windlass.operations import limits as limit_operations
from windlass.operations import tenants as operations
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.presentation import Times, format_few, format_span
from windlass.operations.shares import TenantShare
from windlass.operations.tenants import TenantView
from windlass.wire.limits import limit_shape
from windlass.wire.tenants import tenant_details_shape, tenant_shape

_SHOWN = (*STATES[:-1], State.COMPLETED, State.FAILED)
_SHARE_HEADS = ("queue", "period", "#run time", "#due", "#got", "#borrowed", "#runnable", "#leased")


@click.group()
def tenants() -> None:
    """Show tenants and their shares, and change weights, limits and pauses."""


@tenants.command("ls")
@store_option
@json_options
@tz_option
def ls(access: Access, form: str | None, times: Times) -> None:
    """List tenants with their queues, task counts and settings."""
    found = operations.get_all(access)
    if print_json(form, [tenant_shape(each) for each in found], name="tenants"):
        return
    heads = ("tenant", *(f"#{state.value}" for state in _SHOWN), "queues", "settings")
    print_table(heads, [_row(each, times) for each in found], "No tenant has tasks yet.")


@tenants.command()
@store_option
@json_options
@tz_option
@click.argument("name", shell_complete=complete_tenant)
def show(access: Access, form: str | None, times: Times, name: str) -> None:
    """Show a tenant: settings, limits, and its shares of the fair queues."""
    view, shares = operations.get(access, name), operations.get_shares(access, name)
    if print_json(form, tenant_details_shape(view, shares)):
        return
    counts = ", ".join(f"{view.tasks[state]:,} {state.value}" for state in State if view.tasks.get(state))
    echo(f"{name}: {_settings(view, times)}")
    echo(f"tasks: {counts or 'none'}" + (f", in {format_few(view.queues)}" if view.queues else ""))
    for line in format_limits([each for each in limit_operations.get_all(access) if each.limit.tenant == name], times):
        echo(f"limit: {line}")
    print_table(_SHARE_HEADS, [row for share in shares for row in _share_rows(share)], "It has used no fair queue.")


@tenants.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_tenant)
@click.argument("weight")
@for_option
@create_option
@author_options
def weight(
    access: Access, form: str | None, name: str, weight: str, lasts: str | None, create: bool, author: Author
) -> None:
    """Set the weight of a tenant in fair queues: 1 to 1000, or none for the default."""
    found = operations.set_weight(access, name, _parse_weight(weight), author, lasts=lasts, create=create)
    if not print_json(form, tenant_shape(found)):
        print_note(f"Tenant {name} has weight {found.settings.weight}{_for(lasts)}.")


@tenants.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_tenant)
@queue_option
@amount_options
@for_option
@create_option
@author_options
def limit(
    access: Access,
    form: str | None,
    name: str,
    queue: str | None,
    max_running: int | None,
    rate: Rate | None,
    lasts: str | None,
    create: bool,
    author: Author,
) -> None:
    """Set a limit on the tasks of a tenant, in all queues or in one."""
    wanted = Limit(tenant=name, queue=queue, max_running=max_running, rate=rate)
    found = limit_operations.put(access, wanted, author, lasts=lasts, create=create)
    if not print_json(form, limit_shape(found)):
        print_note(f"Limited {describe_scope(wanted)} to {describe_amounts(wanted)}{_for(lasts)}.")


@tenants.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_tenant)
@for_option
@create_option
@author_options
def pause(access: Access, form: str | None, name: str, lasts: str | None, create: bool, author: Author) -> None:
    """Pause a tenant in all queues: running tasks continue, no other task starts."""
    found = operations.pause(access, name, author, lasts=lasts, create=create)
    if not print_json(form, tenant_shape(found)):
        print_note(f"Tenant {name} is paused{_for(lasts)}. `windlass tenants resume {name}` resumes it.")


@tenants.command()
@store_option
@json_options
@click.argument("name", shell_complete=complete_tenant)
@author_options
def resume(access: Access, form: str | None, name: str, author: Author) -> None:
    """Resume a paused tenant."""
    if not print_json(form, tenant_shape(operations.resume(access, name, author))):
        print_note(f"Tenant {name} is open.")


def _parse_weight(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise InvalidTask(f"weight={text!r} is not a weight. Use a number from 1 to 1000, or none.")
    return int(text)


def _row(view: TenantView, times: Times) -> list[str]:
    counts = (f"{view.tasks.get(state, 0):,}" for state in _SHOWN)
    return [view.name, *counts, format_few(view.queues), _settings(view, times)]


def _settings(view: TenantView, times: Times) -> str:
    """List the settings, the pause first."""
    settings = view.settings
    found = [] if settings.paused is None else [_format_pause(settings.paused, times)]
    by = settings.weight_set_by
    until = "" if by is None or by.until is None else f" until {times.format(by.until)}"
    author = "" if by is None else f" by {by.by}{until}" + (f' "{by.why}"' if by.why else "")
    return ", ".join([*found, f"weight {settings.weight}{author}"])


def _format_pause(paused: SetBy, times: Times) -> str:
    return format_pause(paused.by, paused.why, None if paused.until is None else times.format(paused.until))


def _share_rows(share: TenantShare) -> list[list[str]]:
    periods = (("last minute", share.last_minute, share.minute), ("last hour", share.last_hour, share.hour))
    return [
        [
            share.queue,
            name,
            format_span(round(seconds * 1_000_000)),
            *_format_share(part),
            f"{share.runnable:,}",
            f"{share.leased:,}",
        ]
        for name, seconds, part in periods
    ]


def _format_share(share: Share | None) -> tuple[str, str, str]:
    if share is None:
        return "–", "–", "–"
    due, got, borrowed = ("–" if part is None else f"{part:.1%}" for part in (share.due, share.got, share.borrowed))
    return due, got, borrowed


def _for(lasts: str | None) -> str:
    return "" if lasts is None else f" for {lasts}"
