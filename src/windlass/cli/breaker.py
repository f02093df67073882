"""`windlass breaker`: the circuit breakers of downstreams."""

from __future__ import annotations

import click

from windlass.cli.pool import by_option, for_option, somebody, why_option
from windlass.cli.shapes import print_json
from windlass.cli.stores import json_option, opened, store_option
from windlass.clock import SystemClock
from windlass.core.breaker import BreakerState
from windlass.operations import legacy_breakers as breakers


@click.group()
def breaker() -> None:
    """Look at the circuit breakers of downstreams, hold them open or closed."""


@breaker.command("ls")
@store_option
@json_option
def ls(store_url: str | None, as_json: bool) -> None:
    """Every downstream whose tasks have failed lately, or that somebody holds."""
    found = breakers.downstreams(opened(store_url), SystemClock().now())
    if as_json:
        print_json(found)
        return
    for each in found:
        click.echo(each.sentence)


@breaker.command("open")
@store_option
@click.argument("name")
@for_option
@why_option
@by_option
def open_(store_url: str | None, name: str, lasts: str | None, why: str, by: str | None) -> None:
    """Let no task of this downstream start, until it is closed or for some time."""
    now = SystemClock().now()
    breakers.hold(opened(store_url), name, BreakerState.OPEN, now, by=somebody(by), why=why, lasts=lasts)
    click.echo(f"{name} is held open; `windlass breaker close {name}` ends it", err=True)


@breaker.command()
@store_option
@click.argument("name")
@click.option(
    "--hold", is_flag=True, help="Keep it closed whatever its tasks say, for --for or until it is closed again."
)
@for_option
@why_option
@by_option
def close(store_url: str | None, name: str, hold: bool, lasts: str | None, why: str, by: str | None) -> None:
    """Let its tasks start again."""
    store, now = opened(store_url), SystemClock().now()
    if hold or lasts:
        breakers.hold(store, name, BreakerState.CLOSED, now, by=somebody(by), why=why, lasts=lasts)
    else:
        breakers.close(store, name, now, by=somebody(by))
    click.echo(f"{name} is closed", err=True)
