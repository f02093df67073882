"""Tasks with at_most_once never start a second attempt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import (
    GAVE_UP,
    MINUTE,
    OOPS,
    RAISED,
    SECOND,
    a_session,
    a_task,
    after,
    claim_all,
    claim_one,
    complete,
    report,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.retry import ErrorRule, Retry
from windlass.core.settlement import AT_MOST_ONCE, Crashed, Outcome, Raised, Released
from windlass.errors import InvalidTask
from windlass.stores.protocol import SESSION_TTL, LeaseLost, Settled, Store


def test_a_task_that_returns_is_completed_as_any_other(store: Store) -> None:
    id = submit_one(store, at_most_once=True)

    assert complete(store, claim := claim_one(store)) == [Settled(claim.lease, State.COMPLETED)]
    assert state_of(store, id) is State.COMPLETED


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (RAISED, "ValueError: oops"),
        (GAVE_UP, "ValueError: oops"),
        (Raised(OOPS, retry_in=5_000_000), "ValueError: oops"),
        (
            Crashed(OOPS),
            f"{AT_MOST_ONCE}: its process died (ValueError).",
        ),
    ],
    ids=["raised", "gave up", "asked for a retry", "crashed"],
)
def test_whatever_goes_wrong_it_fails_at_once(store: Store, outcome: Outcome, reason: str) -> None:
    id = submit_one(store, at_most_once=True)

    report(store, claim_one(store), outcome)

    task = task_of(store, id)
    assert (task.state, task.reason) == (State.FAILED, reason)
    assert task.attempts + task.crashes == 1
    assert claim_all(store) == []


def test_a_task_whose_session_expired_fails_and_its_dependents_are_resolved(store: Store, clock: ManualClock) -> None:
    [once, plain, child] = submit(store, a_task(key="once", at_most_once=True), a_task(), after("child", "once"))
    claims = claim_all(store)
    clock.advance(2 * SESSION_TTL)

    swept = store.sweep()
    sweep_until_quiet(store)

    task = task_of(store, once)
    assert (task.state, task.losses) == (State.FAILED, 1)
    assert task.reason == f"{AT_MOST_ONCE}: its node was lost."
    assert [(attempt.state, attempt.error and attempt.error.kind) for attempt in store.attempts(once)] == [
        (State.FAILED, "NodeLost")
    ]
    assert swept.requeued == 2
    assert (state_of(store, plain), state_of(store, child)) == (State.RUNNABLE, State.CANCELLED)
    [mine] = [claim for claim in claims if claim.id == once]
    assert complete(store, mine) == [LeaseLost(mine.lease)], "a report that comes too late changes nothing"


def test_a_task_whose_session_was_closed_fails_and_others_are_released(store: Store) -> None:
    [once, plain] = submit(store, a_task(at_most_once=True), a_task())
    session = a_session(store)
    claim_all(store, session)

    store.close_session(session)

    task = task_of(store, once)
    assert (task.state, task.losses) == (State.FAILED, 1)
    assert task.reason == f"{AT_MOST_ONCE}: its session was closed."
    assert (state_of(store, plain), task_of(store, plain).losses) == (State.RUNNABLE, 0)


def test_a_task_that_was_given_back_unbegun_runs_later(store: Store) -> None:
    id = submit_one(store, at_most_once=True)

    report(store, claim_one(store), Released())
    complete(store, claim_one(store))

    assert state_of(store, id) is State.COMPLETED


def test_an_operator_can_still_bring_it_back(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, at_most_once=True)
    claim_one(store)
    clock.advance(2 * SESSION_TTL)
    sweep_until_quiet(store)

    assert store.retry([id]) == 1
    again = claim_one(store)
    assert (task_of(store, again.id).generation, again.rules.at_most_once) == (1, True)
    report(store, again, Crashed(OOPS))

    assert state_of(store, id) is State.FAILED


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"retry": Retry(retries=5)}, "retries=5 and at_most_once=True contradict each other. Leave out one of them."),
        (
            {"retry": Retry(retries=0, rules=(ErrorRule(error="HTTP*", retries=2),))},
            "retries=2 and at_most_once=True contradict each other",
        ),
        ({"max_crashes": 1}, "max_crashes=1 and at_most_once=True contradict each other"),
        ({"max_crashes": -1, "at_most_once": False}, "max_crashes=-1 is not an integer from 0 to 1,000"),
        ({"max_crashes": 1_001, "at_most_once": False}, "max_crashes=1001"),
        ({"max_crashes": "2", "at_most_once": False}, "max_crashes='2'"),
        ({"max_crashes": True, "at_most_once": False}, "max_crashes=True"),
        ({"at_most_once": "no"}, "at_most_once='no' is a str; use True or False"),
    ],
)
def test_what_contradicts_it_is_refused(store: Store, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as refusal:
        submit_one(store, **{"at_most_once": True, **changes})

    assert text in str(refusal.value)
    assert claim_all(store) == []


@pytest.mark.parametrize("changes", [{}, {"retry": Retry(retries=0, base=MINUTE)}, {"max_crashes": 0}])
def test_it_means_no_retries_and_no_crash_is_forgiven(store: Store, changes: dict[str, Any]) -> None:
    rules = task_of(store, submit_one(store, at_most_once=True, timeout=SECOND, **changes)).rules

    assert (rules.at_most_once, rules.retry.retries, rules.max_crashes, rules.timeout) == (True, 0, 0, SECOND)
