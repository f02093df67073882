"""Fill the tables quickly with finished or waiting tasks, in SQL.

Ids look like those of `fresh_id`: 1,000 tasks share a microsecond, so that indexes grow as they do in real use.
"""

from __future__ import annotations

from typing import Any

import apsw
import psycopg

from windlass.clock import SystemClock

HOUR = 3_600_000_000

_POSTGRES_TASKS = """
INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure,
                           fence, session, claimed, finished, attempts, kind)
SELECT (lpad(to_hex(created / 1000), 12, '0') || '7' || lpad(to_hex(created %% 1000), 3, '0') || 'a'
        || substr(md5(%(first)s::text || ' ' || n), 1, 15))::uuid,
       'default', 'default', CASE WHEN %(finished)s THEN 'completed' ELSE 'runnable' END,
       0, 9223372036854775807, %(first)s + n, %(first)s + n, 0, 'cancel',
       CASE WHEN %(finished)s THEN 1 ELSE 0 END,
       CASE WHEN %(finished)s THEN '00000000-0000-7000-8000-000000000000'::uuid END,
       CASE WHEN %(finished)s THEN %(first)s + n END, CASE WHEN %(finished)s THEN %(first)s + n END,
       CASE WHEN %(finished)s THEN 1 ELSE 0 END, 0
  FROM (SELECT n, %(first)s + n - n %% 1000 AS created FROM generate_series(1::bigint, %(many)s) AS n) AS numbers
"""
_POSTGRES_BODIES = """
INSERT INTO windlass.body (id, handler, args, priority, first_due, submitted)
SELECT id, 'bench.noop', '{"n":1}', 0, due, due FROM windlass.task WHERE due > %(first)s AND due <= %(last)s
"""

_SQLITE_TASKS = """
WITH RECURSIVE numbers (n, created) AS (
    SELECT 1, :first UNION ALL SELECT n + 1, :first + n - n % 1000 FROM numbers WHERE n < :many
)
INSERT INTO task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure,
                  fence, session, claimed, finished, attempts, kind)
SELECT unhex(printf('%012x7%03xa', created / 1000, created % 1000) || substr(hex(randomblob(8)), 1, 15)),
       'default', 'default', iif(:finished, 'completed', 'runnable'), 0, 9223372036854775807, :first + n, :first + n,
       0, 'cancel', :finished, iif(:finished, zeroblob(16), NULL), iif(:finished, :first + n, NULL),
       iif(:finished, :first + n, NULL), :finished, 0
  FROM numbers
"""
_SQLITE_BODIES = """
INSERT INTO body (id, handler, args, priority, first_due, submitted)
SELECT id, 'bench.noop', '{"n":1}', 0, due, due FROM task WHERE due > :first AND due <= :last ORDER BY id
"""


def fill_postgres(url: str, many: int, *, finished: bool) -> None:
    """Add tasks, then update statistics and vacuum."""
    values = _values(many, finished=finished)
    with psycopg.connect(url, autocommit=True) as connection:
        if many:
            connection.execute(_POSTGRES_TASKS, values)
            connection.execute(_POSTGRES_BODIES, values)
        if finished:
            connection.execute("CHECKPOINT")
        connection.execute("VACUUM ANALYZE")


def fill_sqlite(path: str, many: int, *, finished: bool) -> None:
    """Add tasks to a file, then empty its write-ahead log."""
    connection: Any = apsw.Connection(path)  # its stubs are partly unknown
    values = _values(many, finished=finished)
    if many:
        with connection:
            connection.execute(_SQLITE_TASKS, values)
            connection.execute(_SQLITE_BODIES, values)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def _values(many: int, *, finished: bool) -> dict[str, int | bool]:
    first = SystemClock().now() - (HOUR if finished else many)
    return {"first": first, "last": first + many, "many": many, "finished": finished}
