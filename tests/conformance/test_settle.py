from __future__ import annotations

from threading import Thread

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    NO_RETRY,
    OOPS,
    RAISED,
    SECOND,
    claim_one,
    report,
    state_of,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core import settlement
from windlass.core.fingerprint import error_group
from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import (
    Crashed,
    Raised,
    Released,
    Returned,
    Settlement,
    Stopped,
)
from windlass.core.task import Attempt
from windlass.core.times import micros
from windlass.stores.protocol import Settled, Store


def test_a_task_that_returns_is_completed_with_its_result(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    started = clock.now()
    clock.advance(SECOND)

    verdict = report(store, claim, Returned('{"sent":[1,2]}'))

    assert verdict == Settled(claim.lease, State.COMPLETED)
    task = task_of(store, id)
    assert (task.state, task.result, task.attempts, task.finished) == (
        State.COMPLETED,
        '{"sent":[1,2]}',
        1,
        clock.now(),
    )
    assert (task.reason, task.fence, task.session) == (None, claim.lease.fence, claim.lease.session)
    assert store.attempts(id) == [
        Attempt(
            fence=claim.lease.fence,
            session=claim.lease.session,
            started=started,
            ended=clock.now(),
            state=State.COMPLETED,
        )
    ]


def test_a_task_that_raises_is_tried_again_later(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, retry=Retry(retries=1, base=MINUTE))

    verdict = report(store, claim_one(store), RAISED)

    task = task_of(store, id)
    assert isinstance(verdict, Settled)
    assert verdict.state is task.state is State.RETRYING
    assert (task.due, task.attempts, task.finished) == (clock.now() + micros(MINUTE), 1, None)
    assert [attempt.error for attempt in store.attempts(id)] == [OOPS]


def test_a_handler_may_say_itself_when_to_try_again(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)

    report(store, claim_one(store), Raised(OOPS, retry_in=7))

    task = task_of(store, id)
    assert (task.state, task.due, task.attempts) == (State.RETRYING, clock.now() + 7, 1)


def test_a_task_whose_attempts_are_used_up_has_failed_with_every_error_kept(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, args={"n": 1}, retry=Retry(retries=2))
    errors = [Error(kind="ValueError", message=f"try {n}", traceback="…") for n in range(3)]

    for error in errors:
        report(store, claim_one(store), Raised(error))
        clock.advance(HOUR)
        sweep_until_quiet(store)

    task = task_of(store, id)
    assert (task.state, task.attempts, task.args) == (State.FAILED, 3, '{"n":1}')
    assert task.reason == "ValueError: try 2"
    assert [(attempt.error, attempt.state) for attempt in store.attempts(id)] == [
        (errors[0], State.RETRYING),
        (errors[1], State.RETRYING),
        (errors[2], State.FAILED),
    ]


def test_a_handler_that_gives_up_has_failed_at_once(store: Store) -> None:
    id = submit_one(store, retry=Retry(retries=9))

    report(store, claim_one(store), GAVE_UP)

    assert state_of(store, id) is State.FAILED


def test_a_crash_is_counted_apart_from_attempts_and_runs_again_at_once(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, retry=NO_RETRY)

    report(store, claim_one(store), Crashed(OOPS))

    task = task_of(store, id)
    assert (task.state, task.due) == (State.RUNNABLE, clock.now())
    assert (task.attempts, task.crashes, task.losses) == (0, 1, 0)
    assert [attempt.state for attempt in store.attempts(id)] == [State.RUNNABLE]


def test_a_task_that_keeps_killing_its_process_is_poison(store: Store) -> None:
    id = submit_one(store)

    for _ in range(3):
        report(store, claim_one(store), Crashed(OOPS))

    task = task_of(store, id)
    assert (task.state, task.crashes, task.attempts) == (State.FAILED, 3, 0)
    assert task.reason == "Its process died 3 times (ValueError)."
    assert len(store.attempts(id)) == 3


@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_caller_can_say_how_many_crashes_are_forgiven(store: Store, most: int) -> None:
    id = submit_one(store, max_crashes=most)

    for _ in range(most):
        report(store, claim_one(store), Crashed(OOPS))
    assert state_of(store, id) is State.RUNNABLE
    report(store, claim_one(store), Crashed(OOPS))

    assert (state_of(store, id), task_of(store, id).crashes) == (State.FAILED, most + 1)


@pytest.mark.parametrize("delay", [0, 5_000_000])
def test_a_released_task_is_charged_nothing(store: Store, clock: ManualClock, delay: int) -> None:
    id = submit_one(store)
    clock.advance(SECOND)

    report(store, claim_one(store), Released(delay))

    task = task_of(store, id)
    assert task.state is (State.SCHEDULED if delay else State.RUNNABLE)
    assert task.due == clock.now() + delay
    assert (task.attempts, task.crashes, task.losses, store.attempts(id)) == (0, 0, 0, [])


@pytest.mark.parametrize("state", [State.CANCELLED, State.EXPIRED])
def test_a_stopped_attempt_ends_its_task(store: Store, clock: ManualClock, state: State) -> None:
    id = submit_one(store)

    report(store, claim_one(store), Stopped(state, "overran"))

    task = task_of(store, id)
    assert (task.state, task.reason, task.finished, task.attempts) == (state, "overran", clock.now(), 1)


def test_settling_nothing_is_answered_with_nothing(store: Store) -> None:
    assert store.settle([]) == []


def test_a_settlement_may_be_made_by_hand(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    store.settle([(claim.lease, Settlement(state=State.FAILED, reason="by hand", error=OOPS, attempts=1))])

    assert (task_of(store, id).state, task_of(store, id).reason) == (State.FAILED, "by hand")


def test_the_task_is_not_locked_while_its_error_group_is_computed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    cancel = Thread(target=lambda: store.cancel([id], reason="enough"), daemon=True)
    cancelled_meanwhile: list[bool] = []

    def compute(error: Error | None, reason: str | None) -> str:
        cancel.start()
        cancel.join(timeout=5)
        cancelled_meanwhile.append(not cancel.is_alive())
        return error_group(error, reason)

    monkeypatch.setattr(settlement, "error_group", compute)
    verdict = report(store, claim, GAVE_UP)
    cancel.join()

    assert cancelled_meanwhile == [True]
    assert verdict == Settled(claim.lease, State.CANCELLED)
