"""`windlass token`: make, list and revoke what opens the HTTP API."""

from __future__ import annotations

import getpass
from collections.abc import Sequence

import click

from windlass.cli.shapes import moment, print_json, print_table
from windlass.cli.stores import json_option, opened, store_option
from windlass.clock import SystemClock
from windlass.core.times import duration
from windlass.errors import InvalidTask
from windlass.operations.caller import Scope
from windlass.operations.legacy_tokens import create_token, revoke_token, tokens
from windlass.wire.shapes import token_shape


@click.group()
def token() -> None:
    """Make, list and revoke what opens the HTTP API."""


@token.command()
@store_option
@json_option
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice([scope.value for scope in Scope]))
@click.option("--tenant", help="Limit it to the tasks of one tenant.")
@click.option("--queue", help="Limit it to the tasks of one queue.")
@click.option("--expires", default="90d", show_default=True, metavar="TIME", help="After which time; never for never.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="How many requests a second it may make.")
def create(
    store_url: str | None,
    as_json: bool,
    name: str,
    scopes: Sequence[str],
    tenant: str | None,
    queue: str | None,
    expires: str,
    rate: float | None,
) -> None:
    """Make a token called NAME and print it. It is shown this once: the store keeps a hash only."""
    lasts = None if expires == "never" else duration(expires, "expires")
    store = opened(store_url)
    secret = create_token(
        store, name, [Scope(scope) for scope in scopes], tenant=tenant, queue=queue, rate=rate, lasts=lasts, by=_me()
    )
    if as_json:
        print_json({"name": name, "token": secret})
    else:
        click.echo(secret)
        click.echo("Keep it now: it is not shown again. Send it as Authorization: Bearer …", err=True)


@token.command("ls")
@store_option
@json_option
def ls(store_url: str | None, as_json: bool) -> None:
    """List the tokens: what they allow, and until when."""
    found = tokens(opened(store_url))
    if as_json:
        print_json([token_shape(name, each) for name, each in sorted(found.items())])
        return
    rows = [
        (
            name,
            ",".join(each.scopes),
            each.tenant or "all",
            each.queue or "all",
            "never" if each.expires is None else f"{moment(each.expires)}{_gone(each.expires)}",
            each.by,
        )
        for name, each in sorted(found.items())
    ]
    print_table(("name", "scopes", "tenant", "queue", "expires", "by"), rows)


@token.command()
@store_option
@click.argument("name")
def revoke(store_url: str | None, name: str) -> None:
    """Make a token worthless, within two seconds on every server."""
    if not revoke_token(opened(store_url), name, by=_me()):
        raise InvalidTask(f"token={name!r} is not there; `windlass token ls` shows them")
    click.echo(f"revoked {name}")


def _gone(expires: int) -> str:
    return "  (expired)" if expires <= SystemClock().now() else ""


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # No name for this user id, as in some containers.
        return "local"
