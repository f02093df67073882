"""The servers that other tests use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.processes import until
from tests.support.servers import PostgresServer

ROOT = Path(__file__).parents[2]


def test_every_test_gets_an_empty_database_of_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    other = postgres_server.create_database()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE mine (n int)")

    with psycopg.connect(postgres_server.url(other, over_socket=True)) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_class WHERE relname = 'mine'").fetchone()
    postgres_server.drop_database(other)

    assert tables == (0,)


def test_a_database_can_be_cloned_from_a_template(postgres_server: PostgresServer, postgres_database: str) -> None:
    with psycopg.connect(postgres_server.url(postgres_database)) as connection:
        connection.execute("CREATE TABLE seed AS SELECT 42 AS n")

    clone = postgres_server.create_database(template=postgres_database)
    with psycopg.connect(postgres_server.url(clone)) as connection:
        rows = connection.execute("SELECT n FROM seed").fetchall()
    postgres_server.drop_database(clone)

    assert rows == [(42,)]


def test_a_restart_keeps_the_url_and_what_was_committed(own_postgres_server: PostgresServer) -> None:
    database = own_postgres_server.create_database()
    url = own_postgres_server.url(database)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")

    own_postgres_server.restart("immediate")

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_pgbouncer_answers_and_pools_by_transaction(pgbouncer_url: str, postgres_url: str) -> None:
    with (
        psycopg.connect(pgbouncer_url, autocommit=True) as one,
        psycopg.connect(pgbouncer_url, autocommit=True) as two,
        psycopg.connect(postgres_url, autocommit=True) as direct,
    ):
        backends = {c.execute("SELECT pg_backend_pid()").fetchone() for c in (one, two, one, two)}

        # Two clients, one server connection: it goes back to the pool at the end of each transaction.
        assert len(backends) == 1
        assert direct.execute("SELECT pg_backend_pid()").fetchone() not in backends


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill")
def test_a_server_does_not_outlive_an_owner_that_was_killed() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid, folder = owner.stdout.readline().split()
    server = psutil.Process(int(pid))

    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()

    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "the server has ended")
    until(lambda: not Path(folder).exists(), "its folder is gone")


OWNER = """
import time
from tests.support.servers import PostgresServer
server = PostgresServer()
server.start()
print(server.pid, server.folder, flush=True)
time.sleep(600)
"""
