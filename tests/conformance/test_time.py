from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    DAY,
    GAVE_UP,
    HOUR,
    MICROSECOND,
    MINUTE,
    RAISED,
    SECOND,
    a_session,
    a_task,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    report,
    run,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Raised, Returned
from windlass.core.task import Change
from windlass.core.times import micros
from windlass.errors import InvalidTask
from windlass.stores.protocol import RETENTION, SESSION_TTL, Settled, Store


def test_an_idle_store_has_nothing_to_sweep(store: Store) -> None:
    submit(store, a_task())

    swept = store.sweep()

    assert swept.quiet
    assert swept.next_due is None


def test_a_scheduled_task_is_runnable_when_it_is_due_and_no_sooner(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, delay=MINUTE)

    clock.advance(MINUTE - MICROSECOND)
    assert sweep_until_quiet(store).due == 0
    assert claim_all(store) == []

    clock.advance(MICROSECOND)
    assert sweep_until_quiet(store).due == 1
    assert claimed_ids(claim_all(store)) == [id]


def test_a_retrying_task_is_runnable_when_it_is_due_and_no_sooner(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    report(store, claim_one(store), Raised(RAISED.error, retry_in=micros(MINUTE)))

    clock.advance(MINUTE - MICROSECOND)
    sweep_until_quiet(store)
    assert state_of(store, id) is State.RETRYING

    clock.advance(MICROSECOND)
    sweep_until_quiet(store)
    assert state_of(store, id) is State.RUNNABLE
    assert task_of(store, id).attempts == 1


def test_the_sweep_says_when_the_next_task_is_due(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    submit(store, a_task(delay=HOUR), a_task(delay=MINUTE), a_task())

    assert sweep_until_quiet(store).next_due == start + micros(MINUTE) + 1

    clock.advance(MINUTE + SECOND)
    assert sweep_until_quiet(store).next_due == start + micros(HOUR)

    clock.advance(HOUR)
    assert sweep_until_quiet(store).next_due is None


@pytest.mark.parametrize("changes", [{}, {"delay": DAY}, {"prerequisites": ["blocker"]}], ids=str)
def test_a_queued_task_expires_at_its_hard_limit(
    store: Store, clock: ManualClock, changes: dict[str, timedelta]
) -> None:
    submit(store, a_task(key="blocker"))
    id = submit_one(store, expires=MINUTE, **changes)

    clock.advance(MINUTE - MICROSECOND)
    assert sweep_until_quiet(store).expired == 0

    clock.advance(MICROSECOND)
    assert sweep_until_quiet(store).expired == 1
    task = task_of(store, id)
    assert (task.state, task.finished) == (State.EXPIRED, clock.now())
    assert task.reason


def test_a_retrying_task_expires_at_its_hard_limit(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=MINUTE)
    run(store, RAISED)
    store.update(id, Change(at=HOUR))

    clock.advance(MINUTE)
    sweep_until_quiet(store)

    assert (state_of(store, id), len(store.attempts(id))) == (State.EXPIRED, 1)


def test_a_leased_task_is_not_expired_by_the_sweep(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=SECOND)
    claim_one(store)

    clock.advance(MINUTE / 6)
    sweep_until_quiet(store)

    assert state_of(store, id) is State.LEASED


def test_a_deadline_that_has_passed_ends_nothing(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, deadline=SECOND)

    clock.advance(HOUR)
    sweep_until_quiet(store)

    assert claimed_ids(claim_all(store)) == [id]


def test_finished_tasks_stay_for_the_retention_and_then_go(store: Store, clock: ManualClock) -> None:
    completed, cancelled, expired = submit(store, a_task(key="k"), a_task(), a_task(expires=-SECOND))
    complete(store, claim_one(store))
    store.cancel([cancelled], reason="not wanted")

    clock.advance(RETENTION)
    assert sweep_until_quiet(store).pruned == 0

    clock.advance(MICROSECOND)
    assert sweep_until_quiet(store).pruned == 3
    assert store.get([completed, cancelled, expired]) == [None, None, None]
    assert store.attempts(completed) == []
    assert store.counts() == []
    assert store.submit([a_task(key="k", handler="other")])[0].created


def test_the_retention_may_be_chosen(home: Home, clock: ManualClock) -> None:
    store = home.open(clock, retention=MINUTE)
    id = submit_one(store)
    complete(store, claim_one(store))

    clock.advance(MINUTE + SECOND)
    sweep_until_quiet(store)

    assert store.get([id]) == [None]


def test_dead_letters_stay_until_they_are_purged(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    run(store, GAVE_UP)

    clock.advance(10 * RETENTION)
    sweep_until_quiet(store)

    assert (state_of(store, id), len(store.attempts(id))) == (State.FAILED, 1)
    assert store.purge([id]) == 1


def test_unfinished_tasks_stay_whatever_their_age(store: Store, clock: ManualClock) -> None:
    ids = submit(store, a_task(), a_task(delay=100 * RETENTION))

    clock.advance(10 * RETENTION)
    sweep_until_quiet(store)

    assert states_of(store, ids) == [State.RUNNABLE, State.SCHEDULED]


def test_the_tasks_of_a_workflow_stay_until_all_of_them_have_ended(store: Store, clock: ManualClock) -> None:
    done, last = submit(store, a_task(workflow="w"), a_task(workflow="w"))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)
    assert state_of(store, done) is State.COMPLETED

    complete(store, claim_one(store))
    clock.advance(SECOND)
    sweep_until_quiet(store)
    assert store.get([done]) == [None]
    assert state_of(store, last) is State.COMPLETED


def test_a_workflow_of_one_tenant_does_not_keep_that_of_another(store: Store, clock: ManualClock) -> None:
    done, _ = submit(store, a_task(workflow="w"), a_task(workflow="w", tenant="acme"))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)

    assert store.get([done]) == [None]


def test_a_pruned_prerequisite_leaves_what_waited_for_it_as_it_is(store: Store, clock: ManualClock) -> None:
    a, _, child = submit(store, a_task(key="a"), a_task(key="b"), a_task(key="c", prerequisites=["a", "b"]))
    complete(store, claim_one(store))

    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)
    assert store.get([a]) == [None]
    assert task_of(store, child).waiting == 1

    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE


@pytest.mark.parametrize("span", [timedelta.max, timedelta.min], ids=["beyond all bounds", "before all time"])
def test_a_span_of_time_that_no_store_can_hold_is_refused_by_name(store: Store, span: timedelta) -> None:
    id = submit_one(store)

    with pytest.raises(InvalidTask, match="ttl"):
        store.open_session("node", span)
    with pytest.raises(InvalidTask, match="grace"):
        store.cancel([id], reason="not wanted", grace=span)
    with pytest.raises(InvalidTask, match="forward"):
        store.open_workflow("w", forward=span)

    assert state_of(store, id) is State.RUNNABLE


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
