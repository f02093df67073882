"""Unique tasks and debounce."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.support.builders import (
    GAVE_UP,
    RAISED,
    a_session,
    a_task,
    all_tasks,
    at_once,
    claim_one,
    counted,
    recounted,
    report,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.settlement import Outcome, Released, Returned
from windlass.core.task import NewTask, TaskId, Unique
from windlass.core.times import micros
from windlass.errors import InvalidTask, QueueFull
from windlass.stores.protocol import Receipt, Store

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
NAMES: list[dict[str, Any]] = [{"key": "first"}, {"id": TaskId(UUID("01987d5e-0000-7000-8000-0000000000ab"))}]


def unique(n: int = 1, *, task: dict[str, Any] | None = None, **fields: Any) -> NewTask:
    return a_task(args={"n": n}, unique=Unique(**fields), **(task or {}))


def debounced(n: int = 1, **fields: Any) -> NewTask:
    return unique(n, key="k", **{"debounce": 5 * SECOND, **fields})


def submit(store: Store, *tasks: NewTask) -> list[Receipt]:
    return store.submit(tasks)


def test_while_an_equal_task_is_queued_no_second_one_is_created(store: Store) -> None:
    [first] = submit(store, unique(task={"delay": MINUTE}))

    [again] = submit(store, unique())
    [other] = submit(store, unique(2))

    assert (first.created, again, other.created) == (True, Receipt(first.id, False, State.SCHEDULED), True)
    assert len(all_tasks(store)) == 2
    assert counted(store) == recounted(store)


@pytest.mark.parametrize("scope", [{"tenant": "t"}, {"queue": "q"}, {"handler": "h"}])
def test_tasks_of_another_tenant_queue_or_handler_are_not_equal(store: Store, scope: dict[str, str]) -> None:
    for receipt in submit(store, unique(key="k"), unique(key="k", task=scope), unique(2, key="j")):
        assert receipt.created


def test_a_key_decides_in_place_of_the_arguments(store: Store) -> None:
    [first, second, third] = submit(store, unique(1, key="k"), unique(2, key="k"), unique(2))

    assert second == Receipt(first.id, False, State.RUNNABLE)
    assert third.created
    assert task_of(store, first.id).args == '{"n":1}'


def test_a_task_that_has_started_counts_only_within_its_period(store: Store, clock: ManualClock) -> None:
    [plain] = submit(store, unique(1))
    [kept] = submit(store, unique(2, period=MINUTE))
    claims = [claim_one(store), claim_one(store)]

    [after_plain] = submit(store, unique(1))
    [while_running] = submit(store, unique(2, period=MINUTE))
    for claim in claims:
        report(store, claim, Returned())
    [when_completed] = submit(store, unique(2, period=MINUTE))
    clock.advance(MINUTE)
    [later] = submit(store, unique(2, period=MINUTE))

    assert after_plain.created
    assert after_plain.id != plain.id
    assert while_running == Receipt(kept.id, False, State.LEASED)
    assert when_completed == Receipt(kept.id, False, State.COMPLETED)
    assert later.created


def test_a_task_that_failed_or_was_cancelled_never_counts_and_one_that_waits_for_its_retry_does(store: Store) -> None:
    [failed] = submit(store, unique(1, period=MINUTE))
    report(store, claim_one(store), GAVE_UP)
    [cancelled] = submit(store, unique(2, period=MINUTE))
    store.cancel([cancelled.id], reason="enough")
    [retrying] = submit(store, unique(3))
    report(store, claim_one(store), RAISED)

    again = submit(store, unique(1, period=MINUTE), unique(2, period=MINUTE), unique(3))

    assert [receipt.created for receipt in again] == [True, True, False]
    assert again[2] == Receipt(retrying.id, False, State.RETRYING)
    assert failed.id != again[0].id


def test_a_unique_task_may_wait_for_others_and_may_have_a_key(store: Store) -> None:
    [above] = submit(store, a_task(key="above"))
    [waiting] = submit(store, unique(task={"prerequisites": [above.id], "key": "mine"}))

    [again] = submit(store, unique(task={"key": "other"}))
    [same] = submit(store, unique(task={"prerequisites": [above.id], "key": "mine"}))

    assert again == Receipt(waiting.id, False, State.WAITING)
    assert same == Receipt(waiting.id, False, State.WAITING)


def test_a_batch_that_is_submitted_again_finds_the_task_that_stands_for_both(store: Store) -> None:
    batch = [unique(key="k", task={"key": "first"}), unique(2, key="k")]
    [first, second] = submit(store, *batch)

    replayed = submit(store, *batch)
    reordered = submit(store, unique(3, key="k"), *batch)

    assert (first.created, second.id, second.created) == (True, first.id, False)
    assert {(receipt.id, receipt.created) for receipt in [*replayed, *reordered]} == {(first.id, False)}
    assert len(all_tasks(store)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_task_that_becomes_unique_later_takes_no_lock(store: Store, name: dict[str, Any]) -> None:
    [plain] = submit(store, a_task(args={"n": 1}, **name))

    [again, fresh] = submit(store, unique(task=name), unique())
    [same] = submit(store, unique())

    assert (again.id, again.created) == (plain.id, False)
    assert fresh.created
    assert same.id == fresh.id


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_is_repeated_after_its_lock_was_swept_takes_no_lock(
    store: Store, clock: ManualClock, name: dict[str, Any]
) -> None:
    batch = [unique(period=MINUTE, task=name)]
    submit(store, *batch)
    report(store, claim_one(store), Returned())
    clock.advance(2 * MINUTE)
    store.sweep()

    submit(store, *batch)
    [fresh] = submit(store, unique(period=MINUTE))

    assert fresh.created


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_is_created_again_after_a_purge_counts_for_a_new_period(
    store: Store, clock: ManualClock, name: dict[str, Any]
) -> None:
    batch = [unique(period=10 * MINUTE, task=name)]
    submit(store, *batch)
    report(store, claim_one(store), Returned())
    store.sweep()
    store.purge([receipt.id for receipt in submit(store, *batch)])
    clock.advance(5 * MINUTE)

    [second] = submit(store, *batch)
    report(store, claim_one(store), Returned())
    clock.advance(8 * MINUTE)
    store.sweep()
    [again] = submit(store, unique(period=10 * MINUTE))

    assert second.created
    assert again == Receipt(second.id, False, State.COMPLETED)


def test_a_receipt_has_the_state_of_the_task_after_the_whole_batch(store: Store) -> None:
    [first] = submit(store, unique(key="k", task={"key": "first"}))

    receipts = submit(store, unique(key="k", task={"key": "first"}), debounced())

    assert receipts == [Receipt(first.id, False, State.SCHEDULED)] * 2
    assert task_of(store, first.id).state is State.SCHEDULED


def test_of_many_submitters_exactly_one_creates_the_task(store: Store, home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]

    def many(n: int) -> list[Receipt]:
        batches = ([unique(k, key=f"k{k}") for k in (range(3) if n % 2 else reversed(range(3)))] for _ in range(5))
        return [receipt for batch in batches for receipt in stores[n % 4].submit([*batch, a_task(queue="other")])]

    receipts = [receipt for mine in at_once(8, many) for receipt in mine]

    tasks = [task for task in all_tasks(store) if task.queue == "default"]
    assert len(tasks) == 3
    assert sum(receipt.created for receipt in receipts) == 3 + 8 * 5
    assert {receipt.id for receipt in receipts if not receipt.created} == {task.id for task in tasks}
    assert counted(store) == recounted(store)


def test_claims_and_submits_at_once_never_lose_a_call(store: Store) -> None:
    """After its last submit, a caller finds a task that was claimed later, or is still queued."""
    total = 24

    def act(n: int) -> list[str]:
        if n:
            return [str(store.submit([unique(key="k")])[0].id) for _ in range(total // 3)]
        return [str(claim.id) for _ in range(total) for claim in store.claim(session, ["default"], limit=1)]

    session = store.open_session("node")
    claimed, *submitted = at_once(4, act)

    queued = [str(task.id) for task in all_tasks(store) if task.state is State.RUNNABLE]
    assert len(queued) <= 1
    assert {id for ids in submitted for id in ids} == {*claimed, *queued}
    assert counted(store) == recounted(store)


def test_debounce_puts_off_the_queued_task_up_to_its_longest_wait(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    [first] = submit(store, debounced(1, max_wait=12 * SECOND))
    dues = [task_of(store, first.id).due]
    for _ in range(4):
        clock.advance(3 * SECOND)
        [again] = submit(store, debounced(2, max_wait=12 * SECOND))
        assert again == Receipt(first.id, False, State.SCHEDULED)
        dues.append(task_of(store, first.id).due)

    assert [(due - start) // 1_000_000 for due in dues] == [5, 8, 11, 12, 12]
    assert task_of(store, first.id).args == '{"n":1}'
    store.sweep()
    assert claim_one(store).id == first.id
    [fresh] = submit(store, debounced(3))
    assert fresh.created
    assert counted(store) == recounted(store)


def test_debounce_puts_off_a_task_that_is_runnable_already(store: Store, clock: ManualClock) -> None:
    [first] = submit(store, debounced())
    clock.advance(5 * SECOND)
    store.sweep()

    [again] = submit(store, debounced(2, replace_args=True))

    task = task_of(store, first.id)
    assert again == Receipt(first.id, False, State.SCHEDULED)
    assert (task.due - clock.now(), task.args) == (micros(5 * SECOND), '{"n":2}')
    assert store.claim(store.open_session("node"), ["default"], limit=1) == []
    assert counted(store) == recounted(store)


def test_the_latest_arguments_replace_those_of_the_queued_task_if_asked(store: Store, clock: ManualClock) -> None:
    [first, second] = submit(store, debounced(1), debounced(2, replace_args=True))
    in_batch = task_of(store, first.id).args
    clock.advance(SECOND)
    submit(store, debounced(3, replace_args=True), debounced(4, replace_args=True))
    clock.advance(micros_to(task_of(store, first.id).due - clock.now()))
    store.sweep()
    claim = claim_one(store)

    assert (second.id, in_batch) == (first.id, '{"n":2}')
    assert (claim.id, claim.args) == (first.id, '{"n":4}')
    [late] = submit(store, debounced(5, replace_args=True, period=MINUTE))
    assert late.created, "a task that has started is not changed"


def micros_to(length: int) -> timedelta:
    return timedelta(microseconds=length)


def test_debounce_within_the_period_leaves_a_task_that_has_started_alone(store: Store, clock: ManualClock) -> None:
    fields = {"period": MINUTE, "replace_args": True}
    [first] = submit(store, debounced(1, **fields))
    clock.advance(5 * SECOND)
    store.sweep()
    claim_one(store)

    [again] = submit(store, debounced(2, **fields))

    assert again == Receipt(first.id, False, State.LEASED)
    assert task_of(store, first.id).args == '{"n":1}'


def test_a_refused_batch_takes_no_lock(store: Store) -> None:
    store.configure(Queue(name="full", max_waiting=0))

    with pytest.raises(QueueFull):
        submit(store, unique(key="k"), a_task(queue="full"))

    [receipt] = submit(store, unique(key="k"))
    assert receipt.created


def test_a_cron_fires_no_second_task_while_the_first_is_queued(store: Store) -> None:
    store.publish(Manifest(crons=(CronInfo(name="daily", handler="work", schedule="@daily"),)))
    first = store.fire("daily", 1_000, [unique(key="k", task={"key": "a"})])
    second = store.fire("daily", 2_000, [unique(key="k", task={"key": "b"})])

    assert first is not None
    assert second == [Receipt(first[0].id, False, State.RUNNABLE)]
    assert store.crons()[0].fired == 2_000


@pytest.mark.parametrize("end", [RAISED, Released(), Released(delay=micros(SECOND)), None], ids=repr)
def test_a_task_that_returns_to_its_queue_counts_again(store: Store, clock: ManualClock, end: Outcome | None) -> None:
    """Its attempt is reported, or its node is lost."""
    [first] = submit(store, unique())
    claim = claim_one(store, a_session(store, ttl=timedelta(hours=1)))
    for _ in range(3):
        clock.advance(timedelta(minutes=2))
        store.sweep()

    if end is not None:
        report(store, claim, end)
    else:
        clock.advance(timedelta(hours=2))
        assert store.sweep().requeued == 1
    [again] = submit(store, unique())

    assert (again.id, again.created) == (first.id, False)


@pytest.mark.parametrize("how", ["fails", "expires", "is cancelled"])
def test_a_task_that_is_retried_after_a_bad_end_counts_again(store: Store, clock: ManualClock, how: str) -> None:
    [first] = submit(store, unique(task={"expires": MINUTE} if how == "expires" else None))
    if how == "fails":
        report(store, claim_one(store), GAVE_UP)
    elif how == "is cancelled":
        store.cancel([first.id], reason="enough")
    for _ in range(3):
        clock.advance(2 * MINUTE)
        store.sweep()
    ended = task_of(store, first.id).state

    store.retry([first.id])
    [again] = submit(store, unique())

    assert ended.ended_badly
    assert (again.id, again.created) == (first.id, False)


def test_locks_of_tasks_that_are_gone_or_have_ended_are_swept_and_others_stay(store: Store, clock: ManualClock) -> None:
    [queued] = submit(store, unique(1, task={"delay": timedelta(days=1)}))
    [done] = submit(store, unique(2, period=timedelta(hours=1)))
    report(store, claim_one(store), Returned())
    for _ in range(3):
        clock.advance(timedelta(minutes=2))
        store.sweep()

    kept = submit(store, unique(1), unique(2))
    clock.advance(timedelta(hours=1))
    store.sweep()
    [again] = submit(store, unique(2))

    assert [receipt.id for receipt in kept] == [queued.id, done.id]
    assert again.created
    assert submit(store, unique(1))[0].id == queued.id


@pytest.mark.parametrize(
    "wrong",
    [
        {"period": -MINUTE},
        {"period": 10},
        {"key": ""},
        {"debounce": timedelta(0)},
        {"max_wait": MINUTE},
        {"replace_args": True},
        {"debounce": MINUTE, "max_wait": SECOND},
        {"debounce": MINUTE, "replace_args": "yes"},
        {"task": {"workflow": "w"}},
        {"debounce": MINUTE, "task": {"delay": MINUTE}},
    ],
)
def test_what_makes_no_sense_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        submit(store, unique(**wrong))

    assert all_tasks(store) == []
