"""`recent_waits`: how long the tasks that completed last had waited."""

from __future__ import annotations

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    RAISED,
    SECOND,
    a_task,
    after,
    claim_one,
    complete,
    in_state,
    report,
    run,
    submit,
    submit_one,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.core.task import NewTask, Wait
from windlass.core.times import micros
from windlass.core.waits import QUEUE, SLEEP
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store
from windlass.stores.series import RecentWait


def wait_and_complete(store: Store, clock: ManualClock, seconds: int, queue: str = "default") -> None:
    """Complete a task that has waited for some seconds."""
    submit_one(store, queue=queue)
    clock.advance(seconds * SECOND)
    complete(store, claim_one(store, queue=queue))


def test_the_waits_of_completed_tasks_are_returned_with_their_queues(store: Store, clock: ManualClock) -> None:
    for seconds, queue in ((3, "mail"), (1, "bulk"), (2, "mail")):
        wait_and_complete(store, clock, seconds, queue)
    in_state(store, State.FAILED)
    in_state(store, State.RUNNABLE)

    found = store.recent_waits(0, limit=10)

    assert sorted(found) == [
        RecentWait("bulk", micros(SECOND)),
        RecentWait("mail", micros(2 * SECOND)),
        RecentWait("mail", micros(3 * SECOND)),
    ]


def test_only_the_latest_count_and_only_since_a_time(store: Store, clock: ManualClock) -> None:
    wait_and_complete(store, clock, 1)
    wait_and_complete(store, clock, 2)
    middle = clock.now()
    wait_and_complete(store, clock, 3)

    assert [wait.waited for wait in store.recent_waits(0, limit=1)] == [micros(3 * SECOND)]
    assert sorted(wait.waited for wait in store.recent_waits(middle, limit=10)) == [
        micros(2 * SECOND),
        micros(3 * SECOND),
    ]
    assert store.recent_waits(clock.now() + 1, limit=10) == []


def test_a_wait_counts_from_when_the_task_could_start(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="first"), after("then", "first"))
    clock.advance(MINUTE)
    run(store, Returned())
    clock.advance(5 * SECOND)
    run(store, Returned())

    assert sorted(wait.waited for wait in store.recent_waits(0, limit=10)) == [micros(5 * SECOND), micros(MINUTE)]


def test_a_retry_counts_from_its_own_due_time(store: Store, clock: ManualClock) -> None:
    submit_one(store)
    report(store, claim_one(store), RAISED)
    clock.advance(HOUR)
    store.sweep()
    clock.advance(2 * SECOND)
    complete(store, claim_one(store))

    [wait] = store.recent_waits(0, limit=10)
    assert wait.waited <= micros(HOUR + 2 * SECOND)


def test_sleeps_are_left_out(store: Store, clock: ManualClock) -> None:
    submit(store, NewTask(handler=SLEEP, queue=QUEUE, wait=Wait(delay=micros(SECOND))))
    clock.advance(MINUTE)
    store.sweep()

    assert store.recent_waits(0, limit=10) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidTask, match="limit"):
        store.recent_waits(0, limit=limit)
