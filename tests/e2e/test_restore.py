"""F39: a busy store is backed up, lost and restored with the commands of the guide, while an old node is paused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Self

import psycopg
import pytest
from click.testing import CliRunner

from tests.deploy.running import made
from tests.e2e.load import (
    Producer,
    assert_ended_once,
    assert_fences_grow,
    find_existing,
    hold,
    let_go,
    run_commands,
    shop_task,
)
from tests.support.nodes import NodeProcess, await_effect, gone, read_effects, stopped
from tests.support.processes import until
from tests.support.roles import run_script
from tests.support.servers import HOST, PostgresServer, find_postgres
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import Lease, SessionId, TaskId
from windlass.errors import SessionLost
from windlass.stores.protocol import LeaseLost, Store
from windlass.wiring import open_store

TOOLS = ("pg_dump", "pg_restore", "psql", "createdb")
MISSING = [name for name in TOOLS if not (find_postgres() / name).exists()]
MANUAL = "manual"
"""A queue that no node serves: the test claims its tasks itself."""
FLAGS = ("-Q", "default,held", "--session-ttl", "5s")

pytestmark = pytest.mark.slow


class OldSession(NamedTuple):
    """A session that outlives the restore, with a lease that the backup has and, later, one that it has not."""

    id: SessionId
    tasks: Sequence[TaskId]
    leases: list[Lease]

    @classmethod
    def begin(cls, store: Store) -> Self:
        receipts = store.submit([shop_task("nothing", queue=MANUAL) for _ in range(2)])
        session = cls(store.open_session("old", timedelta(hours=1)), [each.id for each in receipts], [])
        session.claim(store)
        return session

    def claim(self, store: Store) -> None:
        self.leases.extend(claim.lease for claim in store.claim(self.id, [MANUAL], 1))

    def assert_refused(self, store: Store) -> None:
        """Report both leases. Nothing may change, and both tasks must have greater fences when they run again."""
        assert store.settle([(lease, COMPLETED) for lease in self.leases]) == [
            LeaseLost(lease) for lease in self.leases
        ]
        with pytest.raises(SessionLost):
            store.renew(self.id)
        new = store.open_session("new", timedelta(hours=1))
        again = {claim.id: claim.lease.fence for claim in store.claim(new, [MANUAL], 10)}
        assert again.keys() == set(self.tasks)
        for lease in self.leases:
            assert again[lease.task] > lease.fence
        assert store.settle([(lease, COMPLETED) for lease in self.leases]) == [
            LeaseLost(lease) for lease in self.leases
        ]
        assert [task and task.state for task in store.get(self.tasks)] == [State.LEASED] * 2


@pytest.fixture
def url(own_postgres_server: PostgresServer) -> str:
    """Return the URL of a database `windlass` that belongs to a role of the same name."""
    if MISSING:
        pytest.skip(f"{', '.join(MISSING)} not found next to the PostgreSQL server")
    run_script(own_postgres_server, made("role"), WINDLASS_PASSWORD="any")
    return f"postgresql://windlass@{HOST}:{own_postgres_server.port}/windlass"


def test_a_dump_has_what_was_acknowledged_before_it_and_old_leases_are_refused(
    url: str, own_postgres_server: PostgresServer, tmp_path: Path
) -> None:
    effects, variables = tmp_path / "effects.jsonl", {"PGPORT": str(own_postgres_server.port), "WINDLASS_URL": url}
    with closing(open_store(url)) as store, NodeProcess(url, effects, "-n", "2", *FLAGS) as old:
        held, session = hold(store), OldSession.begin(store)
        [gated] = [receipt.id for receipt in store.submit([shop_task("gated_once")])]
        [began] = await_effect(effects, "began")
        with Producer(store) as producer:
            await_effect(effects, "add", 50)
            acknowledged = len(producer.acknowledged)
            run_commands("backup", tmp_path, **variables)
            since = len(producer.acknowledged)
            session.claim(store)
            let_go(store)
            assert_ended_once(store, held)
            producer.await_more(50)
            with stopped(old.pid, began["pid"]):
                run_commands("set aside", tmp_path, **variables)
                until(lambda: producer.outage is not None, "the producer has noticed")
                producer.stop()
                drop_lost_database(own_postgres_server)
                run_commands("restore", tmp_path, **variables)
                with closing(open_store(url)) as restored, NodeProcess(url, effects, "-n", "1", *FLAGS):
                    let_go(restored)
                    kept = find_kept(restored, producer, acknowledged, since)
                    assert_ended_once(restored, [*kept, *held])
                    until(lambda: result_of(restored, gated) == '"again"', "the gated task has run again")
                    session.assert_refused(restored)
                    effects.with_name("gate").touch()
        until(lambda: gone(began["pid"]), "the node that was paused has stopped its old task")
        old.await_event("SessionEnded")
        with closing(open_store(url)) as restored:
            assert result_of(restored, gated) == '"again"'
            assert_ended_once(restored, [*kept, *held, gated])
    assert_fences_grow(effects, [*held, gated])
    assert_intact(url)


def test_a_backup_of_a_busy_file_has_what_was_acknowledged_before_it_and_old_leases_are_refused(tmp_path: Path) -> None:
    effects, url = tmp_path / "effects.jsonl", f"sqlite:///{tmp_path / 'windlass.db'}"
    with closing(open_store(url)) as store:
        held, session = hold(store), OldSession.begin(store)
        with NodeProcess(url, effects, "-n", "1", *FLAGS), Producer(store) as producer:
            await_effect(effects, "add", 50)
            acknowledged = len(producer.acknowledged)
            run_commands("backup of a file", tmp_path)
            since = len(producer.acknowledged)
            session.claim(store)
            let_go(store)
            assert_ended_once(store, held)
            producer.await_more(50)
    seen = len(read_effects(effects))

    run_commands("restore of a file", tmp_path)

    with closing(open_store(url)) as restored, NodeProcess(url, effects, "-n", "1", *FLAGS):
        let_go(restored)
        kept = find_kept(restored, producer, acknowledged, since)
        assert_ended_once(restored, [*kept, *held])
        session.assert_refused(restored)
    assert len(read_effects(effects)) >= seen + len(held)
    assert_fences_grow(effects, held)
    assert_intact(url)


def find_kept(store: Store, producer: Producer, before: int, since: int) -> list[TaskId]:
    """Return the tasks that the backup has: all that were acknowledged before it began, none from after its end."""
    tasks = producer.acknowledged
    existing = find_existing(store, tasks)
    kept = existing.count(True)
    assert existing == [True] * kept + [False] * (len(tasks) - kept), "exactly the latest ones are missing"
    assert before <= kept <= since + 1  # A submit may have been committed and not yet noted.
    assert kept <= len(tasks) - 50
    return tasks[:kept]


def result_of(store: Store, id: TaskId) -> str | None:
    [task] = store.get([id])
    return task and task.result


def assert_intact(url: str) -> None:
    result = CliRunner().invoke(main, ["db", "check", "--store", url, "--json"])
    assert json.loads(result.stdout)["findings"] == [], result.stdout


def drop_lost_database(server: PostgresServer) -> None:
    """Nothing can be read from it by mistake."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE windlass_lost")
