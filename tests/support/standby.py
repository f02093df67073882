"""A PostgreSQL server and a standby that follows it, for tests and benchmarks of a failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from tests.support.processes import until
from tests.support.servers import HOST, SUPERUSER, PostgresServer, Standby

REPLICATION = {"wal_level": "replica", "max_wal_senders": "4", "max_connections": "100"}
IN_SYNC = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Pair(NamedTuple):
    """A primary, its standby, and the name of a database that both have."""

    primary: PostgresServer
    standby: Standby
    database: str

    @property
    def url(self) -> str:
        """A URL that names both servers: clients use the one that accepts writes."""
        return f"postgresql://{SUPERUSER}@{HOST}:{self.primary.port},{HOST}:{self.standby.port}/{self.database}"


@contextmanager
def replicated(*, synchronous: bool = False) -> Iterator[Pair]:
    """Start a primary and a standby. A synchronous one has every commit before the primary acknowledges it."""
    with PostgresServer(settings=REPLICATION) as primary:
        database = primary.create_database()
        with Standby(primary, settings=REPLICATION) as standby:
            if synchronous:
                await_every_commit(primary)
            yield Pair(primary, standby, database)


def await_every_commit(primary: PostgresServer) -> None:
    """Let commits wait for any standby, and return when one is in sync."""
    with psycopg.connect(primary.url(), autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        conn.execute("SELECT pg_reload_conf()")
        until(lambda: conn.execute(IN_SYNC).fetchall() != [], "the standby is in sync")
