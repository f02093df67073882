"""Count the tasks in a peer's store, over one open connection."""

from __future__ import annotations

from functools import cache
from os import environ
from typing import Any

from benchmarks.workloads.adapter import URL


def count_rows(statement: str) -> int:
    """Return the count of a PostgreSQL statement."""
    found = _postgres().execute(statement).fetchone()
    return int(found[0])


def execute(statement: str) -> None:
    """Run a PostgreSQL statement."""
    _postgres().execute(statement)


@cache
def redis() -> Any:
    """Return a client of the Redis server in use."""
    from redis import Redis

    return Redis.from_url(environ[URL])


@cache
def _postgres() -> Any:
    import psycopg

    return psycopg.connect(environ[URL], autocommit=True)
