"""The JSON shape of API tokens."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.times import to_datetime
from windlass.operations.tokens import Token
from windlass.wire.fields import Moment, as_datetime


class TokenShape(Struct, frozen=True, kw_only=True):
    """An API token, without its secret."""

    name: str
    scopes: list[str]
    tenant: str | None
    queue: str | None
    rate: float | None
    created: Moment
    expires: Moment | None
    by: str


def token_shape(name: str, token: Token) -> TokenShape:
    """Convert a token."""
    return TokenShape(
        name=name,
        scopes=[scope.value for scope in token.scopes],
        tenant=token.tenant,
        queue=token.queue,
        rate=token.rate,
        created=to_datetime(token.created),
        expires=as_datetime(token.expires),
        by=token.by,
    )
