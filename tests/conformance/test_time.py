from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    RAISED,
    SECOND,
    a_task,
    claim_all,
    claim_one,
    claimed_ids,
    report,
    run,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Raised
from windlass.core.task import Change
from windlass.core.times import micros
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store


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
