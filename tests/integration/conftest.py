"""PostgreSQL stores for tests that break things: a database for one test, or one for a module, emptied for each test.

Both are clones of a database that was migrated once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import PostgresServer
from tests.support.stores import PostgresCleaner
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database with our tables and nothing in them; nobody connects to it."""
    name = postgres_server.create_database()
    PostgresStore(postgres_server.url(name)).close()
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def migrated_url(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """A database with our tables, for one test."""
    name = postgres_server.create_database(template=migrated_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def shared_url(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """A database with our tables, for all tests of a module."""
    name = postgres_server.create_database(template=migrated_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def shared_store(shared_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(shared_url)
    yield store
    store.close()


@pytest.fixture(scope="module")
def shared_admin(shared_url: str) -> Iterator[psycopg.Connection]:
    """The module's own connection to the shared database."""
    with psycopg.connect(shared_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def no_orders(shared_admin: psycopg.Connection) -> None:
    """A table that is the caller's own, or the handler's, empty."""
    shared_admin.execute("CREATE TABLE IF NOT EXISTS public.orders (id int)")
    shared_admin.execute("DELETE FROM public.orders")


@pytest.fixture(scope="module")
def shared_cleaner(shared_url: str) -> Iterator[PostgresCleaner]:
    cleaner = PostgresCleaner(shared_url)
    yield cleaner
    cleaner.close()


@pytest.fixture
def store(shared_store: PostgresStore, shared_cleaner: PostgresCleaner) -> PostgresStore:
    """The module's store, emptied."""
    shared_cleaner.clean()
    return shared_store


@pytest.fixture(params=["sqlite", "postgres"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A SQLite store, and the module's store on PostgreSQL, emptied."""
    if request.param == "postgres":
        yield request.getfixturevalue("store")
        return
    store = SQLiteStore(tmp_path / "windlass.db")
    yield store
    store.close()
