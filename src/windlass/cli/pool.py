"""`windlass pool`: show pools, override their size and change their settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from windlass.cli.completion import complete_pool
from windlass.cli.options import (
    Decorator,
    author_options,
    for_option,
    json_options,
    limit_option,
    store_option,
    tz_option,
)
from windlass.cli.output import echo, print_json, print_note
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.pools import PoolView
from windlass.operations.presentation import Times
from windlass.wire.audit import entry_page
from windlass.wire.pools import desired_shape, pool_shape

name_argument: Decorator = click.argument("name", shell_complete=complete_pool)


def _change(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command has that changes a pool."""
    for option in (author_options, name_argument, json_options, store_option):
        command = option(command)
    return command


class PoolGroup(click.Group):
    """The pool commands. The simulator is imported only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "simulate"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "simulate":
            return super().get_command(ctx, cmd_name)
        from windlass.cli.simulate import simulate

        return simulate


@click.group(cls=PoolGroup)
def pool() -> None:
    """Show pools, override their size, change their settings and simulate them."""


@pool.command()
@store_option
@json_options
@tz_option
@click.argument("name", required=False, shell_complete=complete_pool)
def show(access: Access, form: str | None, times: Times, name: str | None) -> None:
    """Show the size of pools, and all about one if NAME is given."""
    if name is not None:
        found = pools.get(access, name)
        if not print_json(form, pool_shape(found)):
            echo("\n".join([_line(found), *_details(found, times)]))
        return
    all_pools = pools.get_all(access)
    if print_json(form, [pool_shape(each) for each in all_pools], name="pools"):
        return
    for each in all_pools:
        echo(_line(each))
    if not all_pools:
        print_note("No pool yet. Start a node with `windlass worker APP`.")


@pool.command("set")
@_change
@click.argument("size")
@for_option
def set_(access: Access, form: str | None, name: str, size: str, lasts: str | None, author: Author) -> None:
    """Set the size of a pool, such as 12 or 2-8, for an hour or the time of --for."""
    least, most = parse_size(size)
    length = "1h" if lasts is None else lasts
    found = pools.set_size(access, name, least, most, author=author, lasts=length)
    if not print_json(form, pool_shape(found)):
        print_note(f"Pool {name} has size {size} for {length}. `windlass pool resume {name}` ends it.")


@pool.command()
@_change
@for_option
def freeze(access: Access, form: str | None, name: str, lasts: str | None, author: Author) -> None:
    """Keep a pool at its current size until it is resumed."""
    found = pools.freeze(access, name, author=author, lasts=lasts)
    if not print_json(form, pool_shape(found)):
        size = found.target if found.override is None else found.override.min
        print_note(f"Pool {name} stays at {size}. `windlass pool resume {name}` ends it.")


@pool.command()
@_change
def pause(access: Access, form: str | None, name: str, author: Author) -> None:
    """Pause a pool: running tasks end, no other task starts."""
    if not print_json(form, pool_shape(pools.pause(access, name, author=author))):
        print_note(f"Pool {name} is paused. `windlass pool resume {name}` resumes it.")


@pool.command()
@_change
def resume(access: Access, form: str | None, name: str, author: Author) -> None:
    """End a pause or a size set by hand; the pool sizes itself again."""
    if not print_json(form, pool_shape(pools.resume(access, name, author=author))):
        print_note(f"Pool {name} sizes itself again.")


@pool.command()
@_change
@click.argument("changes", nargs=-1, required=True, metavar="SETTING=VALUE…")
def tune(access: Access, form: str | None, name: str, changes: Sequence[str], author: Author) -> None:
    """Change settings of a running pool, such as wait=2s max=12.

    An empty value, such as wait=, goes back to the setting of the nodes.
    """
    found = pools.tune(access, name, dict(_parse_setting(change) for change in changes), author=author)
    if not print_json(form, pool_shape(found)):
        tuned = ", ".join(f"{field}={value}" for field, value in found.tuned.items())
        print_note(f"Pool {name} uses {tuned or 'the settings of its nodes'}.")


@pool.command()
@store_option
@json_options
@tz_option
@name_argument
@limit_option(30, 1_000)
def history(access: Access, form: str | None, times: Times, name: str, limit: int) -> None:
    """List decisions and changes of a pool with their arithmetic, newest last."""
    page = pools.history(access, name, limit=limit)
    shape = entry_page(page)
    if print_json(form, shape, shape.entries):
        return
    for entry in reversed(page.entries):
        echo(f"{times.format(entry.at)}  {entry.action:<8} {entry.text}")


@pool.command()
@store_option
@json_options
@name_argument
def desired(access: Access, form: str | None, name: str) -> None:
    """Print the number of workers that a pool should have, for programs that start machines."""
    found = pools.desired(access, name)
    if not print_json(form, desired_shape(found)):
        echo(str(found.workers))


def parse_size(text: str) -> tuple[int, int]:
    """Parse a number of workers, or a range."""
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a size. Use a number such as 12, or a range such as 2-8.") from None


def _parse_setting(text: str) -> tuple[str, object]:
    field, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not SETTING=VALUE, such as wait=2s")
    if not value:
        return field, None
    if field == "deciders":
        return field, value.split(",")
    for number in (int, float):
        with suppress(ValueError):  # Then it is the next kind, or text such as 2s.
            return field, number(value)
    return field, value


def _line(view: PoolView) -> str:
    mode = "paused" if view.paused else "set by hand" if view.override else "fixed" if view.fixed else "sizes itself"
    return (
        f"{view.name}  {view.ready}/{view.target} workers, {view.running} running, "
        f"{view.runnable} runnable, oldest {view.oldest:.1f} s  ({mode})"
    )


def _details(view: PoolView, times: Times) -> list[str]:
    decided = f"{view.sentence}  ({times.format_age(view.decided_at * 1_000_000)} by {view.decided_by})"
    facts = [
        ("now", f"{view.starting} starting, {view.draining} draining, {view.asleep} asleep, {view.threads} slots each"),
        ("bounds", f"{view.min} to {view.max} workers, wait goal {view.wait:g} s"),
        ("queues", ", ".join(view.queues)),
        ("decided", decided if view.sentence else ""),
        ("because", " → ".join(view.reasons)),
        ("override", _override(view, times)),
        ("paused", f"by {view.paused.by}" + (f": {view.paused.why}" if view.paused.why else "") if view.paused else ""),
        ("tuned", ", ".join(f"{field}={value}" for field, value in view.tuned.items())),
        ("alerts", ", ".join(view.alerts)),
        ("degraded", view.degraded),
        *(("node", f"{part.node}: {part.ready}/{part.target} workers of at most {part.max}") for part in view.nodes),
    ]
    return [f"  {name:<9}{text}" for name, text in facts if text]


def _override(view: PoolView, times: Times) -> str:
    override = view.override
    return f"{override.describe()}, until {times.format(int(override.until * 1e6))}" if override else ""
