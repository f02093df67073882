from __future__ import annotations

import pytest

from tests.support.builders import (
    SECOND,
    a_task,
    claim_all,
    claim_one,
    complete,
    in_state,
    state_of,
    submit,
    submit_one,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.stores.protocol import Filter, LeaseLost, Settled, Store

UNFINISHED = [State.WAITING, State.SCHEDULED, State.RUNNABLE, State.RETRYING, State.LEASED]
FINAL = [State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED]
NOBODY = keyed_id("default", None, "nobody")


@pytest.mark.parametrize("state", FINAL)
def test_a_finished_task_can_be_removed_for_good(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)

    assert store.purge([id, NOBODY]) == 1
    assert store.purge([id]) == 0

    assert store.get([id]) == [None]
    assert store.attempts(id) == []
    assert store.counts() == []


@pytest.mark.parametrize("state", UNFINISHED)
def test_an_unfinished_task_is_not_removed(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)

    assert store.purge([id]) == 0
    assert state_of(store, id) is state


def test_removing_by_filter_takes_only_what_is_finished(store: Store) -> None:
    done, _, other = submit(store, a_task(), a_task(), a_task(queue="other"))
    complete(store, claim_one(store))
    complete(store, *claim_all(store, queues=["other"]))

    assert store.purge(Filter(queue="default")) == 1
    assert store.get([done]) == [None]
    assert state_of(store, other) is State.COMPLETED


def test_the_key_of_a_removed_task_is_free_for_another_body(store: Store) -> None:
    [id] = submit(store, a_task(key="k", handler="old"))
    complete(store, claim_one(store))
    store.purge([id])

    [receipt] = store.submit([a_task(key="k", handler="new")])

    assert (receipt.id, receipt.created) == (id, True)
    assert task_of(store, id).handler == "new"
    assert store.attempts(id) == []


def test_removing_a_prerequisite_leaves_what_waited_for_it_as_it_is(store: Store, clock: ManualClock) -> None:
    a, b, child = submit(store, a_task(key="a"), a_task(key="b"), a_task(key="c", prerequisites=["a", "b"]))
    clock.advance(SECOND)
    complete(store, claim_one(store))

    store.purge([a])

    assert (state_of(store, child), task_of(store, child).waiting) == (State.WAITING, 1)
    assert [neighbour.id for neighbour in store.neighbourhood(child).prerequisites] == [b]
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE


def test_a_report_about_a_removed_task_is_lost(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)]
    store.purge([id])

    assert complete(store, claim) == [LeaseLost(claim.lease)]
