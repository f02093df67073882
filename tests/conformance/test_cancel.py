from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    SECOND,
    a_session,
    a_task,
    all_tasks,
    at_once,
    claim_all,
    claim_one,
    complete,
    in_state,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.errors import InvalidTask
from windlass.stores.protocol import CANCEL_GRACE, Filter, LeaseLost, Settled, Store

QUEUED = [State.WAITING, State.SCHEDULED, State.RUNNABLE, State.RETRYING]
FINAL = [State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED]
NOBODY = keyed_id("default", None, "nobody")


@pytest.mark.parametrize("state", QUEUED)
def test_cancelling_a_task_in_nobodys_hands_ends_it_at_once(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    clock.advance(SECOND)

    assert store.cancel([id], reason="not wanted") == 1

    task = task_of(store, id)
    assert (task.state, task.reason, task.finished) == (State.CANCELLED, "not wanted", clock.now())
    clock.advance(2 * DAY)
    sweep_until_quiet(store)
    assert claim_all(store) == []


@pytest.mark.parametrize("state", FINAL)
def test_cancelling_a_task_that_has_ended_does_nothing(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    before = task_of(store, id)

    assert store.cancel([id], reason="second") == 0
    assert task_of(store, id) == before


def test_cancelling_a_leased_task_asks_it_to_stop(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    assert store.cancel([id], reason="not wanted") == 1
    assert store.cancel([id], reason="really not") == 0

    task = task_of(store, id)
    assert (task.state, task.cancel_requested, task.reason) == (State.LEASED, True, "not wanted")
    assert (task.fence, task.finished) == (claim.lease.fence, None)


def test_a_task_that_does_not_stop_is_cancelled_by_the_sweep_after_its_grace(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="a"), a_task(key="b", prerequisites=["a"]))
    claim = claim_one(store)
    store.cancel([parent], reason="not wanted")

    clock.advance(CANCEL_GRACE - MICROSECOND)
    assert sweep_until_quiet(store).cancelled == 0
    assert state_of(store, parent) is State.LEASED

    clock.advance(MICROSECOND)
    assert sweep_until_quiet(store).cancelled == 1
    task = task_of(store, parent)
    assert (task.state, task.reason, task.finished) == (State.CANCELLED, "not wanted", clock.now())
    assert task.fence > claim.lease.fence
    assert [attempt.state for attempt in store.attempts(parent)] == [State.CANCELLED]
    assert state_of(store, child) is State.CANCELLED
    assert complete(store, claim) == [LeaseLost(claim.lease)]


def test_only_a_task_that_was_running_keeps_the_request_to_stop_after_its_end(store: Store, clock: ManualClock) -> None:
    """An undo restores only those without it."""
    for _ in range(3):
        submit_one(store)
    stopped, overdue = store.claim(a_session(store), ["default"], limit=2)
    lost = claim_one(store, a_session(store, ttl=timedelta(seconds=3)))
    ids = [stopped.id, overdue.id, lost.id, submit_one(store)]
    store.cancel(ids, reason="no")
    complete(store, stopped)

    clock.advance(10 * SECOND + MICROSECOND)
    sweep_until_quiet(store)

    ended = [task_of(store, id) for id in ids]
    assert [(task.state, task.cancel_requested) for task in ended] == [
        (State.CANCELLED, True),
        (State.CANCELLED, True),
        (State.CANCELLED, True),
        (State.CANCELLED, False),
    ]


def test_the_grace_may_be_chosen(store: Store, clock: ManualClock) -> None:
    hurried, patient = submit(store, a_task(), a_task())
    claim_all(store, a_session(store, ttl=DAY))
    store.cancel([hurried], reason="now", grace=timedelta(0))
    store.cancel([patient], reason="when it suits", grace=HOUR)

    sweep_until_quiet(store)
    assert states_of(store, [hurried, patient]) == [State.CANCELLED, State.LEASED]

    clock.advance(HOUR)
    sweep_until_quiet(store)
    assert state_of(store, patient) is State.CANCELLED


def test_cancelling_by_ids_passes_over_what_is_unknown_or_named_twice(store: Store) -> None:
    first, second, third = submit(store, a_task(), a_task(), a_task())

    assert store.cancel([first, NOBODY, first, second], reason="not wanted") == 2
    assert states_of(store, [first, second, third]) == [State.CANCELLED, State.CANCELLED, State.RUNNABLE]


@pytest.mark.parametrize("reason", ["", "two\nlines", "nul\0", "x" * 513])
def test_a_cancel_needs_a_proper_reason(store: Store, reason: str) -> None:
    id = submit_one(store)

    with pytest.raises(InvalidTask, match="reason"):
        store.cancel([id], reason=reason)

    assert state_of(store, id) is State.RUNNABLE


def test_cancelling_by_filter_takes_all_that_match(store: Store, clock: ManualClock) -> None:
    ids = submit(
        store,
        a_task(queue="mail", workflow="w", key="parent"),
        a_task(queue="mail", workflow="w", prerequisites=["parent"]),
        a_task(queue="mail", workflow="w", tenant="acme"),
        a_task(queue="other", workflow="w"),
        a_task(queue="mail"),
    )

    assert store.cancel(Filter(queue="mail", workflow="w", tenant="default"), reason="not wanted") == 2
    sweep_until_quiet(store)

    assert states_of(store, ids) == [State.CANCELLED] * 2 + [State.RUNNABLE] * 3


def test_cancelling_everything_leaves_nothing_to_claim(store: Store) -> None:
    submit(store, *(a_task(key=str(n), prerequisites=[str(n - 1)] if n % 3 else []) for n in range(99)))

    store.cancel(Filter(), reason="everything")
    sweep_until_quiet(store)

    assert {task.state for task in all_tasks(store)} == {State.CANCELLED}
    assert claim_all(store) == []


def test_a_task_cancelled_and_completed_at_once_has_one_end(store: Store) -> None:
    ids = submit(store, *(a_task() for _ in range(20)))
    claims = claim_all(store)

    def end_all(thread: int) -> int:
        if thread:
            return sum(store.cancel([id], reason="not wanted") for id in ids)
        return sum(complete(store, claim) == [Settled(claim.lease, State.COMPLETED)] for claim in claims)

    completed, cancelled = at_once(2, end_all)

    ends = states_of(store, ids)
    assert completed == ends.count(State.COMPLETED)
    assert cancelled == ends.count(State.CANCELLED)
    assert completed + cancelled == 20
