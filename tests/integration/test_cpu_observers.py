"""What watches a measurement on PostgreSQL: the sampler of waits, and the reader that pins the horizon."""

from __future__ import annotations

import threading

import psycopg
import pytest

from benchmarks.usage import Roles, read_usage
from benchmarks.workloads.effects import wait_until
from benchmarks.workloads.jobs import hold_snapshot
from benchmarks.workloads.waits import WaitSampler
from tests.support.servers import PostgresServer

XMIN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"


def test_the_sampler_sees_waits_of_active_processes_but_not_itself(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as sleeper, WaitSampler(postgres_url) as sampler:

        def cancel_when_seen() -> None:
            wait_until(lambda: "Timeout PgSleep" in sampler.get_shares(), "the wait was seen", 30)
            sleeper.cancel()

        thread = threading.Thread(target=cancel_when_seen)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            sleeper.execute("SELECT pg_sleep(60)")
        thread.join()

        assert sum(sampler.get_shares().values()) == pytest.approx(1)
        assert not any(wait.startswith("Client") for wait in sampler.get_shares()), "idle processes do not count"


def test_a_held_snapshot_stays_open_until_the_end_of_the_block(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as observer:
        with hold_snapshot(postgres_url):
            during = observer.execute(f"{XMIN} AND backend_xmin IS NOT NULL").fetchone()

        assert during == (1,)
        assert observer.execute(XMIN).fetchone() == (0,)


def test_the_time_of_a_connection_counts_as_the_servers(postgres_server: PostgresServer, postgres_url: str) -> None:
    roles = Roles(server=postgres_server.pid)
    before = read_usage(roles)

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        [served] = connection.execute("SELECT pg_backend_pid()").fetchone() or ()
        connection.execute("SELECT count(*) FROM generate_series(1, 2000000)")
        # The larger one last, because other processes of the server continue.
        ignored = read_usage(Roles(server=postgres_server.pid, ignored=[served])) - before
        used = read_usage(roles) - before

    assert used.server is not None
    assert used.background is not None
    assert ignored.server is not None
    assert used.background >= 0
    assert used.server > ignored.server
