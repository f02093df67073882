"""The short way of a submit gives what the long way would have given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.support.builders import a_task, all_tasks, claim_all, counted, recounted, task_of
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import NewTask, Task
from windlass.errors import QueueFull
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.database import PostgresDatabase

TASKS = [
    a_task(args={"text": 'a "quoted" \\ text'}, priority=3, tenant="acme", slots=2),
    a_task(args={}, priority=-1, queue="other"),
    a_task(args={"none": None}, handler="some.other"),
]


@pytest.fixture
def store(migrated_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(migrated_url)
    yield store
    store.close()


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each try of the short way, whether it was gone."""
    real, taken = PostgresDatabase.alone, list[bool]()

    def alone(*given: object, **named: object) -> object:
        answer = real(*given, **named)  # type: ignore[arg-type]
        taken.append(bool(answer))
        return answer

    monkeypatch.setattr(PostgresDatabase, "alone", alone)
    return taken


def test_it_writes_what_the_long_way_writes(
    store: PostgresStore, ways: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = submitted(store, TASKS)
    monkeypatch.setattr(store, "_plain", None)
    long = submitted(store, TASKS)

    assert ways == [True]
    assert [without_moments(task) for task in short] == [without_moments(task) for task in long]
    assert [task.due - task.submitted for task in short] == [0, 1, 2]
    assert counted(store) == recounted(store)


def test_a_batch_keeps_its_order(store: PostgresStore) -> None:
    ids = [receipt.id for receipt in store.submit([a_task()] * 50)]

    assert [claim.task.id for claim in claim_all(store)] == ids


@pytest.mark.parametrize("strategy", [Strategy.FIFO, Strategy.DEADLINE, Strategy.AGING])
def test_a_queue_with_an_order_of_its_own_goes_the_long_way(
    store: PostgresStore, ways: list[bool], strategy: Strategy
) -> None:
    store.configure(Queue(name="default", strategy=strategy))

    submitted(store, [a_task(), a_task()])
    submitted(store, [a_task()])

    assert ways == [False], "and is not asked about again for a while"
    assert len(all_tasks(store)) == 3


def test_a_limit_holds_on_the_way_it_goes(store: PostgresStore) -> None:
    store.configure(Queue(name="default", max_waiting=2))

    store.submit([a_task(), a_task()])

    with pytest.raises(QueueFull):
        store.submit([a_task()])


def test_a_paused_queue_takes_tasks_all_the_same(store: PostgresStore, ways: list[bool]) -> None:
    store.configure(Queue(name="default", paused=True))

    submitted(store, [a_task()])

    assert ways == [True]
    assert claim_all(store) == []


def submitted(store: PostgresStore, tasks: list[NewTask]) -> list[Task]:
    return [task_of(store, receipt.id) for receipt in store.submit(tasks)]


def without_moments(task: Task) -> Task:
    return replace(task, id=None, due=0, submitted=0)  # type: ignore[arg-type]
