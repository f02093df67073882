"""Runs one suite against every store: `store` is each of them in turn, `clock` controls its time.

A store that passes fulfills the contract in `windlass/stores/protocol.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.support.roles import ROLES, create_roles, drop_roles
from tests.support.servers import SUPERUSER, PostgresServer
from tests.support.stores import Home, MemoryHome, PostgresCleaner, postgres_home, sqlite_home
from windlass.clock import ManualClock
from windlass.stores.protocol import Store


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run one in four tests through PgBouncer as well, and all of them if $WINDLASS_ALL_PGBOUNCER is set, as in CI.

    They differ from those on PostgreSQL only in their connections, and cost most, because every statement is planned
    again. Those about callers' transactions are never left out.
    """
    if os.environ.get("WINDLASS_ALL_PGBOUNCER"):
        return
    left_out = {item for item in items if goes_through_pgbouncer(item) and crc32(item.nodeid.encode()) % 4}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def goes_through_pgbouncer(item: pytest.Item) -> bool:
    if item.path.parent != Path(__file__).parent or item.path.name == "test_join.py":
        return False
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("kind") == "pgbouncer"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres", "pgbouncer"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which store."""
    return request.param


@pytest.fixture
def home(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Where the test's data are; `home.open(clock, ...)` opens one more store on them."""
    match kind:
        case "memory":
            home: Home = MemoryHome()
        case "sqlite":
            home = sqlite_home(tmp_path / "windlass.db")
        case "postgres":
            # As the role for servers and commands: every promise must be kept with the rights that it has.
            request.getfixturevalue("clean_database_url")
            home = postgres_home(request.getfixturevalue("api_url"))
        case _:
            pgbouncer = request.getfixturevalue("pgbouncer")
            request.getfixturevalue("clean_database_url")
            home = postgres_home(pgbouncer.url(request.getfixturevalue("migrated_database")), pooler=True)
    yield home
    home.close()


@pytest.fixture
def store(home: Home, clock: ManualClock) -> Store:
    return home.open(clock)


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of one database for the whole run, with our tables in it."""
    name = postgres_server.create_database()
    home = postgres_home(postgres_server.url(name))
    home.open(ManualClock())
    home.close()
    yield name
    postgres_server.drop_database(name)
    drop_roles(postgres_server, *(f"{name}_{role}" for role in ROLES))


@pytest.fixture(scope="session")
def api_url(postgres_server: PostgresServer, migrated_database: str) -> str:
    """The database of the run, for a role with only the rights of `windlass deploy roles`."""
    roles = create_roles(postgres_server, owner=SUPERUSER, database=migrated_database, prefix=migrated_database)
    return roles["api"]


@pytest.fixture(scope="session")
def cleaner(postgres_server: PostgresServer, migrated_database: str) -> Iterator[PostgresCleaner]:
    cleaner = PostgresCleaner(postgres_server.url(migrated_database))
    yield cleaner
    cleaner.close()


@pytest.fixture
def clean_database_url(postgres_server: PostgresServer, migrated_database: str, cleaner: PostgresCleaner) -> str:
    """The database of the run, emptied."""
    cleaner.clean()
    return postgres_server.url(migrated_database)
