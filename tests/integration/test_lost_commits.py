from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg
import pytest

from tests.integration.checks import assert_sound, granted, leased_now, opened, somebody_waits_for_a_lock
from tests.integration.threads import InThread
from tests.support.builders import (
    SECOND,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
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
from tests.support.processes import until
from tests.support.proxy import Fault, Proxy
from windlass.core.lifecycle import State
from windlass.errors import CommitUnknown
from windlass.stores.postgres import PostgresStore, database
from windlass.stores.protocol import Settled

T = TypeVar("T")


@pytest.fixture
def admin(shared_admin: psycopg.Connection) -> psycopg.Connection:
    return shared_admin


# Commits whose answer is lost: F9.


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def cut_off(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store whose commits can go wrong; `store` uses the same data."""
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
    receipts = cut_off.submit([a_task(args={"n": 1}, deadline=SECOND), a_task(args={"n": 2})])

    assert struck(proxy)
    assert [receipt.created for receipt in receipts] == [True, True]
    assert sorted(task.id for task in all_tasks(store)) == sorted(receipt.id for receipt in receipts)
    assert_sound(store)


def test_a_plain_submit_whose_answer_was_lost_is_there_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = database.PostgresDatabase.run_shortcut
    monkeypatch.setattr(
        database.PostgresDatabase, "run_shortcut", lambda *given, **named: (real(*given, **named), None)[1]
    )

    receipts = store.submit([a_task(args={"n": 1}), a_task(args={"n": 2})])

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
        until(
            lambda: somebody_waits_for_a_lock(self._admin) or not under_way.is_alive(),
            "the next try waits for the first",
        )
        self._proxy.deliver.set()
        assert self._proxy.delivered.acquire(timeout=10)
        return under_way.answer()


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
