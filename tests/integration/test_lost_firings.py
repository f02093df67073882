"""Commits whose answer is lost, of other calls of nodes than claim and settle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.checks import assert_sound, opened
from tests.support.builders import a_task, all_tasks, claim_one, complete, submit_one
from tests.support.proxy import Fault, Proxy
from windlass.clock import SystemClock, entropy
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.submission import draft
from windlass.core.task import Progress
from windlass.stores.postgres import PostgresStore
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.submit import Fire, Submit

LOST = pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NEVER_ARRIVES], ids=lambda fault: fault.name.lower())


class Undo(Exception):
    """Raised inside a transaction, which is then rolled back."""


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def cut_off(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store whose commits can go wrong; `store` uses the same data."""
    store.publish(Manifest(crons=(CronInfo(name="daily", handler="work", schedule="0 6 * * *"),)))
    with opened(proxy.url, pooler=request.param) as cut_off:
        yield cut_off


@LOST
def test_a_firing_happens_once_and_its_node_knows(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    proxy.order(fault)
    receipts = cut_off.fire("daily", 1_000, [a_task(), a_task()])

    assert proxy.struck.acquire(timeout=10)
    assert receipts is not None
    assert [receipt.created for receipt in receipts] == [True, True]
    assert {task.id for task in all_tasks(store)} == {receipt.id for receipt in receipts}
    assert store.fire("daily", 1_000, [a_task()]) is None
    assert_sound(store)


@pytest.mark.usefixtures("cut_off")
def test_a_firing_that_is_retried_leaves_it_to_the_node_that_came_first(store: PostgresStore) -> None:
    drafts = draft([a_task()], SystemClock().now(), entropy)
    work = Fire(store._db, drafts, "daily", 1_000)

    def fails(tx: Transaction) -> None:
        work(tx)
        raise Undo

    with pytest.raises(Undo):
        store._db.transact(fails)
    other = store.fire("daily", 1_000, [a_task()])

    assert store._db.transact(work) is None
    assert other is not None
    assert [task.id for task in all_tasks(store)] == [other[0].id]


@LOST
def test_a_submit_under_a_lease_is_there_once(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    proxy.order(fault)
    receipts = cut_off.submit([a_task(), a_task(prerequisites=[id])], lease=claim.lease)

    assert proxy.struck.acquire(timeout=10)
    assert [receipt.created for receipt in receipts] == [True, True]
    assert {task.id for task in all_tasks(store)} == {id, *(receipt.id for receipt in receipts)}
    complete(store, claim)
    assert_sound(store)


def test_a_submit_whose_answer_was_lost_stands_even_if_its_attempt_ends_meanwhile(store: PostgresStore) -> None:
    submit_one(store)
    claim = claim_one(store)
    drafts = draft([a_task(), a_task(key="child")], SystemClock().now(), entropy)
    work = Submit(store._db, drafts, joined=False, lease=claim.lease)

    store._db.transact(work)
    complete(store, claim)
    again = store._db.transact(work)

    assert [receipt.id for receipt in again.receipts] == [one.id for one in drafts]
    assert len(all_tasks(store)) == 3


@LOST
def test_a_report_of_progress_is_not_taken_for_stale(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease

    proxy.order(fault)
    stale = cut_off.progress([Progress(lease=lease, share=0.5)])

    assert proxy.struck.acquire(timeout=10)
    assert stale == []
    assert [seen and seen.share for seen in store.progress_of([id])] == [0.5]
