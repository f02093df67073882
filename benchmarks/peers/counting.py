"""How many tasks a peer's store holds, asked over one connection that stays open."""

from __future__ import annotations

from functools import cache
from os import environ
from typing import Any

from benchmarks.workloads.adapter import URL


def count_rows(statement: str) -> int:
    """What a statement of PostgreSQL counts."""
    found = _postgres().execute(statement).fetchone()
    return int(found[0])


@cache
def redis() -> Any:
    """A plain client of the Redis in use."""
    from redis import Redis

    return Redis.from_url(environ[URL])


@cache
def _postgres() -> Any:
    import psycopg

    return psycopg.connect(environ[URL], autocommit=True)
