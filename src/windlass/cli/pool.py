"""`windlass pool`: how large pools are and why, orders to them, and what they did."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from windlass.cli.completion import complete_pool
from windlass.cli.shapes import print_json
from windlass.cli.stores import json_option, opened, store_option
from windlass.clock import SystemClock
from windlass.core.times import to_datetime
from windlass.operations import legacy_pools as pools
from windlass.operations import pool_overrides
from windlass.operations.legacy_pools import PoolView

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
why_option: Decorator = click.option("--why", default="", help="The reason, for the ledger.")
by_option: Decorator = click.option("--by", help="Who orders it.  [default: the name of your account]")
for_option: Decorator = click.option("--for", "lasts", metavar="TIME", help="For how long, as in 30m.")


def ordering(function: Callable[..., Any]) -> Callable[..., Any]:
    """What every command has that orders something of a pool: which, who and why."""
    for option in (by_option, why_option, click.argument("name", shell_complete=complete_pool), store_option):
        function = option(function)
    return function


class PoolGroup(click.Group):
    """The commands, with the simulator imported only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "simulate"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "simulate":
            return super().get_command(ctx, cmd_name)
        from windlass.cli.simulate import simulate

        return simulate


@click.group(cls=PoolGroup)
def pool() -> None:
    """See why a pool has its size, overrule it, try other rules."""


def somebody(by: str | None) -> str:
    """Who gives an order."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # An account without a name, as in some containers.
        return "the command line"


@pool.command()
@store_option
@json_option
@click.argument("name", required=False, shell_complete=complete_pool)
def show(store_url: str | None, as_json: bool, name: str | None) -> None:
    """How large each pool is, what it is to be, and why; all about one if NAME is given."""
    store = opened(store_url)
    found = [pools.pool(store, name)] if name else pools.pools(store)
    if as_json:
        print_json(found[0] if name else found)
        return
    if not found:
        click.echo("no pool yet: start a node with `windlass worker APP`", err=True)
    for view in found:
        click.echo("\n".join(_lines(view, whole=name is not None)))


@pool.command("set")
@ordering
@click.argument("size")
@for_option
def set_(store_url: str | None, name: str, size: str, lasts: str | None, why: str, by: str | None) -> None:
    """Overrule the controller: SIZE workers, or 2-8 for a range; an hour unless --for says otherwise."""
    least, most = _sizes(size)
    length = "1h" if lasts is None else lasts
    pool_overrides.pin(opened(store_url), name, least, most, by=somebody(by), why=why, lasts=length)
    click.echo(f"{name} is set to {size} for {length}; `windlass pool resume {name}` ends it", err=True)


@pool.command()
@ordering
@for_option
def freeze(store_url: str | None, name: str, lasts: str | None, why: str, by: str | None) -> None:
    """Keep the size that it has now, until it is resumed."""
    order = pool_overrides.freeze(opened(store_url), name, by=somebody(by), why=why, lasts=lasts)
    assert order.override is not None
    click.echo(f"{name} stays at {order.override.least}; `windlass pool resume {name}` ends it", err=True)


@pool.command()
@ordering
def pause(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Size 0: what runs ends, nothing new starts, the queue fills, until it is resumed."""
    pool_overrides.pause(opened(store_url), name, by=somebody(by), why=why)
    click.echo(f"{name} is paused; `windlass pool resume {name}` ends it", err=True)


@pool.command()
@ordering
def resume(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Let it size itself again: no pause, no override."""
    pool_overrides.resume(opened(store_url), name, by=somebody(by), why=why)
    click.echo(f"{name} sizes itself again", err=True)


@pool.command()
@ordering
@click.argument("changes", nargs=-1, required=True, metavar="SETTING=VALUE…")
def tune(store_url: str | None, name: str, changes: Sequence[str], why: str, by: str | None) -> None:
    """Change settings while it runs, as in wait=2s ceiling=12; an empty value goes back to what the nodes say."""
    given = dict(_setting(change) for change in changes)
    order = pool_overrides.tune(opened(store_url), name, given, by=somebody(by), why=why)
    tuned = ", ".join(f"{field}={value}" for field, value in order.tuned.items())
    click.echo(f"{name} follows {tuned or 'what its nodes were told'}", err=True)


@pool.command()
@store_option
@json_option
@click.argument("name", shell_complete=complete_pool)
@click.option("--limit", default=30, show_default=True, type=click.IntRange(1, 1_000))
def history(store_url: str | None, as_json: bool, name: str, limit: int) -> None:
    """What was decided and ordered, with the arithmetic, the newest last."""
    entries = pools.history(opened(store_url), name, limit=limit)
    if as_json:
        print_json(entries)
        return
    for entry in reversed(entries):
        at = to_datetime(entry.at).strftime("%Y-%m-%d %H:%M:%S")
        click.echo(f"{at}  {entry.action:<8} {entry.text}")


@pool.command()
@store_option
@json_option
@click.argument("name", shell_complete=complete_pool)
def desired(store_url: str | None, as_json: bool, name: str) -> None:
    """How many workers it should have, as a bare number: for whatever starts machines."""
    number = pools.desired(opened(store_url), name)
    if as_json:
        print_json({"pool": name, "desired": number})
    else:
        click.echo(number)


def _sizes(text: str) -> tuple[int, int]:
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no size; give a number as in 12, or a range as in 2-8") from None


def _setting(text: str) -> tuple[str, object]:
    field, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not SETTING=VALUE, as in wait=2s")
    if not value:
        return field, None
    if field == "deciders":
        return field, value.split(",")
    for number in (int, float):
        with suppress(ValueError):  # Then it is the next kind, or text such as 2s.
            return field, number(value)
    return field, value


def _lines(view: PoolView, *, whole: bool) -> list[str]:
    mode = "paused" if view.paused else "set by hand" if view.override else "fixed" if view.fixed else "sizes itself"
    lines = [
        f"{view.name}  {view.ready}/{view.target} workers, {view.running} tasks run, "
        f"{view.runnable} runnable, oldest {view.oldest:.1f} s  ({mode})"
    ]
    if not whole:
        return lines
    more = [
        ("now", f"{view.starting} starting, {view.draining} draining, {view.asleep} asleep, {view.threads} slots each"),
        ("bounds", f"{view.floor} to {view.ceiling} workers, goal {view.wait:g} s"),
        ("queues", ", ".join(view.queues)),
        (
            "decided",
            f"{view.sentence}" + (f"  ({_ago(view.decided_at)} by {view.decided_by})" if view.sentence else ""),
        ),
        ("because", " → ".join(view.reasons)),
        ("order", view.override.describe() + f", until {_clock(view.override.until)}" if view.override else ""),
        ("paused", f"by {view.paused.by}" + (f": {view.paused.why}" if view.paused.why else "") if view.paused else ""),
        ("tuned", ", ".join(f"{field}={value}" for field, value in view.tuned.items())),
        ("alerts", ", ".join(view.alerts)),
        ("degraded", view.degraded),
    ]
    lines += [f"  {name:<9}{text}" for name, text in more if text]
    lines += [
        f"  node     {part.node}: {part.ready}/{part.target} workers of at most {part.ceiling}" for part in view.nodes
    ]
    return lines


def _ago(second: int) -> str:
    return f"{max(0, SystemClock().now() // 1_000_000 - second)} s ago"


def _clock(second: float) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M:%S} UTC"
