from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    GAVE_UP,
    MINUTE,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    report,
    state_of,
    submit_one,
    sweep_until_quiet,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.task import Lease, SessionId, TaskId
from windlass.errors import InvalidTask, StaleLease
from windlass.stores.protocol import Store


def test_a_running_attempt_submits_tasks(store: Store) -> None:
    submit_one(store)
    claim = claim_one(store)

    receipts = store.submit([a_task(), a_task(key="a")], lease=claim.lease)

    assert [receipt.created for receipt in receipts] == [True, True]
    assert claimed_ids(claim_all(store)) == [receipt.id for receipt in receipts]


def test_what_an_attempt_submits_may_wait_for_its_own_task(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    [receipt] = store.submit([a_task(prerequisites=[id])], lease=claim.lease)
    complete(store, claim)

    assert receipt.state is State.WAITING
    assert state_of(store, receipt.id) is State.RUNNABLE


def check_refused(store: Store, lease: Lease) -> None:
    before = len(all_tasks(store))
    with pytest.raises(StaleLease) as refused:
        store.submit([a_task(), a_task(key="child")], lease=lease)

    assert refused.value.lease == lease
    assert refused.value.code == "stale_fence"
    assert len(all_tasks(store)) == before


def test_an_attempt_that_has_ended_submits_nothing(store: Store) -> None:
    submit_one(store)
    claim = claim_one(store)
    report(store, claim, GAVE_UP)

    check_refused(store, claim.lease)


def test_an_attempt_whose_node_was_lost_submits_nothing_even_while_another_runs(
    store: Store, clock: ManualClock
) -> None:
    submit_one(store)
    stale = claim_one(store)
    clock.advance(MINUTE)
    sweep_until_quiet(store)

    check_refused(store, stale.lease)
    claim_one(store)
    check_refused(store, stale.lease)


def test_fence_and_session_must_both_be_right(store: Store) -> None:
    submit_one(store)
    lease = claim_one(store).lease

    check_refused(store, replace(lease, fence=lease.fence + 1))
    check_refused(store, replace(lease, session=a_session(store)))
    check_refused(store, Lease(TaskId(lease.session), lease.fence, lease.session))
    check_refused(store, Lease(TaskId(lease.session), 0, SessionId(lease.task)))


def test_a_stale_attempt_is_refused_even_for_keys_that_are_known(store: Store) -> None:
    submit_one(store)
    claim = claim_one(store)
    store.submit([a_task(key="child")], lease=claim.lease)
    complete(store, claim)

    with pytest.raises(StaleLease):
        store.submit([a_task(key="child")], lease=claim.lease)


def test_an_attempt_may_submit_the_key_of_its_own_task(store: Store) -> None:
    submit_one(store, key="a")
    claim = claim_one(store)

    [receipt] = store.submit([a_task(key="a")], lease=claim.lease)

    assert (receipt.id, receipt.created, receipt.state) == (claim.id, False, State.LEASED)


def test_other_refusals_stay_as_they_are(store: Store) -> None:
    submit_one(store)
    claim = claim_one(store)

    with pytest.raises(InvalidTask):
        store.submit([a_task(handler="")], lease=claim.lease)


def test_an_empty_batch_is_nobodys_business(store: Store) -> None:
    submit_one(store)
    claim = claim_one(store)
    complete(store, claim)

    assert store.submit([], lease=claim.lease) == []
