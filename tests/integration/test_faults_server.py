from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from tests.integration import members
from tests.integration.checks import assert_sound, granted, is_back, leased_now, opened
from tests.integration.threads import InThread
from tests.support.builders import (
    SECOND,
    a_session,
    a_task,
    all_tasks,
    claim_one,
    complete,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
)
from tests.support.processes import ProcessGroup, until
from tests.support.servers import PgBouncer, PostgresServer, ServerMissing, StopMode, free_port
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import Claim, Lease
from windlass.errors import CommitUnknown, SessionLost, StoreError, StoreUnavailable, UnsafeStore
from windlass.stores.postgres import PostgresStore, database
from windlass.stores.protocol import LeaseLost, Settled, Store


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


# Servers that restart.


MOST_AHEAD = 100
"""How many tasks the callers of a test may be ahead of its nodes."""


class Traffic:
    """Callers and nodes, each in a thread, that continue through all faults, and record their results."""

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
    """As a bug in PostgreSQL, or the kernel short of memory, would: the server then restarts all its backends."""
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
                with pytest.raises(StoreUnavailable):
                    call()
            with pytest.raises(StoreUnavailable, match="refused"):
                PostgresStore(fragile_url)
        finally:
            fragile_server.start()
        monkeypatch.undo()
        until(lambda: is_back(store), "the store has found its server again")

        assert state_of(store, id) is State.RUNNABLE


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
        assert again.id == stale.id
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


def test_more_processes_than_the_server_has_connections_for_come_to_their_end(
    fragile_server: PostgresServer, fragile_url: str
) -> None:
    processes, tasks = 40, 10
    log = fragile_server.folder / "log"
    before = len(log.read_text())
    with opened(fragile_url) as store, ProcessGroup() as group:
        statuses = group.start(members.crowd, url=fragile_url, processes=processes, tasks=tasks).receive(180)

        assert statuses == [0] * processes
        until(lambda: can_connect(fragile_url), "the server has free connections again")
        assert {task.key for task in all_tasks(store)} == {f"{n}-{m}" for n in range(processes) for m in range(tasks)}
        assert_sound(store)
    assert "too many clients" in log.read_text()[before:], "there were not enough connections for all"


def can_connect(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


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
        pytest.raises(UnsafeStore, match=rf"{setting}=off.*Set {setting}=on"),
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
    with opened(fragile_url, connections=1) as store:
        id = submit_one(store)
        with server_setting(fragile_server, "default_transaction_read_only", "on"), monkeypatch.context() as patch:
            with pytest.raises(StoreUnavailable, match=r"cannot execute .* in a read-only transaction"):
                submit_one(store, deadline=SECOND)  # a plain one would look for another server first
            # From then on it looks for a server that takes tasks.
            patch.setattr(store._db._lines().pool, "timeout", 0.2)
            with pytest.raises(StoreUnavailable, match=r"no connection in time: .* session is read-only"):
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
        messages = {case: what_it_says(lambda url=url: PostgresStore(url)) for case, url in urls.items()}
        with opened(f"postgresql://postgres:{CANARY}@{at}/{name}") as store:
            store.wait_for_work(["nothing"], members.MOMENT)
            submit_one(store)
            with psycopg.connect(fragile_server.url(), autocommit=True) as connection:
                kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'windlass%'"
                connection.execute(kill)
            submit_one(store)
            messages["in passing"] = repr(store) + repr(store._db) + str(all_tasks(store))

    assert {case for case, text in messages.items() if CANARY in text} == set()
    assert CANARY not in caplog.text
    assert "password authentication failed" in messages["another password"]
    assert "%40 for @" in messages["an @ in the password"]


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
