from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    MINUTE,
    RAISED,
    a_session,
    a_task,
    claim_all,
    claim_one,
    complete,
    decided,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.settlement import COMPLETED, Crashed, Outcome, Returned
from windlass.core.task import TaskId
from windlass.stores.protocol import Log, Store


def test_what_a_running_attempt_has_printed_is_there_before_it_ends(store: Store) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease
    before = task_of(store, id)

    assert store.record_output([(lease, "one\n")]) == []
    assert store.logs(id) == [Log(lease.fence, "one\n", running=True)]
    assert store.record_output([(lease, "one\ntw"), (lease, "one\ntwo\n")]) == []

    assert store.logs(id) == [Log(lease.fence, "one\ntwo\n", running=True)]
    assert store.latest_output([id]) == store.logs(id)
    assert task_of(store, id) == before


@pytest.mark.parametrize("outcome", [Returned(), Returned("1"), RAISED], ids=["completed", "with a result", "failed"])
def test_the_end_replaces_what_was_printed_so_far(store: Store, outcome: Outcome) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.record_output([(claim.lease, "one\n")])

    store.settle([(claim.lease, replace(decided(claim, outcome), log="one\ntwo\n"))])

    assert store.logs(id) == [Log(claim.lease.fence, "one\ntwo\n")]


def test_an_attempt_that_ends_without_output_keeps_what_it_had_printed(store: Store) -> None:
    completed, crashed = submit(store, a_task(), a_task(queue="other"))
    one, other = claim_one(store), claim_one(store, queue="other")
    store.record_output([(one.lease, "first"), (other.lease, "second")])

    store.settle([(one.lease, COMPLETED), (other.lease, decided(other, Crashed(RAISED.error)))])

    assert store.logs(completed) == [Log(one.lease.fence, "first")]
    assert store.logs(crashed) == [Log(other.lease.fence, "second")]


def test_the_output_of_an_attempt_whose_node_was_lost_stays_and_the_next_has_its_own(
    store: Store, clock: ManualClock
) -> None:
    id = submit_one(store)
    lost = claim_one(store).lease
    store.record_output([(lost, "seen last")])

    clock.advance(MINUTE)
    sweep_until_quiet(store)
    again = claim_one(store).lease
    kept = store.logs(id)
    store.record_output([(again, "again")])

    assert kept == [Log(lost.fence, "seen last")]
    assert store.logs(id) == [Log(lost.fence, "seen last"), Log(again.fence, "again", running=True)]
    assert store.latest_output([id]) == [Log(again.fence, "again", running=True)]


def test_an_invalid_lease_stores_nothing_is_returned_and_harms_no_neighbor(store: Store, clock: ManualClock) -> None:
    lost, kept = submit(store, a_task(), a_task(queue="other"))
    stale = claim_one(store).lease
    clock.advance(MINUTE)
    sweep_until_quiet(store)
    session = a_session(store)
    again, other = claim_one(store, session).lease, claim_one(store, session, queue="other").lease
    store.record_output([(again, "mine")])
    forged = replace(again, session=stale.session)

    answer = store.record_output([(stale, "old"), (other, "fine"), (forged, "forged"), (stale, "older")])

    assert answer == [stale, forged]
    assert [log.text for log in store.logs(lost)] == ["mine"]
    assert [log.text for log in store.logs(kept)] == ["fine"]


def test_what_comes_after_the_end_changes_nothing(store: Store) -> None:
    printed, silent = submit(store, a_task(), a_task(queue="other"))
    one, other = claim_one(store), claim_one(store, queue="other")
    store.settle([(one.lease, replace(COMPLETED, log="all"))])
    complete(store, other)

    assert store.record_output([(one.lease, "a part"), (other.lease, "late")]) == [one.lease, other.lease]
    assert store.logs(printed) == [Log(one.lease.fence, "all")]
    assert store.logs(silent) == []


def test_empty_output_is_ignored_and_what_no_database_can_hold_is_replaced(store: Store) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease

    assert store.record_output([]) == []
    assert store.record_output([(lease, "")]) == []
    assert store.logs(id) == []
    store.record_output([(lease, 'a\0b\ud800c \\ " { } é 🙂')])

    assert [log.text for log in store.logs(id)] == ['a\ufffdb?c \\ " { } é 🙂']


def test_the_latest_outputs_come_in_the_order_asked_for(store: Store) -> None:
    first, second, silent = submit(store, a_task(), a_task(), a_task())
    leases = {claim.id: claim.lease for claim in claim_all(store)}

    store.record_output([(leases[id], str(id)) for id in (second, first)])

    found = store.latest_output([second, TaskId(a_session(store)), silent, first, second])
    assert [log and log.text for log in found] == [str(second), None, None, str(first), str(second)]
    assert store.latest_output([]) == []


def test_output_goes_with_its_task(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.record_output([(claim.lease, "hello")])
    complete(store, claim)

    sweep_until_quiet(store)
    store.purge([id])

    assert (store.logs(id), store.latest_output([id])) == ([], [None])
