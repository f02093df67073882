from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import ConnectionPool

from tests.integration import members
from tests.integration.checks import assert_sound, granted, leased_now, opened, somebody_waits_for_a_lock
from tests.integration.threads import InThread
from tests.support.builders import (
    SECOND,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    run_all,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.processes import ProcessGroup, until
from windlass.core.lifecycle import State
from windlass.core.task import Claim
from windlass.errors import StoreError, StoreUnavailable
from windlass.stores.postgres import PostgresStore, paused
from windlass.stores.postgres.database import SETTINGS, PostgresTransaction
from windlass.stores.protocol import Settled
from windlass.stores.sql import endings, settle
from windlass.stores.sql.database import Transaction


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


# Errors of PostgreSQL inside a transaction.


@contextmanager
def failing(admin: psycopg.Connection, table: str, code: str, times: int) -> Iterator[Callable[[], int]]:
    """The next writes to a table fail with an error code, a number of times. Returns the number of tries."""
    admin.execute("CREATE SEQUENCE public.tries")
    admin.execute(
        sql.SQL(
            "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('public.tries') <= {} THEN RAISE EXCEPTION 'a test wants this' USING ERRCODE = {}; END IF; "
            "RETURN NULL; END $$"
        ).format(times, code)
    )
    name = sql.Identifier("windlass", table)
    events = "AFTER INSERT OR UPDATE ON"
    admin.execute(sql.SQL(f"CREATE TRIGGER fail {events} {{}} EXECUTE FUNCTION public.fail()").format(name))

    def tries() -> int:
        [(last, called)] = admin.execute("SELECT last_value, is_called FROM public.tries").fetchall()
        return last if called else 0

    try:
        yield tries
    finally:
        admin.execute("DROP FUNCTION public.fail() CASCADE")
        admin.execute("DROP SEQUENCE public.tries")


SERIALIZATION, DEADLOCK, LOCK, DISK_FULL, READ_ONLY = "40001", "40P01", "55P03", "53100", "25006"


@pytest.mark.parametrize("code", [SERIALIZATION, DEADLOCK, LOCK])
def test_a_conflict_in_a_submit_is_retried_unseen(store: PostgresStore, admin: psycopg.Connection, code: str) -> None:
    with failing(admin, "task", code, times=2) as tries:
        [first, second] = store.submit([a_task(key="a"), a_task(prerequisites=["a"])])
        tried = tries()

    assert tried == 3
    assert (first.created, second.created) == (True, True)
    assert run_all(store) == [first.id, second.id]


@pytest.mark.parametrize("code", [SERIALIZATION, DEADLOCK, LOCK])
def test_a_conflict_in_a_claim_or_a_settle_is_retried_unseen(
    store: PostgresStore, admin: psycopg.Connection, code: str
) -> None:
    [parent, child] = submit(store, a_task(key="parent"), a_task(prerequisites=["parent"]))

    with failing(admin, "leased", code, times=1) as claim_tries:
        [claim] = claim_all(store)
        tried = claim_tries()
    leased = leased_now(store)
    with failing(admin, "completed", code, times=1) as settle_tries:
        [verdict] = complete(store, claim)
        tried_again = settle_tries()

    assert (tried, tried_again) == (2, 2)
    assert leased == granted([claim]) == {(parent, claim.lease.fence)}
    assert verdict == Settled(claim.lease, State.COMPLETED)
    assert (task_of(store, parent).attempts, len(store.attempts(parent))) == (1, 1)
    assert state_of(store, child) is State.RUNNABLE
    assert_sound(store)


@pytest.mark.parametrize("code", [SERIALIZATION, DISK_FULL])
def test_a_fault_that_does_not_pass_is_unavailable_and_leaves_nothing(
    store: PostgresStore, admin: psycopg.Connection, code: str
) -> None:
    with failing(admin, "edge", code, times=1_000), pytest.raises(StoreUnavailable, match="a test wants this"):
        store.submit([a_task(key="a"), a_task(prerequisites=["a"])])
    left = all_tasks(store)
    [first, second] = submit(store, a_task(key="a"), a_task(prerequisites=["a"]))

    assert left == []
    assert run_all(store) == [first, second]
    assert_sound(store)


def test_an_error_that_no_retry_can_help_is_raised_at_once(store: PostgresStore, admin: psycopg.Connection) -> None:
    with failing(admin, "task", "22012", times=1_000) as tries:
        with pytest.raises(StoreError) as raised:
            store.submit([a_task(deadline=SECOND)])
        tried = tries()

    assert tried == 1
    assert not isinstance(raised.value, StoreUnavailable)


def test_a_statement_that_takes_too_long_is_unavailable(
    store: PostgresStore, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "statement_timeout", "100ms")
    submit_one(store)
    claim = claim_one(store)

    with opened(shared_url) as hurried:
        with psycopg.connect(shared_url) as holder:
            holder.execute("SELECT FROM windlass.leased FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="statement timeout"):
                complete(hurried, claim)
        [verdict] = complete(hurried, claim)

    assert verdict == Settled(claim.lease, State.COMPLETED)


def test_a_claim_does_not_wait_for_what_others_have_locked(store: PostgresStore, shared_url: str) -> None:
    [locked] = submit(store, a_task())
    with psycopg.connect(shared_url) as holder:
        holder.execute("SELECT FROM windlass.task FOR UPDATE")
        holder.execute("SELECT FROM windlass.runnable FOR UPDATE")
        free = submit_one(store)
        claims = claim_all(store)
        store.sweep()

    assert claimed_ids(claims) == [free]
    assert state_of(store, locked) is State.RUNNABLE


# Connections that are lost.


@contextmanager
def backend_killed_before(
    statement: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], bool]]:
    """The connection that is about to send a statement loses its backend, once; gives whether that has happened."""
    ask = PostgresTransaction.query
    killed: list[int] = []

    def fatal(self: PostgresTransaction, name: str, *args: Any, **scalars: Any) -> Any:
        if name == statement and not killed:
            killed.append(self._connection.info.backend_pid)
            admin.execute("SELECT pg_terminate_backend(%s)", killed)
            until(lambda: not is_connected(admin, killed[0]), "the backend is gone")
        return ask(self, name, *args, **scalars)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTransaction, "query", fatal)
        yield lambda: bool(killed)


def is_connected(admin: psycopg.Connection, pid: int) -> bool:
    return admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is not None


@pytest.mark.parametrize("statement", ["enqueue", "enqueue_one", "prepare", "submit", "add_runnable", "count"])
def test_a_backend_killed_during_a_submit_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    with backend_killed_before(statement, admin, monkeypatch) as happened:
        new = [a_task(deadline=None if statement.startswith("enqueue") else SECOND)]
        receipts = store.submit([*new, a_task()] if statement == "enqueue" else new)
        assert happened()

    assert {task.id for task in all_tasks(store)} == {receipt.id for receipt in receipts}
    assert_sound(store)


@pytest.mark.parametrize("statement", ["claim", "kinds", "claim_kinds"])
def test_a_backend_killed_during_a_claim_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    submit(store, a_task(), a_task())
    session = a_session(store)

    with backend_killed_before(statement, admin, monkeypatch) as happened:
        claims = store.claim(session, ["default", "other"], limit=10, merge=statement != "claim")
        assert happened()

    assert len(claims) == 2
    assert granted(claims) == leased_now(store)


@pytest.mark.parametrize(
    ("statement", "levels"), [("complete", 8), ("reach", 8), ("resolve_edges", 8), ("announce", 0), ("lock_tasks", 0)]
)
def test_a_backend_killed_during_a_settle_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str, levels: int
) -> None:
    monkeypatch.setattr(settle, "LEVELS", levels)
    monkeypatch.setattr(endings, "LEVELS", levels)
    [_, child] = submit(store, a_task(key="parent"), a_task(prerequisites=["parent"]))
    claim = claim_one(store)

    with backend_killed_before(statement, admin, monkeypatch) as happened:
        [verdict] = complete(store, claim)
        assert happened()
    sweep_until_quiet(store)

    assert verdict == Settled(claim.lease, State.COMPLETED)
    assert state_of(store, child) is State.RUNNABLE
    assert_sound(store)


def test_reads_go_on_over_a_lost_connection(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)

    with backend_killed_before("get", admin, monkeypatch) as happened:
        found = store.get([id])
        assert happened()

    assert [task and task.id for task in found] == [id]


def test_a_server_that_ends_idle_connections_goes_unseen(shared_url: str, admin: psycopg.Connection) -> None:
    url = f"{shared_url}?application_name=dropped&options=-c%20idle_session_timeout%3D200ms"

    def is_dropped() -> bool:
        return not admin.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'dropped'").fetchall()

    with opened(url) as dropped:
        before = dropped.counts()
        until(is_dropped, "the server has ended the connection")
        assert dropped.counts() == before


def test_a_closed_store_leaves_no_thread_and_no_connection(migrated_url: str) -> None:
    before = set(threading.enumerate())
    store = PostgresStore(f"{migrated_url}?application_name=closing", connections=4)
    calls = [InThread(lambda: [submit_one(store) for _ in range(10)]) for _ in range(4)]
    for call in calls:
        call.answer()
    store.wait_for_work(["nothing"], members.MOMENT)

    store.close()
    store.close()

    assert [thread for thread in set(threading.enumerate()) - before if thread not in calls] == []
    with psycopg.connect(migrated_url, autocommit=True) as connection:  # a transaction would see one moment only
        ours = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'closing%'"
        until(lambda: connection.execute(ours).fetchone() is None, "its connections are gone")
    with pytest.raises(StoreError, match="closed"):
        store.counts()


def test_threads_that_use_a_new_store_at_once_wait_until_it_is_connected(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, may_open, real = threading.Event(), threading.Event(), ConnectionPool.open

    def slowly(pool: ConnectionPool[Any], *given: Any, **named: Any) -> None:
        opening.set()
        assert may_open.wait(30)
        real(pool, *given, **named)

    monkeypatch.setattr(ConnectionPool, "open", slowly)
    with opened(migrated_url) as store:
        first = InThread(store.counts)
        assert opening.wait(30)
        second = InThread(store.counts)
        second.join(0.2)
        may_open.set()

        assert first.answer() == second.answer() == []


def test_parent_and_children_of_a_fork_do_not_speak_on_one_connection(migrated_url: str) -> None:
    with ProcessGroup() as group:
        statuses = group.start(members.forker, url=migrated_url, tasks=20).receive()

    assert statuses == [0, 0]
    with opened(migrated_url) as store:
        keys = Counter((task.key or "").rpartition("-")[0] for task in all_tasks(store))
        assert keys == {"": 1, "child-1": 20, "child-2": 20, "parent": 20, "parent-after": 20}
        assert_sound(store)


def test_a_store_whose_connections_are_all_in_use_says_so(
    store: PostgresStore, shared_url: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    with opened(shared_url, connections=1) as small, psycopg.connect(shared_url) as holder:
        holder.execute("SELECT FROM windlass.task FOR UPDATE")
        waiting = InThread(lambda: small.cancel([id], reason="waits for the lock"))
        until(lambda: somebody_waits_for_a_lock(admin), "its only connection is in use")
        monkeypatch.setattr(small._db._lines().pool, "timeout", 0.1)
        with pytest.raises(StoreUnavailable, match="all 1 connections of this store are in use"):
            small.counts()
        holder.rollback()

        assert waiting.answer() == 1


def test_the_server_counts_a_process_that_is_paused_inside_a_transaction_as_idle(
    store: PostgresStore, admin: psycopg.Connection
) -> None:
    """Only then does it end the transaction in time. Its locks would stop the sweeps of every node."""
    session = a_session(store)
    in_transaction = "SELECT state FROM pg_stat_activity WHERE xact_start IS NOT NULL AND application_name = 'windlass'"

    def pause_after_a_lock(tx: Transaction) -> list[tuple[Any, ...]]:
        assert tx.query("renew", session=session, now=None, about=None, workers=None).rows()
        found = f"{in_transaction} AND datname = current_database()"
        until(lambda: admin.execute(found).fetchall() == [("idle in transaction",)], "the server waits", 5)
        return admin.execute(found).fetchall()

    assert store._db.transact(pause_after_a_lock) == [("idle in transaction",)]


def test_a_sweep_ends_the_transaction_of_a_process_that_is_paused_in_the_middle_of_a_pipeline(
    store: PostgresStore,
    shared_url: str,
    admin: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server counts such a process as active, so its own limit for idle transactions ends nothing."""
    ids = submit(store, a_task(), a_task(), a_task())
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active'"

    with ProcessGroup() as group:
        paused_node = group.start(members.claimer_that_stops, url=shared_url)
        process = paused_node.receive()
        until(lambda: admin.execute(waiting).fetchall(), "the server waits for the rest of the pipeline")
        store.sweep()
        assert claim_all(store) == [], "the paused claim has locked the tasks"

        monkeypatch.setattr(paused, "IDLE_SECONDS", 0.0)
        store.sweep()
        claims: list[Claim] = []

        def all_claimed() -> bool:
            claims.extend(claim_all(store))
            return len(claims) == len(ids)

        until(all_claimed, "the tasks are free again")
        os.kill(process, signal.SIGCONT)
        assert paused_node.receive() == 0, "its claim is tried again and finds nothing"

    assert sorted(claimed_ids(claims)) == sorted(ids)
    assert "ended a transaction of a process that stopped" in caplog.text
    assert all(isinstance(verdict, Settled) for verdict in complete(store, *claims))
    assert_sound(store)


def test_a_transaction_that_sends_a_statement_now_and_then_is_not_ended(
    store: PostgresStore, shared_url: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([0.0, 0.9, 1.1, 1.9, 2.1])
    monkeypatch.setattr(paused, "monotonic", lambda: next(looks) * paused.IDLE_SECONDS)
    last = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active' AND query = %s"
    with psycopg.connect(shared_url, application_name="windlass") as slow:
        pid = slow.info.backend_pid

        def is_there() -> bool:
            return admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is not None

        with suppress(psycopg.OperationalError), slow.pipeline():  # Its end is sent over a closed connection.
            for statement in ("SELECT 1", "SELECT 2"):
                slow.execute(statement)
                until(lambda sent=statement: admin.execute(last, [sent]).fetchall(), "the server waits for the rest")
                store.sweep()
                store.sweep()
                assert is_there()
            store.sweep()
            until(lambda: not is_there(), "its transaction is ended")


def test_a_sweep_leaves_alone_who_copies_and_who_has_another_name(
    store: PostgresStore, shared_url: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paused, "IDLE_SECONDS", 0.0)

    with (
        psycopg.connect(shared_url, application_name="windlass") as ours,
        psycopg.connect(shared_url, application_name="another") as another,
    ):
        ours.execute("CREATE TEMPORARY TABLE copied (n int)")
        with ours.cursor().copy("COPY copied FROM STDIN") as copy, another.pipeline():
            another.execute("SELECT 1")
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active'"
            until(lambda: admin.execute(waiting).fetchall() == [(2,)], "the server waits for both")
            store.sweep()
            copy.write_row([1])

        assert ours.execute("SELECT count(*) FROM copied").fetchall() == [(1,)]
        assert another.execute("SELECT 2").fetchall() == [(2,)]


def test_a_sweep_does_not_wait_for_a_session_that_its_paused_node_has_locked(
    store: PostgresStore, shared_url: str, admin: psycopg.Connection
) -> None:
    session = a_session(store)
    admin.execute("UPDATE windlass.session SET renewed = renewed - 2 * ttl WHERE id = %s", [session])
    with psycopg.connect(shared_url) as holder:
        holder.execute("SELECT FROM windlass.session WHERE id = %s FOR UPDATE", [session])
        assert store.sweep().lost_sessions == 0
    assert store.sweep().lost_sessions == 1
