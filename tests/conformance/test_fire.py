from __future__ import annotations

import pytest

from tests.support.builders import a_task, all_tasks, at_once, counted, recounted
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.task import NewTask
from windlass.errors import InvalidTask, QueueFull, UnknownCron
from windlass.stores.protocol import Store

DAILY = CronInfo(name="daily", handler="work", schedule="0 6 * * *")


@pytest.fixture(autouse=True)
def _daily(store: Store) -> None:
    store.publish(Manifest(crons=(DAILY,)))


def fired(store: Store) -> int | None:
    [cron] = store.crons()
    return cron.fired


def test_the_tasks_of_a_cron_are_submitted_and_the_time_is_noted(store: Store) -> None:
    receipts = store.fire("daily", 1_000, [a_task(), a_task()])

    assert receipts is not None
    assert [(receipt.created, receipt.state) for receipt in receipts] == [(True, State.RUNNABLE)] * 2
    assert {task.id for task in all_tasks(store)} == {receipt.id for receipt in receipts}
    assert fired(store) == 1_000


@pytest.mark.parametrize("nominal", [1_000, 999])
def test_the_same_time_or_an_earlier_one_is_not_fired_again(store: Store, nominal: int) -> None:
    store.fire("daily", 1_000, [])

    assert store.fire("daily", nominal, [a_task()]) is None
    assert all_tasks(store) == []
    assert fired(store) == 1_000


def test_a_time_may_be_passed_over_without_tasks(store: Store) -> None:
    assert store.fire("daily", 1_000, []) == []
    assert store.fire("daily", 2_000, []) == []
    assert fired(store) == 2_000


def test_a_paused_cron_does_not_fire_until_it_is_let_go(store: Store) -> None:
    store.pause_cron("daily", True)
    paused = store.fire("daily", 1_000, [a_task()]), all_tasks(store), fired(store)
    store.pause_cron("daily", False)

    assert paused == (None, [], None)
    assert store.fire("daily", 1_000, [a_task()]) is not None


def test_a_cron_that_is_unknown_cannot_fire(store: Store) -> None:
    with pytest.raises(UnknownCron):
        store.fire("weekly", 1_000, [a_task()])

    assert all_tasks(store) == []


def test_a_refused_batch_leaves_the_time_open(store: Store) -> None:
    store.configure(Queue(name="full", max_waiting=0))
    for refused, error in ((a_task(handler=""), InvalidTask), (a_task(queue="full"), QueueFull)):
        with pytest.raises(error):
            store.fire("daily", 1_000, [a_task(), refused])

    assert fired(store) is None
    assert all_tasks(store) == []


def test_a_batch_of_keys_that_are_known_is_answered_with_what_is_there(store: Store) -> None:
    [known] = store.submit([a_task(key="report")])

    receipts = store.fire("daily", 1_000, [a_task(key="report")])

    assert receipts is not None
    assert [(receipt.id, receipt.created) for receipt in receipts] == [(known.id, False)]


@pytest.mark.parametrize("task", [a_task(), a_task(prerequisites=["above"])], ids=["alone", "with a prerequisite"])
def test_however_many_nodes_fire_at_once_each_time_is_fired_once(store: Store, task: NewTask) -> None:
    store.submit([a_task(key="above")])
    times = range(1_000, 1_010)

    def node(_: int) -> list[int]:
        return [nominal for nominal in times if store.fire("daily", nominal, [task]) is not None]

    won = at_once(6, node)

    assert sorted(nominal for mine in won for nominal in mine) == list(times)
    assert len(all_tasks(store)) == 1 + len(times)
    assert counted(store) == recounted(store)


def test_several_stores_on_the_same_data_fire_once(store: Store, home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]

    answers = at_once(4, lambda n: stores[n].fire("daily", 1_000, [a_task()]))

    assert len([answer for answer in answers if answer is not None]) == len(all_tasks(store)) == 1
