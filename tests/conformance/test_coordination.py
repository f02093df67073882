from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    NO_RETRY,
    RAISED,
    SECOND,
    a_session,
    a_task,
    claim_one,
    complete,
    report,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import Retry
from windlass.core.settlement import Raised, Released
from windlass.core.task import Change
from windlass.errors import InvalidTask, SessionLost
from windlass.stores.coordination import LOOKED_AT, MAX_REPORT, Due, QueueLook, Report
from windlass.stores.protocol import Store

NOTHING = timedelta(0)


def look_at(store: Store, queue: str = "default") -> QueueLook:
    [seen] = store.look([queue], ahead=NOTHING).queues
    return seen


def oldest(store: Store, queue: str = "default") -> int | None:
    return look_at(store, queue).oldest


def test_an_unknown_queue_is_empty(store: Store, clock: ManualClock) -> None:
    look = store.look(["nobody"], ahead=HOUR)

    assert look.now == clock.now()
    assert look.queues == [QueueLook(queue="nobody")]
    assert (look.due, look.controls, look.reports) == ([], [], [])


def test_each_queue_is_counted_by_state_whatever_the_tenant(store: Store, clock: ManualClock) -> None:
    again = Retry(retries=1, base=HOUR)
    submit(store, a_task(), a_task(tenant="acme"), a_task(delay=HOUR), a_task(priority=9, retry=again))
    submit(store, a_task(queue="mail"), a_task(queue="mail"))
    report(store, claim_one(store), RAISED)
    claim_one(store, queue="mail")

    look = store.look(["mail", "default"], ahead=NOTHING)

    assert look.queues == [
        QueueLook(queue="mail", runnable=1, leased=1, oldest=look.queues[0].oldest),
        QueueLook(queue="default", runnable=2, scheduled=1, retrying=1, oldest=clock.now()),
    ]


def test_queues_are_answered_in_the_order_asked_and_once(store: Store) -> None:
    look = store.look(["b", "a", "b"], ahead=NOTHING)

    assert [queue.queue for queue in look.queues] == ["b", "a"]


def test_a_paused_queue_is_marked_as_paused(store: Store) -> None:
    store.configure(Queue(name="mail", paused=True))
    store.configure(Queue(name="default"))

    assert [queue.paused for queue in store.look(["default", "mail"], ahead=NOTHING).queues] == [False, True]


def test_the_oldest_is_the_one_that_has_waited_longest_whatever_its_place(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", strategy=Strategy.PRIORITY))
    first = clock.now()
    submit_one(store, priority=-5)
    clock.advance(MINUTE)
    submit_one(store, priority=5)

    assert oldest(store) == first
    complete(store, claim_one(store))
    assert oldest(store) == first
    claim_one(store)
    assert oldest(store) is None


def test_a_scheduled_task_waits_from_when_it_is_due(store: Store, clock: ManualClock) -> None:
    submit_one(store, delay=MINUTE)
    due = clock.now() + 60_000_000
    assert oldest(store) is None

    clock.advance(2 * MINUTE)
    sweep_until_quiet(store)

    assert oldest(store) == due


def test_a_task_given_back_waits_from_then(store: Store, clock: ManualClock) -> None:
    submit_one(store)
    claim = claim_one(store)
    clock.advance(MINUTE)

    report(store, claim, Released())

    assert oldest(store) == clock.now()


def test_a_task_of_a_lost_node_waits_from_when_that_was_noticed(store: Store, clock: ManualClock) -> None:
    submit_one(store)
    claim_one(store)
    clock.advance(MINUTE)

    sweep_until_quiet(store)

    assert oldest(store) == clock.now()


def test_a_task_brought_back_waits_from_then(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, retry=NO_RETRY)
    report(store, claim_one(store), RAISED)
    clock.advance(DAY)

    store.retry([id])

    assert oldest(store) == clock.now()


def test_a_task_whose_prerequisite_ended_waits_from_then(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="a", queue="first"), a_task(prerequisites=["a"]))
    clock.advance(DAY)

    complete(store, claim_one(store, queue="first"))

    assert oldest(store) == clock.now()


def test_an_update_that_postpones_a_task_takes_it_from_the_oldest(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    store.update(id, Change(at=HOUR))

    assert oldest(store) is None
    assert look_at(store) == QueueLook(queue="default", scheduled=1)


def test_due_tasks_are_counted_by_the_second(store: Store, clock: ManualClock) -> None:
    delays = [1, 400_000, 1_000_000, 1_000_002, 59_999_990, 60_000_001]
    for delay in delays:
        submit_one(store, delay=timedelta(microseconds=delay))
    submit_one(store, queue="mail", delay=2 * SECOND)
    submit_one(store, queue="other", delay=2 * SECOND)

    look = store.look(["default", "mail"], ahead=MINUTE)

    assert look.due == [
        Due(queue="default", state=State.SCHEDULED, seconds=1, tasks=3),
        Due(queue="default", state=State.SCHEDULED, seconds=2, tasks=1),
        Due(queue="default", state=State.SCHEDULED, seconds=60, tasks=1),
        Due(queue="mail", state=State.SCHEDULED, seconds=2, tasks=1),
    ]


def test_what_is_due_already_comes_in_0_seconds(store: Store, clock: ManualClock) -> None:
    submit_one(store, delay=SECOND)
    clock.advance(SECOND)
    submit_one(store, delay=SECOND)
    clock.advance(MINUTE)

    assert store.look(["default"], ahead=NOTHING).due == [
        Due(queue="default", state=State.SCHEDULED, seconds=0, tasks=2)
    ]


def test_due_retries_are_counted_separately(store: Store) -> None:
    submit_one(store)
    report(store, claim_one(store), Raised(RAISED.error, retry_in=3_000_000))
    submit_one(store, delay=3 * SECOND)

    assert [(due.state, due.seconds, due.tasks) for due in store.look(["default"], ahead=MINUTE).due] == [
        (State.RETRYING, 3, 1),
        (State.SCHEDULED, 3, 1),
    ]


def test_a_task_is_counted_once_however_often_it_was_moved(store: Store) -> None:
    id = submit_one(store, delay=SECOND)
    for seconds in (5, 1, 5):
        store.update(id, Change(at=seconds * SECOND))

    assert [(due.seconds, due.tasks) for due in store.look(["default"], ahead=MINUTE).due] == [(5, 1)]


def test_no_more_than_the_first_are_looked_at(store: Store) -> None:
    half = LOOKED_AT // 2
    submit(store, *(a_task(queue="other", delay=SECOND) for _ in range(half)))
    submit(store, *(a_task(delay=2 * SECOND) for _ in range(half + 10)))

    look = store.look(["default"], ahead=MINUTE)

    assert sum(due.tasks for due in look.due) == LOOKED_AT - half
    assert look.queues[0].scheduled == half + 10


def test_the_controls_that_steer_come_along(store: Store) -> None:
    for kind in ("token", "pool", "order", "breaker"):
        store.put_control(kind, "b", "1", expect=0)
        store.put_control(kind, "a", "2", expect=0)
    store.put_control("pool", "b", None, expect=1)

    controls = store.look([], ahead=NOTHING).controls

    assert [(control.kind, control.name) for control in controls] == [
        *(("breaker", "a"), ("breaker", "b"), ("order", "a"), ("order", "b"), ("pool", "a"))
    ]
    assert [control for control in controls if control.kind == "order"] == store.controls("order")


def test_the_latest_report_of_a_node_is_returned(store: Store, clock: ManualClock) -> None:
    silent, session = a_session(store, "silent"), a_session(store, "loud")
    store.report(session, '{"busy":1}')
    clock.advance(SECOND)
    store.report(session, '{"busy":2}')
    clock.advance(2 * SECOND)

    assert store.look([], ahead=NOTHING).reports == [
        Report(session=session, node="loud", report='{"busy":2}', age=2 * SECOND)
    ]
    store.report(silent, "")
    assert {one.session for one in store.look([], ahead=NOTHING).reports} == {silent, session}


def test_a_report_is_no_renewal(store: Store, clock: ManualClock) -> None:
    session = a_session(store, ttl=10 * SECOND)
    clock.advance(10 * SECOND)
    store.report(session, "late")
    assert len(store.look([], ahead=NOTHING).reports) == 1

    clock.advance(timedelta(microseconds=1))

    assert store.look([], ahead=NOTHING).reports == []
    sweep_until_quiet(store)
    with pytest.raises(SessionLost):
        store.report(session, "too late")


def test_the_report_of_a_closed_session_is_not_returned(store: Store) -> None:
    session = a_session(store)
    store.report(session, "here")
    store.close_session(session)

    assert store.look([], ahead=NOTHING).reports == []
    with pytest.raises(SessionLost):
        store.report(session, "here")


def test_any_text_is_taken_as_a_report_up_to_its_limit(store: Store) -> None:
    session = a_session(store)
    store.report(session, "\0 \ud800 é")

    assert [one.report for one in store.look([], ahead=NOTHING).reports] == ["\ufffd ? é"]
    with pytest.raises(InvalidTask, match="report has"):
        store.report(session, "x" * (MAX_REPORT + 1))


def test_what_cannot_be_looked_at_is_refused(store: Store) -> None:
    with pytest.raises(InvalidTask, match="queue="):
        store.look(["a b"], ahead=NOTHING)
    with pytest.raises(InvalidTask, match="ahead="):
        store.look(["a"], ahead=-SECOND)
    with pytest.raises(InvalidTask, match="queues: 1,001 given"):
        store.look([f"q{number}" for number in range(1_001)], ahead=NOTHING)


def test_a_look_changes_nothing(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, delay=SECOND)
    clock.advance(MINUTE)
    store.look(["default"], ahead=HOUR)

    assert task_of(store, id).state is State.SCHEDULED
    sweep_until_quiet(store)
    assert task_of(store, id).state is State.RUNNABLE
