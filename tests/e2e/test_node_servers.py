"""F4, F5: the database server fails or restarts; the node recovers by itself, and every task completes once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, at, await_effect, gone, read_effects
from tests.support.processes import until
from tests.support.servers import PgBouncer, PostgresServer, ServerMissing, StopMode
from windlass.client.handle import Handle
from windlass.core.lifecycle import State
from windlass.errors import CommitUnknown, StoreUnavailable
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def url(own_postgres_server: PostgresServer) -> str:
    return own_postgres_server.url(own_postgres_server.create_database())


def crash_a_backend(server: PostgresServer) -> None:
    """Crash a backend, as a bug in PostgreSQL would. The server then restarts all its backends."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        victim = "SELECT pid FROM pg_stat_activity WHERE application_name = 'windlass' LIMIT 1"
        [(pid,)] = connection.execute(victim).fetchall()
    os.kill(pid, signal.SIGKILL)


def restart(mode: StopMode) -> Callable[[PostgresServer], None]:
    return lambda server: server.restart(mode)


def state_of(handle: Handle[object]) -> State | None:
    """Return the state of the task; None if the store is unavailable now."""
    with suppress(StoreUnavailable, CommitUnknown):
        return handle.state
    return None


def restart_smartly(server: PostgresServer) -> None:
    """Try a smart shutdown, which waits for its clients, then a fast one, which disconnects the node."""
    os.kill(server.state["pid"], signal.SIGTERM)
    server.restart("fast")


@pytest.mark.parametrize(
    "blow",
    [restart_smartly, restart("fast"), restart("immediate"), crash_a_backend],
    ids=["restart smart", "restart fast", "restart immediate", "kill -9 of a backend"],
)
def test_a_node_recovers_by_itself_from_failures_of_its_server(
    node: Callable[..., NodeProcess],
    effects: Path,
    own_postgres_server: PostgresServer,
    blow: Callable[[PostgresServer], None],
) -> None:
    handles = shop.app.enqueue_many(shop.add.bind(number) for number in range(2_000))
    across = shop.sleep.using(priority=10).enqueue(3)
    started = node("-n", "3", workers=3)
    await_effect(effects, "add", 100)

    blow(own_postgres_server)

    until(lambda: state_of(across) is State.COMPLETED, "the task that ran during the failure is settled")
    last = handles[-1]
    until(lambda: state_of(last) is State.COMPLETED, "the node continues")
    assert {handle.wait(PATIENCE) for handle in handles} == {State.COMPLETED}
    assert across.task().attempts == 1
    assert {handle.task().attempts for handle in handles[::50]} == {1}
    assert set(Counter(each["task"] for each in read_effects(effects, "add")).values()) == {1}, "nothing ran twice"
    assert started.process.poll() is None


def test_a_node_without_a_store_stops_its_tasks_in_time_and_continues_afterward(
    node: Callable[..., NodeProcess], effects: Path, own_postgres_server: PostgresServer
) -> None:
    started = node("-n", "1", "--session-ttl", "3s")
    handle = shop.sleep_once.enqueue(60)
    [began] = await_effect(effects, "began")

    stopped_at = time.monotonic()
    own_postgres_server.stop("fast")

    until(lambda: gone(began["pid"]), "its task is stopped", 10)
    assert time.monotonic() - stopped_at < 3, "before the session expires"
    own_postgres_server.start()
    until(lambda: state_of(handle) is State.COMPLETED, "it continues")
    assert handle.task().losses == 1
    first, second = started.await_event("SessionOpened", 2)
    assert first["session"] != second["session"]
    assert at(read_effects(effects, "began")[-1]) > stopped_at + 2.4


def test_a_drain_ends_at_its_timeout_if_the_server_does_not_answer(
    node: Callable[..., NodeProcess], effects: Path, own_postgres_server: PostgresServer
) -> None:
    started = node("-n", "1", "--drain-timeout", "100ms")
    handle = shop.sleep_once.enqueue(0.2)
    await_effect(effects, "began")
    own_postgres_server.stop("immediate")
    await_effect(effects, "ended")

    began = time.monotonic()
    status = started.terminate(30)

    assert status == 0
    assert time.monotonic() - began < 10
    own_postgres_server.start()
    assert state_of(handle) is State.LEASED, "until the session expires"


@pytest.fixture(params=["direct", "through PgBouncer"])
def node_url(request: pytest.FixtureRequest, own_postgres_server: PostgresServer, url: str) -> Iterator[str]:
    """Return the URL with which the node connects to the server."""
    if request.param == "direct":
        yield url
        return
    bouncer = PgBouncer(own_postgres_server)
    try:
        bouncer.start()
    except ServerMissing as error:
        pytest.skip(f"{error}; install the package `pgbouncer` to run this test")
    yield f"{bouncer.url(url.rpartition('/')[2])}?pooler=transaction"
    bouncer.close()


def test_a_node_survives_an_administrator_who_terminates_its_backends(
    shop_store: Store, effects: Path, url: str, node_url: str
) -> None:
    handles = shop.app.enqueue_many(shop.add.bind(number) for number in range(3_000))
    chance = random.Random(18)
    victims = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    with NodeProcess(node_url, effects, "-n", "2") as started, psycopg.connect(url, autocommit=True) as admin:
        started.await_workers()
        terminated = 0
        for _ in range(80):
            rows = admin.execute(f"SELECT pg_terminate_backend(pid) {victims}".encode()).fetchall()
            terminated += len(rows)
            time.sleep(chance.uniform(0.0, 0.1))  # A random moment is the purpose of this test.
        last = handles[-1]
        until(lambda: state_of(last) is State.COMPLETED, "the node continues")
        assert {handle.wait(PATIENCE) for handle in handles} == {State.COMPLETED}
        assert started.process.poll() is None
        assert started.events("DutyFailed") == []

    assert terminated > 20
    assert set(Counter(each["task"] for each in read_effects(effects, "add")).values()) == {1}, "nothing ran twice"
    assert {handle.task().attempts for handle in handles[::50]} == {1}
