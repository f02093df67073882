"""`retry(restore=True)`: tasks go back to where they were before they ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_task,
    after,
    claim_all,
    claimed_ids,
    in_state,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.waits import SLEEP, make_wait
from windlass.stores.protocol import Filter, Store


@pytest.mark.parametrize("state", [State.WAITING, State.SCHEDULED, State.RUNNABLE])
def test_a_cancelled_task_goes_back_to_its_state_with_its_times(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    before = task_of(store, id)
    store.cancel([id], reason="by mistake")
    clock.advance(SECOND)

    assert store.retry([id], restore=True) == 1
    assert store.retry([id], restore=True) == 0

    assert task_of(store, id) == replace(before, generation=before.generation + 1)


def test_a_task_that_was_retrying_keeps_the_time_of_its_next_attempt(store: Store, clock: ManualClock) -> None:
    id = in_state(store, State.RETRYING)
    before = task_of(store, id)
    assert before.attempts == 1
    store.cancel([id], reason="by mistake")

    store.retry([id], restore=True)

    task = task_of(store, id)
    assert (task.state, task.attempts, task.due) == (State.SCHEDULED, 0, before.due)
    assert claimed_ids(claim_all(store)) == []
    clock.advance(DAY)
    store.sweep()
    assert claimed_ids(claim_all(store)) == [id]


def test_a_task_whose_time_has_come_meanwhile_runs(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, at=HOUR)
    due = task_of(store, id).due
    store.cancel([id], reason="by mistake")
    clock.advance(2 * HOUR)

    store.retry([id], restore=True)

    assert (task_of(store, id).state, task_of(store, id).due) == (State.RUNNABLE, due)
    assert claimed_ids(claim_all(store)) == [id]


def test_a_task_whose_expiry_has_passed_meanwhile_expires(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=MINUTE)
    store.cancel([id], reason="by mistake")
    clock.advance(HOUR)

    store.retry([id], restore=True)
    store.sweep()

    assert state_of(store, id) is State.EXPIRED


def test_tasks_keep_their_order(store: Store, clock: ManualClock) -> None:
    ids = []
    for priority in (1, 3, 1, 3):
        ids.append(submit_one(store, priority=priority))
        clock.advance(SECOND)
    store.cancel(ids, reason="by mistake")

    store.retry(ids, restore=True)

    assert run_all(store) == [ids[1], ids[3], ids[0], ids[2]]


def test_a_wait_ends_when_it_would_have(store: Store, clock: ManualClock) -> None:
    [id] = submit(store, make_wait(a_task(handler=SLEEP, args={"for": "1h"})))
    due = task_of(store, id).due
    clock.advance(MINUTE)
    store.cancel([id], reason="by mistake")
    clock.advance(MINUTE)

    store.retry([id], restore=True)

    assert (state_of(store, id), task_of(store, id).due) == (State.SCHEDULED, due)
    clock.advance(HOUR)
    store.sweep()
    assert state_of(store, id) is State.COMPLETED


@pytest.mark.parametrize("number", [3, 700], ids=["few", "many"])
def test_dependents_come_back_with_their_own_times(store: Store, clock: ManualClock, number: int) -> None:
    root, *rest = submit(store, a_task(key="root"), *(after(f"n{each}", "root", at=HOUR) for each in range(number)))
    before = task_of(store, rest[0])
    store.cancel([root], reason="by mistake")
    store.sweep()
    assert set(states_of(store, rest)) == {State.CANCELLED}

    assert store.retry([root], dependents=True, restore=True) == number + 1

    assert state_of(store, root) is State.RUNNABLE
    assert {task.state for task in store.find(Filter(), limit=1_000).tasks} == {State.RUNNABLE, State.WAITING}
    assert task_of(store, rest[0]) == replace(before, generation=before.generation + 1)


def test_a_retry_without_it_starts_afresh(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, at=HOUR)
    store.cancel([id], reason="by mistake")

    store.retry([id])

    assert (task_of(store, id).state, task_of(store, id).due) == (State.RUNNABLE, clock.now())


def test_a_task_that_had_used_its_attempts_gets_new_ones(store: Store) -> None:
    id = in_state(store, State.FAILED)
    assert task_of(store, id).attempts

    store.retry([id], restore=True)

    assert (task_of(store, id).state, task_of(store, id).attempts) == (State.RUNNABLE, 0)
