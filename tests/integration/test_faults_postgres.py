from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest
from psycopg import sql

from tests.integration import members
from tests.integration.threads import InThread
from tests.support.builders import (
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    counted,
    recounted,
    run_all,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.processes import Crew, until
from tests.support.proxy import Fault, Proxy
from tests.support.servers import PgBouncer, PostgresServer, ServerMissing, StopMode, free_port
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import Claim, Lease, TaskId
from windlass.errors import CommitUnknown, SessionLost, StoreError, StoreUnavailable, UnsafeStore
from windlass.stores.postgres import PostgresStore, database
from windlass.stores.postgres.database import SETTINGS, PostgresTransaction
from windlass.stores.protocol import LeaseLost, Settled, Store

T = TypeVar("T")


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


@pytest.fixture(scope="module")
def fragile_server() -> Iterator[PostgresServer]:
    """A server for the tests of this module that restart it or bend its settings, and leave it as they found it."""
    with PostgresServer(settings={"max_connections": "20"}) as server:
        yield server


@pytest.fixture
def fragile_url(fragile_server: PostgresServer) -> Iterator[str]:
    name = fragile_server.create_database()
    yield fragile_server.url(name)
    fragile_server.drop_database(name)


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PostgresStore]:
    store = PostgresStore(url, **options)
    try:
        yield store
    finally:
        store.close()


def leased_now(store: Store) -> set[tuple[TaskId, int]]:
    return {(task.id, task.fence) for task in all_tasks(store) if task.state is State.LEASED}


def granted(claims: list[Claim]) -> set[tuple[TaskId, int]]:
    return {(claim.lease.task, claim.lease.fence) for claim in claims}


def assert_sound(store: Store) -> None:
    """Nothing half: the counts agree with the tasks, and every task can still be run to its end."""
    assert counted(store) == recounted(store)
    run_all(store)
    assert {task.state for task in all_tasks(store)} <= {State.COMPLETED}


# Errors of PostgreSQL inside a transaction.


@contextmanager
def failing(admin: psycopg.Connection, table: str, code: str, times: int) -> Iterator[Callable[[], int]]:
    """The next writes to a table fail with an error code, so many times; gives how often somebody has tried."""
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
    with failing(admin, "body", code, times=2) as tries:
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

    with failing(admin, "task", code, times=1):
        [claim] = claim_all(store)
    with failing(admin, "task", code, times=1):
        [verdict] = complete(store, claim)

    assert (claim.task.id, claim.lease.fence) == (parent, 1)
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
    with failing(admin, "body", "22012", times=1_000) as tries:
        with pytest.raises(StoreError) as raised:
            store.submit([a_task()])
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
            holder.execute("SELECT FROM windlass.task FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="statement timeout"):
                complete(hurried, claim)
        [verdict] = complete(hurried, claim)

    assert verdict == Settled(claim.lease, State.COMPLETED)


def test_a_claim_does_not_wait_for_what_others_have_locked(store: PostgresStore, shared_url: str) -> None:
    [locked] = submit(store, a_task())
    with psycopg.connect(shared_url) as holder:
        holder.execute("SELECT FROM windlass.task FOR UPDATE")
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
    ask = PostgresTransaction.ask
    killed: list[int] = []

    def fatal(self: PostgresTransaction, name: str, *args: Any, **scalars: Any) -> Any:
        if name == statement and not killed:
            killed.append(self._connection.info.backend_pid)
            admin.execute("SELECT pg_terminate_backend(%s)", killed)
            until(lambda: not is_connected(admin, killed[0]), "the backend is gone")
        return ask(self, name, *args, **scalars)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTransaction, "ask", fatal)
        yield lambda: bool(killed)


def is_connected(admin: psycopg.Connection, pid: int) -> bool:
    return admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is not None


@pytest.mark.parametrize("statement", ["prepare", "submit", "submit_bodies", "count"])
def test_a_backend_killed_during_a_submit_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    with backend_killed_before(statement, admin, monkeypatch) as happened:
        [receipt] = store.submit([a_task()])
        assert happened()

    assert [task.id for task in all_tasks(store)] == [receipt.id]
    assert_sound(store)


@pytest.mark.parametrize("statement", ["claim", "lease", "count"])
def test_a_backend_killed_during_a_claim_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    submit(store, a_task(), a_task())
    session = a_session(store)

    with backend_killed_before(statement, admin, monkeypatch) as happened:
        claims = claim_all(store, session)
        assert happened()

    assert len(claims) == 2
    assert granted(claims) == leased_now(store)


@pytest.mark.parametrize("statement", ["hold", "settle", "announce", "resolve_edges"])
def test_a_backend_killed_during_a_settle_goes_unseen(
    store: PostgresStore, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
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
        dropped.counts()
        until(is_dropped, "the server has ended the connection")
        dropped.counts()


def test_a_closed_store_leaves_no_thread_and_no_connection(migrated_url: str) -> None:
    before = set(threading.enumerate())
    store = PostgresStore(f"{migrated_url}?application_name=closing", connections=4)
    calls = [InThread(lambda: [submit_one(store) for _ in range(10)]) for _ in range(4)]
    for call in calls:
        call.answer()
    store.wait_for_work(["nothing"], members.LONG / 1_000)

    store.close()
    store.close()

    assert [thread for thread in set(threading.enumerate()) - before if thread not in calls] == []
    with psycopg.connect(migrated_url) as connection:
        ours = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'closing%'"
        until(lambda: connection.execute(ours).fetchone() is None, "its connections are gone")
    with pytest.raises(StoreError, match="closed"):
        store.counts()


def test_parent_and_children_of_a_fork_do_not_speak_on_one_connection(migrated_url: str) -> None:
    with Crew() as crew:
        statuses = crew.start(members.forker, url=migrated_url, tasks=20).hear()

    assert statuses == [0, 0]
    with opened(migrated_url) as store:
        keys = Counter((task.key or "").rpartition("-")[0] for task in all_tasks(store))
        assert keys == {"": 1, "child-1": 20, "child-2": 20, "parent": 20, "parent-after": 20}
        assert_sound(store)


# Commits whose answer is lost: F9.


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def cut_off(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store whose commits can go wrong; `store` is beside it, on the same data."""
    assert all_tasks(store) == []
    with opened(proxy.url, pooler=request.param) as cut_off:
        yield cut_off


LOST = pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NEVER_ARRIVES], ids=lambda fault: fault.name.lower())


def struck(proxy: Proxy) -> bool:
    return proxy.struck.acquire(timeout=10)


@LOST
def test_a_submit_without_keys_is_there_once_after_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    proxy.order(fault)
    receipts = cut_off.submit([a_task(args={"n": 1}), a_task(args={"n": 2})])

    assert struck(proxy)
    assert [receipt.created for receipt in receipts] == [True, True]
    assert sorted(task.id for task in all_tasks(store)) == sorted(receipt.id for receipt in receipts)
    assert_sound(store)


@LOST
def test_a_submit_with_keys_is_there_once_after_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    proxy.order(fault)
    [first, second] = cut_off.submit([a_task(key="a"), a_task(key="b", prerequisites=["a"])])

    assert struck(proxy)
    assert (first.state, second.state) == (State.RUNNABLE, State.WAITING)
    assert run_all(store) == [first.id, second.id]
    assert submit(store, a_task(key="a")) == [first.id]
    assert_sound(store)


@LOST
def test_a_claim_answers_with_the_leases_of_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    submit(store, a_task(), a_task(queue="other"), a_task())
    session = a_session(store)

    proxy.order(fault)
    claims = cut_off.claim(session, ["default", "other"], limit=10)

    assert struck(proxy)
    # Where the COMMIT never arrived, the first try may still have held its locks, so that the second passed them over.
    assert len(claims) == 3 or (fault is Fault.NEVER_ARRIVES and not claims)
    assert granted(claims) == leased_now(store)
    assert [type(verdict) for verdict in complete(store, *claims)] == [Settled] * len(claims)


@LOST
def test_a_settle_is_written_once_after_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    [parent, child] = submit(store, a_task(key="parent"), a_task(prerequisites=["parent"]))
    claim = claim_one(store)

    proxy.order(fault)
    [verdict] = complete(cut_off, claim)
    sweep_until_quiet(store)

    assert struck(proxy)
    assert verdict == Settled(claim.lease, State.COMPLETED)
    assert (task_of(store, parent).attempts, state_of(store, child)) == (1, State.RUNNABLE)
    assert_sound(store)


@LOST
def test_operators_and_sweeps_get_over_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    [parent, child] = submit(store, a_task(key="parent"), a_task(prerequisites=["parent"]))
    session = a_session(store)
    claim_all(store, session)

    proxy.order(fault)
    cut_off.renew(session)
    proxy.order(fault)
    cut_off.close_session(session)
    proxy.order(fault)
    cut_off.cancel([parent], reason="enough")
    sweep_until_quiet(cut_off)
    proxy.order(fault)
    cut_off.retry([parent])

    assert all(struck(proxy) for _ in range(4))
    assert (state_of(store, parent), task_of(store, parent).generation) == (State.RUNNABLE, 1)
    assert state_of(store, child) is State.CANCELLED
    assert counted(store) == recounted(store)


@pytest.mark.xfail(
    reason="open_session inserts without ON CONFLICT: its own row refuses every further try", strict=True
)
def test_a_session_is_open_after_a_lost_commit(store: PostgresStore, proxy: Proxy) -> None:
    submit_one(store)

    with opened(proxy.url) as cut_off:
        proxy.order(Fault.ANSWER_LOST)
        session = a_session(cut_off)

    assert struck(proxy)
    assert len(claim_all(store, session)) == 1


class Late:
    """A call through the proxy whose commit reaches the server only after its client has given the connection up."""

    def __init__(self, proxy: Proxy, admin: psycopg.Connection) -> None:
        self._proxy = proxy
        self._admin = admin

    def answer(self, call: Callable[[], T]) -> T:
        self._proxy.order(Fault.ARRIVES_LATE)
        under_way: InThread[T] = InThread(call)
        assert struck(self._proxy)
        until(lambda: self._somebody_waits() or not under_way.is_alive(), "the next try waits for the first")
        self._proxy.deliver.set()
        assert self._proxy.delivered.acquire(timeout=10)
        return under_way.answer()

    def _somebody_waits(self) -> bool:
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return self._admin.execute(waits).fetchone() is not None


@pytest.fixture
def late(proxy: Proxy, admin: psycopg.Connection) -> Late:
    return Late(proxy, admin)


def test_a_submit_whose_commit_arrives_late_is_there_once(
    store: PostgresStore, cut_off: PostgresStore, late: Late
) -> None:
    receipts = late.answer(lambda: cut_off.submit([a_task(), a_task(key="b")]))

    assert sorted(task.id for task in all_tasks(store)) == sorted(receipt.id for receipt in receipts)
    assert_sound(store)


def test_a_settle_whose_commit_arrives_late_is_written_once(
    store: PostgresStore, cut_off: PostgresStore, late: Late
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    [verdict] = late.answer(lambda: complete(cut_off, claim))

    assert verdict == Settled(claim.lease, State.COMPLETED)
    assert task_of(store, id).attempts == 1


@pytest.mark.xfail(
    reason="claim's recover looks without a lock, so before the commit that is still to come", strict=True
)
def test_a_claim_whose_commit_arrives_late_leaves_no_lease_that_nobody_knows_of(
    store: PostgresStore, cut_off: PostgresStore, late: Late
) -> None:
    submit(store, a_task(), a_task())
    session = a_session(store)

    claims = late.answer(lambda: cut_off.claim(session, ["default"], limit=1))

    assert granted(claims) == leased_now(store)


def test_a_claim_that_cannot_learn_what_became_of_it_says_so(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.3)
    submit_one(store)
    session = a_session(store)

    with opened(proxy.url, connections=1) as cut_off:
        cut_off.counts()
        proxy.order(Fault.ANSWER_LOST)
        proxy.refuse()
        with pytest.raises(CommitUnknown):
            cut_off.claim(session, ["default"], limit=1)


# Servers that restart.


MOST_AHEAD = 100
"""How many tasks the callers of a test may be ahead of its nodes."""


class Traffic:
    """Callers and nodes, each in a thread, that go on through whatever happens; and what they were told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._over = threading.Event()
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.claims: list[Claim] = []
        self.settled: list[Lease] = []
        self.refusals: list[StoreError] = []
        self._threads = [InThread(lambda n=n: self._submit(n)) for n in range(2)]
        self._threads += [InThread(self._work) for _ in range(2)]

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.answer()

    def await_progress(self) -> None:
        """Until more was submitted, and more was done, than now."""
        acknowledged, settled = len(self.acknowledged) + 20, len(self.settled) + 20
        until(
            lambda: self._is_over() or (len(self.acknowledged) > acknowledged and len(self.settled) > settled),
            "calls succeed again",
        )
        assert not self._is_over()

    def _is_over(self) -> bool:
        return any(not thread.is_alive() for thread in self._threads)

    def _submit(self, thread: int) -> None:
        n = thread
        while not self._over.is_set():
            if len(self.acknowledged) > len(self.settled) + MOST_AHEAD:
                self._over.wait(0.005)
                continue
            try:
                self._store.submit([a_task(args={"n": n}, key=f"key-{n}" if n % 4 < 2 else None)])
                self.acknowledged.append(n)
            except (StoreUnavailable, CommitUnknown) as error:
                self.unknown.append(n)
                self.refusals.append(error)
            n += 2

    def _work(self) -> None:
        session = None
        while not self._over.is_set():
            try:
                session = session or a_session(self._store)
                claims = self._store.claim(session, ["default"], limit=5)
            except (StoreUnavailable, CommitUnknown) as error:
                # What it may have leased is not known here, so it is given up with the session.
                self.refusals.append(error)
                self._give_up(session)
                session = None
                continue
            self.claims += claims
            self._report([claim.lease for claim in claims])
        self._give_up(session)

    def _report(self, leases: list[Lease]) -> None:
        while leases:
            try:
                verdicts = self._store.settle([(lease, COMPLETED) for lease in leases])
            except (StoreUnavailable, CommitUnknown) as error:
                self.refusals.append(error)
            else:
                self.settled += [verdict.lease for verdict in verdicts if isinstance(verdict, Settled)]
                return

    def _give_up(self, session: Any) -> None:
        while session is not None:
            with suppress(StoreUnavailable, CommitUnknown):
                self._store.close_session(session)
                return


def crash_a_backend(server: PostgresServer) -> None:
    """As a bug in PostgreSQL, or the kernel short of memory, would: the server then starts all its backends anew."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        victim = "SELECT pid FROM pg_stat_activity WHERE application_name = 'windlass' LIMIT 1"
        [(pid,)] = connection.execute(victim).fetchall()
        os.kill(pid, signal.SIGKILL)


def restart(mode: StopMode) -> Callable[[PostgresServer], None]:
    return lambda server: server.restart(mode)


@pytest.mark.parametrize(
    "blow",
    [restart("fast"), restart("immediate"), crash_a_backend],
    ids=["restart fast", "restart immediate", "kill -9 of a backend"],
)
def test_traffic_survives_what_happens_to_the_server(
    fragile_server: PostgresServer, fragile_url: str, blow: Callable[[PostgresServer], None]
) -> None:
    with opened(fragile_url, connections=5) as store:
        traffic = Traffic(store)
        traffic.await_progress()
        blow(fragile_server)
        traffic.await_progress()
        traffic.end()
        there = Counter(msgspec.json.decode(task.args)["n"] for task in all_tasks(store))
        sweep_until_quiet(store)
        leases = Counter(granted(traffic.claims))
        ends = Counter(lease.task for lease in set(traffic.settled))
        left = leased_now(store)

        assert set(traffic.acknowledged) <= there.keys() <= {*traffic.acknowledged, *traffic.unknown}
        assert set(there.values()) == {1}
        assert len(leases) == len(traffic.claims), "two leases with one fence"
        assert set(ends.values()) == {1}, "an attempt was settled twice"
        assert left == set(), "somebody holds a lease without knowing"
        assert_sound(store)


def test_a_store_opens_on_a_server_that_is_just_starting(fragile_server: PostgresServer, fragile_url: str) -> None:
    fragile_server.stop("fast")
    opening = InThread(lambda: PostgresStore(fragile_url).close())
    fragile_server.start()

    opening.answer()


def test_a_server_that_stays_away_is_unavailable(
    fragile_server: PostgresServer, fragile_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    with opened(fragile_url) as store:
        id = submit_one(store)
        fragile_server.stop("fast")
        try:
            for call in (lambda: submit_one(store), lambda: store.get([id]), store.sweep):
                with pytest.raises(StoreUnavailable, match="refused"):
                    call()
            with pytest.raises(StoreUnavailable, match="refused"):
                PostgresStore(fragile_url)
        finally:
            fragile_server.start()
        monkeypatch.undo()
        until(lambda: is_back(store), "the store has found its server again")

        assert state_of(store, id) is State.RUNNABLE


def is_back(store: Store) -> bool:
    with suppress(StoreUnavailable):
        store.counts()
        return True
    return False


def test_a_restored_backup_knows_none_of_the_leases_granted_since(fragile_server: PostgresServer) -> None:
    live = fragile_server.create_database()
    with opened(fragile_server.url(live)) as store:
        submit(store, a_task(key="done before"), a_task(key="leased now"))
        complete(store, claim_one(store))
    backup = fragile_server.create_database(template=live)

    with opened(fragile_server.url(live)) as store:
        session = a_session(store)
        stale = claim_one(store, session)
        restore(fragile_server, live, backup)
        store.raise_epoch()
        verdicts = complete(store, stale)
        with pytest.raises(SessionLost):
            store.renew(session)
        again = claim_one(store)

        assert verdicts == [LeaseLost(stale.lease)]
        assert again.task.id == stale.task.id
        assert again.lease.fence > stale.lease.fence
        assert complete(store, again) == [Settled(again.lease, State.COMPLETED)]
    fragile_server.drop_database(live)


def restore(server: PostgresServer, live: str, backup: str) -> None:
    """Put the backup where the live database is, under the hands of its clients."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        names = {"live": sql.Identifier(live), "backup": sql.Identifier(backup)}
        connection.execute(sql.SQL("ALTER DATABASE {live} ALLOW_CONNECTIONS false").format(**names))
        connection.execute(sql.SQL("DROP DATABASE {live} WITH (FORCE)").format(**names))
        connection.execute(sql.SQL("ALTER DATABASE {backup} RENAME TO {live}").format(**names))


# Servers that are full, read-only, or not to be trusted.


def test_a_server_without_free_connections_keeps_the_ones_that_are_there_working(
    fragile_server: PostgresServer, fragile_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [PostgresStore(fragile_url, connections=8) for _ in range(4)]
    for store in stores:
        store.counts()
    hoard: list[psycopg.Connection] = []
    with suppress(psycopg.OperationalError):
        while True:
            hoard.append(psycopg.connect(fragile_url))

    calls = [InThread(lambda store=store: [submit_one(store) for _ in range(5)]) for store in stores for _ in range(6)]
    ids = {id for call in calls for id in call.answer()}
    with monkeypatch.context() as patch:
        patch.setattr(database, "PATIENCE", 0.2)
        with pytest.raises(StoreUnavailable, match="too many clients"):
            PostgresStore(fragile_url)
    for connection in hoard:
        connection.close()
    until(lambda: can_connect(fragile_url), "the server has noticed")

    assert {task.id for task in all_tasks(stores[0])} == ids
    assert len(ids) == 4 * 6 * 5
    with opened(fragile_url) as store:
        assert_sound(store)
    for store in stores:
        store.close()


def can_connect(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def test_a_store_whose_connections_are_all_in_use_says_so(
    store: PostgresStore, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    with opened(shared_url, connections=1) as small, psycopg.connect(shared_url) as holder:
        holder.execute("SELECT FROM windlass.task FOR UPDATE")
        waiting = InThread(lambda: small.cancel([id], reason="waits for the lock"))
        until(lambda: somebody_waits(shared_url), "its only connection is in use")
        monkeypatch.setattr(small._db._lines().pool, "timeout", 0.1)
        with pytest.raises(StoreUnavailable, match="all 1 of this store are in use"):
            small.counts()
        holder.rollback()

        assert waiting.answer() == 1


def somebody_waits(url: str) -> bool:
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with psycopg.connect(url) as connection:
        return connection.execute(waits).fetchone() is not None


@contextmanager
def server_setting(server: PostgresServer, name: str, value: str) -> Iterator[None]:
    """A setting of the whole server, for a while."""

    def alter(text: str, wanted: str | None) -> None:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            [(default,)] = connection.execute("SELECT boot_val FROM pg_settings WHERE name = %s", [name]).fetchall()
            connection.execute(sql.SQL(text).format(name=sql.Identifier(name), value=value))
            connection.execute("SELECT pg_reload_conf()")
            shown = "SELECT current_setting(%s)"
            until(lambda: connection.execute(shown, [name]).fetchall() == [(wanted or default,)], f"{name} is set")

    alter("ALTER SYSTEM SET {name} = {value}", value)
    try:
        yield
    finally:
        alter("ALTER SYSTEM RESET {name}", None)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_it_acknowledged_is_refused_by_its_setting(
    fragile_server: PostgresServer, fragile_url: str, setting: str
) -> None:
    with (
        server_setting(fragile_server, setting, "off"),
        pytest.raises(UnsafeStore, match=rf"{setting}=off.*set {setting}=on"),
    ):
        PostgresStore(fragile_url)

    with psycopg.connect(fragile_url) as connection:
        assert connection.execute("SELECT to_regnamespace('windlass')").fetchone() == (None,)


def test_commits_are_synchronous_whatever_the_server_says(fragile_server: PostgresServer, fragile_url: str) -> None:
    def shown(store: PostgresStore) -> Any:
        return store._db.transact(lambda tx: tx._connection.execute("SHOW synchronous_commit").fetchone())

    with server_setting(fragile_server, "synchronous_commit", "off"):
        for pooler in (False, True):
            with opened(fragile_url, pooler=pooler) as store:
                assert shown(store) == ("on",)


def test_a_server_that_turned_read_only_is_unavailable_until_it_is_writable_again(
    fragile_server: PostgresServer, fragile_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(fragile_url) as store:
        id = submit_one(store)
        with server_setting(fragile_server, "default_transaction_read_only", "on"), monkeypatch.context() as patch:
            with pytest.raises(StoreUnavailable, match="read-only"):
                submit_one(store)
            patch.setattr(store._db._lines().pool, "timeout", 0.2)
            with pytest.raises(StoreUnavailable, match="read-only"):
                submit_one(store)
            patch.setattr(database, "PATIENCE", 0.2)
            with pytest.raises(StoreUnavailable, match="read-only"):
                PostgresStore(fragile_url)
        until(lambda: is_back(store), "the store has found a server that takes tasks")

        assert [task.id for task in all_tasks(store)] == [id]
        submit_one(store)


# PgBouncer: F18.


@pytest.fixture
def bouncer(fragile_server: PostgresServer) -> Iterator[PgBouncer]:
    bouncer = PgBouncer(fragile_server, pool_size=3, settings={"admin_users": "postgres"})
    try:
        bouncer.start()
    except ServerMissing as error:
        pytest.skip(f"{error}; install the package `pgbouncer` to run this test")
    yield bouncer
    bouncer.close()


def test_traffic_survives_what_happens_to_the_pooler(
    fragile_server: PostgresServer, fragile_url: str, bouncer: PgBouncer
) -> None:
    name = fragile_url.rpartition("/")[2]
    with (
        opened(bouncer.url(name), pooler=True, connections=5) as store,
        psycopg.connect(bouncer.url("pgbouncer"), autocommit=True) as console,
    ):
        traffic = Traffic(store)
        for command in ("RELOAD", f"PAUSE {name}", f"RESUME {name}", f"KILL {name}", f"RESUME {name}"):
            console.execute(command.encode())
            if not command.startswith(("PAUSE", "KILL")):
                traffic.await_progress()
        traffic.end()
        there = Counter(msgspec.json.decode(task.args)["n"] for task in all_tasks(store))

        assert set(traffic.acknowledged) <= there.keys()
        assert set(there.values()) == {1}
        assert len(Counter(granted(traffic.claims))) == len(traffic.claims)
        assert leased_now(store) == set()
        assert_sound(store)


# Secrets.


CANARY = "hunter2canary"


def test_the_password_is_in_no_error_and_no_log(
    fragile_server: PostgresServer,
    fragile_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    name = fragile_url.rpartition("/")[2]
    at = f"127.0.0.1:{fragile_server.port}"
    urls = {
        "another password": f"postgresql://guarded:{CANARY}@{at}/{name}",
        "no such database": f"postgresql://postgres:{CANARY}@{at}/nowhere",
        "no server": f"postgresql://postgres:{CANARY}@127.0.0.1:{free_port()}/{name}",
        "no such host": f"postgresql://postgres:{CANARY}@windlass.invalid/{name}",
        "a setting that does not exist": f"postgresql://postgres:{CANARY}@{at}/{name}?options=-c%20nothing%3D1",
        "as keywords": f"host=127.0.0.1 port={fragile_server.port} user=postgres password={CANARY} dbname=nowhere",
        "an @ in the password": f"postgresql://postgres:a@{CANARY}@{at}/{name}",
        "a / in the password": f"postgresql://postgres:{CANARY}/b@{at}/{name}",
        "a % in the password": f"postgresql://postgres:{CANARY}%zz@{at}/{name}",
        "an option that does not exist": f"postgresql://postgres@{at}/{name}?pasword={CANARY}",
        "keywords gone wrong": f"host=127.0.0.1 password={CANARY} {CANARY}",
    }
    with guarded_role(fragile_server), caplog.at_level(logging.DEBUG):
        said = {case: what_it_says(lambda url=url: PostgresStore(url)) for case, url in urls.items()}
        with opened(f"postgresql://postgres:{CANARY}@{at}/{name}") as store:
            store.wait_for_work(["nothing"], members.LONG / 1_000)
            submit_one(store)
            with psycopg.connect(fragile_server.url(), autocommit=True) as connection:
                kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'windlass%'"
                connection.execute(kill)
            submit_one(store)
            said["in passing"] = repr(store) + repr(store._db) + str(all_tasks(store))

    assert {case for case, text in said.items() if CANARY in text} == set()
    assert CANARY not in caplog.text
    assert "password authentication failed" in said["another password"]
    assert "%40 for @" in said["an @ in the password"]


@contextmanager
def guarded_role(server: PostgresServer) -> Iterator[None]:
    """A role that the server does not trust without its password."""
    rules = server.folder / "data" / "pg_hba.conf"
    trusting = rules.read_text()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'something else'")
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{trusting}")
        connection.execute("SELECT pg_reload_conf()")
        yield
        rules.write_text(trusting)
        connection.execute("DROP ROLE guarded")
        connection.execute("SELECT pg_reload_conf()")


def what_it_says(call: Callable[[], object]) -> str:
    """Everything that somebody who logs the error, its causes and its traceback would write down."""
    with pytest.raises(StoreError) as raised:
        call()
    return "".join(traceback.format_exception(raised.value)) + repr(raised.value)
