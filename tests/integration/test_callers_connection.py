from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
import sqlalchemy
from psycopg import IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from tests.integration.checks import orders
from tests.support.builders import (
    GAVE_UP,
    HOUR,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    counted,
    report,
    run_all,
    state_of,
    submit_one,
    sweep_until_quiet,
)
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.errors import KeyConflict, NotAllowed, StoreError, UnknownPrerequisite
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.database import SETTINGS
from windlass.stores.protocol import Settled
from windlass.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.usefixtures("no_orders")

Execute = Callable[[str], object]
Caller = Callable[[str], AbstractContextManager[tuple[Any, Execute]]]


class Undo(Exception):
    """Raised inside a caller's transaction, which is then rolled back."""


# Each caller opens a connection, begins a transaction in the way its users do, and commits at the end of the block;
# an exception rolls back. It gives what is passed as conn=, and a way to run a statement of its own.


@contextmanager
def psycopg_default(url: str, **options: Any) -> Iterator[tuple[Any, Execute]]:
    with psycopg.connect(url, **options) as connection:
        yield connection, connection.execute


def psycopg_with_dict_rows(url: str) -> AbstractContextManager[tuple[Any, Execute]]:
    return psycopg_default(url, row_factory=dict_row)


@contextmanager
def psycopg_autocommit(url: str) -> Iterator[tuple[Any, Execute]]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection, connection.execute


@contextmanager
def psycopg_pipeline(url: str) -> Iterator[tuple[Any, Execute]]:
    with psycopg.connect(url) as connection, connection.pipeline():
        yield connection, connection.execute
        connection.commit()


@contextmanager
def engine_to(url: str, **options: Any) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), **options)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_begin(url: str) -> Iterator[tuple[Any, Execute]]:
    with engine_to(url) as engine, engine.begin() as connection:
        yield connection, connection.exec_driver_sql


@contextmanager
def sqlalchemy_commit_as_you_go(url: str) -> Iterator[tuple[Any, Execute]]:
    with engine_to(url) as engine, engine.connect() as connection:
        yield connection, connection.exec_driver_sql
        connection.commit()


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[tuple[Any, Execute]]:
    with engine_to(url) as engine, Session(engine) as session:
        yield session, lambda text: session.execute(sqlalchemy.text(text))
        session.commit()


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    import django
    from django.conf import settings

    database: dict[str, Any] = {"ENGINE": "django.db.backends.postgresql"}
    if not settings.configured:
        settings.configure(DATABASES={"default": database})
        django.setup()
    from django.db import connection

    given = conninfo_to_dict(url)
    place = {"NAME": given["dbname"], "USER": given["user"], "HOST": given["host"], "PORT": given["port"]}
    connection.settings_dict.update(place)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def django_atomic(url: str) -> Iterator[tuple[Any, Execute]]:
    with django_connection(url) as connection:
        from django.db import transaction

        def execute(text: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(text)

        with transaction.atomic():
            yield connection, execute


CALLERS = [
    psycopg_default,
    psycopg_with_dict_rows,
    psycopg_autocommit,
    psycopg_pipeline,
    sqlalchemy_begin,
    sqlalchemy_commit_as_you_go,
    sqlalchemy_session,
    django_atomic,
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


def rows_everywhere(admin: psycopg.Connection) -> dict[str, int]:
    """How many rows each of our tables has."""
    tables = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'").fetchall()
    counts: dict[str, int] = {}
    for (name,) in tables:
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("windlass", name))
        [(counts[name],)] = admin.execute(count).fetchall()
    return counts


def test_a_batch_commits_with_the_callers_rows(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    with caller(url) as (conn, execute):
        execute("INSERT INTO public.orders VALUES (1)")
        [first, second] = store.submit([a_task(key="a"), a_task(key="b", prerequisites=["a"])], conn=conn)
        unseen = store.get([first.id, second.id])

    assert unseen == [None, None]
    assert orders(admin) == 1
    assert (first.state, second.state) == (State.RUNNABLE, State.WAITING)
    assert run_all(store) == [first.id, second.id]


def test_a_batch_commits_when_it_is_all_that_the_transaction_does(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    with caller(url) as (conn, _):
        [receipt] = store.submit([a_task()], conn=conn)

    assert state_of(store, receipt.id) is State.RUNNABLE


def test_a_batch_rolled_back_with_the_callers_rows_leaves_nothing(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    parent = submit_one(store, key="parent")
    before = rows_everywhere(admin)

    def undo() -> None:
        with caller(url) as (conn, execute):
            execute("INSERT INTO public.orders VALUES (1)")
            store.submit([a_task(key="child", prerequisites=[parent]), a_task(workflow="flow")], conn=conn)
            raise Undo

    with pytest.raises(Undo):
        undo()

    assert orders(admin) == 0
    assert rows_everywhere(admin) == before
    assert sweep_until_quiet(store).resolved == 0


def test_a_key_that_is_known_is_answered_with_its_task(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    known = submit_one(store, key="once")

    with caller(url) as (conn, execute):
        [again] = store.submit([a_task(key="once")], conn=conn)
        execute("INSERT INTO public.orders VALUES (1)")

    assert (again.id, again.created) == (known, False)
    assert orders(admin) == 1


def test_refusals_leave_the_callers_transaction_as_it_was(
    store: PostgresStore, caller: Caller, url: str, admin: psycopg.Connection
) -> None:
    submit_one(store, key="once")

    with caller(url) as (conn, execute):
        execute("INSERT INTO public.orders VALUES (1)")
        with pytest.raises(KeyConflict):
            store.submit([a_task(key="once", args={"other": True})], conn=conn)
        with pytest.raises(UnknownPrerequisite):
            store.submit([a_task(key="orphan", prerequisites=["nobody"])], conn=conn)

    assert orders(admin) == 1
    assert len(all_tasks(store)) == 1


def test_prerequisites_that_had_ended_are_resolved_by_the_next_sweep(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    done, failed = submit_one(store, key="done"), submit_one(store, key="failed", queue="bad")
    complete(store, claim_one(store))
    report(store, claim_one(store, queue="bad"), GAVE_UP)

    with caller(url) as (conn, _):
        receipts = store.submit([a_task(prerequisites=[done]), a_task(prerequisites=[done, failed])], conn=conn)
    assert claim_all(store) == []
    swept = sweep_until_quiet(store)

    assert [receipt.state for receipt in receipts] == [State.WAITING, State.WAITING]
    assert [state_of(store, receipt.id) for receipt in receipts] == [State.RUNNABLE, State.CANCELLED]
    assert (swept.healed, swept.resolved > 0) == (0, True)


def test_prerequisites_that_end_while_the_transaction_is_open_are_resolved_by_the_next_sweep(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    parent = submit_one(store, key="parent")
    lease = claim_one(store)

    with caller(url) as (conn, _):
        [child] = store.submit([a_task(prerequisites=[parent])], conn=conn)
        [verdict] = complete(store, lease)
        sweep_until_quiet(store)
    swept = sweep_until_quiet(store)

    assert verdict == Settled(lease.lease, State.COMPLETED)
    assert state_of(store, child.id) is State.RUNNABLE
    assert swept.healed == 0


def test_a_prerequisite_that_is_purged_while_the_transaction_is_open_counts_as_missing(
    store: PostgresStore, url: str
) -> None:
    parent = submit_one(store, key="parent")

    with psycopg_default(url) as (conn, _):
        [child] = store.submit([a_task(prerequisites=[parent])], conn=conn)
        complete(store, claim_one(store))
        store.purge([parent])
    sweep_until_quiet(store)

    assert state_of(store, child.id) is State.CANCELLED


def test_a_workflow_sealed_while_the_transaction_is_open_runs_after_it(store: PostgresStore, url: str) -> None:
    store.open_workflow("flow", sealed=False)

    with psycopg_default(url) as (conn, _):
        [task] = store.submit([a_task(workflow="flow")], conn=conn)
        store.seal_workflow("flow")
    sweep_until_quiet(store)

    assert state_of(store, task.id) is State.RUNNABLE


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_the_caller_may_use_a_stricter_isolation(store: PostgresStore, url: str, level: IsolationLevel) -> None:
    parent = submit_one(store, key="parent")

    with psycopg_default(url) as (conn, execute):
        conn.isolation_level = level
        execute("SELECT count(*) FROM public.orders")
        complete(store, claim_one(store))
        [child] = store.submit([a_task(prerequisites=[parent])], conn=conn)
    sweep_until_quiet(store)

    assert state_of(store, child.id) is State.RUNNABLE


@pytest.mark.usefixtures("store")
def test_an_open_transaction_keeps_nobody_waiting(
    url: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A call that waits for the transaction fails soon.
    monkeypatch.setitem(SETTINGS, "lock_timeout", "1s")
    store = PostgresStore(url)
    parent, other = submit_one(store, key="parent"), submit_one(store, key="other", queue="elsewhere")
    store.open_workflow("flow", sealed=False)

    with psycopg_default(url) as (conn, _):
        store.submit([a_task(prerequisites=[parent, other]), a_task(workflow="flow"), a_task(key="new")], conn=conn)
        locks = admin.execute("SELECT id FROM windlass.task FOR UPDATE NOWAIT").fetchall()
        hot_locks = admin.execute("SELECT id FROM windlass.runnable FOR UPDATE NOWAIT").fetchall()
        session = a_session(store)
        claims = claim_all(store, session)
        verdicts = complete(store, *claims)
        store.renew(session)
        more = store.submit([a_task(prerequisites=[parent]), a_task(workflow="flow"), a_task(key="also new")])
        store.configure(Queue(name="default"))
        cancelled = store.cancel([other], reason="not wanted")
        store.seal_workflow("flow")
        sweep_until_quiet(store)
        store.purge([parent])
        counts = counted(store)
    store.close()

    assert len(locks) == len(hot_locks) == 2
    assert claimed_ids(claims) == [parent]
    assert [type(verdict) for verdict in verdicts] == [Settled]
    assert (len(more), cancelled) == (3, 1)
    assert counts["default", "default", State.RUNNABLE] == 3


def test_a_key_that_another_transaction_takes_at_this_moment_asks_for_another_try(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    raised: list[StoreError] = []

    def second() -> None:
        with psycopg.connect(url, application_name="second") as conn:
            try:
                store.submit([a_task(key="contested")], conn=conn)
            except StoreError as error:
                raised.append(error)

    def second_waits() -> bool:
        waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'second' AND wait_event_type = 'Lock'"
        return admin.execute(waits).fetchone() is not None

    thread = threading.Thread(target=second)
    with psycopg_default(url) as (conn, _):
        [first] = store.submit([a_task(key="contested")], conn=conn)
        thread.start()
        until(second_waits, "the second transaction waits for the first")
    thread.join()
    with psycopg_default(url) as (conn, _):
        [again] = store.submit([a_task(key="contested")], conn=conn)

    assert [("try again" in str(error)) for error in raised] == [True]
    assert (again.id, again.created) == (first.id, False)


def test_a_workflow_with_forward_references_is_refused(store: PostgresStore, url: str) -> None:
    store.open_workflow("flow", forward=HOUR)

    with psycopg_default(url) as (conn, _), pytest.raises(NotAllowed, match="without it"):
        store.submit([a_task(workflow="flow")], conn=conn)

    assert all_tasks(store) == []


# Connections without a transaction that could be joined.


def test_autocommit_without_a_transaction_is_refused(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn, pytest.raises(NotAllowed, match="autocommit"):
        store.submit([a_task()], conn=conn)

    assert all_tasks(store) == []


def test_sqlalchemys_autocommit_is_refused(store: PostgresStore, url: str) -> None:
    with (
        engine_to(url, isolation_level="AUTOCOMMIT") as engine,
        engine.connect() as conn,
        pytest.raises(NotAllowed, match="autocommit"),
    ):
        store.submit([a_task()], conn=conn)

    assert all_tasks(store) == []


def test_djangos_autocommit_is_refused(store: PostgresStore, url: str) -> None:
    with django_connection(url) as conn, pytest.raises(NotAllowed, match="autocommit"):
        store.submit([a_task()], conn=conn)

    assert all_tasks(store) == []


def test_a_transaction_that_has_failed_is_not_joined(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="aborted"):
            store.submit([a_task()], conn=conn)


def test_a_closed_connection_is_not_joined(store: PostgresStore, url: str) -> None:
    conn = psycopg.connect(url)
    conn.close()

    with pytest.raises(StoreError, match="closed"):
        store.submit([a_task()], conn=conn)


# Not a connection to PostgreSQL.


class LikePsycopg2:
    """As much of the older driver as somebody might look for."""

    autocommit = False

    def cursor(self) -> object: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class LikeAnAsyncSession:
    """SQLAlchemy's asynchronous session: what it gives must be awaited."""

    sync_session = object()

    def get_bind(self) -> object: ...

    async def connection(self) -> object: ...


class LikeAnAsyncConnection:
    """SQLAlchemy's asynchronous connection: it has the attribute of the other one, but not its meaning."""

    sync_connection = object()

    @property
    def connection(self) -> object:
        raise RuntimeError("not implemented")


@pytest.mark.parametrize(
    "conn",
    [0, False, "postgresql://localhost/app", object(), LikePsycopg2(), LikeAnAsyncSession(), LikeAnAsyncConnection()],
    ids=lambda conn: type(conn).__name__,
)
def test_what_is_no_connection_is_refused_by_name(store: PostgresStore, conn: object) -> None:
    with pytest.raises(NotAllowed, match=f"conn={type(conn).__name__} .*psycopg"):
        store.submit([a_task()], conn=conn)


def test_connections_of_other_databases_are_refused(store: PostgresStore) -> None:
    with pytest.raises(NotAllowed, match="conn=Connection "):
        store.submit([a_task()], conn=apsw.Connection(":memory:"))
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as conn, pytest.raises(NotAllowed, match="psycopg driver"):
        store.submit([a_task()], conn=conn)
    engine.dispose()


def test_an_engine_and_a_cursor_are_refused(store: PostgresStore, url: str) -> None:
    with engine_to(url) as engine, pytest.raises(NotAllowed, match="conn=Engine"):
        store.submit([a_task()], conn=engine)
    with psycopg.connect(url) as conn, pytest.raises(NotAllowed, match="conn=Cursor"):
        store.submit([a_task()], conn=conn.cursor())


def test_an_asynchronous_connection_is_refused(store: PostgresStore, url: str) -> None:
    async def attempt() -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            with pytest.raises(NotAllowed, match="conn=AsyncConnection"):
                store.submit([a_task()], conn=conn)

    asyncio.run(attempt())


def test_stores_without_a_server_refuse_every_connection(tmp_path: Path, url: str) -> None:
    with psycopg.connect(url) as conn:
        for store in (MemoryStore(), SQLiteStore(tmp_path / "windlass.db")):
            with pytest.raises(NotAllowed, match="PostgreSQL"):
                store.submit([a_task()], conn=conn)
            assert all_tasks(store) == []
            store.close()
