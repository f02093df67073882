from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    NO_RETRY,
    OOPS,
    RAISED,
    SECOND,
    a_session,
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
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import (
    COMPLETED,
    MAX_CRASHES,
    RELEASED,
    Crashed,
    Outcome,
    Raised,
    Released,
    Returned,
    Settlement,
    Stopped,
)
from windlass.core.task import Attempt, SessionId, TaskId
from windlass.core.times import micros
from windlass.stores.protocol import LeaseLost, Settled, Store


def named(outcome: Outcome) -> str:
    """A short name for a parametrised test."""
    return {GAVE_UP: "gave up", Released(delay=1_000): "released with a delay"}.get(outcome, type(outcome).__name__)


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

    for _ in range(MAX_CRASHES):
        report(store, claim_one(store), Crashed(OOPS))

    task = task_of(store, id)
    assert (task.state, task.crashes, task.attempts) == (State.FAILED, MAX_CRASHES, 0)
    assert task.reason is not None
    assert "poison" in task.reason
    assert len(store.attempts(id)) == MAX_CRASHES


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


def test_a_report_with_another_fence_changes_nothing(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    before = task_of(store, id)

    for fence in (claim.lease.fence - 1, claim.lease.fence + 1):
        lease = replace(claim.lease, fence=fence)
        assert store.settle([(lease, COMPLETED)]) == [LeaseLost(lease)]

    assert task_of(store, id) == before
    assert store.attempts(id) == []


def test_a_report_from_another_session_changes_nothing(store: Store) -> None:
    id = submit_one(store)
    lease = replace(claim_one(store).lease, session=a_session(store, "other"))

    assert store.settle([(lease, COMPLETED)]) == [LeaseLost(lease)]
    assert state_of(store, id) is State.LEASED


def test_a_report_about_an_unknown_task_is_answered_as_lost(store: Store, clock: ManualClock) -> None:
    submit(store, a_task())
    lease = replace(claim_one(store).lease, task=TaskId(fresh_id(clock.now(), 1)))

    assert store.settle([(lease, COMPLETED)]) == [LeaseLost(lease)]


def test_an_old_lease_cannot_end_a_new_attempt_of_the_same_session(store: Store) -> None:
    id = submit_one(store)
    session = a_session(store)
    old = claim_one(store, session)
    report(store, old, Crashed(OOPS))
    new = claim_one(store, session)

    assert complete(store, old) == [LeaseLost(old.lease)]
    assert state_of(store, id) is State.LEASED
    assert complete(store, new) == [Settled(new.lease, State.COMPLETED)]


REPEATED: list[Outcome] = [
    Returned("1"),
    RAISED,
    GAVE_UP,
    Crashed(OOPS),
    Released(),
    Released(delay=1_000),
    Stopped(State.EXPIRED, "overran"),
]


@pytest.mark.parametrize("outcome", REPEATED, ids=named)
def test_the_same_end_reported_twice_is_answered_alike_and_written_once(store: Store, outcome: Outcome) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    first = report(store, claim, outcome)
    before, attempts = task_of(store, id), store.attempts(id)

    assert report(store, claim, outcome) == first
    assert task_of(store, id) == before
    assert store.attempts(id) == attempts


def test_another_end_after_the_first_is_refused(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    complete(store, claim)

    assert report(store, claim, GAVE_UP) == LeaseLost(claim.lease)
    assert state_of(store, id) is State.COMPLETED


def test_a_repeated_report_is_lost_once_the_first_no_longer_stands(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    report(store, claim, GAVE_UP)
    store.retry([id])

    assert report(store, claim, GAVE_UP) == LeaseLost(claim.lease)
    assert state_of(store, id) is State.RUNNABLE


def test_of_two_reports_about_one_lease_in_a_batch_the_first_counts(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    verdicts = store.settle([(claim.lease, end) for end in (COMPLETED, decided(claim, GAVE_UP), COMPLETED)])

    assert verdicts == [
        Settled(claim.lease, State.COMPLETED),
        LeaseLost(claim.lease),
        Settled(claim.lease, State.COMPLETED),
    ]
    assert len(store.attempts(id)) == 1


def test_one_stale_report_harms_none_of_its_neighbours(store: Store, clock: ManualClock) -> None:
    ids = submit(store, *(a_task() for _ in range(4)))
    claims = claim_all(store)
    stale = replace(claims[1].lease, session=SessionId(fresh_id(clock.now(), 1)))

    verdicts = store.settle(
        [
            (claims[0].lease, COMPLETED),
            (stale, COMPLETED),
            (claims[2].lease, decided(claims[2], RAISED)),
            (claims[3].lease, RELEASED),
        ]
    )

    assert verdicts == [
        Settled(claims[0].lease, State.COMPLETED),
        LeaseLost(stale),
        Settled(claims[2].lease, State.RETRYING),
        Settled(claims[3].lease, State.RUNNABLE),
    ]
    assert states_of(store, ids) == [State.COMPLETED, State.LEASED, State.RETRYING, State.RUNNABLE]


def test_settling_nothing_is_answered_with_nothing(store: Store) -> None:
    assert store.settle([]) == []


ENDS: list[Outcome] = [Returned("1"), RAISED, GAVE_UP, Crashed(OOPS), Released(), Stopped(State.EXPIRED, "overran")]


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


COMES_BACK: list[tuple[Outcome, timedelta]] = [
    (RAISED, timedelta(0)),  # the first retry would be due after ten seconds
    (Released(delay=micros(10 * SECOND)), timedelta(0)),
    (Released(), 10 * SECOND),
    (Crashed(OOPS), 10 * SECOND),
]


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
    ids=["retry in ages", "released for ages", "reason that is no text"],
)
def test_an_outcome_that_no_database_can_hold_harms_no_neighbour(store: Store, outcome: Outcome) -> None:
    strange, neighbour = submit(store, a_task(), a_task())
    first, second = claim_all(store)

    store.settle([(first.lease, decided(first, outcome)), (second.lease, COMPLETED)])

    assert state_of(store, strange) is decided(first, outcome).state
    assert state_of(store, neighbour) is State.COMPLETED


def test_a_settlement_may_be_made_by_hand(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    store.settle([(claim.lease, Settlement(state=State.FAILED, reason="by hand", error=OOPS, attempts=1))])

    assert (task_of(store, id).state, task_of(store, id).reason) == (State.FAILED, "by hand")
