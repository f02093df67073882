from __future__ import annotations

import pytest

from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    NO_RETRY,
    OOPS,
    RAISED,
    SECOND,
    a_task,
    after,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    in_state,
    report,
    run,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Crashed, Returned
from windlass.stores.protocol import Filter, Store

UNFINISHED = [State.WAITING, State.SCHEDULED, State.RUNNABLE, State.RETRYING, State.LEASED]
BADLY_ENDED = [State.FAILED, State.CANCELLED, State.EXPIRED]
NOBODY = keyed_id("default", None, "nobody")


@pytest.mark.parametrize("state", BADLY_ENDED)
def test_a_task_that_ended_badly_is_brought_back_with_fresh_counters(
    store: Store, clock: ManualClock, state: State
) -> None:
    id = in_state(store, state)
    before = task_of(store, id)
    clock.advance(HOUR)

    assert store.retry([id]) == 1
    assert store.retry([id]) == 0

    task = task_of(store, id)
    assert (task.state, task.due, task.generation) == (State.RUNNABLE, clock.now(), 1)
    assert (task.attempts, task.crashes, task.losses, task.cancel_requested) == (0, 0, 0, False)
    assert (task.reason, task.finished, task.expires, task.fence) == (None, None, None, before.fence)
    assert claimed_ids(claim_all(store)) == [id]


@pytest.mark.parametrize("state", [*UNFINISHED, State.COMPLETED])
def test_a_task_that_did_not_end_badly_is_not_retried(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    before = task_of(store, id)

    assert store.retry([id, NOBODY]) == 0
    assert task_of(store, id) == before


def test_a_retried_task_keeps_its_history_and_its_own_number_of_attempts(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, retry=NO_RETRY)
    run(store, RAISED)

    store.retry([id])
    first = claim_one(store)
    report(store, first, Crashed(OOPS))
    second = claim_one(store)
    report(store, second, RAISED)

    task = task_of(store, id)
    assert (task.state, task.generation, task.attempts, task.crashes) == (State.FAILED, 1, 1, 1)
    assert [attempt.state for attempt in store.attempts(id)] == [State.FAILED, State.RUNNABLE, State.FAILED]
    assert second.lease.fence > first.lease.fence > store.attempts(id)[0].fence


def test_a_task_brought_back_with_open_prerequisites_waits_for_them(store: Store, clock: ManualClock) -> None:
    *_, child = submit(store, a_task(key="a"), a_task(key="b"), a_task(key="c", prerequisites=["a", "b"]))
    store.cancel([child], reason="by mistake")
    complete(store, claim_one(store))

    store.retry([child])
    assert (state_of(store, child), task_of(store, child).waiting) == (State.WAITING, 1)

    clock.advance(SECOND)
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE


def test_a_hard_limit_that_has_passed_is_taken_away_by_a_retry_and_a_later_one_stays(
    store: Store, clock: ManualClock
) -> None:
    passed, ahead = submit(store, a_task(expires=MINUTE), a_task(expires=DAY))
    store.cancel([passed, ahead], reason="by mistake")
    clock.advance(HOUR)

    store.retry([passed, ahead])

    assert task_of(store, passed).expires is None
    assert task_of(store, ahead).expires is not None


def test_retrying_by_filter_takes_all_that_match(store: Store) -> None:
    ids = submit(store, *(a_task(handler=name, retry=NO_RETRY) for name in ("good", "bad", "bad")))
    for claim in claim_all(store):
        report(store, claim, Returned() if claim.handler == "good" else RAISED)

    assert store.retry(Filter(handler="bad", states=frozenset({State.FAILED}))) == 2
    assert states_of(store, ids) == [State.COMPLETED, State.RUNNABLE, State.RUNNABLE]


def test_tasks_brought_back_together_wait_for_each_other_again(store: Store) -> None:
    a, b, c = submit(store, a_task(key="a", retry=NO_RETRY), after("b", "a"), after("c", "b"))
    run(store, RAISED)
    assert states_of(store, [a, b, c]) == [State.FAILED, State.CANCELLED, State.CANCELLED]

    assert store.retry(Filter()) == 3

    assert states_of(store, [a, b, c]) == [State.RUNNABLE, State.WAITING, State.WAITING]
    assert run_all(store) == [a, b, c]


def test_a_task_brought_back_waits_for_a_prerequisite_that_came_back_before_it(store: Store) -> None:
    a, b = submit(store, a_task(key="a", retry=NO_RETRY), after("b", "a"))
    run(store, RAISED)
    store.retry([a])

    store.retry([b])

    assert (state_of(store, b), task_of(store, b).waiting) == (State.WAITING, 1)
    run(store, Returned())
    assert state_of(store, b) is State.RUNNABLE


def test_a_task_brought_back_alone_passes_over_what_ended_badly(store: Store) -> None:
    a, b = submit(store, a_task(key="a", retry=NO_RETRY), after("b", "a"))
    run(store, RAISED)

    store.retry([b])

    assert states_of(store, [a, b]) == [State.FAILED, State.RUNNABLE]
