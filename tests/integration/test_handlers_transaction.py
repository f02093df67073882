from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import IsolationLevel

from tests.integration.threads import InThread
from tests.support.builders import (
    GAVE_UP,
    OOPS,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    counted,
    decided,
    recounted,
    state_of,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.processes import until
from windlass import wiring
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED, RELEASED, Outcome, Raised, Returned, Settlement
from windlass.core.task import Claim
from windlass.errors import StaleLease, StoreError
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import LeaseLost, Log, Settled

pytestmark = pytest.mark.usefixtures("no_orders")

LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


class Undo(Exception):
    """Raised inside a handler's transaction, which is then rolled back."""


@pytest.fixture(scope="module")
def url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


def count(admin: psycopg.Connection, table: str) -> int:
    [(found,)] = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
    return found


@contextmanager
def handler(url: str, level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Iterator[psycopg.Connection[Any]]:
    """A handler's transaction that has written something of its own."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = level
        connection.execute("INSERT INTO public.orders VALUES (1)")
        yield connection


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_an_attempt_is_completed_with_its_rows(
    store: PostgresStore, url: str, admin: psycopg.Connection, level: IsolationLevel
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    with handler(url, level) as conn:
        verdict = wiring.complete_in(conn, claim.lease, replace(decided(claim, Returned("7")), log="done"))
        assert state_of(store, id) is State.LEASED

    task = task_of(store, id)
    assert verdict == Settled(claim.lease, State.COMPLETED)
    assert (task.state, task.result, task.attempts) == (State.COMPLETED, "7", 1)
    assert store.logs(id) == [Log(claim.lease.fence, "done")]
    assert count(admin, "public.orders") == 1
    assert counted(store) == recounted(store)


def test_output_neither_waits_for_the_transaction_that_ends_its_attempt_nor_replaces_what_that_stores(
    store: PostgresStore, url: str
) -> None:
    kept, undone = submit_one(store), submit_one(store, queue="other")
    one, other = claim_one(store), claim_one(store, queue="other")

    def undo() -> None:
        with handler(url) as conn:
            wiring.complete_in(conn, other.lease, replace(decided(other, Returned()), log="undone"))
            assert store.record_output([(other.lease, "a part")]) == [], "the lease is still valid"
            raise Undo

    with handler(url) as conn:
        wiring.complete_in(conn, one.lease, replace(decided(one, Returned()), log="the whole"))
        assert store.record_output([(one.lease, "a part")]) == []
    with pytest.raises(Undo):
        undo()

    assert store.record_output([(one.lease, "a part"), (other.lease, "another part")]) == [one.lease]
    assert store.logs(kept) == [Log(one.lease.fence, "the whole")]
    assert store.logs(undone) == [Log(other.lease.fence, "another part", running=True)]


def test_an_attempt_that_rolls_back_has_not_ended(store: PostgresStore, url: str, admin: psycopg.Connection) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    def undo() -> None:
        with handler(url) as conn:
            wiring.complete_in(conn, claim.lease, replace(decided(claim, Returned("7")), log="done"))
            raise Undo

    with pytest.raises(Undo):
        undo()

    assert state_of(store, id) is State.LEASED
    assert (count(admin, "public.orders"), count(admin, "windlass.ended"), store.logs(id)) == (0, 0, [])
    assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]
    assert counted(store) == recounted(store)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_dependents_are_let_go_when_the_node_reports_the_same_end(
    store: PostgresStore, url: str, admin: psycopg.Connection, level: IsolationLevel
) -> None:
    id = submit_one(store)
    child = submit_one(store, prerequisites=[id])
    claim = claim_one(store)
    with handler(url, level) as conn:
        wiring.complete_in(conn, claim.lease, COMPLETED)
    before = state_of(store, child)

    verdicts = complete(store, claim)

    assert verdicts == [Settled(claim.lease, State.COMPLETED)]
    assert (before, state_of(store, child)) == (State.WAITING, State.RUNNABLE)
    assert count(admin, "windlass.ended") == 0


def test_without_a_report_the_next_sweep_lets_dependents_go(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    id = submit_one(store)
    child = submit_one(store, prerequisites=[id])
    claim = claim_one(store)
    with handler(url) as conn:
        wiring.complete_in(conn, claim.lease, COMPLETED)

    swept = sweep_until_quiet(store)

    assert state_of(store, child) is State.RUNNABLE
    assert (swept.resolved, swept.healed, count(admin, "windlass.ended")) == (1, 0, 0)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_an_edge_that_the_handlers_snapshot_cannot_see_is_resolved(
    store: PostgresStore, url: str, level: IsolationLevel
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    with handler(url, level) as conn:
        child = submit_one(store, prerequisites=[id])
        wiring.complete_in(conn, claim.lease, COMPLETED)
    complete(store, claim)

    assert state_of(store, child) is State.RUNNABLE


def test_an_end_that_nobody_waits_for_leaves_nothing_for_long(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    submit_one(store)
    claim = claim_one(store)
    with handler(url) as conn:
        wiring.complete_in(conn, claim.lease, COMPLETED)
    noted = count(admin, "windlass.ended")

    swept = sweep_until_quiet(store)

    assert (noted, count(admin, "windlass.ended"), swept.healed) == (1, 0, 0)


def check_lost(store: PostgresStore, url: str, claim: Claim) -> None:
    before = task_of(store, claim.id)
    with handler(url) as conn:
        verdict = wiring.complete_in(conn, claim.lease, replace(COMPLETED, log="late"))
        conn.rollback()

    assert verdict == LeaseLost(claim.lease)
    assert task_of(store, claim.id) == before
    assert store.logs(claim.id) == []


def test_a_stale_lease_changes_nothing_and_says_so(store: PostgresStore, url: str) -> None:
    submit_one(store)
    stale = claim_one(store)
    store.settle([(stale.lease, RELEASED)])

    again = claim_one(store)
    check_lost(store, url, stale)
    store.settle([(again.lease, decided(again, GAVE_UP))])
    check_lost(store, url, again)


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_a_lease_that_ended_after_the_handlers_snapshot_fails_its_transaction(
    store: PostgresStore, url: str, admin: psycopg.Connection, level: IsolationLevel
) -> None:
    submit_one(store)
    claim = claim_one(store)

    def too_late() -> None:
        with handler(url, level) as conn:
            store.settle([(claim.lease, RELEASED)])
            wiring.complete_in(conn, claim.lease, COMPLETED)

    with pytest.raises(StoreError, match="concurrent"):
        too_late()

    assert state_of(store, claim.id) is State.RUNNABLE
    assert count(admin, "public.orders") == 0


def test_reporting_the_same_end_twice_in_one_transaction_changes_nothing(store: PostgresStore, url: str) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    with handler(url) as conn:
        verdicts = [wiring.complete_in(conn, claim.lease, replace(COMPLETED, log="once")) for _ in range(2)]

    assert verdicts == [Settled(claim.lease, State.COMPLETED)] * 2
    assert len(store.logs(id)) == 1


def test_a_cancel_request_stands_against_the_handlers_completion(store: PostgresStore, url: str) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.cancel([id], reason="enough")

    with handler(url) as conn:
        verdict = wiring.complete_in(conn, claim.lease, decided(claim, Returned("7")))

    task = task_of(store, id)
    assert verdict == Settled(claim.lease, State.CANCELLED)
    assert (task.state, task.reason, task.result) == (State.CANCELLED, "enough", None)


@pytest.mark.parametrize("outcome", [Raised(OOPS), GAVE_UP], ids=["retrying", "failed"])
def test_other_ends_are_written_alike(store: PostgresStore, url: str, outcome: Outcome) -> None:
    id = submit_one(store)
    child = submit_one(store, prerequisites=[id])
    claim = claim_one(store)
    settlement = decided(claim, outcome)

    with handler(url) as conn:
        wiring.complete_in(conn, claim.lease, settlement)
    sweep_until_quiet(store)

    assert state_of(store, id) is settlement.state
    assert [attempt.error for attempt in store.attempts(id)] == [OOPS]
    assert state_of(store, child) is (State.CANCELLED if settlement.state.final else State.WAITING)
    assert counted(store) == recounted(store)


def test_while_the_handler_commits_nobody_else_ends_the_attempt(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    with handler(url) as conn:
        wiring.complete_in(conn, claim.lease, COMPLETED)
        release = InThread(lambda: store.settle([(claim.lease, RELEASED)]))
        until(lambda: waits(admin), "the other report waits for the handler's transaction")

    assert release.answer() == [LeaseLost(claim.lease)]
    assert state_of(store, id) is State.COMPLETED


def waits(admin: psycopg.Connection, number: int = 1) -> bool:
    """Return True if this number of statements wait for other transactions."""
    [(found,)] = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ).fetchall()
    return found >= number


def test_what_an_attempt_submits_commits_with_its_completion(store: PostgresStore, url: str) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    with handler(url) as conn:
        [first, second] = wiring.submit_in(conn, [a_task(), a_task(prerequisites=[id])], claim.lease)
        unseen = store.get([first.id, second.id])
        wiring.complete_in(conn, claim.lease, COMPLETED)
    sweep_until_quiet(store)

    assert unseen == [None, None]
    assert {one.id for one in claim_all(store)} == {first.id, second.id}


def test_a_stale_attempt_submits_nothing_and_its_transaction_stays_whole(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    submit_one(store)
    claim = claim_one(store)
    complete(store, claim)

    with handler(url) as conn:
        with pytest.raises(StaleLease):
            wiring.submit_in(conn, [a_task()], claim.lease)
        with pytest.raises(StaleLease):
            store.submit([a_task()], conn=conn, lease=claim.lease)
        assert wiring.submit_in(conn, [], claim.lease) == []

    assert len(all_tasks(store)) == 1
    assert count(admin, "public.orders") == 1


@pytest.mark.parametrize("end", [COMPLETED, RELEASED], ids=["completed", "released"])
def test_while_an_attempt_submits_nobody_else_ends_it(
    store: PostgresStore, url: str, admin: psycopg.Connection, end: Settlement
) -> None:
    submit_one(store)
    claim = claim_one(store)

    with psycopg.connect(url) as gate:
        gate.execute("LOCK TABLE windlass.edge IN SHARE MODE")  # Only the submit writes to it.
        two = [a_task(key="a"), a_task(prerequisites=["a"])]
        under_way = InThread(lambda: store.submit(two, lease=claim.lease))
        until(lambda: waits(admin), "the submit waits at the gate")
        report = InThread(lambda: store.settle([(claim.lease, end)]))
        until(lambda: waits(admin, 2), "the report waits for the submit")

    assert [receipt.created for receipt in under_way.answer()] == [True, True]
    assert report.answer() == [Settled(claim.lease, end.state)]


def test_a_submit_that_meets_the_end_of_its_attempt_waits_and_is_refused(
    store: PostgresStore, url: str, admin: psycopg.Connection
) -> None:
    submit_one(store)
    claim = claim_one(store)

    with handler(url) as conn:
        wiring.complete_in(conn, claim.lease, COMPLETED)
        late = InThread(lambda: store.submit([a_task()], lease=claim.lease))
        until(lambda: waits(admin), "the submit waits for the end of its attempt")

    with pytest.raises(StaleLease):
        late.answer()
    assert len(all_tasks(store)) == 1


def test_a_submit_without_a_store_or_a_lease_is_like_any_other(store: PostgresStore, url: str) -> None:
    with handler(url) as conn:
        [receipt] = wiring.submit_in(conn, [a_task(key="a")])

    assert state_of(store, receipt.id) is State.RUNNABLE


def test_without_psycopg_the_error_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "windlass.stores.postgres.caller_transaction", raising=False)
    monkeypatch.delattr("windlass.stores.postgres.caller_transaction", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "windlass.stores.postgres.caller", None)

    with pytest.raises(StoreError, match=r"windlass-tasks\[postgres\]"):
        wiring.submit_in(object(), [a_task()])
