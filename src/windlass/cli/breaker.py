"""`windlass breaker`: show and control the circuit breakers of downstreams."""

from __future__ import annotations

import click

from windlass.cli.options import author_options, create_option, for_option, json_options, store_option
from windlass.cli.output import echo, print_json, print_note
from windlass.core.breaker import BreakerState
from windlass.operations import breakers
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.wire.breakers import breaker_shape


@click.group()
def breaker() -> None:
    """Show and control the circuit breakers of downstreams."""


@breaker.command("ls")
@store_option
@json_options
def ls(access: Access, form: str | None) -> None:
    """List the breakers of downstreams that failed recently or are held by a person."""
    found = breakers.get_all(access)
    if not print_json(form, [breaker_shape(each) for each in found], name="breakers"):
        for each in found:
            echo(each.sentence)
        if not found:
            print_note("No breaker. One appears when tasks of a downstream fail, or with `windlass breaker open`.")


@breaker.command("open")
@store_option
@json_options
@click.argument("name")
@for_option
@create_option
@author_options
def open_(access: Access, form: str | None, name: str, lasts: str | None, create: bool, author: Author) -> None:
    """Hold a breaker open, so that no task of the downstream starts."""
    found = breakers.hold(access, name, BreakerState.OPEN, author=author, lasts=lasts, create=create)
    if not print_json(form, breaker_shape(found)):
        print_note(f"Breaker {name} is held open. `windlass breaker close {name}` closes it.")


@breaker.command()
@store_option
@json_options
@click.argument("name")
@click.option("--hold", is_flag=True, help="Keep the breaker closed, even if tasks fail.")
@for_option
@author_options
def close(access: Access, form: str | None, name: str, hold: bool, lasts: str | None, author: Author) -> None:
    """Close a breaker, so that the tasks of the downstream start again."""
    if hold or lasts is not None:
        found = breakers.hold(access, name, BreakerState.CLOSED, author=author, lasts=lasts)
    else:
        found = breakers.close(access, name, author=author)
    if not print_json(form, breaker_shape(found)):
        print_note(f"Breaker {name} is closed.")


@breaker.command()
@store_option
@json_options
@click.argument("name")
@author_options
def rm(access: Access, form: str | None, name: str, author: Author) -> None:
    """Remove a breaker and what it has counted."""
    if not print_json(form, breaker_shape(breakers.remove(access, name, author=author))):
        print_note(f"Breaker {name} is removed.")
