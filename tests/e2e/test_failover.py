"""The primary dies under load and a standby takes over: what is kept, what may be lost, and that no fence is reused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
from click.testing import CliRunner

from tests.e2e.load import (
    EPOCH,
    Producer,
    assert_ended_once,
    assert_fences_grow,
    find_existing,
    hold,
    let_go,
    run_commands,
)
from tests.support.nodes import NodeProcess, await_effect, read_effects
from tests.support.processes import until
from tests.support.servers import PostgresServer, find_postgres
from tests.support.standby import Pair, await_every_commit, replicated
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import NewTask
from windlass.stores.protocol import LeaseLost
from windlass.wiring import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_postgres() / "pg_basebackup").exists(), reason="pg_basebackup is not installed"),
]
FLAGS = ("-n", "1", "-Q", "default,held", "--session-ttl", "5s")
REPLAYS = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn IS NOT NULL"


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_synchronous_standby_loses_nothing_that_was_acknowledged(
    servers: ExitStack, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    pair = servers.enter_context(replicated(synchronous=True))
    url, effects = pair.url, tmp_path / "effects.jsonl"
    store = servers.enter_context(closing(open_store(url)))
    node = servers.enter_context(NodeProcess(url, effects, "--session-ttl", "5s", "-n", "1"))
    node.await_workers()
    with Producer(store) as producer:
        await_effect(effects, "add", 50)
        pair.primary.kill()
        until(lambda: producer.outage is not None, "the producer has noticed")
        promoted = time.monotonic()
        run_promotion(pair, tmp_path)
        producer.await_more(50)
    assert producer.outage is not None
    took = producer.times[producer.outage] - promoted
    record_property("seconds_from_promotion_to_first_acknowledged_submit", round(took, 3))

    assert all(find_existing(store, producer.acknowledged)), "nothing is lost"
    assert_ended_once(store, producer.acknowledged)
    assert_fences_grow(effects)
    assert took > 0
    assert {effect["fence"] >> EPOCH for effect in read_effects(effects)} == {0}, "nobody has raised the epoch"
    assert node.process.poll() is None, "the node has lived through it"


def test_an_asynchronous_standby_that_lags_loses_exactly_the_last_submits(servers: ExitStack, tmp_path: Path) -> None:
    """The commands of the guide are run in its order: stop the nodes, promote, raise the epoch, start the nodes."""
    pair = servers.enter_context(replicated())
    url, effects = pair.url, tmp_path / "effects.jsonl"
    store = servers.enter_context(closing(open_store(url)))
    held = hold(store)
    with NodeProcess(url, effects, *FLAGS) as old, Producer(store) as producer:
        await_effect(effects, "add", 50)
        replicated_first = len(producer.acknowledged)
        await_replay(pair.primary, pair.standby)
        stop_sending(pair.primary)  # From now on the standby lags, and nobody notices.
        replicated_last = len(producer.acknowledged)
        let_go(store)
        assert_ended_once(store, held)
        producer.await_more(50)
        pair.primary.kill()
        until(lambda: producer.outage is not None, "the producer has noticed")
        old.kill()
        run_promotion(pair, tmp_path)
        run_commands("new epoch", tmp_path, WINDLASS_URL=url)
        servers.enter_context(NodeProcess(url, effects, *FLAGS))
        producer.await_more(50)
    let_go(store)  # That it was resumed is lost too.

    assert producer.outage is not None
    before, after = producer.acknowledged[: producer.outage], producer.acknowledged[producer.outage :]
    existing = find_existing(store, before)
    kept = existing.count(True)
    assert existing == [True] * kept + [False] * (len(before) - kept), "exactly the latest ones are lost"
    assert replicated_first <= kept <= replicated_last + 1  # A submit may have been committed and not yet noted.
    assert kept <= len(before) - 50
    assert_ended_once(store, [*before[:kept], *after, *held])
    assert_fences_grow(effects, held)


def test_an_asynchronous_standby_loses_the_last_commits_and_a_new_epoch_refuses_their_leases(
    servers: ExitStack,
) -> None:
    primary, standby, database = servers.enter_context(replicated())
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


def test_doctor_warns_about_a_standby_that_commits_do_not_wait_for(servers: ExitStack) -> None:
    pair = servers.enter_context(replicated())
    owner = pair.primary.url(pair.database)
    open_store(owner).close()
    await_replay(pair.primary, pair.standby)
    with psycopg.connect(owner, autocommit=True) as conn:
        until(lambda: conn.execute(REPLAYS).fetchall() != [], "the standby has reported")
        conn.execute("CREATE ROLE plain LOGIN")
        conn.execute("GRANT USAGE ON SCHEMA windlass TO plain")
        conn.execute("GRANT SELECT ON ALL TABLES IN SCHEMA windlass TO plain")
    warned = find_replication(owner)
    hidden = find_replication(owner.replace("postgres@", "plain@"))

    await_every_commit(pair.primary)

    assert warned is not None
    assert (warned["mark"], "synchronous_standby_names" in warned["fix"]) == ("⚠", True)
    assert "1 standby follows" in warned["text"]
    assert "acknowledged tasks may be lost in a failover" in warned["text"]
    assert hidden is not None
    assert (hidden["mark"], "pg_read_all_stats" in hidden["text"]) == ("✓", True)
    followed = find_replication(owner)
    assert followed is not None
    assert followed["mark"] == "✓"
    pair.standby.stop()
    with psycopg.connect(owner, autocommit=True) as conn:
        until(lambda: conn.execute(REPLAYS).fetchall() == [], "the standby has gone")
    assert find_replication(owner) is None, "without a standby there is nothing to say"


def find_replication(url: str) -> dict[str, str] | None:
    """Return what `windlass doctor` says about replication."""
    result = CliRunner().invoke(main, ["doctor", "--store", url, "--json"])
    return next((each for each in json.loads(result.stdout)["checks"] if each["name"] == "replication"), None)


def run_promotion(pair: Pair, folder: Path) -> None:
    run_commands("promote", folder, PGPORT=str(pair.standby.port))


def stop_sending(primary: PostgresServer) -> None:
    """Pause the process that sends the log to the standby."""
    with psycopg.connect(primary.url()) as conn:
        [(pid,)] = conn.execute("SELECT pid FROM pg_stat_replication").fetchall()
    sender = psutil.Process(pid)
    sender.suspend()
    until(lambda: sender.status() == psutil.STATUS_STOPPED, "it is paused")


def await_replay(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has replayed everything that the primary has written."""
    with psycopg.connect(primary.url()) as conn:
        written = conn.execute("SELECT pg_current_wal_lsn()").fetchall()[0][0]

    def replayed() -> bool:
        with psycopg.connect(standby.url()) as conn:
            return bool(conn.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (written,)).fetchall()[0][0])

    until(replayed, "the standby has caught up")
