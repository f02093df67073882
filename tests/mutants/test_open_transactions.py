"""A caller's transaction (`conn=`) that stays open keeps others waiting for a bounded time, and nodes not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.mutants.laboratory import Laboratory
from tests.support.builders import (
    GAVE_UP,
    MINUTE,
    a_task,
    claim_all,
    claim_one,
    complete,
    report,
    run_all,
    state_of,
    submit_one,
    sweep_until_quiet,
)
from windlass.client import committer
from windlass.client.committer import Committer
from windlass.core.lifecycle import State
from windlass.core.task import NewTask, Unique
from windlass.errors import KeyBusy, StoreError
from windlass.stores.postgres import caller_transaction
from windlass.stores.postgres.database import SETTINGS
from windlass.stores.protocol import Receipt
from windlass.stores.sql import submit as submitting
from windlass.stores.sql import unique as unique_tasks
from windlass.stores.sql.store import SqlStore

pytestmark = pytest.mark.parametrize("dialect", ["postgres"])


def a_unique_task(**changes: Any) -> NewTask:
    return a_task(unique=Unique(period=MINUTE), **changes)


@pytest.fixture
def store(laboratory: Laboratory) -> SqlStore:
    """A store that waits briefly for keys."""
    laboratory.patch(submitting, "KEY_WAIT", 0.05)
    for setting in ("lock_timeout", "statement_timeout"):
        laboratory.patch_item(SETTINGS, setting, "60s")
    return laboratory.open()


@pytest.fixture
def open_transaction(laboratory: Laboratory, store: SqlStore) -> psycopg.Connection[Any]:
    """The transaction of a caller who has submitted a key and a unique task, and does not commit."""
    connection = laboratory.connect()
    store.submit([a_task(key="busy"), a_unique_task(handler="once")], conn=connection)
    return connection


@pytest.mark.parametrize("task", [a_task(key="busy"), a_unique_task(handler="once")])
def test_a_second_submit_learns_that_the_first_is_still_open_and_may_be_repeated(
    laboratory: Laboratory, store: SqlStore, open_transaction: psycopg.Connection[Any], task: NewTask
) -> None:
    with pytest.raises(KeyBusy, match=r"another transaction that stays open\. Nothing was written\. Try again"):
        store.submit([task, a_task(queue="other")])
    assert claim_all(store, queues=["other"]) == []

    open_transaction.commit()
    [receipt] = store.submit([task])

    assert not receipt.created
    assert laboratory.check() == []


def test_the_error_names_the_key(store: SqlStore, open_transaction: psycopg.Connection[Any]) -> None:
    with pytest.raises(KeyBusy, match=r"^Key 'busy' is being submitted") as raised:
        store.submit([a_task(key="busy")])

    assert (raised.value.keys, raised.value.code) == (("busy",), "key_busy")


@pytest.mark.parametrize("task", [a_task(key="busy"), a_unique_task(handler="once")])
def test_a_second_callers_transaction_waits_no_longer_than_any_other(
    laboratory: Laboratory, store: SqlStore, open_transaction: psycopg.Connection[Any], task: NewTask
) -> None:
    second = laboratory.connect()

    with pytest.raises(KeyBusy, match="with conn=, roll back first"):
        store.submit([task], conn=second)
    second.rollback()
    open_transaction.rollback()
    [receipt] = store.submit([task], conn=second)

    assert receipt.created


@pytest.mark.parametrize("task", [a_task(key="busy"), a_unique_task(handler="once")])
def test_an_asynchronous_caller_waits_no_longer_than_any_other(
    laboratory: Laboratory, store: SqlStore, open_transaction: psycopg.Connection[Any], task: NewTask
) -> None:
    async def with_asyncpg() -> Sequence[Receipt]:
        connection = await asyncpg.connect(laboratory.url)
        try:
            async with connection.transaction():
                return await caller_transaction.asubmit_in(connection, [task])
        finally:
            await connection.close()

    async def with_psycopg() -> Sequence[Receipt]:
        async with await psycopg.AsyncConnection.connect(laboratory.url) as connection:
            return await caller_transaction.asubmit_in(connection, [task])

    for submit in (with_asyncpg, with_psycopg):
        with pytest.raises(KeyBusy):
            asyncio.run(submit())
    open_transaction.rollback()

    assert asyncio.run(with_asyncpg())[0].created


@pytest.mark.parametrize("limit", ["0", "7s", "10ms"])
def test_a_callers_own_lock_timeout_is_kept(laboratory: Laboratory, store: SqlStore, limit: str) -> None:
    connection = laboratory.connect()
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [limit])

    store.submit([a_task(key="mine"), a_unique_task()], conn=connection)

    assert connection.execute("SHOW lock_timeout").fetchall() == [(limit,)]


def test_a_shared_commit_goes_on_without_the_call_whose_key_is_busy(
    laboratory: Laboratory, store: SqlStore, open_transaction: psycopg.Connection[Any]
) -> None:
    laboratory.patch(submitting, "KEY_WAIT", 60.0)
    laboratory.patch(committer, "LOCK_WAIT", 0.05)
    shared = Committer(lambda: store)

    with ThreadPoolExecutor(10) as threads:
        busy = threads.submit(shared.submit, [a_task(key="busy", queue="default")])
        others = [threads.submit(shared.submit, [a_task(queue="other")]) for _ in range(8)]
        keyed = threads.submit(shared.submit, [a_task(queue="other", key="free")])
        created = [one.created for other in (*others, keyed) for one in other.result(30)]
        assert created == [True] * 9
        assert not busy.done(), "it waits, and nobody waits for it"
        open_transaction.commit()

        assert [one.created for one in busy.result(30)] == [False]
    assert len(claim_all(store, queues=["other"])) == 9


def test_coroutines_go_on_without_the_call_whose_key_is_busy(
    laboratory: Laboratory, store: SqlStore, open_transaction: psycopg.Connection[Any]
) -> None:
    laboratory.patch(submitting, "KEY_WAIT", 60.0)
    laboratory.patch(committer, "LOCK_WAIT", 0.05)
    shared = Committer(lambda: store)

    async def submit_all() -> tuple[int, bool, bool]:
        busy = asyncio.create_task(shared.asubmit([a_task(key="busy")]))
        others = [shared.asubmit([a_task(queue="other", key=f"free{n}" if n % 2 else None)]) for n in range(8)]
        created = sum(one.created for receipts in await asyncio.gather(*others) for one in receipts)
        waits = not busy.done()
        open_transaction.commit()
        return created, waits, (await busy)[0].created

    assert asyncio.run(submit_all()) == (8, True, False)


def test_a_shared_commit_waits_for_no_prerequisite_that_somebody_has_locked(
    laboratory: Laboratory, store: SqlStore
) -> None:
    laboratory.patch(committer, "LOCK_WAIT", 0.05)
    shared = Committer(lambda: store)
    parent = submit_one(store)
    bystander = laboratory.connect()
    bystander.execute("SELECT id FROM windlass.task WHERE id = %s FOR UPDATE", [parent]).fetchall()

    with ThreadPoolExecutor(10) as threads:
        child = threads.submit(shared.submit, [a_task(queue="child", prerequisites=[parent])])
        others = [threads.submit(shared.submit, [a_task(queue="other")]) for _ in range(4)]
        assert all(other.result(30) for other in others)
        assert not child.done()
        bystander.rollback()
        [receipt] = child.result(30)

    assert state_of(store, receipt.id) is State.WAITING


def test_an_error_after_the_commit_of_a_batch_submits_nothing_twice(laboratory: Laboratory, store: SqlStore) -> None:
    shared = Committer(lambda: store)

    def wait_for_lock(tx: Any) -> None:
        tx._connection.execute("SET LOCAL lock_timeout = '10ms'")
        tx._connection.execute("SELECT id FROM windlass.task FOR UPDATE").fetchall()

    held = submit_one(store, queue="held")
    bystander = laboratory.connect()
    bystander.execute("SELECT id FROM windlass.task WHERE id = %s FOR UPDATE", [held]).fetchall()
    laboratory.patch(store, "_after", lambda _: store._db.transact(wait_for_lock))

    with pytest.raises(StoreError):
        shared.submit([a_task()])

    bystander.rollback()
    assert len(claim_all(store)) == 1


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_end_of_a_unique_task_waits_for_no_open_transaction(
    laboratory: Laboratory, store: SqlStore, ends_well: bool
) -> None:
    first = store.submit([a_unique_task()])[0].id
    claim = claim_one(store)
    connection = laboratory.connect()
    [same] = store.submit([a_unique_task()], conn=connection)

    ending = laboratory.in_background(lambda: complete(store, claim) if ends_well else report(store, claim, GAVE_UP))
    laboratory.await_standstill(ending)

    assert ending.ended
    connection.commit()
    assert (same.id, same.created) == (first, False)
    assert state_of(store, first) is (State.COMPLETED if ends_well else State.FAILED)
    assert laboratory.check() == []


def test_the_end_of_a_unique_task_that_is_claimed_just_now_waits_for_no_open_transaction(
    laboratory: Laboratory, store: SqlStore
) -> None:
    first = store.submit([a_unique_task()])[0].id
    claims: list[Any] = []
    lock = unique_tasks.lock_tasks

    def claim_first(*about: Any, **options: Any) -> Any:
        if not claims:
            claims.append(claim_one(store))
        return lock(*about, **options)

    laboratory.patch(unique_tasks, "lock_tasks", claim_first)
    connection = laboratory.connect()
    [same] = store.submit([a_unique_task()], conn=connection)
    ending = laboratory.in_background(lambda: report(store, claims[0], GAVE_UP))
    laboratory.await_standstill(ending)

    assert ending.ended
    connection.commit()
    assert (same.id, same.created) == (first, False)
    assert laboratory.check() == []


def test_a_queued_unique_task_is_not_claimed_before_the_caller_has_committed(
    laboratory: Laboratory, store: SqlStore
) -> None:
    first = store.submit([a_unique_task()])[0].id
    connection = laboratory.connect()

    store.submit([a_unique_task()], conn=connection)
    assert claim_all(store) == []
    connection.commit()

    assert run_all(store) == [first]


def test_nodes_claim_settle_and_sweep_while_the_transaction_is_open(
    store: SqlStore, open_transaction: psycopg.Connection[Any]
) -> None:
    tasks = [receipt.id for receipt in store.submit([a_task(), a_task()])]

    assert run_all(store) == tasks
    sweep_until_quiet(store)
    open_transaction.commit()

    assert len(run_all(store)) == 2
