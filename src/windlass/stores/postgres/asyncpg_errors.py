"""Translate the errors of asyncpg as `database` translates those of psycopg."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from windlass.errors import KeyBusy, StoreError, StoreUnavailable, UnstorableValue
from windlass.stores.postgres.database import is_key_busy, is_passing_state


@contextmanager
def asyncpg_errors() -> Generator[None]:
    """Translate the errors of asyncpg in a caller's transaction, which cannot be retried here."""
    asyncpg: Any = sys.modules.get("asyncpg")
    if asyncpg is None:
        yield
        return
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate == "55P03" and is_key_busy(error.context):
            raise KeyBusy from error
        raise _translated(error, error.sqlstate or "") from error
    except asyncpg.InterfaceError as error:
        raise StoreError(f"asyncpg: {error}") from error


def _translated(error: Exception, state: str) -> StoreError:
    if state == "23505":
        return StoreError("The same key was submitted concurrently. Roll back and try again.")
    if state in ("42P01", "3F000"):
        return StoreError("The Windlass tables are not in this database. Is it the one that the store uses?")
    if state.startswith("22"):
        return UnstorableValue(f"PostgreSQL: {error}")
    if is_passing_state(state):
        return StoreUnavailable(f"PostgreSQL: {error}")
    return StoreError(f"PostgreSQL: {error}")
