"""API tokens for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.clock import Clock
from windlass.operations import tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store


def create_token(
    store: Store, name: str, scopes: Sequence[Scope], *, clock: Clock | None = None, **options: Any
) -> str:
    return tokens.create(Access(store, clock=clock), name, scopes, Author("local"), **options)


def revoke_token(store: Store, name: str) -> bool:
    return tokens.revoke(Access(store), name, Author("local"))
