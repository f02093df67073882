from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.builders import (
    HOUR,
    SECOND,
    a_task,
    all_tasks,
    claim_all,
    claimed_ids,
    submit,
    submit_one,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.times import micros, to_datetime
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("field", ["delay", "at"])
def test_a_task_for_later_is_scheduled(store: Store, clock: ManualClock, field: str) -> None:
    moment = HOUR if field == "delay" else to_datetime(clock.now()) + HOUR

    [receipt] = store.submit([a_task(**{field: moment})])

    assert receipt.state is State.SCHEDULED
    assert task_of(store, receipt.id).due == clock.now() + micros(HOUR)
    assert claim_all(store) == []


@pytest.mark.parametrize(
    "changes", [{"delay": -SECOND}, {"delay": timedelta(0)}, {"at": datetime(2001, 1, 1, tzinfo=UTC)}]
)
def test_a_task_for_earlier_is_due_now(store: Store, clock: ManualClock, changes: dict[str, Any]) -> None:
    [receipt] = store.submit([a_task(**changes)])

    assert receipt.state is State.RUNNABLE
    assert task_of(store, receipt.id).due == clock.now()


@pytest.mark.parametrize("field", ["at", "deadline", "expires"])
def test_a_time_with_another_zone_is_the_same_moment(store: Store, clock: ManualClock, field: str) -> None:
    moment = to_datetime(clock.now() + micros(HOUR)).astimezone(ZoneInfo("Asia/Kathmandu"))

    task = task_of(store, submit_one(store, **{field: moment}))

    assert (task.due if field == "at" else getattr(task, field)) == clock.now() + micros(HOUR)


@pytest.mark.parametrize("field", ["delay", "at", "deadline", "expires"])
@pytest.mark.parametrize("moment", [LONG_AGO.replace(tzinfo=None), 30, "10m"], ids=str)
def test_a_time_without_a_zone_is_refused(store: Store, field: str, moment: object) -> None:
    with pytest.raises(InvalidTask, match=field):
        store.submit([a_task(), a_task(**{field: moment})])

    assert all_tasks(store) == []


@pytest.mark.parametrize("field", ["delay", "at", "deadline", "expires"])
def test_a_time_that_no_store_can_hold_is_refused(store: Store, field: str) -> None:
    with pytest.raises(InvalidTask, match=field):
        store.submit([a_task(), a_task(**{field: timedelta.max})])

    assert all_tasks(store) == []


def test_delay_and_at_together_are_refused(store: Store, clock: ManualClock) -> None:
    with pytest.raises(InvalidTask, match="delay and at"):
        store.submit([a_task(delay=SECOND, at=to_datetime(clock.now()))])


@pytest.mark.parametrize("expires", [timedelta(0), -SECOND])
def test_a_task_submitted_after_its_expiry_time_is_expired_at_once(
    store: Store, clock: ManualClock, expires: timedelta
) -> None:
    [receipt] = store.submit([a_task(expires=expires)])

    task = task_of(store, receipt.id)
    assert receipt.state is task.state is State.EXPIRED
    assert task.finished == clock.now()
    assert task.reason


def test_a_batch_keeps_its_order_by_the_microsecond(store: Store, clock: ManualClock) -> None:
    ids = submit(store, *(a_task() for _ in range(50)))

    assert [task_of(store, id).due - clock.now() for id in ids] == list(range(50))
    assert claimed_ids(claim_all(store)) == ids
