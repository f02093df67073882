from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import a_task
from windlass.clock import ManualClock
from windlass.core.ids import fresh_id
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import TaskId
from windlass.core.times import micros
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store


def test_those_that_are_claimed_first_are_ahead(store: Store) -> None:
    session = store.open_session("here")
    receipts = store.submit([a_task(priority=priority) for priority in (0, 5, 0, 9, 0)])
    store.submit([a_task(queue="elsewhere", priority=99)])

    ahead = {receipt.id: store.ahead(receipt.id) for receipt in receipts}
    order = [claim.id for claim in store.claim(session, ["default"], 10)]

    assert [ahead[id] for id in order] == [0, 1, 2, 3, 4]


def test_nothing_is_ahead_of_what_is_not_runnable(store: Store) -> None:
    session = store.open_session("here")
    [first, second] = store.submit([a_task(), a_task(priority=-1)])
    store.claim(session, ["default"], 1)

    assert store.ahead(first.id) == 0
    assert store.ahead(second.id) == 0
    assert store.ahead(TaskId(fresh_id(0, 7))) == 0


def test_counting_stops_at_the_limit(store: Store) -> None:
    receipts = store.submit([a_task() for _ in range(20)])

    assert store.ahead(receipts[-1].id, limit=5) == 5
    with pytest.raises(InvalidTask, match="limit"):
        store.ahead(receipts[-1].id, limit=0)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_new_task_has_as_many_ahead_as_once_it_is_submitted(
    store: Store, clock: ManualClock, strategy: Strategy
) -> None:
    store.configure(Queue(name="default", strategy=strategy))
    store.submit([a_task(priority=n % 5, deadline=timedelta(minutes=n % 7)) for n in range(30)])
    store.submit([a_task(queue="elsewhere", priority=99)])
    found: list[tuple[int, int | None]] = []

    for priority, minutes in [(0, 3), (3, None), (9, 1), (-1, 6)]:
        length = None if minutes is None else timedelta(minutes=minutes)
        clock.advance(timedelta(seconds=1))
        due = clock.now()
        deadline = None if length is None else due + micros(length)
        expected = store.ahead_of_new("default", priority=priority, deadline=deadline, due=due)
        [receipt] = store.submit([a_task(priority=priority, deadline=length)])
        found.append((expected, store.ahead(receipt.id)))

    assert [expected for expected, _ in found] == [ahead for _, ahead in found]
    assert store.ahead_of_new("default", due=2**60, priority=-9, limit=7) == 7
    assert store.ahead_of_new("unknown", due=2**60) == 0
