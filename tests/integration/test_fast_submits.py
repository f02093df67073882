"""The fast path of a submit is taken for plain tasks, and writes what the regular path writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
import pytest
from msgspec.structs import replace

from tests.support.builders import a_task, all_tasks, claim_all, claim_one, counted, recounted, submit_one, task_of
from windlass.core.ordering import Queue, Strategy
from windlass.core.submission import CHUNK
from windlass.core.task import NewTask, Task
from windlass.errors import QueueFull
from windlass.stores.coordination import Entry
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.fast_submit import SubmitPath
from windlass.stores.postgres.transaction import PostgresTransaction

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


def paths(store: PostgresStore) -> dict[SubmitPath, int]:
    return dict(store.fast_submits.counts)


def test_it_writes_what_the_regular_path_writes(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = submit(store, TASKS)
    monkeypatch.setattr(store.fast_submits, "_pooler", True)
    regular = submit(store, TASKS)

    assert paths(store) == {SubmitPath.FAST: 1, SubmitPath.POOLER: 1}
    assert [without_times(task) for task in fast] == [without_times(task) for task in regular]
    assert [task.due - task.submitted for task in fast] == [0, 1, 2]
    assert counted(store) == recounted(store)


def test_a_batch_keeps_its_order(store: PostgresStore) -> None:
    ids = [receipt.id for receipt in store.submit([a_task()] * 50)]

    assert paths(store) == {SubmitPath.FAST: 1}
    assert [claim.id for claim in claim_all(store)] == ids


@pytest.mark.parametrize(
    "task",
    [a_task(), a_task(priority=5, tenant="acme"), a_task(queue="other", slots=3), a_task(args={"n": 1}, timeout=None)],
    ids=["default", "priority and tenant", "queue and slots", "arguments"],
)
def test_a_plain_task_takes_the_fast_path(store: PostgresStore, task: NewTask) -> None:
    store.submit([task])

    assert paths(store) == {SubmitPath.FAST: 1}


@pytest.mark.parametrize(
    "task",
    [a_task(key="k"), a_task(workflow="w"), a_task(delay=timedelta(hours=1)), a_task(expires=timedelta(hours=1))],
    ids=["key", "workflow", "delay", "expires"],
)
def test_a_task_that_is_not_plain_takes_the_regular_path(
    store: PostgresStore, caplog: pytest.LogCaptureFixture, task: NewTask
) -> None:
    with caplog.at_level(logging.DEBUG, logger="windlass.stores.postgres.fast_submit"):
        store.submit([task])

    assert paths(store) == {SubmitPath.NOT_PLAIN: 1}
    assert "a submit of 1 tasks takes the regular path: not_plain" in caplog.text


def submit_for_an_attempt(store: PostgresStore) -> None:
    submit_one(store)
    lease = claim_one(store).lease
    store.fast_submits.counts.clear()
    store.submit([a_task()], lease=lease)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (submit_for_an_attempt, SubmitPath.LEASE),
        (
            lambda store: store.submit([a_task()], entries=[Entry(subject="task/a", action="ran", text="Run a.")]),
            SubmitPath.ENTRIES,
        ),
        (lambda store: store.submit([a_task()] * (CHUNK + 1)), SubmitPath.LARGE),
    ],
    ids=["lease", "entries", "large batch"],
)
def test_every_other_fallback_is_counted(
    store: PostgresStore, call: Callable[[PostgresStore], object], path: SubmitPath
) -> None:
    call(store)

    assert paths(store) == {path: 1}


@pytest.mark.parametrize(("statement", "tasks"), [("enqueue_one", 1), ("enqueue", 2)])
def test_a_statement_that_fails_is_counted_and_the_regular_path_writes_the_tasks(
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    statement: str,
    tasks: int,
) -> None:
    real = PostgresTransaction.query

    def fail(self: PostgresTransaction, sent: str, *args: object, **scalars: object) -> object:
        if sent == statement:
            raise psycopg.errors.QueryCanceled("canceled")
        return real(self, sent, *args, **scalars)  # type: ignore[arg-type]

    monkeypatch.setattr(PostgresTransaction, "query", fail)
    with caplog.at_level(logging.DEBUG, logger="windlass.stores.postgres"):
        store.submit([a_task()] * tasks)

    assert paths(store) == {SubmitPath.FAILED: 1}
    assert f"the statement {statement} failed: canceled" in caplog.text
    assert len(all_tasks(store)) == tasks


@pytest.mark.parametrize("strategy", [Strategy.FIFO, Strategy.DEADLINE, Strategy.AGING])
def test_a_queue_with_another_order_takes_the_regular_path(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, strategy: Strategy
) -> None:
    store.configure(Queue(name="default", strategy=strategy))
    sent: list[str] = []
    real = store.fast_submits._db.run_shortcut
    monkeypatch.setattr(
        store.fast_submits._db, "run_shortcut", lambda *given, **named: sent.append(given[0]) or real(*given, **named)
    )

    submit(store, [a_task(), a_task()])
    submit(store, [a_task()])

    assert paths(store) == {SubmitPath.QUEUE: 2}
    assert sent == ["enqueue"], "the second submit does not try the fast path"
    assert len(all_tasks(store)) == 3


def test_the_limit_of_a_queue_holds(store: PostgresStore) -> None:
    store.configure(Queue(name="default", max_waiting=2))

    store.submit([a_task(), a_task()])

    with pytest.raises(QueueFull):
        store.submit([a_task()])


def test_a_paused_queue_accepts_tasks(store: PostgresStore) -> None:
    store.configure(Queue(name="default", paused=True))

    submit(store, [a_task()])

    assert paths(store) == {SubmitPath.FAST: 1}
    assert claim_all(store) == []


def submit(store: PostgresStore, tasks: list[NewTask]) -> list[Task]:
    return [task_of(store, receipt.id) for receipt in store.submit(tasks)]


def without_times(task: Task) -> Task:
    return replace(task, id=None, due=0, submitted=0)  # type: ignore[arg-type]
