"""The role of `windlass deploy role` is not a superuser, and is enough for everything that Windlass does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from click.testing import CliRunner

from tests.deploy.running import made
from tests.support.builders import a_task, claim_one, complete, sweep_until_quiet
from tests.support.roles import run_script
from tests.support.servers import PostgresServer
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.wiring import open_store

NAMES = ("--role", "application", "--database", "application_tasks")
PASSWORD = "long 'quoted' password"


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database that the script has created, as its role."""
    admin = postgres_server.url("postgres")
    run_script(postgres_server, made("role", *NAMES), WINDLASS_PASSWORD=PASSWORD)
    found = urlsplit(admin)
    yield f"postgresql://application@{found.hostname}:{found.port}/application_tasks?password=long%20%27quoted%27%20password"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE application_tasks WITH (FORCE)")
        connection.execute("DROP ROLE application")


def test_the_role_runs_everything_and_is_not_a_superuser(url: str) -> None:
    with closing(open_store(url)) as store:
        [receipt] = store.submit([a_task()])
        complete(store, claim_one(store))
        sweep_until_quiet(store)
        [task] = store.get([receipt.id])
    assert task is not None
    assert task.state is State.COMPLETED
    for words in (["db", "status"], ["db", "check"], ["doctor"]):
        result = CliRunner().invoke(main, words, env={"WINDLASS_URL": url})
        assert result.exit_code in (0, 1), result.output
        assert "permission denied" not in result.output
    with psycopg.connect(url, autocommit=True) as connection:
        rights = "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(rights).fetchone() == (False, False, False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY (SELECT 1) TO PROGRAM 'true'")
