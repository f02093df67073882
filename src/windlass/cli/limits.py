"""`windlass limits`: list, set and remove limits on queues, tenants, handlers and keys."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec.structs import replace

from windlass.cli.options import (
    Decorator,
    author_options,
    bundle_options,
    create_option,
    for_option,
    group_options,
    handler_option,
    json_options,
    queue_option,
    store_option,
    tenant_option,
    tz_option,
)
from windlass.cli.output import print_json, print_note, print_table
from windlass.core.limit_text import describe_amounts, describe_scope
from windlass.core.limits import Limit, parse_rate
from windlass.core.task import Rate
from windlass.operations import limits as operations
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.limits import LimitView
from windlass.operations.presentation import Times
from windlass.wire.limits import limit_shape


def _rate(_context: click.Context, _option: click.Parameter, value: str | None) -> Rate | None:
    return None if value is None else parse_rate(value)


scope_options: Decorator = bundle_options(
    group_options(
        queue_option,
        tenant_option,
        handler_option,
        click.option("--limit-key", "key", help="Key of a limit that tasks declare, such as customer:7."),
    ),
    ["queue", "tenant", "handler", "key"],
    "scope",
    Limit,
)
"""`--queue`, `--tenant`, `--handler` and `--limit-key`, passed as `scope`: a limit without amounts."""
amount_options: Decorator = group_options(
    click.option("--max-running", type=int, help="How many tasks may run at once."),
    click.option(
        "--max-rate", "rate", metavar="N/TIME", callback=_rate, help="How many tasks may start, such as 100/1m or 5/s."
    ),
)
"""`--max-running` and `--max-rate`."""


@click.group()
def limits() -> None:
    """List, set and remove limits on queues, tenants, handlers and keys."""


@limits.command("ls")
@store_option
@json_options
@tz_option
def ls(access: Access, form: str | None, times: Times) -> None:
    """List limits with what is used of them and who set them."""
    found = operations.get_all(access)
    if print_json(form, [limit_shape(each) for each in found], name="limits"):
        return
    heads = ("limit on", "allows", "#running", "now", "#held back", "set")
    print_table(heads, [_row(each, times) for each in found], "No limit is set.")


@limits.command("set")
@store_option
@json_options
@scope_options
@amount_options
@for_option
@create_option
@author_options
def set_(
    access: Access,
    form: str | None,
    scope: Limit,
    max_running: int | None,
    rate: Rate | None,
    lasts: str | None,
    create: bool,
    author: Author,
) -> None:
    """Set a limit on a queue, a tenant, both, a handler or a key.

    It bounds how many tasks run at once, or how many start in a period, and replaces the limit on the same scope.
    """
    wanted = replace(scope, max_running=max_running, rate=rate)
    found = operations.put(access, wanted, author, lasts=lasts, create=create)
    if not print_json(form, limit_shape(found)):
        length = "" if lasts is None else f" for {lasts}"
        print_note(f"Limited {describe_scope(wanted)} to {describe_amounts(wanted)}{length}.")


@limits.command()
@store_option
@json_options
@scope_options
@author_options
def rm(access: Access, form: str | None, scope: Limit, author: Author) -> None:
    """Delete a limit."""
    found = operations.remove(access, scope, author)
    if not print_json(form, limit_shape(found)):
        print_note(f"Removed the limit on {describe_scope(found.limit)}.")


def format_limits(views: Sequence[LimitView], times: Times) -> list[str]:
    """Return a line for each limit."""
    rows = [_row(each, times) for each in views]
    return [
        f"{scope}: {allows}, {running} running, {now}, set {author}" for scope, allows, running, now, _, author in rows
    ]


def _row(view: LimitView, times: Times) -> list[str]:
    held = "–" if view.held is None else f"{view.held:,}"
    amounts = describe_amounts(view.limit)
    return [describe_scope(view.limit), amounts, f"{view.running:,}", _now(view, times), held, _author(view, times)]


def _now(view: LimitView, times: Times) -> str:
    if not view.blocks:
        return "open"
    return "full" if view.next_token is None else f"next start {times.format_clock(view.next_token)}"


def _author(view: LimitView, times: Times) -> str:
    set_by = view.limit.set_by
    if set_by is None:
        return ""
    until = "" if set_by.until is None else f" until {times.format(set_by.until)}"
    return f"by {set_by.by}{until}" + (f' "{set_by.why}"' if set_by.why else "")
