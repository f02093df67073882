"""Fill the tables quickly with finished or waiting tasks, in SQL.

One task is submitted (and completed) through the store, and its rows are copied in every table that has some. So this
module knows no table of the schema. A copy has a new id and new times; everything else is the same. Ids look like those
of `fresh_id`: 1,000 tasks share a microsecond, so that indexes grow as they do in real use. The counts of tasks do not
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import apsw
import psycopg
from msgspec import Struct

from benchmarks.drain import LONG, QUEUE
from windlass.clock import SystemClock
from windlass.core.settlement import COMPLETED
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

HOUR = 3_600_000_000
COPIED_AT_ONCE = 1_000_000
TIMES = range(10**15, 10**16)
"""The integers that are times: microseconds since 1970, from 2001 to 2286."""


class Rows(Struct, frozen=True):
    """The rows of one table to copy: those whose `id` is the task's."""

    table: str
    id: str
    times: Sequence[str]
    others: Sequence[str]

    def write_copy(self, numbers: str) -> str:
        """Return a statement that inserts one copy for each of some numbers `n` with an `id`."""
        columns = [self.id, *self.times, *self.others]
        values = ["numbers.id", *("numbers.at" for _ in self.times), *(f"template.{name}" for name in self.others)]
        return (
            f"INSERT INTO {self.table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM {numbers} AS numbers, {self.table} AS template WHERE template.{self.id} = "
        )


def make_template(store: Store, *, finished: bool) -> UUID:
    """Submit a task, complete one if asked, and return the id of a task in that state."""
    [receipt] = store.submit([NewTask(handler="bench.noop", args={"n": 1}, queue=QUEUE)])
    if not finished:
        return receipt.id
    session = store.open_session("fill", ttl=LONG)
    [claim] = store.claim(session, [QUEUE], 1)
    store.settle([(claim.lease, COMPLETED)])
    store.close_session(session)
    return claim.lease.task


_POSTGRES_COLUMNS = """
SELECT 'windlass.' || table_name, column_name, data_type = 'uuid'
  FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
 WHERE table_schema = 'windlass' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER' AND is_identity = 'NO'
 ORDER BY table_name, ordinal_position
"""
_POSTGRES_NUMBERS = """
CREATE TEMPORARY TABLE numbers AS
SELECT %(first)s + n AS at, (lpad(to_hex(made / 1000), 12, '0') || '7' || lpad(to_hex(made %% 1000), 3, '0') || 'a'
                             || substr(md5(%(first)s::text || ' ' || n), 1, 15))::uuid AS id
  FROM (SELECT n, %(first)s + n - n %% 1000 AS made FROM generate_series(1::bigint, %(copies)s) AS n) AS numbers
"""


def fill_postgres(url: str, template: UUID, many: int, *, finished: bool) -> None:
    """Copy a task many times, then update statistics and vacuum."""
    with psycopg.connect(url, autocommit=True) as connection:

        def read(columns: str, table: str, id: str) -> Sequence[Any] | None:
            query = f"SELECT {columns} FROM {table} WHERE {id} = %s LIMIT 1"
            return connection.execute(query.encode(), [template]).fetchone()

        found = _find_rows(connection.execute(_POSTGRES_COLUMNS).fetchall(), read)
        for first, copies in _split(many, finished=finished):
            connection.execute(_POSTGRES_NUMBERS, {"first": first, "copies": copies})
            for rows in found:
                connection.execute(f"{rows.write_copy('numbers')} %s".encode(), [template])
            connection.execute("DROP TABLE numbers")
        if finished:
            connection.execute("CHECKPOINT")
        connection.execute("VACUUM ANALYZE")


_SQLITE_COLUMNS = """
SELECT t.name, c.name, c.type = 'BLOB'
  FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c
 WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND NOT (c.type = 'INTEGER' AND c.pk = 1)
 ORDER BY t.name, c.cid
"""
_SQLITE_NUMBERS = """
CREATE TEMPORARY TABLE numbers AS
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :copies),
     made (n, made) AS (SELECT n, :first + n - n % 1000 FROM counted)
SELECT :first + n AS at,
       unhex(printf('%012x7%03xa', made / 1000, made % 1000) || substr(hex(randomblob(8)), 1, 15)) AS id
  FROM made
"""


def fill_sqlite(path: str, template: UUID, many: int, *, finished: bool) -> None:
    """Copy a task many times, then empty the write-ahead log."""
    connection: Any = apsw.Connection(path)  # its stubs are partly unknown
    connection.execute("PRAGMA synchronous = OFF").fetchall()

    def read(columns: str, table: str, id: str) -> Sequence[Any] | None:
        query = f"SELECT {columns} FROM {table} WHERE {id} = ? LIMIT 1"
        return connection.execute(query, [template.bytes]).fetchone()

    found = _find_rows(connection.execute(_SQLITE_COLUMNS).fetchall(), read)
    for first, copies in _split(many, finished=finished):
        with connection:
            connection.execute(_SQLITE_NUMBERS, {"first": first, "copies": copies})
            for rows in found:
                connection.execute(f"{rows.write_copy('temp.numbers')} ?", [template.bytes])
            connection.execute("DROP TABLE temp.numbers")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def _find_rows(
    columns: Iterable[tuple[str, str, bool]], read: Callable[[str, str, str], Sequence[Any] | None]
) -> list[Rows]:
    """Return the rows of a task in all tables. Columns have a table, a name, and whether they can contain its id."""
    tables: dict[str, dict[str, bool]] = {}
    for table, name, can_be_id in columns:
        tables.setdefault(table, {})[name] = can_be_id
    found: list[Rows] = []
    for table, names in tables.items():
        for id in (name for name, can_be_id in names.items() if can_be_id):
            row = read(", ".join(names), table, id)
            if row is not None:
                others = {name: value for name, value in zip(names, row, strict=True) if name != id}
                times = [name for name, value in others.items() if isinstance(value, int) and value in TIMES]
                found.append(Rows(table, id, times, [name for name in others if name not in times]))
                break
    return found


def _split(many: int, *, finished: bool) -> Iterator[tuple[int, int]]:
    """Yield the time and the number of copies of each part."""
    begin = SystemClock().now() - (HOUR if finished else many)
    for start in range(0, many, COPIED_AT_ONCE):
        yield begin + start, min(COPIED_AT_ONCE, many - start)
