"""A transaction on a psycopg connection. A batch is sent as one array per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import RawCursor
from psycopg.rows import tuple_row

from windlass.stores.postgres.arrays import array
from windlass.stores.sql.database import Values
from windlass.stores.statements import Statement

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class Rows:
    """The result of a statement that was sent."""

    def __init__(self, cursor: RawCursor[tuple[Any, ...]], pipeline: psycopg.Pipeline | None = None) -> None:
        self._cursor = cursor
        self._pipeline = pipeline

    def rows(self) -> Sequence[Values]:
        if self._pipeline is not None and self._cursor.pgresult is None:
            # Fetching alone would only flush. The server does not count the time that it then waits for us as idle, so
            # nothing would end the transaction of a paused process, and its locks would stop the sweeps of all nodes.
            self._pipeline.sync()
        return self._cursor.fetchall()


class PostgresTransaction:
    """A transaction on one connection."""

    def __init__(
        self, connection: Connection, statements: Mapping[str, Statement], pipeline: psycopg.Pipeline | None = None
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._pipeline = pipeline

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Rows:
        known = self._statements[statement]
        values = bound(known, batch, scalars)
        cursor = RawCursor(self._connection, row_factory=tuple_row)
        if statement != "find":
            return Rows(cursor.execute(known.text.encode(), values), self._pipeline)
        # A generic plan would not use the partial index of the requested state.
        self._connection.execute("SET plan_cache_mode = force_custom_plan")
        try:
            return Rows(cursor.execute(known.text.encode(), values, prepare=False), self._pipeline)
        finally:
            self._connection.execute("RESET plan_cache_mode")

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self.query(statement, batch, **scalars)


def bound(statement: Statement, batch: Sequence[Values] | None, scalars: Mapping[str, object]) -> list[object]:
    """Return the parameters of a statement: the columns of its batch as arrays, then the scalars."""
    values = [scalars[name] for name in statement.scalars]
    if batch is None:
        return values
    columns = zip(*batch, strict=True) if batch else ((),) * len(statement.batch)
    return [*map(array, (column.type for column in statement.batch), columns), *values]
