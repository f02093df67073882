from __future__ import annotations

import pytest

from tests.support.builders import a_task
from windlass.core.ids import fresh_id
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store


def test_those_that_are_claimed_first_are_ahead(store: Store) -> None:
    session = store.open_session("here")
    receipts = store.submit([a_task(priority=priority) for priority in (0, 5, 0, 9, 0)])
    store.submit([a_task(queue="elsewhere", priority=99)])

    ahead = {receipt.id: store.ahead(receipt.id) for receipt in receipts}
    order = [claim.task.id for claim in store.claim(session, ["default"], 10)]

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
