"""Submits in the caller's own transaction, which only PostgreSQL supports."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support.builders import (
    GAVE_UP,
    SECOND,
    a_task,
    after,
    all_tasks,
    claim_all,
    claimed_ids,
    complete,
    counted,
    recounted,
    run,
    run_all,
    state_of,
    submit,
    sweep_until_quiet,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.task import NewTask, Unique
from windlass.errors import KeyConflict, UnknownPrerequisite
from windlass.stores.protocol import Receipt, Store

pytestmark = pytest.mark.parametrize("kind", ["postgres", "pgbouncer"], indirect=True)
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def conn(kind: str, clean_database_url: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """The caller's connection, by the same way as the store's."""
    url = clean_database_url
    if kind == "pgbouncer":
        url = request.getfixturevalue("pgbouncer").url(request.getfixturevalue("migrated_database"))
    with psycopg.connect(url, prepare_threshold=None) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS public.orders (id int)")
        conn.execute("DELETE FROM public.orders")
        conn.commit()
        yield conn
        conn.rollback()


def test_a_joined_submit_commits_with_the_callers_rows(store: Store, conn: Connection) -> None:
    conn.execute("INSERT INTO public.orders VALUES (1)")
    [receipt] = store.submit([a_task(key="bill:1")], conn=conn)
    assert all_tasks(store) == []
    assert claim_all(store) == []

    conn.commit()

    assert (receipt.created, receipt.state) == (True, State.RUNNABLE)
    assert claimed_ids(claim_all(store)) == [receipt.id]
    assert conn.execute("SELECT count(*) FROM public.orders").fetchone() == (1,)


def test_a_joined_submit_goes_with_the_callers_rollback(store: Store, conn: Connection) -> None:
    conn.execute("INSERT INTO public.orders VALUES (1)")
    store.submit([a_task(key="bill:1"), after("mail:1", "bill:1")], conn=conn)

    conn.rollback()
    sweep_until_quiet(store)

    assert all_tasks(store) == []
    assert store.counts() == []
    assert store.submit([a_task(key="bill:1", handler="another")])[0].created


def test_the_store_does_not_end_the_callers_transaction(store: Store, conn: Connection) -> None:
    store.submit([a_task()], conn=conn)

    assert conn.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
    conn.execute("INSERT INTO public.orders VALUES (2)")
    conn.commit()

    assert len(all_tasks(store)) == 1


def test_a_key_is_idempotent_across_both_ways(store: Store, conn: Connection) -> None:
    [outside] = store.submit([a_task(key="k")])

    [inside] = store.submit([a_task(key="k")], conn=conn)
    conn.commit()

    assert (inside.id, inside.created) == (outside.id, False)
    assert len(all_tasks(store)) == 1


def test_a_joined_submit_is_refused_like_any_other(store: Store, conn: Connection) -> None:
    submit(store, a_task(key="k"))

    with pytest.raises(KeyConflict):
        store.submit([a_task(key="k", handler="other")], conn=conn)
    conn.rollback()
    with pytest.raises(UnknownPrerequisite):
        store.submit([after("child", "nobody")], conn=conn)
    conn.rollback()

    assert len(all_tasks(store)) == 1


def test_a_graph_submitted_whole_runs_after_the_commit(store: Store, conn: Connection, clock: ManualClock) -> None:
    receipts = store.submit([a_task(key="a"), after("b", "a"), after("c", "a", "b")], conn=conn)
    conn.commit()
    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert run_all(store) == [receipt.id for receipt in receipts]


@pytest.mark.parametrize("when", ["before the submit", "before the commit", "after the commit"])
def test_a_prerequisite_that_ends_meanwhile_is_seen_after_the_commit(
    store: Store, conn: Connection, clock: ManualClock, when: str
) -> None:
    submit(store, a_task(key="parent"))
    [claim] = claim_all(store)

    if when == "before the submit":
        complete(store, claim)
    [child] = store.submit([after("child", "parent")], conn=conn)
    if when == "before the commit":
        complete(store, claim)  # does not wait for the caller, however long his transaction takes
    conn.commit()
    if when == "after the commit":
        complete(store, claim)
    swept = sweep_until_quiet(store)

    assert swept.healed == 0
    assert state_of(store, child.id) is State.RUNNABLE


def test_a_prerequisite_that_ends_badly_meanwhile_cancels_after_the_commit(store: Store, conn: Connection) -> None:
    submit(store, a_task(key="parent"))

    child, grandchild = store.submit([after("child", "parent"), after("grandchild", "child")], conn=conn)
    run(store, GAVE_UP)
    conn.commit()
    sweep_until_quiet(store)

    assert [state_of(store, receipt.id) for receipt in (child, grandchild)] == [State.CANCELLED, State.CANCELLED]


def test_counts_are_right_after_commit_and_rollback(store: Store, conn: Connection) -> None:
    store.submit([a_task(), a_task(queue="mail")], conn=conn)
    conn.commit()
    store.submit([a_task(), a_task(queue="mail")], conn=conn)
    conn.rollback()
    sweep_until_quiet(store)

    assert counted(store) == recounted(store)
    assert sum(counted(store).values()) == 2


def test_an_open_transaction_of_a_caller_holds_nobody_up(store: Store, conn: Connection) -> None:
    submit(store, a_task(key="parent"))
    store.submit([after("child", "parent"), a_task(key="mine")], conn=conn)

    ran = run_all(store)
    [other] = submit(store, a_task(key="other"))
    sweep_until_quiet(store)

    assert len(ran) == 1
    assert claimed_ids(claim_all(store)) == [other]
    assert counted(store) == recounted(store)


def test_an_equal_task_is_not_started_before_the_callers_rows_are_there(store: Store, conn: Connection) -> None:
    task = a_task(unique=Unique(key="k"))
    [first] = submit_all(store, task)
    conn.execute("INSERT INTO public.orders VALUES (1)")

    [joined] = store.submit([task], conn=conn)
    before = claim_all(store)
    conn.commit()

    assert (joined.id, joined.created) == (first.id, False)
    assert before == []
    assert claimed_ids(claim_all(store)) == [first.id]


def test_who_submits_an_equal_task_waits_for_the_callers_transaction(store: Store, conn: Connection) -> None:
    task = a_task(unique=Unique(key="k", debounce=5 * SECOND, replace_args=True))
    [joined] = store.submit([task], conn=conn)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(store.submit, [task])
        with pytest.raises(TimeoutError):
            other.result(0.2)
        conn.rollback()
        [created] = other.result(10)

    [again] = store.submit([task], conn=conn)
    conn.commit()

    assert joined.created
    assert created.created
    assert (again.id, again.created, again.state) == (created.id, False, State.SCHEDULED)
    assert [one.id for one in all_tasks(store)] == [created.id]
    assert counted(store) == recounted(store)


def submit_all(store: Store, *tasks: NewTask) -> list[Receipt]:
    return store.submit(tasks)
