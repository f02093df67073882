from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import (
    DAY,
    HOUR,
    SECOND,
    in_state,
    state_of,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import Change
from windlass.core.times import micros, to_datetime
from windlass.errors import InvalidTask, NotAllowed, UnknownTask
from windlass.stores.protocol import Store

UNFINISHED = [State.WAITING, State.SCHEDULED, State.RUNNABLE, State.RETRYING, State.LEASED]
FINAL = [State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED]
NOBODY = keyed_id("default", None, "nobody")


@pytest.mark.parametrize("state", UNFINISHED)
def test_every_unfinished_task_can_be_changed(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    before = task_of(store, id)

    answer = store.update(id, Change(priority=7, deadline=HOUR, expires=to_datetime(clock.now()) + DAY))

    task = task_of(store, id)
    assert answer == task
    assert (task.state, task.priority, task.due) == (state, 7, before.due)
    assert (task.deadline, task.expires) == (clock.now() + micros(HOUR), clock.now() + micros(DAY))


def test_a_change_leaves_alone_what_it_does_not_name_and_may_take_limits_away(store: Store) -> None:
    id = submit_one(store, priority=3, deadline=HOUR, expires=DAY)
    before = task_of(store, id)
    store.update(id, Change())
    assert task_of(store, id) == before

    store.update(id, Change(deadline=None, expires=None))

    task = task_of(store, id)
    assert (task.priority, task.deadline, task.expires) == (3, None, None)


@pytest.mark.parametrize(
    ("state", "at", "becomes"),
    [
        (State.RUNNABLE, HOUR, State.SCHEDULED),
        (State.RUNNABLE, -HOUR, State.RUNNABLE),
        (State.SCHEDULED, timedelta(0), State.RUNNABLE),
        (State.SCHEDULED, None, State.RUNNABLE),
        (State.SCHEDULED, HOUR, State.SCHEDULED),
        (State.RETRYING, -HOUR, State.RUNNABLE),
        (State.RETRYING, HOUR, State.RETRYING),
        (State.WAITING, HOUR, State.WAITING),
        (State.LEASED, HOUR, State.LEASED),
    ],
)
def test_a_new_due_time_makes_a_task_runnable_or_not(
    store: Store, clock: ManualClock, state: State, at: timedelta | None, becomes: State
) -> None:
    id = in_state(store, state)

    store.update(id, Change(at=at))

    task = task_of(store, id)
    assert (task.state, task.due) == (becomes, clock.now() + micros(at or timedelta(0)))


def test_an_update_can_bring_the_hard_limit_near(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)

    store.update(id, Change(expires=SECOND))
    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert state_of(store, id) is State.EXPIRED


@pytest.mark.parametrize("state", FINAL)
def test_a_task_that_has_ended_cannot_be_changed(store: Store, clock: ManualClock, state: State) -> None:
    id = in_state(store, state)
    before = task_of(store, id)

    with pytest.raises(NotAllowed):
        store.update(id, Change(priority=1))

    assert task_of(store, id) == before


def test_an_unknown_task_cannot_be_changed(store: Store) -> None:
    with pytest.raises(UnknownTask) as refused:
        store.update(NOBODY, Change(priority=1))

    assert refused.value.task == NOBODY


@pytest.mark.parametrize("change", [{"priority": 1_000_001}, {"deadline": 7}, {"at": "now"}, {"expires": 0}], ids=str)
def test_a_bad_change_is_refused_by_name_and_changes_nothing(store: Store, change: dict[str, Any]) -> None:
    id = submit_one(store)
    before = task_of(store, id)

    with pytest.raises(InvalidTask, match=next(iter(change))):
        store.update(id, Change(**change))

    assert task_of(store, id) == before
