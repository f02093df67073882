from __future__ import annotations

from tests.support.builders import (
    GAVE_UP,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_task,
    claim_one,
    complete,
    run,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.stores.protocol import RETENTION, Store


def test_finished_tasks_stay_for_the_retention_and_then_go(store: Store, clock: ManualClock) -> None:
    completed, cancelled, expired = submit(store, a_task(key="k"), a_task(), a_task(expires=-SECOND))
    complete(store, claim_one(store))
    store.cancel([cancelled], reason="not wanted")

    clock.advance(RETENTION)
    assert sweep_until_quiet(store).pruned == 0

    clock.advance(MICROSECOND)
    assert sweep_until_quiet(store).pruned == 3
    assert store.get([completed, cancelled, expired]) == [None, None, None]
    assert store.attempts(completed) == []
    assert store.counts() == []
    assert store.submit([a_task(key="k", handler="other")])[0].created


def test_the_retention_may_be_chosen(home: Home, clock: ManualClock) -> None:
    store = home.open(clock, retention=MINUTE)
    id = submit_one(store)
    complete(store, claim_one(store))

    clock.advance(MINUTE + SECOND)
    sweep_until_quiet(store)

    assert store.get([id]) == [None]


def test_dead_letters_stay_until_they_are_purged(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    run(store, GAVE_UP)

    clock.advance(10 * RETENTION)
    sweep_until_quiet(store)

    assert (state_of(store, id), len(store.attempts(id))) == (State.FAILED, 1)
    assert store.purge([id]) == 1


def test_unfinished_tasks_stay_whatever_their_age(store: Store, clock: ManualClock) -> None:
    ids = submit(store, a_task(), a_task(delay=100 * RETENTION))

    clock.advance(10 * RETENTION)
    sweep_until_quiet(store)

    assert states_of(store, ids) == [State.RUNNABLE, State.SCHEDULED]


def test_the_tasks_of_a_workflow_stay_until_all_of_them_have_ended(store: Store, clock: ManualClock) -> None:
    done, last = submit(store, a_task(workflow="w"), a_task(workflow="w"))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)
    assert state_of(store, done) is State.COMPLETED

    complete(store, claim_one(store))
    clock.advance(SECOND)
    sweep_until_quiet(store)
    assert store.get([done]) == [None]
    assert state_of(store, last) is State.COMPLETED


def test_a_workflow_of_one_tenant_does_not_keep_that_of_another(store: Store, clock: ManualClock) -> None:
    done, _ = submit(store, a_task(workflow="w"), a_task(workflow="w", tenant="acme"))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)

    assert store.get([done]) == [None]


def test_a_pruned_prerequisite_leaves_what_waited_for_it_as_it_is(store: Store, clock: ManualClock) -> None:
    a, _, child = submit(store, a_task(key="a"), a_task(key="b"), a_task(key="c", prerequisites=["a", "b"]))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)
    assert store.get([a]) == [None]
    assert task_of(store, child).waiting == 1

    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE
