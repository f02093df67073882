"""The caller's transaction and the handler's own: rows and tasks commit together, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.orm import Session

from windlass import App, NotAllowed, StaleLease, State, TaskFailed, current
from windlass.client.execution import arun_attempt, run_attempt
from windlass.core.assignment import assignment_of
from windlass.core.settlement import Raised, Returned
from windlass.testing import assert_enqueued, drain

Caller = Callable[[str], AbstractContextManager[tuple[Any, Callable[[str], object]]]]


@contextmanager
def by_psycopg(url: str) -> Iterator[tuple[Any, Callable[[str], object]]]:
    with psycopg.connect(url) as conn:
        yield conn, conn.execute


@contextmanager
def by_psycopg_in_autocommit(url: str) -> Iterator[tuple[Any, Callable[[str], object]]]:
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn, conn.execute


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[tuple[Any, Callable[[str], object]]]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with Session(engine) as session:
            yield session, lambda text: session.execute(sqlalchemy.text(text))
    finally:
        engine.dispose()


@contextmanager
def by_django(url: str) -> Iterator[tuple[Any, Callable[[str], object]]]:
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
        django.setup()
    from django.db import connection

    given = conninfo_to_dict(url)
    place = {"NAME": given["dbname"], "USER": given["user"], "HOST": given["host"], "PORT": given["port"]}
    connection.settings_dict.update(place)

    def execute(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    try:
        yield connection, execute
    finally:
        connection.close()


@pytest.fixture
def pg(postgres_url: str) -> Iterator[App]:
    app = App(postgres_url)
    app.store.counts()
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE invoice (customer int)")
    yield app
    app.close()


def invoices(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT count(*) FROM invoice").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("caller", [by_psycopg, by_psycopg_in_autocommit, by_sqlalchemy, by_django])
def test_a_stale_attempt_and_its_replacement_bill_the_customer_once(pg: App, postgres_url: str, caller: Caller) -> None:
    @pg.task
    def bill(customer: int) -> str:
        with caller(postgres_url) as (conn, execute), current().transaction(conn) as tx:
            execute(f"INSERT INTO invoice VALUES ({customer})")
            tx.result("billed")
        return "ignored"

    handle = bill.enqueue(7)
    lost = pg.store.open_session("zombie")
    [zombie] = pg.store.claim(lost, ["default"], 1)
    pg.store.close_session(lost)
    [again] = pg.store.claim(pg.store.open_session("other"), ["default"], 1)

    late = run_attempt(pg, assignment_of(zombie), NOBODY)
    assert isinstance(late, Raised)
    assert late.error.kind == StaleLease.__name__
    assert invoices(postgres_url) == 0

    assert run_attempt(pg, assignment_of(again), NOBODY) == Returned('"billed"')
    assert isinstance(run_attempt(pg, assignment_of(zombie), NOBODY), Raised)

    assert handle.result(0) == "billed"
    assert invoices(postgres_url) == 1


def test_a_handler_cannot_change_its_outcome_after_the_commit(
    pg: App, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @pg.task
    def bill() -> None:
        with psycopg.connect(postgres_url) as conn:
            with current().transaction(conn) as tx:
                conn.execute("INSERT INTO invoice VALUES (1)")
                tx.result(5)
            with pytest.raises(NotAllowed, match="already committed"):
                current().transaction(conn)
        raise ValueError("too late")

    handle = bill.enqueue()

    assert drain(pg) == 1
    assert handle.state is State.COMPLETED
    assert handle.task().result == 5
    assert "raised after its completion was committed" in caplog.text


def test_an_error_in_the_block_rolls_back_and_is_retried_or_fails(pg: App, postgres_url: str) -> None:
    @pg.task(retries=0)
    def bill() -> None:
        with psycopg.connect(postgres_url) as conn, current().transaction(conn):
            conn.execute("INSERT INTO invoice VALUES (1)")
            raise ValueError("no")

    handle = bill.enqueue()
    drain(pg)

    with pytest.raises(TaskFailed, match="ValueError: no"):
        handle.result(0)
    assert invoices(postgres_url) == 0


def test_a_cancel_during_the_transaction_rolls_back(pg: App, postgres_url: str) -> None:
    @pg.task
    def bill() -> None:
        with psycopg.connect(postgres_url) as conn, current().transaction(conn):
            conn.execute("INSERT INTO invoice VALUES (1)")
            assert handle.cancel()
            assert current().cancelled

    handle = bill.enqueue()
    drain(pg)

    assert handle.state is State.CANCELLED
    assert invoices(postgres_url) == 0


def test_transactions_work_in_coroutines(pg: App, postgres_url: str) -> None:
    @pg.task
    async def bill(autocommit: bool) -> None:
        async with (
            await psycopg.AsyncConnection.connect(postgres_url, autocommit=autocommit) as conn,
            current().transaction(conn) as tx,
        ):
            await conn.execute("INSERT INTO invoice VALUES (1)")
            tx.result({"autocommit": autocommit})

    handles = [bill.enqueue(False), bill.enqueue(True)]
    zombie = bill.enqueue(False)
    zombie.update(priority=9)
    session = pg.store.open_session("zombie")
    [claim] = pg.store.claim(session, ["default"], 1)
    pg.store.close_session(session)
    late = asyncio.run(arun_attempt(pg, assignment_of(claim), NOBODY))

    assert isinstance(late, Raised)
    assert late.error.kind == "StaleLease"
    assert drain(pg) == 3
    assert [handle.task().result for handle in handles] == [{"autocommit": False}, {"autocommit": True}]
    assert invoices(postgres_url) == 3


def test_an_unusable_connection_raises_an_error(pg: App, postgres_url: str) -> None:
    refused: list[str] = []

    @pg.task
    def bill() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as conn, conn.transaction():
            _refused(refused, conn)
        _refused(refused, object())
        with by_django(postgres_url) as (conn, _):
            from django.db import transaction

            with transaction.atomic():
                _refused(refused, conn)

    handle = bill.enqueue()
    drain(pg)

    assert handle.state is State.COMPLETED, handle.task().reason
    assert [text.partition(",")[0].partition(" does not work")[0] for text in refused] == [
        "conn is already inside a transaction()",
        "conn=object",
        "conn is already inside atomic()",
    ]


def _refused(refused: list[str], conn: Any) -> None:
    with pytest.raises(NotAllowed) as refusal, current().transaction(conn):
        pass
    refused.append(str(refusal.value))


def test_a_task_exists_if_and_only_if_the_callers_rows_do(pg: App, postgres_url: str) -> None:
    @pg.task
    def send(to: str) -> None: ...

    async def asynchronously(end: str) -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as conn:
            await conn.execute("INSERT INTO invoice VALUES (2)")
            await send.using(conn=conn).aenqueue("async")
            await getattr(conn, end)()

    def synchronously(end: str) -> None:
        with psycopg.connect(postgres_url) as conn:
            conn.execute("INSERT INTO invoice VALUES (1)")
            send.using(conn=conn).enqueue("sync")
            assert len(pg.enqueue_many([send.using(conn=conn).bind("many")] * 2)) == 2
            getattr(conn, end)()

    synchronously("rollback")
    asyncio.run(asynchronously("rollback"))
    assert_enqueued(pg, send, times=0)

    synchronously("commit")
    asyncio.run(asynchronously("commit"))
    assert_enqueued(pg, send, "sync", times=1)
    assert_enqueued(pg, send, "many", times=2)
    assert_enqueued(pg, send, "async", times=1)
    assert invoices(postgres_url) == 2


class _Nobody:
    """A channel without a node."""

    def progress(self, order: Any, share: float | None, message: str | None) -> None: ...

    def waiting(self, order: Any, waits: bool) -> None: ...

    def may_start(self, order: Any) -> bool:
        return True

    def cancelled(self, order: Any) -> bool:
        return False


NOBODY = _Nobody()
