from __future__ import annotations

from datetime import timedelta

from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    a_session,
    a_task,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    run,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.stores.protocol import SESSION_TTL, Settled, Store


def test_a_clock_that_jumps_ahead_expires_only_what_is_past_its_limit(store: Store, clock: ManualClock) -> None:
    tight, loose, none = submit(store, a_task(expires=MINUTE), a_task(expires=DAY), a_task())

    clock.advance(HOUR)
    sweep_until_quiet(store)

    assert states_of(store, [tight, loose, none]) == [State.EXPIRED, State.RUNNABLE, State.RUNNABLE]


def test_a_clock_set_back_takes_no_lease_away(store: Store, clock: ManualClock) -> None:
    ids = submit(store, a_task(), a_task())
    session = a_session(store)
    claims = claim_all(store, session)

    clock.advance(-HOUR)
    sweep_until_quiet(store)
    assert store.renew(session) == []
    clock.advance(SESSION_TTL)
    sweep_until_quiet(store)

    assert states_of(store, ids) == [State.LEASED, State.LEASED]
    assert complete(store, *claims) == [Settled(claim.lease, State.COMPLETED) for claim in claims]


def test_a_session_that_died_before_the_clock_was_set_back_is_lost_in_its_time(
    store: Store, clock: ManualClock
) -> None:
    id = submit_one(store)
    dead, alive = a_session(store), a_session(store)
    claim_one(store, dead)

    clock.advance(-HOUR)
    assert store.sweep().lost_sessions == 0
    clock.advance(SESSION_TTL / 2)
    store.renew(alive)
    clock.advance(SESSION_TTL / 2 + timedelta(seconds=1))
    swept = store.sweep()

    assert (swept.lost_sessions, swept.requeued) == (1, 1)
    assert state_of(store, id) is State.RUNNABLE


def test_a_clock_set_back_keeps_fences_growing_and_ends_final(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    first = claim_one(store)
    store.close_session(first.lease.session)

    clock.advance(-HOUR)
    second = claim_one(store)
    complete(store, second)
    clock.advance(-HOUR)
    sweep_until_quiet(store)

    assert second.lease.fence > first.lease.fence
    assert state_of(store, id) is State.COMPLETED


def test_a_runnable_task_stays_runnable_when_the_clock_is_set_back(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, delay=MINUTE)
    clock.advance(MINUTE)
    sweep_until_quiet(store)

    clock.advance(-HOUR)
    sweep_until_quiet(store)

    assert claimed_ids(claim_all(store)) == [id]


def test_a_task_passed_over_as_too_late_is_claimed_when_the_clock_is_set_back(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=MINUTE)
    clock.advance(HOUR)
    assert claim_all(store) == []

    clock.advance(-HOUR)

    assert claimed_ids(claim_all(store)) == [id]


def test_a_task_due_by_the_old_clock_still_comes(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, delay=MINUTE)
    clock.advance(-HOUR)
    sweep_until_quiet(store)
    assert state_of(store, id) is State.SCHEDULED

    clock.advance(HOUR + MINUTE)
    sweep_until_quiet(store)

    assert run(store, Returned()) == id
