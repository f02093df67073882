"""`windlass token`: manage API tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from windlass.cli.options import (
    author_options,
    expires_option,
    json_options,
    new_store_option,
    parse_when,
    queue_option,
    store_option,
    tenant_option,
    tz_option,
)
from windlass.cli.output import print_json, print_note, print_table
from windlass.core.times import to_datetime
from windlass.errors import UnknownToken
from windlass.operations import tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.operations.presentation import Times
from windlass.wire.commands import NewToken
from windlass.wire.tokens import token_shape


@click.group()
def token() -> None:
    """Manage API tokens."""


@token.command()
@new_store_option
@json_options
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What the token allows. Repeatable.",
)
@tenant_option
@queue_option
@expires_option("90d")
@click.option("--rate-limit", type=click.FloatRange(min=0, min_open=True), help="Most requests per second.")
@author_options
def create(
    access: Access,
    form: str | None,
    name: str,
    scopes: Sequence[str],
    tenant: str | None,
    queue: str | None,
    expires: str,
    rate_limit: float | None,
    author: Author,
) -> None:
    """Create an API token and print it once.

    The store keeps only a hash. --tenant and --queue limit the token to their tasks. --expires also takes "none".
    """
    secret = tokens.create(
        access,
        name,
        [Scope(scope) for scope in scopes],
        author,
        tenant=tenant,
        queue=queue,
        rate=rate_limit,
        lasts=None if expires == "none" else _lifetime(access, expires),
    )
    if not print_json(form, NewToken(name=name, token=secret)):
        click.echo(secret)
        print_note("Copy the token now: it is not shown again. Send it as Authorization: Bearer TOKEN.")


def _lifetime(access: Access, expires: str) -> timedelta:
    found = parse_when(expires, "expires")
    return found - to_datetime(access.now) if isinstance(found, datetime) else found


@token.command("ls")
@store_option
@json_options
@tz_option
def ls(access: Access, form: str | None, times: Times) -> None:
    """List API tokens."""
    found = tokens.get_all(access)
    if print_json(form, [token_shape(name, each) for name, each in found.items()], name="tokens"):
        return
    rows = [
        (
            name,
            ",".join(each.scopes),
            each.tenant or "all",
            each.queue or "all",
            _expiry(each.expires, times),
            each.by,
        )
        for name, each in found.items()
    ]
    print_table(("name", "scopes", "tenant", "queue", "expires", "by"), rows, "No token yet.")


def _expiry(expires: int | None, times: Times) -> str:
    if expires is None:
        return "never"
    return times.format(expires) + ("  (expired)" if expires <= times.now else "")


@token.command()
@store_option
@json_options
@click.argument("name")
@author_options
def revoke(access: Access, form: str | None, name: str, author: Author) -> None:
    """Revoke an API token; servers refuse it within two seconds."""
    found = tokens.get_all(access).get(name)
    if found is None or not tokens.revoke(access, name, author):
        raise UnknownToken(name)
    if not print_json(form, token_shape(name, found)):
        print_note(f"Token {name} is revoked.")
