from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    GAVE_UP,
    OOPS,
    RAISED,
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
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.settlement import (
    COMPLETED,
    RELEASED,
    Crashed,
    Outcome,
    Released,
    Returned,
    Stopped,
)
from windlass.core.task import SessionId, TaskId
from windlass.stores.protocol import LeaseLost, Settled, Store


def named(outcome: Outcome) -> str:
    """A short name for a parametrised test."""
    return {GAVE_UP: "gave up", Released(delay=1_000): "released with a delay"}.get(outcome, type(outcome).__name__)


REPEATED: list[Outcome] = [
    Returned("1"),
    RAISED,
    GAVE_UP,
    Crashed(OOPS),
    Released(),
    Released(delay=1_000),
    Stopped(State.EXPIRED, "overran"),
]


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
