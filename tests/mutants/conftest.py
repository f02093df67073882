"""A laboratory for each dialect: stores on the same data, into which a mistake can be planted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.laboratory import Laboratory
from tests.support.servers import PostgresServer
from tests.support.stores import PostgresCleaner
from windlass.stores.postgres import PostgresStore


@pytest.fixture
def laboratory(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Laboratory]:
    """`dialect` comes from the test's parameters."""
    url = str(tmp_path / "windlass.db") if dialect == "sqlite" else request.getfixturevalue("clean_database")
    with Laboratory(url, monkeypatch) as laboratory:
        yield laboratory


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all mutants, with our tables in it."""
    name = postgres_server.create_database()
    PostgresStore(postgres_server.url(name)).close()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def cleaner(migrated_database: str) -> Iterator[PostgresCleaner]:
    cleaner = PostgresCleaner(migrated_database)
    yield cleaner
    cleaner.close()


@pytest.fixture
def clean_database(migrated_database: str, cleaner: PostgresCleaner) -> str:
    cleaner.clean()
    return migrated_database
