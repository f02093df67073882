from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from tests.integration.checks import orders
from tests.support.builders import (
    HOUR,
    a_task,
    all_tasks,
    claim_one,
    complete,
    counted,
    recounted,
    run_all,
    state_of,
    submit_one,
    sweep_until_quiet,
)
from windlass import wiring
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.errors import KeyConflict, NotAllowed, QueueFull, StaleLease, StoreError, UnknownPrerequisite
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Settled

pytestmark = pytest.mark.usefixtures("no_orders")

Execute = Callable[[str], Awaitable[object]]
Caller = Callable[[str], AbstractAsyncContextManager[tuple[Any, Execute]]]


class Undo(Exception):
    """Raised inside a caller's transaction, which is then rolled back."""


@asynccontextmanager
async def psycopg_async(url: str, **options: Any) -> AsyncGenerator[tuple[Any, Execute]]:
    async with await psycopg.AsyncConnection.connect(url, **options) as connection:
        yield connection, lambda text: connection.execute(text.encode())


def psycopg_async_with_dict_rows(url: str) -> AbstractAsyncContextManager[tuple[Any, Execute]]:
    return psycopg_async(url, row_factory=dict_row)


@asynccontextmanager
async def psycopg_async_autocommit(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with psycopg_async(url, autocommit=True) as (connection, execute), connection.transaction():
        yield connection, execute


@asynccontextmanager
async def psycopg_async_pipeline(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with psycopg_async(url) as (connection, execute), connection.pipeline():
        yield connection, execute


@asynccontextmanager
async def asyncpg_transaction(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1, statement_cache_size=0) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def engine_to(url: str, driver: str = "psycopg", **options: Any) -> AsyncGenerator[Any]:
    pytest.importorskip("greenlet", reason="SQLAlchemy's asynchronous half needs it")
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"), **options)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_begin(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url) as engine, engine.begin() as connection:
        yield connection, connection.exec_driver_sql


@asynccontextmanager
async def sqlalchemy_async_commit_as_you_go(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url) as engine, engine.connect() as connection:
        yield connection, connection.exec_driver_sql
        await connection.commit()


@asynccontextmanager
async def sqlalchemy_asyncpg_commit_as_you_go(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url, "asyncpg") as engine, engine.connect() as connection:
        yield connection, connection.exec_driver_sql
        await connection.commit()


@asynccontextmanager
async def sqlalchemy_asyncpg_session(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url, "asyncpg") as engine:
        from sqlalchemy.ext.asyncio import AsyncSession

        async with AsyncSession(engine) as session, session.begin():
            yield session, lambda text: session.execute(sqlalchemy.text(text))


@asynccontextmanager
async def sqlalchemy_async_session(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url) as engine:
        from sqlalchemy.ext.asyncio import AsyncSession

        async with AsyncSession(engine) as session:
            yield session, lambda text: session.execute(sqlalchemy.text(text))
            await session.commit()


@asynccontextmanager
async def sqlalchemy_async_session_begun(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url) as engine:
        from sqlalchemy.ext.asyncio import AsyncSession

        async with AsyncSession(engine) as session, session.begin():
            yield session, lambda text: session.execute(sqlalchemy.text(text))


@asynccontextmanager
async def sqlalchemy_async_scoped_session(url: str) -> AsyncGenerator[tuple[Any, Execute]]:
    async with engine_to(url) as engine:
        from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker

        session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        try:
            yield session, lambda text: session.execute(sqlalchemy.text(text))
            await session.commit()
        finally:
            await session.remove()


CALLERS = [
    psycopg_async,
    psycopg_async_with_dict_rows,
    psycopg_async_autocommit,
    psycopg_async_pipeline,
    sqlalchemy_async_begin,
    sqlalchemy_async_commit_as_you_go,
    sqlalchemy_async_session,
    sqlalchemy_async_session_begun,
    sqlalchemy_async_scoped_session,
    asyncpg_transaction,
    asyncpg_pool,
    sqlalchemy_asyncpg_commit_as_you_go,
    sqlalchemy_asyncpg_session,
]


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.__name__)
def caller(request: pytest.FixtureRequest) -> Caller:
    return request.param


@pytest.fixture(scope="module")
def url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


def test_a_batch_commits_with_the_callers_rows(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    async def attempt() -> list[Any]:
        async with caller(url) as (conn, execute):
            await execute("INSERT INTO public.orders VALUES (1)")
            receipts = await wiring.asubmit_in(conn, [a_task(key="a"), a_task(key="b", prerequisites=["a"])])
            assert store.get([receipt.id for receipt in receipts]) == [None, None]
            return receipts

    [first, second] = asyncio.run(attempt())

    assert orders(admin) == 1
    assert (first.state, second.state) == (State.RUNNABLE, State.WAITING)
    assert (first.created, second.created) == (True, True)
    assert run_all(store) == [first.id, second.id]
    assert counted(store) == recounted(store)


def test_a_batch_commits_when_it_is_all_that_the_transaction_does(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    async def attempt() -> None:
        async with caller(url) as (conn, _):
            await wiring.asubmit_in(conn, [a_task()])

    asyncio.run(attempt())

    assert [task.state for task in all_tasks(store)] == [State.RUNNABLE]


def test_a_batch_rolled_back_with_the_callers_rows_leaves_nothing(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    parent = submit_one(store, key="parent")

    async def attempt() -> None:
        async with caller(url) as (conn, execute):
            await execute("INSERT INTO public.orders VALUES (1)")
            await wiring.asubmit_in(conn, [a_task(prerequisites=[parent]), a_task(workflow="flow")])
            raise Undo

    with pytest.raises(Undo):
        asyncio.run(attempt())

    assert orders(admin) == 0
    assert [task.id for task in all_tasks(store)] == [parent]
    assert sweep_until_quiet(store).resolved == 0


def test_refusals_leave_the_callers_transaction_as_it_was(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    store.configure(Queue(name="full", max_waiting=0))
    store.open_workflow("ahead", forward=HOUR)
    known = submit_one(store, key="once")
    stale = claim_one(store)
    complete(store, stale)

    async def attempt() -> Any:
        async with caller(url) as (conn, execute):
            await execute("INSERT INTO public.orders VALUES (1)")
            with pytest.raises(KeyConflict):
                await wiring.asubmit_in(conn, [a_task(key="once", args={"other": True})])
            with pytest.raises(UnknownPrerequisite):
                await wiring.asubmit_in(conn, [a_task(prerequisites=["nobody"])])
            with pytest.raises(QueueFull):
                await wiring.asubmit_in(conn, [a_task(queue="full")])
            with pytest.raises(NotAllowed, match="forward"):
                await wiring.asubmit_in(conn, [a_task(workflow="ahead")])
            with pytest.raises(StaleLease):
                await wiring.asubmit_in(conn, [a_task()], stale.lease)
            assert await wiring.asubmit_in(conn, []) == []
            return await wiring.asubmit_in(conn, [a_task(key="once")])

    [again] = asyncio.run(attempt())

    assert (again.id, again.created) == (known, False)
    assert orders(admin) == 1
    assert len(all_tasks(store)) == 1


def test_prerequisites_that_end_meanwhile_are_resolved_after_the_commit(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    parent = submit_one(store)
    claim = claim_one(store)

    async def attempt() -> Any:
        async with caller(url) as (conn, _):
            receipts = await wiring.asubmit_in(conn, [a_task(prerequisites=[parent])], claim.lease)
            complete(store, claim)
            return receipts

    [child] = asyncio.run(attempt())
    swept = sweep_until_quiet(store)

    assert state_of(store, child.id) is State.RUNNABLE
    assert swept.healed == 0


def test_an_attempt_is_completed_with_its_rows(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    id = submit_one(store)
    child = submit_one(store, prerequisites=[id])
    claim = claim_one(store)

    async def attempt() -> object:
        async with caller(url) as (conn, execute):
            await execute("INSERT INTO public.orders VALUES (1)")
            return await wiring.acomplete_in(conn, claim.lease, COMPLETED)

    verdict = asyncio.run(attempt())
    before = state_of(store, child)
    again = complete(store, claim)

    assert [verdict] == again == [Settled(claim.lease, State.COMPLETED)]
    assert (state_of(store, id), before, state_of(store, child)) == (
        State.COMPLETED,
        State.WAITING,
        State.RUNNABLE,
    )
    assert orders(admin) == 1


def test_a_synchronous_connection_is_taken_too(store: PostgresStore, url: str) -> None:
    async def attempt() -> None:
        with psycopg.connect(url) as conn:
            await wiring.asubmit_in(conn, [a_task()])

    asyncio.run(attempt())

    assert len(all_tasks(store)) == 1


def test_a_caller_that_is_cancelled_leaves_nothing(store: PostgresStore, url: str, admin: psycopg.Connection) -> None:
    submit_one(store, key="contested", queue="other")
    batch = [a_task(key="contested", queue="other"), *(a_task() for _ in range(10))]

    async def attempt() -> None:
        async with psycopg_async(url) as (conn, execute):
            await execute("INSERT INTO public.orders VALUES (1)")
            await wiring.asubmit_in(conn, batch)

    async def cancelled() -> None:
        with psycopg.connect(url) as locker:
            locker.execute("LOCK TABLE windlass.runnable IN SHARE MODE")  # The tasks are written by then.
            under_way = asyncio.create_task(attempt())
            while not waits(admin):
                await asyncio.sleep(0.01)
            under_way.cancel()
            with pytest.raises(asyncio.CancelledError):
                await under_way

    asyncio.run(cancelled())

    assert orders(admin) == 0
    assert len(all_tasks(store)) == 1


def waits(admin: psycopg.Connection) -> bool:
    found = admin.execute(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return found.fetchone() is not None


@pytest.mark.usefixtures("store")
def test_autocommit_without_a_transaction_is_refused(url: str) -> None:
    async def attempt() -> None:
        async with psycopg_async(url, autocommit=True) as (conn, _):
            with pytest.raises(NotAllowed, match="autocommit"):
                await wiring.asubmit_in(conn, [a_task()])

    asyncio.run(attempt())


@pytest.mark.parametrize("conn", [None, 0, object()], ids=lambda conn: type(conn).__name__)
def test_what_is_no_connection_is_refused_by_name(conn: object) -> None:
    with pytest.raises(NotAllowed, match=f"conn={type(conn).__name__} "):
        asyncio.run(wiring.asubmit_in(conn, [a_task()]))


def test_a_closed_connection_is_not_joined(url: str) -> None:
    async def attempt() -> None:
        async with psycopg_async(url) as (conn, _):
            await conn.close()
            with pytest.raises(StoreError, match="closed"):
                await wiring.asubmit_in(conn, [a_task()])

    asyncio.run(attempt())
