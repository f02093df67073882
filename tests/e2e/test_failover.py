"""The primary dies under load and a standby takes over: what is kept, what may be lost, and that no fence is reused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.support.nodes import NodeProcess, read_effects
from tests.support.processes import until
from tests.support.servers import HOST, SUPERUSER, PostgresServer, Standby, find_postgres
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import NewTask, TaskId
from windlass.errors import StoreError
from windlass.stores.protocol import LeaseLost
from windlass.wiring import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_postgres() / "pg_basebackup").exists(), reason="pg_basebackup is not installed"),
]
REPLICATION = {"wal_level": "replica", "max_wal_senders": "4", "max_connections": "100"}


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start_pair(servers: ExitStack) -> tuple[PostgresServer, Standby, str]:
    """Return a primary, a standby that follows it, and the name of a database that both have."""
    primary = servers.enter_context(PostgresServer(settings=REPLICATION))
    database = primary.create_database()
    standby = servers.enter_context(Standby(primary, settings=REPLICATION))
    return primary, standby, database


def both(primary: PostgresServer, standby: PostgresServer, database: str) -> str:
    """Return a URL that names both servers: clients use the one that accepts writes."""
    return f"postgresql://{SUPERUSER}@{HOST}:{primary.port},{HOST}:{standby.port}/{database}"


def test_a_synchronous_standby_loses_nothing_that_was_acknowledged(servers: ExitStack, tmp_path: Path) -> None:
    primary, standby, database = start_pair(servers)
    with psycopg.connect(primary.url(), autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        conn.execute("SELECT pg_reload_conf()")
        in_sync = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        until(lambda: conn.execute(in_sync).fetchall() != [], "the standby is in sync")
    url, effects = both(primary, standby, database), tmp_path / "effects.jsonl"
    store = servers.enter_context(closing(open_store(url)))
    acknowledged: list[TaskId] = []
    stop = threading.Event()

    def produce() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                receipts = store.submit([NewTask(handler="tests.e2e.shop.add", args={"a": number}, key=f"k{number}")])
            except StoreError:
                stop.wait(0.1)
            else:
                acknowledged.extend(receipt.id for receipt in receipts)

    node = servers.enter_context(NodeProcess(url, effects, "--session-ttl", "5s", "-n", "1"))
    node.await_workers()
    producer = threading.Thread(target=produce)
    producer.start()
    try:
        until(lambda: len(read_effects(effects)) >= 50, "the node is busy")
        primary.kill()
        before = len(acknowledged)
        standby.promote()
        until(lambda: len(acknowledged) >= before + 50, "clients have found the new primary")
    finally:
        stop.set()
        producer.join()

    def ended() -> bool:
        return all(task is not None and task.state.final for task in store.get(acknowledged))

    until(ended, "every acknowledged task has ended", 60)
    tasks = [task for task in store.get(acknowledged) if task is not None]
    assert len(tasks) == len(acknowledged), "nothing is lost"
    assert {task.state for task in tasks} == {State.COMPLETED}
    fences: dict[str, list[int]] = {}
    for effect in read_effects(effects):
        fences.setdefault(effect["task"], []).append(effect["fence"])
    assert all(sorted(set(seen)) == seen for seen in fences.values()), "every run of a task has a greater fence"
    assert node.process.poll() is None, "the node has lived through it"


def test_an_asynchronous_standby_loses_the_last_commits_and_a_new_epoch_refuses_their_leases(
    servers: ExitStack,
) -> None:
    primary, standby, database = start_pair(servers)
    first = servers.enter_context(closing(open_store(primary.url(database))))
    [kept] = first.submit([NewTask(handler="any", key="kept")])
    await_replay(primary, standby)
    standby.stop("immediate")  # From now on it misses what the primary commits.
    [lost] = first.submit([NewTask(handler="any", key="lost")])
    session = first.open_session("old", timedelta(seconds=30))
    old = {claim.id: claim for claim in first.claim(session, ["default"], 10)}
    assert old.keys() == {kept.id, lost.id}
    primary.kill()

    standby.start()
    standby.promote()
    second = servers.enter_context(closing(open_store(standby.url(database))))
    second.raise_epoch()

    assert second.get([lost.id]) == [None], "it was acknowledged, and the standby never had it"
    [task] = second.get([kept.id])
    assert task is not None
    assert task.state is State.RUNNABLE, "its lease was never replicated"
    new_session = second.open_session("new", timedelta(seconds=30))
    [claim] = second.claim(new_session, ["default"], 10)
    assert claim.lease.fence > old[kept.id].lease.fence, "no fence is given out twice"
    stale = old[kept.id].lease
    assert second.settle([(stale, Settlement(state=State.COMPLETED, attempts=1))]) == [LeaseLost(stale)]
    [task] = second.get([kept.id])
    assert task is not None
    assert task.state is State.LEASED, "the old lease changed nothing"


def await_replay(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has replayed everything that the primary has written."""
    with psycopg.connect(primary.url()) as conn:
        written = conn.execute("SELECT pg_current_wal_lsn()").fetchall()[0][0]

    def replayed() -> bool:
        with psycopg.connect(standby.url()) as conn:
            return bool(conn.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (written,)).fetchall()[0][0])

    until(replayed, "the standby has caught up")
