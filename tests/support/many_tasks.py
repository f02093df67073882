"""Fills a database with any number of tasks by SQL, as a busy week would have left them.

The number `n` of a task decides its state, queue, tenant and handler. Of every thousand, or of as many as `apart` says,
two failed, one was cancelled and one is scheduled. The newest hundredth, or `backlog` tasks, is runnable, the last
eight are leased, and all others have completed. One in ten is a step of a workflow of ten steps.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import LiteralString

import apsw
import psycopg

from windlass.wiring import open_store

WEEK = 7 * 86_400 * 1_000_000
MINUTE = 60 * 1_000_000
SESSION = "5" * 32
ERROR = (
    '{"kind":"ConnectionError","message":"no answer from the bank","traceback":"Traceback (most recent call last):"}'
)

# What both databases understand. `{...}` is filled in below; `:name` are parameters.
NUMBERED: LiteralString = """
  SELECT n, {id} AS id, :now - (:tasks - n) * :pace AS submitted, 'queue-' || (n % 8) AS queue,
         'tenant-' || (n / 100 % 50) AS tenant, 'shop.handler_' || (n % 10) AS handler,
         CASE WHEN n > :tasks - 8 THEN 'leased' WHEN n % :apart < 2 THEN 'failed' WHEN n % :apart = 2 THEN 'cancelled'
              WHEN n % :apart = 3 THEN 'scheduled' WHEN n > :tasks - :backlog THEN 'runnable'
              ELSE 'completed' END AS state
    FROM {numbers}
"""
FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO {schema}task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, fence, session,
                              claimed, finished, attempts, reason, kind, error_group, handler, args, workflow,
                              workflow_tenant, priority, first_due, submitted)
    SELECT id, queue, tenant, CASE WHEN state IN ('runnable', 'leased', 'completed') THEN 'queued' ELSE state END,
           0, 9223372036854775807, submitted, CASE state WHEN 'scheduled' THEN :now + :pace * n ELSE submitted END,
           0, 'cancel', 1, {session}, submitted + 1000,
           CASE WHEN state IN ('failed', 'cancelled') THEN submitted + 2000 END,
           CASE state WHEN 'failed' THEN 1 ELSE 0 END,
           CASE state WHEN 'failed' THEN 'ConnectionError: no answer from the bank' WHEN 'cancelled' THEN 'by ann' END,
           n % 10, CASE state WHEN 'failed' THEN 'aaaaaaa' || (n / :apart % 3) END, handler, '{{"order":' || n || '}}',
           CASE n % 10 WHEN 5 THEN 'order-' || (n / 100) END, CASE n % 10 WHEN 5 THEN tenant END, 0, submitted,
           submitted
      FROM ({numbered}) AS numbered
    """,
    """
    INSERT INTO {schema}completed (id, fence, session, claimed, finished)
    SELECT id, 1, {session}, submitted + 1000, submitted + 2000 FROM ({numbered}) AS numbered WHERE state = 'completed'
    """,
    """
    INSERT INTO {schema}runnable (queue, lot, band, rank, tie, id, kind, due)
    SELECT queue, 0, 0, 9223372036854775807, submitted, id, n % 10, submitted
      FROM ({numbered}) AS numbered WHERE state = 'runnable'
    """,
    """
    INSERT INTO {schema}leased (id, fence, session, claimed, queue, tenant, handler)
    SELECT id, 1, {session}, submitted + 1000, queue, tenant, handler FROM ({numbered}) AS numbered
     WHERE state = 'leased'
    """,
    """
    INSERT INTO {schema}attempt (task, fence, session, started, ended, state, error)
    SELECT id, 1, {session}, submitted + 1000, submitted + 2000, 'failed', :error FROM ({numbered}) AS numbered
     WHERE state = 'failed'
    """,
    """
    INSERT INTO {schema}count_delta (queue, tenant, state, tasks)
    SELECT queue, tenant, state, count(*) FROM ({numbered}) AS numbered GROUP BY queue, tenant, state
    """,
    """
    INSERT INTO {schema}series (queue, width, at, arrived, started, completed, failed, retried, waited, longest)
    SELECT 'queue-' || (n % 8), :minute, (:now / :minute - n / 8) * :minute, 60, 60, 60, 1, 1, 6000000, 500000
      FROM {minutes}
    """,
)


def fill_sqlite(path: Path, tasks: int, **shape: int) -> str:
    """Create a database with this number of tasks. Return the URL of its store."""
    url = f"sqlite:///{path}"
    open_store(url).close()
    count = "(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n FROM c)"
    words = {
        "schema": "",
        "id": "unhex(printf('%012x7%03x8%015x', (:now - (:tasks - n) * :pace) / 1000, n % 4096, n))",
        "session": f"x'{SESSION}'",
        "numbers": count.format(":tasks"),
        "minutes": count.format("23040"),
    }
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "OFF")
    connection.pragma("synchronous", "OFF")
    parameters = values(tasks, **shape)
    for statement in FILL:
        connection.execute(statement.format(**words, numbered=NUMBERED.format(**words)), parameters)
    connection.close()
    return url


def fill_postgres(url: str, tasks: int) -> str:
    """Fill an empty database with this number of tasks. Return its URL."""
    open_store(url).close()
    words = {
        "schema": "windlass.",
        "id": "(lpad(to_hex((:now - (:tasks - n) * :pace) / 1000), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')"
        " || '8' || lpad(to_hex(n), 15, '0'))::uuid",
        "session": f"'{SESSION}'::uuid",
        "numbers": "generate_series(1, :tasks::bigint) AS n",
        "minutes": "generate_series(1, 23040) AS n",
    }
    parameters = values(tasks)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in FILL:
            text = statement.format(**words, numbered=NUMBERED.format(**words))
            for name, value in parameters.items():
                text = text.replace(f":{name}", f"'{value}'" if isinstance(value, str) else str(value))
            connection.execute(text.encode())
        connection.execute("VACUUM ANALYZE")
    return url


def values(tasks: int, *, apart: int = 1_000, backlog: int | None = None) -> dict[str, int | str]:
    """Return the parameters of the statements."""
    numbers = {"tasks": tasks, "apart": apart, "backlog": tasks // 100 if backlog is None else backlog}
    return {**numbers, "now": time.time_ns() // 1_000, "pace": WEEK // tasks, "minute": MINUTE, "error": ERROR}
