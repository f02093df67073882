"""A connection to another database than the store's is refused: its tasks would never run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.servers import PgBouncer, PostgresServer
from windlass import App
from windlass.errors import NotAllowed
from windlass.stores.protocol import Filter
from windlass.wiring import open_store


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    app = App(postgres_url)
    app.task(name="mail")(lambda: None)
    yield app
    app.close()


@pytest.fixture
def other_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Another database of the same server, with the same tables."""
    name = postgres_server.create_database()
    App(postgres_server.url(name)).store.close()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def count(url: str) -> int:
    store = open_store(url)
    try:
        return len(store.find(Filter(), limit=10).tasks)
    finally:
        store.close()


def test_a_connection_to_another_database_is_refused_and_nothing_is_written(app: App, other_url: str) -> None:
    with psycopg.connect(other_url) as conn, pytest.raises(NotAllowed, match="another database"):
        app.handlers["mail"].using(conn=conn).enqueue()

    assert count(other_url) == 0


def test_an_asynchronous_connection_to_another_database_is_refused(app: App, other_url: str, postgres_url: str) -> None:
    async def enqueue(url: str) -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await app.handlers["mail"].using(conn=conn).aenqueue()

    with pytest.raises(NotAllowed, match="another database"):
        asyncio.run(enqueue(other_url))
    asyncio.run(enqueue(postgres_url))

    assert (count(other_url), count(postgres_url)) == (0, 1)


def test_an_asynchronous_connection_does_not_replace_a_sqlite_store(tmp_path: Path, other_url: str) -> None:
    app = App(f"sqlite:///{tmp_path / 'tasks.db'}")
    mail = app.task(name="mail")(lambda: None)

    async def enqueue() -> None:
        async with await psycopg.AsyncConnection.connect(other_url) as conn:
            await mail.using(conn=conn).aenqueue()

    with pytest.raises(NotAllowed, match="not in PostgreSQL"):
        asyncio.run(enqueue())
    app.close()

    assert count(other_url) == 0


def test_the_same_database_is_accepted_through_a_pooler_and_as_an_ordinary_user(
    app: App, postgres_url: str, postgres_database: str, pgbouncer: PgBouncer
) -> None:
    app.store.counts()
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("CREATE ROLE ordinary LOGIN")
        try:
            admin.execute("GRANT USAGE ON SCHEMA windlass TO ordinary")
            admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA windlass TO ordinary")
            admin.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA windlass TO ordinary")
            with psycopg.connect(postgres_url, user="ordinary") as conn:
                app.handlers["mail"].using(conn=conn).enqueue()
        finally:
            admin.execute("DROP OWNED BY ordinary")
            admin.execute(sql.SQL("DROP ROLE ordinary"))
    with psycopg.connect(pgbouncer.url(postgres_database), prepare_threshold=None) as conn:
        app.handlers["mail"].using(conn=conn).enqueue()

    assert count(postgres_url) == 2
