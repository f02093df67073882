"""Asynchronous connections of callers, psycopg's and asyncpg's, behind one interface.

The drivers differ in how a batch is passed: as text that the server parses, or as a list per column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from psycopg import AsyncRawCursor
from psycopg.rows import tuple_row

from windlass.stores.postgres.caller import AsyncConnection, callers_async_connection, is_asyncpg
from windlass.stores.postgres.transaction import bound
from windlass.stores.sql.database import Values
from windlass.stores.statements import Statement


class AsyncCaller(Protocol):
    """A caller's asynchronous connection with an open transaction."""

    def bind(self, statement: Statement, batch: Sequence[Values] | None, scalars: Mapping[str, object]) -> list[object]:
        """Return the parameters of a statement in the form that the driver needs."""
        ...

    async def run(self, text: str, values: Sequence[object], *, rows: bool) -> list[Values]:
        """Run a statement with parameters `$1`, `$2`, … and return its rows, if they are wanted."""
        ...


async def find_async_caller(conn: object) -> AsyncCaller:
    """Return the connection inside `conn`. Raise `NotAllowed` if it is not one, or has no transaction to join."""
    found = await callers_async_connection(conn)
    return AsyncpgCaller(found) if is_asyncpg(found) else PsycopgCaller(found)


class PsycopgCaller:
    """An asynchronous connection of psycopg."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def bind(self, statement: Statement, batch: Sequence[Values] | None, scalars: Mapping[str, object]) -> list[object]:
        return bound(statement, batch, scalars)

    async def run(self, text: str, values: Sequence[object], *, rows: bool) -> list[Values]:
        cursor = AsyncRawCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(text.encode(), values)
        return await cursor.fetchall() if rows else []


class AsyncpgCaller:
    """A connection of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def bind(self, statement: Statement, batch: Sequence[Values] | None, scalars: Mapping[str, object]) -> list[object]:
        values = [scalars[name] for name in statement.scalars]
        if batch is None:
            return values
        columns = zip(*batch, strict=True) if batch else ((),) * len(statement.batch)
        return [*map(list, columns), *values]

    async def run(self, text: str, values: Sequence[object], *, rows: bool) -> list[Values]:
        # `fetch` also for statements without rows: `execute` with parameters does the same work.
        found = await self._connection.fetch(text, *values)
        return [tuple(row) for row in found] if rows else []
