from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    GAVE_UP,
    NO_RETRY,
    OOPS,
    RAISED,
    SECOND,
    a_task,
    claim_all,
    claim_one,
    complete,
    decided,
    report,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import (
    COMPLETED,
    Crashed,
    Outcome,
    Raised,
    Released,
    Returned,
    Stopped,
)
from windlass.core.times import micros
from windlass.stores.protocol import Settled, Store


def named(outcome: Outcome) -> str:
    """A short name for a parametrised test."""
    return {GAVE_UP: "gave up", Released(delay=1_000): "released with a delay"}.get(outcome, type(outcome).__name__)


ENDS: list[Outcome] = [Returned("1"), RAISED, GAVE_UP, Crashed(OOPS), Released(), Stopped(State.EXPIRED, "overran")]


COMES_BACK: list[tuple[Outcome, timedelta]] = [
    (RAISED, timedelta(0)),  # the first retry would be due after ten seconds
    (Released(delay=micros(10 * SECOND)), timedelta(0)),
    (Released(), 10 * SECOND),
    (Crashed(OOPS), 10 * SECOND),
]


@pytest.mark.parametrize("outcome", ENDS, ids=named)
def test_a_cancel_request_turns_every_outcome_into_cancelled(
    store: Store, clock: ManualClock, outcome: Outcome
) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.cancel([id], reason="not wanted")

    first = report(store, claim, outcome)

    task = task_of(store, id)
    assert first == Settled(claim.lease, State.CANCELLED)
    assert (task.state, task.reason, task.result, task.finished) == (
        State.CANCELLED,
        "not wanted",
        None,
        clock.now(),
    )
    assert len(store.attempts(id)) == (0 if isinstance(outcome, Released) else 1)
    assert report(store, claim, outcome) == first


@pytest.mark.parametrize(("outcome", "after"), COMES_BACK, ids=lambda value: type(value).__name__)
def test_a_task_that_would_come_back_past_its_hard_limit_expires_at_once(
    store: Store, clock: ManualClock, outcome: Outcome, after: timedelta
) -> None:
    id = submit_one(store, expires=10 * SECOND)
    claim = claim_one(store)
    clock.advance(after)

    verdict = report(store, claim, outcome)

    task = task_of(store, id)
    assert verdict == Settled(claim.lease, State.EXPIRED)
    assert (task.state, task.finished) == (State.EXPIRED, clock.now())
    assert task.reason
    assert [attempt.state for attempt in store.attempts(id)] == [State.EXPIRED] * isinstance(outcome, Raised | Crashed)


@pytest.mark.parametrize(("outcome", "after"), COMES_BACK, ids=lambda value: type(value).__name__)
def test_an_end_that_the_hard_limit_turned_into_expired_may_be_reported_again(
    store: Store, clock: ManualClock, outcome: Outcome, after: timedelta
) -> None:
    submit(store, a_task(expires=10 * SECOND))
    claim = claim_one(store)
    clock.advance(after)
    first = report(store, claim, outcome)

    assert report(store, claim, outcome) == first  # the answer to the first was lost on its way


def test_a_task_that_comes_back_just_before_its_hard_limit_may_do_so(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=timedelta(microseconds=8))

    report(store, claim_one(store), Raised(OOPS, retry_in=7))

    assert state_of(store, id) is State.RETRYING


def test_an_attempt_that_ends_well_after_the_hard_limit_has_still_ended_well(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=SECOND)
    claim = claim_one(store)
    clock.advance(2 * SECOND)
    sweep_until_quiet(store)

    complete(store, claim)

    assert state_of(store, id) is State.COMPLETED


def test_an_error_whose_text_no_database_can_hold_is_written_all_the_same(store: Store) -> None:
    bad, neighbour = submit(store, a_task(retry=NO_RETRY), a_task())
    first, second = claim_all(store)
    error = Error(kind="ValueError", message="nul \0 and a lone \ud800", traceback="\0\udfff" * 10)

    store.settle([(first.lease, decided(first, Raised(error))), (second.lease, COMPLETED)])

    assert states_of(store, [bad, neighbour]) == [State.FAILED, State.COMPLETED]
    [attempt] = store.attempts(bad)
    assert attempt.error is not None
    assert attempt.error.kind == "ValueError"
    assert attempt.error.message.startswith("nul ")


@pytest.mark.parametrize(
    "outcome",
    [Raised(OOPS, retry_in=2**80), Released(delay=2**80), Stopped(State.CANCELLED, "nul \0 and a lone \ud800")],
    ids=["retry in ages", "released for ages", "reason that is not text"],
)
def test_an_outcome_that_no_database_can_hold_harms_no_neighbour(store: Store, outcome: Outcome) -> None:
    strange, neighbour = submit(store, a_task(), a_task())
    first, second = claim_all(store)

    store.settle([(first.lease, decided(first, outcome)), (second.lease, COMPLETED)])

    assert state_of(store, strange) is decided(first, outcome).state
    assert state_of(store, neighbour) is State.COMPLETED
