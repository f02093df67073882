from __future__ import annotations

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    NO_RETRY,
    SECOND,
    a_session,
    a_task,
    after,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    report,
    run,
    run_all,
    state_of,
    states_of,
    submit,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned, Stopped
from windlass.core.task import OnFailure, TaskId
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

ENDED = {State.FAILED: "failed", State.CANCELLED: "was cancelled", State.EXPIRED: "expired"}
BAD_ENDS = list(ENDED)


def end_badly(store: Store, clock: ManualClock, parent: TaskId, end: State) -> None:
    """Bring a runnable task to one of the bad ends."""
    match end:
        case State.FAILED:
            run(store, GAVE_UP)
        case State.CANCELLED:
            store.cancel([parent], reason="not wanted")
        case _:
            run(store, Stopped(State.EXPIRED, "too late"))
    sweep_until_quiet(store)


@pytest.mark.parametrize("end", BAD_ENDS)
def test_a_bad_end_cancels_what_waits_and_says_why(store: Store, clock: ManualClock, end: State) -> None:
    parent, child, grandchild = submit(store, a_task(key="a"), after("b", "a"), after("c", "b"))
    clock.advance(SECOND)

    end_badly(store, clock, parent, end)

    assert states_of(store, [parent, child, grandchild]) == [end, State.CANCELLED, State.CANCELLED]
    task = task_of(store, child)
    assert task.reason == f"Prerequisite {parent} {ENDED[end]}."
    assert task_of(store, grandchild).reason == f"Prerequisite {child} was cancelled."
    assert (task.finished, task.waiting, task.attempts, store.attempts(child)) == (clock.now(), 0, 0, [])


@pytest.mark.parametrize("end", BAD_ENDS)
def test_a_task_that_runs_all_the_same_is_unblocked_by_a_bad_end(store: Store, clock: ManualClock, end: State) -> None:
    parent, child, grandchild = submit(
        store, a_task(key="a"), after("b", "a", on_failure=OnFailure.RUN), after("c", "b")
    )
    clock.advance(SECOND)

    end_badly(store, clock, parent, end)

    assert states_of(store, [child, grandchild]) == [State.RUNNABLE, State.WAITING]
    assert run_all(store) == [child, grandchild]


def test_a_bad_end_cancels_at_once_though_others_are_still_open(store: Store, clock: ManualClock) -> None:
    *_, child = submit(store, a_task(key="a"), a_task(key="b"), after("c", "a", "b"))

    run(store, GAVE_UP)

    task = task_of(store, child)
    assert (task.state, task.waiting) == (State.CANCELLED, 1)


def test_a_task_that_runs_all_the_same_still_waits_for_the_others(store: Store, clock: ManualClock) -> None:
    *_, child = submit(store, a_task(key="a"), a_task(key="b"), after("c", "a", "b", on_failure=OnFailure.RUN))
    clock.advance(SECOND)

    run(store, GAVE_UP)
    assert state_of(store, child) is State.WAITING

    run(store, Returned())
    assert state_of(store, child) is State.RUNNABLE


def test_a_cancelled_task_is_not_brought_back_by_its_last_prerequisite(store: Store, clock: ManualClock) -> None:
    *_, child, grandchild = submit(
        store, a_task(key="a"), a_task(key="b"), after("c", "a", "b"), after("d", "c", on_failure=OnFailure.CANCEL)
    )
    clock.advance(SECOND)
    store.cancel([child], reason="not wanted")

    assert len(run_all(store)) == 2

    assert states_of(store, [child, grandchild]) == [State.CANCELLED, State.CANCELLED]
    assert (task_of(store, child).waiting, task_of(store, child).reason) == (0, "not wanted")


@pytest.mark.parametrize("end", BAD_ENDS)
@pytest.mark.parametrize("policy", OnFailure)
def test_the_initial_state_after_a_failed_prerequisite_follows_the_policy(
    store: Store, clock: ManualClock, end: State, policy: OnFailure
) -> None:
    [parent] = submit(store, a_task(key="a"))
    end_badly(store, clock, parent, end)

    child, grandchild = submit(store, after("b", "a", on_failure=policy), after("c", "b"))

    initial = [State.CANCELLED, State.CANCELLED] if policy is OnFailure.CANCEL else [State.RUNNABLE, State.WAITING]
    assert states_of(store, [child, grandchild]) == initial
    if policy is OnFailure.CANCEL:
        assert task_of(store, child).reason == f"Prerequisite {parent} {ENDED[end]}."
        assert task_of(store, child).finished == clock.now()


def test_the_receipt_of_a_task_that_is_cancelled_at_once_says_so(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="a", retry=NO_RETRY))
    run(store, GAVE_UP)

    receipts = store.submit([after("c", "b"), after("b", "a")])

    assert [receipt.state for receipt in receipts] == [State.CANCELLED, State.CANCELLED]


def test_a_task_that_is_expired_at_once_cancels_its_dependents_in_the_same_batch(store: Store) -> None:
    parent, child = submit(store, a_task(key="a", expires=-SECOND), after("b", "a"))

    assert states_of(store, [parent, child]) == [State.EXPIRED, State.CANCELLED]


def test_a_queued_task_that_expires_ends_what_waits_for_it(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="a", expires=SECOND), after("b", "a"))

    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.EXPIRED, State.CANCELLED]
    assert task_of(store, child).reason == f"Prerequisite {parent} expired."


def test_a_cascade_reaches_the_end_of_a_deep_chain(store: Store) -> None:
    ids = submit(store, a_task(key="0"), *(after(str(n), str(n - 1)) for n in range(1, 200)))

    run(store, GAVE_UP)
    sweep_until_quiet(store)

    assert set(states_of_all(store, ids[1:])) == {State.CANCELLED}


def states_of_all(store: Store, ids: list[TaskId]) -> list[State]:
    return [task.state for task in store.get(ids) if task is not None]


def test_a_cascade_reaches_every_branch_once(store: Store, clock: ManualClock) -> None:
    ids = submit(
        store,
        a_task(key="top"),
        *(after(f"middle-{n}", "top") for n in range(50)),
        after("bottom", *(f"middle-{n}" for n in range(50))),
        after("clean up", "bottom", on_failure=OnFailure.RUN),
    )
    clock.advance(SECOND)

    run(store, GAVE_UP)
    sweep_until_quiet(store)

    assert set(states_of(store, ids[1:-1])) == {State.CANCELLED}
    assert claimed_ids(claim_all(store)) == [ids[-1]]


def test_a_later_success_of_a_task_to_be_cancelled_unblocks_nobody(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="a"), after("b", "a"))
    clock.advance(SECOND)
    claim = claim_one(store)
    store.cancel([parent], reason="not wanted")
    assert state_of(store, child) is State.WAITING

    complete(store, claim)

    assert states_of(store, [parent, child]) == [State.CANCELLED, State.CANCELLED]


def test_a_task_failed_by_its_losses_ends_what_waits_for_it(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="a"), after("b", "a"))

    for _ in range(10):
        claim_one(store)
        clock.advance(HOUR)
        sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.FAILED, State.CANCELLED]


def test_closing_a_session_ends_what_waits_for_a_task_to_be_cancelled(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="a"), after("b", "a"))
    session = a_session(store)
    claim_one(store, session)
    store.cancel([parent], reason="not wanted")

    store.close_session(session)
    sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.CANCELLED, State.CANCELLED]


def test_a_replayed_report_resolves_no_edge_twice(store: Store, clock: ManualClock) -> None:
    *_, child = submit(store, a_task(key="a"), a_task(key="b"), after("c", "a", "b"))
    clock.advance(SECOND)
    claim = claim_one(store)

    for _ in range(3):
        complete(store, claim)
    report(store, claim, Returned())

    task = task_of(store, child)
    assert (task.state, task.waiting) == (State.WAITING, 1)


@pytest.mark.parametrize("policy", ["cancel", "run"])
def test_a_policy_may_be_written_as_text(store: Store, clock: ManualClock, policy: str) -> None:
    parent, child = submit(store, a_task(key="a", retry=NO_RETRY), after("b", "a", on_failure=policy))

    clock.advance(SECOND)
    run(store, GAVE_UP)

    assert states_of(store, [parent, child]) == [
        State.FAILED,
        State.CANCELLED if policy == "cancel" else State.RUNNABLE,
    ]


def test_an_unknown_policy_is_refused_by_name(store: Store) -> None:
    with pytest.raises(InvalidTask, match="on_failure"):
        store.submit([a_task(on_failure="explode")])
