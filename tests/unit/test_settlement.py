from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import OOPS, a_stored_task
from windlass.core.lifecycle import MOVES, State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import (
    MAX_LOSSES,
    RELEASED,
    Crashed,
    Lost,
    Outcome,
    Raised,
    Released,
    Returned,
    Settlement,
    Stopped,
    apply_store_facts,
    settle,
    stands_already,
)
from windlass.core.task import Rules

NOW = 1_000_000


def middle() -> float:
    return 0.5


outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Returned, st.none() | st.just("1")),
    st.builds(Raised, st.just(OOPS), st.none() | st.integers(0, 10**9), st.booleans()),
    st.just(Crashed(OOPS)),
    st.builds(Released, st.integers(0, 10**9)),
    st.just(Lost()),
    st.sampled_from([Stopped(State.CANCELLED, "stopped"), Stopped(State.EXPIRED, "overran")]),
)


@given(
    outcome=outcomes,
    attempts=st.integers(0, 5),
    crashes=st.integers(0, Rules().max_crashes),
    losses=st.integers(0, MAX_LOSSES - 1),
    expires=st.none() | st.integers(0, 2 * NOW),
    cancel_requested=st.booleans(),
)
def test_every_outcome_is_a_legal_move_that_charges_one_counter_at_most(
    outcome: Outcome, attempts: int, crashes: int, losses: int, expires: int | None, cancel_requested: bool
) -> None:
    task = a_stored_task(
        attempts=attempts, crashes=crashes, losses=losses, expires=expires, cancel_requested=cancel_requested
    )

    decided = settle(task, outcome, middle)
    end = apply_store_facts(task, decided, NOW)

    assert end.state in MOVES[State.LEASED]
    assert sum([end.attempts, end.crashes, end.losses]) == int(not isinstance(outcome, Released)) == int(end.charged)
    assert stands_already(a_stored_task(state=end.state, cancel_requested=cancel_requested), decided)
    assert end.delay == 0 or not end.state.final
    assert not (cancel_requested and end.state is not State.CANCELLED)


def test_a_return_completes() -> None:
    assert settle(a_stored_task(), Returned("7"), middle) == Settlement(state=State.COMPLETED, result="7", attempts=1)


@pytest.mark.parametrize(("attempts", "state"), [(0, State.RETRYING), (2, State.RETRYING), (3, State.FAILED)])
def test_an_error_is_retried_until_the_attempts_are_used_up(attempts: int, state: State) -> None:
    end = settle(a_stored_task(attempts=attempts), Raised(OOPS), middle)

    assert (end.state, end.error, end.attempts) == (state, OOPS, 1)
    assert end.reason == ("ValueError: oops" if state is State.FAILED else None)


def test_the_handlers_own_wish_is_the_delay_and_counts_as_an_attempt() -> None:
    rules = Rules(retry=Retry(retries=1))

    first = settle(a_stored_task(rules=rules), Raised(OOPS, retry_in=123), middle)
    last = settle(a_stored_task(rules=rules, attempts=1), Raised(OOPS, retry_in=123), middle)

    assert (first.state, first.delay, first.attempts) == (State.RETRYING, 123, 1)
    assert last.state is State.FAILED


def test_giving_up_fails_at_once() -> None:
    assert settle(a_stored_task(), Raised(OOPS, give_up=True), middle).state is State.FAILED


@pytest.mark.parametrize("message", ["", "x" * 9_999])
def test_a_reason_is_never_longer_than_a_paragraph(message: str) -> None:
    reason = settle(a_stored_task(), Raised(Error(kind="E", message=message), give_up=True), middle).reason

    assert reason is not None
    assert reason.startswith("E")
    assert len(reason) <= 500


@pytest.mark.parametrize(
    ("outcome", "field", "most"), [(Crashed(OOPS), "crashes", Rules().max_crashes + 1), (Lost(), "losses", MAX_LOSSES)]
)
def test_crashes_and_losses_are_forgiven_so_often_and_no_more(outcome: Outcome, field: str, most: int) -> None:
    counters: dict[str, Any] = {field: most - 2}
    assert settle(a_stored_task(**counters), outcome, middle).state is State.RUNNABLE

    counters = {field: most - 1}
    assert settle(a_stored_task(**counters), outcome, middle).state is State.FAILED


@pytest.mark.parametrize(("delay", "state"), [(0, State.RUNNABLE), (1, State.SCHEDULED)])
def test_a_release_is_free(delay: int, state: State) -> None:
    assert settle(a_stored_task(), Released(delay), middle) == Settlement(state=state, delay=delay)


@pytest.mark.parametrize(("expires", "state"), [(NOW, State.EXPIRED), (NOW + 1, State.RUNNABLE)])
def test_what_comes_back_at_its_hard_limit_has_expired(expires: int, state: State) -> None:
    assert apply_store_facts(a_stored_task(expires=expires), RELEASED, NOW).state is state


def test_a_good_end_is_good_after_the_hard_limit_too() -> None:
    end = Settlement(state=State.COMPLETED, attempts=1)

    assert apply_store_facts(a_stored_task(expires=NOW - 1), end, NOW) == end


def test_a_cancel_request_takes_the_result_away_and_gives_its_own_reason() -> None:
    task = a_stored_task(cancel_requested=True, reason="not wanted", expires=NOW - 1)

    end = apply_store_facts(task, Settlement(state=State.COMPLETED, result="7", attempts=1), NOW)

    assert (end.state, end.result, end.reason, end.attempts) == (State.CANCELLED, None, "not wanted", 1)


def test_text_that_no_database_can_hold_is_replaced() -> None:
    error = Error(kind="E", message="nul \0", traceback="lone \ud800")

    end = apply_store_facts(a_stored_task(), settle(a_stored_task(), Raised(error, give_up=True), middle), NOW)

    assert end.error is not None
    texts = [end.error.kind, end.error.message, end.error.traceback, end.reason or ""]
    assert all("\0" not in text and text.encode() for text in texts)


def test_another_end_does_not_stand() -> None:
    assert not stands_already(a_stored_task(state=State.COMPLETED), Settlement(state=State.FAILED))
    assert not stands_already(a_stored_task(state=State.RUNNABLE), Settlement(state=State.COMPLETED))
