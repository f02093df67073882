"""Real disks that fill up: the error says so, nothing is half written, and work continues when there is space again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import sql

from tests.integration.checks import is_back
from tests.server.conftest import API, MANIFEST, problem
from tests.server.running import running
from tests.support.builders import a_task, all_tasks, claim_one, complete, counted, recounted, submit_one
from tests.support.processes import until
from tests.support.servers import PostgresServer, unprivileged_account
from tests.support.small_disk import CannotMount, SmallDisk, mounted_disk
from windlass.core.lifecycle import State
from windlass.errors import CommitUnknown, StoreUnavailable
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres import database as postgres_database
from windlass.stores.protocol import Settled, Store
from windlass.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.slow
BATCH = 50


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[SmallDisk]:
    """A small disk, of as many megabytes as the test's parameter says."""
    try:
        with mounted_disk(getattr(request, "param", 4)) as disk:
            yield disk
    except CannotMount as error:
        pytest.skip(str(error))


def submit_until_refused(store: Store) -> tuple[list[int], Exception]:
    """Submit batches until one is refused. Return the numbers of the others, and the refusal."""
    for number in count():
        batch = [a_task(key=f"{number}/{nth}", args={"text": "x" * 2_000}) for nth in range(BATCH)]
        try:
            store.submit(batch)
        except (StoreUnavailable, CommitUnknown) as error:
            return list(range(number)), error
    raise AssertionError("the disk is endless")


def batches(store: Store) -> Counter[int]:
    """Return how many tasks of each batch the store has."""
    return Counter(int(task.key.partition("/")[0]) for task in all_tasks(store) if task.key)


def check_continues(store: Store, acknowledged: list[int], disk: SmallDisk) -> None:
    """Free the disk and check that the store has what was acknowledged, whole, and takes tasks again."""
    disk.free()
    assert batches(store) == dict.fromkeys(acknowledged, BATCH)
    submit_one(store)
    assert counted(store) == recounted(store)


def test_sqlite_refuses_what_does_not_fit_and_continues_when_there_is_space(disk: SmallDisk) -> None:
    with closing(SQLiteStore(disk.path / "windlass.db")) as store:
        task = submit_one(store)
        claim = claim_one(store)
        disk.fill()

        acknowledged, refusal = submit_until_refused(store)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            complete(store, claim)
        read = batches(store)

        assert isinstance(refusal, StoreUnavailable)
        assert str(refusal) == f"{disk.path}/windlass.db cannot be written: database or disk is full"
        assert read == dict.fromkeys(acknowledged, BATCH), "reads need no space"
        check_continues(store, acknowledged, disk)
        assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]
        assert claim.id == task


def test_a_sqlite_file_on_a_full_disk_is_unavailable_until_there_is_space(disk: SmallDisk) -> None:
    """To open it, SQLite needs a few kilobytes for a file of its own."""
    path = disk.path / "windlass.db"
    with closing(SQLiteStore(path)) as store:
        submit_one(store)
    disk.fill()

    with pytest.raises(StoreUnavailable, match=f"{path} cannot be written: .* Check the disk and its free space"):
        SQLiteStore(path)
    disk.free()

    with closing(SQLiteStore(path)) as store:
        assert len(all_tasks(store)) == 1


def test_a_server_on_a_full_disk_answers_503_and_serves_again_when_there_is_space(disk: SmallDisk) -> None:
    store = SQLiteStore(disk.path / "windlass.db")
    store.publish(MANIFEST)
    with running(store) as address, httpx.Client(base_url=address, timeout=30) as client:
        made = client.post(f"{API}/tasks", json={"handler": "work", "key": "k"})
        disk.fill()
        refused = client.post(f"{API}/tasks", json={"handler": "work", "key": "l", "args": {"text": "x" * 50_000}})
        read = client.get(f"{API}/tasks/{made.json()['id']}")
        disk.free()

        def is_taken() -> bool:
            return client.post(f"{API}/tasks", json={"handler": "work", "key": "l"}).status_code == 201

        until(is_taken, "tasks are accepted again")
    store.close()

    found = problem(refused, 503, "store_unavailable")
    assert "retry-after" in refused.headers
    assert str(disk.path) not in found["detail"], "paths of the server are nobody's business"
    assert (made.status_code, read.status_code) == (201, 200)


@pytest.mark.parametrize("disk", [32], indirect=True)
def test_postgres_refuses_what_does_not_fit_and_continues_when_there_is_space(
    own_postgres_server: PostgresServer, disk: SmallDisk
) -> None:
    with closing(PostgresStore(create_small_database(own_postgres_server, disk.path))) as store:
        submit_one(store)
        claim = claim_one(store)
        disk.fill()

        acknowledged, refusal = submit_until_refused(store)

        assert isinstance(refusal, StoreUnavailable)
        assert "No space left on device" in str(refusal)
        assert batches(store) == dict.fromkeys(acknowledged, BATCH)
        check_continues(store, acknowledged, disk)
        assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]


def create_small_database(server: PostgresServer, folder: Path) -> str:
    """Create a database whose tables are in this folder; the write-ahead log of the server is not."""
    place = folder / "tables"
    place.mkdir()
    give_to_server(place)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(str(place)))
        connection.execute("CREATE DATABASE small TABLESPACE small TEMPLATE template0")
    return server.url("small")


@pytest.mark.parametrize("disk", [80], indirect=True)
def test_postgres_that_ends_for_want_of_space_for_its_log_loses_nothing(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL cannot run without its write-ahead log: it ends, and somebody makes space and starts it again."""
    monkeypatch.setattr(postgres_database, "PATIENCE", 1.0)
    sizes = {"min_wal_size": "32MB", "max_wal_size": "32MB", "wal_recycle": "off"}
    with PostgresServer(settings=sizes) as server:
        move_log(server, disk.path)
        with closing(PostgresStore(server.url(server.create_database()))) as store:
            disk.fill()
            acknowledged, _ = submit_until_refused(store)
            until(lambda: not server.running, "PostgreSQL has ended")
            with pytest.raises(StoreUnavailable):
                store.counts()
            disk.free()
            server.restart()

            until(lambda: is_back(store), "the store has found its server again")
            there = batches(store)
            assert set(there.values()) == {BATCH}, "no batch is there in part"
            assert set(acknowledged) <= there.keys() <= {*acknowledged, len(acknowledged)}
            submit_one(store)
            assert counted(store) == recounted(store)


def move_log(server: PostgresServer, folder: Path) -> None:
    """Move the write-ahead log of a server to this folder."""
    server.stop()
    log, target = server.folder / "data" / "pg_wal", folder / "log"
    shutil.copytree(log, target)
    for path in (target, *target.rglob("*")):
        give_to_server(path)
    shutil.rmtree(log)
    log.symlink_to(target)
    server.start()


def give_to_server(path: Path) -> None:
    """Make a path belong to the account of the server."""
    account = unprivileged_account()
    assert account is not None, "only root has mounted this disk"
    os.chown(path, account.pw_uid, account.pw_gid)
