"""A batch that is written in chunks is still atomic, ordered, and checked as a whole."""

from __future__ import annotations

import pytest

from tests.support.builders import (
    HOUR,
    SECOND,
    a_task,
    after,
    all_tasks,
    counted,
    recounted,
    run_all,
    state_of,
    states_of,
    submit,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core import submission
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.task import NewTask
from windlass.errors import CycleFound, DuplicateTask, InvalidTask, KeyConflict, QueueFull, UnknownPrerequisite
from windlass.stores.postgres import fast_submit
from windlass.stores.protocol import Receipt, Store
from windlass.stores.sql import submit as sql_submit


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (submission, sql_submit, fast_submit):
        monkeypatch.setattr(module, "CHUNK", 3)


def test_plain_tasks_are_stored_in_order(store: Store, clock: ManualClock) -> None:
    receipts = store.submit([a_task(args={"n": n}) for n in range(20)])

    assert [receipt.created for receipt in receipts] == [True] * 20
    assert [task_of(store, receipt.id).args for receipt in receipts] == [f'{{"n":{n}}}' for n in range(20)]
    clock.advance(SECOND)
    assert run_all(store) == [receipt.id for receipt in receipts]


def test_receipts_of_new_and_known_tasks_come_in_the_order_of_the_batch(store: Store) -> None:
    submit(store, *(a_task(key=f"k{n}") for n in range(0, 20, 3)))

    receipts = store.submit([a_task(key=f"k{n}", delay=HOUR if n % 2 else None) for n in range(20)])

    assert receipts == [
        Receipt(
            keyed_id("default", None, f"k{n}"),
            bool(n % 3),
            State.SCHEDULED if n % 2 and n % 3 else State.RUNNABLE,
        )
        for n in range(20)
    ]
    assert counted(store) == recounted(store)


@pytest.mark.parametrize("backwards", [False, True])
def test_prerequisites_reach_over_chunks(store: Store, clock: ManualClock, backwards: bool) -> None:
    chain = [after(f"k{n}", *([f"k{n - 1}"] if n else []), workflow="w") for n in range(14)]

    submit(store, *(chain[::-1] if backwards else chain))
    clock.advance(SECOND)

    assert run_all(store) == [keyed_id("default", "w", f"k{n}") for n in range(14)]


def test_a_wide_fan_in_reaches_over_chunks(store: Store, clock: ManualClock) -> None:
    *parts, join = submit(
        store, *(a_task(key=f"p{n}") for n in range(14)), after("join", *(f"p{n}" for n in range(14)))
    )
    clock.advance(SECOND)

    assert task_of(store, join).waiting == 14
    assert run_all(store) == [*parts, join]


@pytest.mark.parametrize(
    ("last", "refusal"),
    [
        (a_task(timeout=-SECOND), InvalidTask),
        (a_task(args={"n": {1}}), InvalidTask),
        (after("x", "nobody"), UnknownPrerequisite),
        (after("k0", "k9"), DuplicateTask),
        (a_task(key="known", handler="other"), KeyConflict),
        (a_task(queue="small"), QueueFull),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_refusal_in_the_last_chunk_leaves_nothing_of_the_first(
    store: Store, last: NewTask, refusal: type[Exception]
) -> None:
    store.configure(Queue(name="small", max_waiting=0))
    submit(store, a_task(key="known"))

    with pytest.raises(refusal):
        store.submit([*(a_task(key=f"k{n}") for n in range(10)), last])

    assert len(all_tasks(store)) == 1


def test_a_cycle_over_chunks_is_refused(store: Store) -> None:
    with pytest.raises(CycleFound) as refused:
        store.submit([after(f"k{n}", f"k{(n + 1) % 10}") for n in range(10)])

    assert len(refused.value.cycle) == 10
    assert all_tasks(store) == []


def test_a_queue_takes_exactly_as_many_as_it_may_hold(store: Store) -> None:
    store.configure(Queue(name="default", max_waiting=10))

    with pytest.raises(QueueFull):
        store.submit([a_task() for _ in range(11)])
    assert all_tasks(store) == []
    assert len(store.submit([a_task() for _ in range(10)])) == 10


def test_tasks_that_end_at_once_end_their_dependents_in_other_chunks(store: Store) -> None:
    batch = [a_task(key=f"e{n}", expires=-SECOND) for n in range(7)]

    receipts = store.submit([*(after(f"w{n}", f"e{n}") for n in range(7)), *batch])
    sweep_until_quiet(store)

    assert {receipt.state for receipt in receipts[7:]} == {State.EXPIRED}
    assert set(states_of(store, [receipt.id for receipt in receipts[:7]])) == {State.CANCELLED}


def test_roots_in_every_chunk_wait_for_the_seal(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False)
    ids = submit(store, *(a_task(workflow="w", key=f"k{n}") for n in range(10)))
    assert {state_of(store, id) for id in ids} == {State.WAITING}

    store.seal_workflow("w")
    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert {state_of(store, id) for id in ids} == {State.RUNNABLE}


def test_placeholders_are_filled_from_every_chunk(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    [last] = submit(store, after("last", *(f"k{n}" for n in range(10)), workflow="w"))

    ids = submit(store, *(a_task(workflow="w", key=f"k{n}") for n in range(10)))
    clock.advance(SECOND)

    assert run_all(store) == [*ids, last]
