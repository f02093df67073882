"""What is particular to asyncpg: `test_callers_async` has the behavior that all drivers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest

from tests.integration.checks import orders
from tests.integration.test_callers_async import engine_to, waits
from tests.support.builders import a_task, all_tasks, run_all, submit_one
from tests.support.servers import PostgresServer
from windlass import App, current, wiring
from windlass.core.lifecycle import State
from windlass.errors import NotAllowed, StoreError
from windlass.stores.postgres import PostgresStore
from windlass.testing import drain

pytestmark = pytest.mark.usefixtures("no_orders")

Work = Callable[[Any], Awaitable[None]]


@pytest.fixture(scope="module")
def url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


@pytest.fixture
def app(store: PostgresStore) -> Iterator[App]:
    app = App(store=store)
    app.task(name="mail")(lambda: None)
    yield app
    app.close()


def with_connection(url: str, work: Work) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await work(connection)
        finally:
            await connection.close()

    asyncio.run(run())


def test_an_app_enqueues_calls_and_workflows_in_the_transaction(app: App, url: str, admin: psycopg.Connection) -> None:
    mail = app.handlers["mail"]

    async def undo(conn: Any) -> None:
        async with conn.transaction():
            await conn.execute("INSERT INTO public.orders VALUES (1)")
            await mail.using(conn=conn).aenqueue()
            raise ZeroDivisionError

    async def work(conn: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            await undo(conn)
        async with conn.transaction():
            await conn.execute("INSERT INTO public.orders VALUES (2)")
            await mail.using(conn=conn, key="one").aenqueue()
            await app.aenqueue_many([mail.using(conn=conn).bind()] * 2)
            async with app.workflow("order-2", conn=conn) as wf:
                wf.add(mail, after=[wf.add(mail)])
            async with conn.transaction():  # a savepoint
                await mail.using(conn=conn).aenqueue()

    with_connection(url, work)

    assert orders(admin) == 1
    assert drain(app) == 6


def test_a_handler_completes_its_task_with_its_rows(app: App, url: str, admin: psycopg.Connection) -> None:
    @app.task(name="bill", retries=0)
    async def bill(fails: bool) -> str:
        conn = await asyncpg.connect(url)
        try:
            async with conn.transaction():
                with pytest.raises(NotAllowed, match="already inside a transaction"):
                    async with current().transaction(conn):
                        pass
            async with current().transaction(conn) as tx:
                await conn.execute("INSERT INTO public.orders VALUES (1)")
                tx.result("billed")
                if fails:
                    raise ZeroDivisionError
        finally:
            await conn.close()
        return "not recorded"

    failed, billed = bill.enqueue(True), bill.enqueue(False)
    drain(app)

    assert (failed.state, billed.result(0)) == (State.FAILED, "billed")
    assert orders(admin) == 1


def test_ids_that_the_caller_reads_as_text_change_nothing(store: PostgresStore, url: str) -> None:
    parent = submit_one(store, key="parent")

    async def work(conn: Any) -> None:
        await conn.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")
        async with conn.transaction():
            [again, child] = await wiring.asubmit_in(conn, [a_task(key="parent"), a_task(prerequisites=[parent])])
        assert (again.id, again.created, type(child.id)) == (parent, False, UUID)

    with_connection(url, work)

    assert len(run_all(store)) == 2


def test_a_connection_without_a_transaction_is_refused(store: PostgresStore, url: str) -> None:
    async def work(conn: Any) -> None:
        with pytest.raises(NotAllowed, match=r"no open transaction.*conn\.transaction"):
            await wiring.asubmit_in(conn, [a_task()])
        async with (
            engine_to(url, "asyncpg", isolation_level="AUTOCOMMIT") as engine,
            engine.connect() as in_autocommit,
        ):
            with pytest.raises(NotAllowed, match="no open transaction"):
                await wiring.asubmit_in(in_autocommit, [a_task()])

    with_connection(url, work)

    assert all_tasks(store) == []


def test_a_pool_an_engine_and_a_call_without_await_are_refused_with_a_hint(app: App, url: str) -> None:
    mail = app.handlers["mail"]

    async def work(conn: Any) -> None:
        async with asyncpg.create_pool(url, min_size=0) as pool, engine_to(url, "asyncpg") as engine:
            for source in (pool, engine):
                with pytest.raises(NotAllowed, match="Take one from it"):
                    await mail.using(conn=source).aenqueue()
        async with conn.transaction():
            with pytest.raises(NotAllowed, match=r"conn=Connection is asynchronous.*aenqueue"):
                mail.using(conn=conn).enqueue()

    with_connection(url, work)

    assert all_tasks(app.store) == []


def test_another_database_is_refused(app: App, url: str, postgres_server: PostgresServer) -> None:
    name = postgres_server.create_database()

    async def work(conn: Any) -> None:
        async with conn.transaction():
            with pytest.raises(NotAllowed, match=rf"another database \({name}\)"):
                await app.handlers["mail"].using(conn=conn).aenqueue()
            with pytest.raises(StoreError, match="The Windlass tables are not in this database"):
                await wiring.asubmit_in(conn, [a_task()])

    try:
        with_connection(postgres_server.url(name), work)
    finally:
        postgres_server.drop_database(name)


def test_closed_released_and_failed_connections_are_not_joined(store: PostgresStore, url: str) -> None:
    async def work(conn: Any) -> None:
        async with asyncpg.create_pool(url, min_size=0) as pool:
            async with pool.acquire() as released:
                pass
            with pytest.raises(StoreError, match="released back to the pool"):
                await wiring.asubmit_in(released, [a_task()])
        transaction = conn.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.DivisionByZeroError):
            await conn.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="aborted"):
            await wiring.asubmit_in(conn, [a_task()])
        await transaction.rollback()
        await conn.close()
        with pytest.raises(StoreError, match="closed"):
            await wiring.asubmit_in(conn, [a_task()])

    with_connection(url, work)

    assert all_tasks(store) == []


def test_a_key_that_another_transaction_takes_at_this_moment_asks_for_another_try(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    async def work(conn: Any) -> None:
        other = await asyncpg.connect(url)
        first = conn.transaction()
        await first.start()
        await wiring.asubmit_in(conn, [a_task(key="contested")])
        second = other.transaction()
        await second.start()
        waiting = asyncio.create_task(wiring.asubmit_in(other, [a_task(key="contested")]))
        while not waits(admin):
            await asyncio.sleep(0.01)
        await first.commit()
        with pytest.raises(StoreError, match="try again"):
            await waiting
        await second.rollback()
        await other.close()

    with_connection(url, work)

    assert len(all_tasks(store)) == 1
