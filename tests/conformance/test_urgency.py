"""The prerequisites of an urgent task inherit its priority and its deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.support.builders import (
    MINUTE,
    SECOND,
    a_session,
    a_task,
    at_once,
    claim_all,
    complete,
    submit,
    submit_one,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import Change, TaskId
from windlass.core.times import micros
from windlass.core.urgency import MOST_RAISED
from windlass.errors import WindlassError
from windlass.stores.protocol import Store


def order(store: Store, *queues: str) -> list[TaskId]:
    """Run all tasks one by one. Return them in the order in which they started."""
    session, found = a_session(store, ttl=60 * MINUTE), list[TaskId]()
    while claims := store.claim(session, queues or ["default"], 1):
        complete(store, *claims)
        found += [claim.id for claim in claims]
    return found


def urgency_of(store: Store, id: UUID) -> tuple[int, int | None]:
    task = task_of(store, TaskId(id))
    return task.priority, task.deadline


def test_stored_prerequisites_of_an_urgent_task_go_first(store: Store) -> None:
    first, second, third = submit(store, a_task(), a_task(), a_task())
    low = submit_one(store, priority=3)

    urgent = submit_one(store, priority=9, prerequisites=[second])

    assert order(store) == [second, urgent, low, first, third]
    assert urgency_of(store, second) == (9, None)


def test_prerequisites_inherit_the_earliest_deadline(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", strategy=Strategy.DEADLINE))
    now = clock.now()
    early, above = submit(store, a_task(deadline=5 * MINUTE), a_task(deadline=9 * MINUTE))

    below = submit_one(store, deadline=MINUTE, prerequisites=[above])
    submit_one(store, deadline=2 * MINUTE, prerequisites=[above])

    assert urgency_of(store, above) == (0, now + micros(MINUTE))
    assert order(store)[:2] == [above, below]
    assert task_of(store, early).deadline == now + micros(5 * MINUTE)


def test_urgency_passes_through_any_number_of_stored_tasks(store: Store) -> None:
    chain = [submit_one(store)]
    for _ in range(5):
        chain.append(submit_one(store, prerequisites=[chain[-1]]))
    others = submit(store, *(a_task(priority=1) for _ in range(3)))

    last = submit_one(store, priority=5, prerequisites=[chain[-1]])

    assert order(store) == [*chain, last, *others]


def test_urgency_passes_through_a_batch_and_out_of_it(store: Store, clock: ManualClock) -> None:
    stored, other = submit(store, a_task(), a_task())
    a, b, c, d = submit(
        store,
        a_task(key="a", prerequisites=[stored], workflow="w"),
        a_task(key="b", prerequisites=["a"], workflow="w"),
        a_task(key="c", prerequisites=["b"], workflow="w", priority=7),
        a_task(key="d", workflow="w"),
    )

    assert [urgency_of(store, id)[0] for id in (stored, a, b, c, d, other)] == [7, 7, 7, 7, 0, 0]
    clock.advance(SECOND)
    assert order(store)[:4] == [stored, a, b, c]


def test_a_prerequisite_gets_the_most_of_all_that_wait_for_it(store: Store, clock: ManualClock) -> None:
    now = clock.now()
    [above] = submit(store, a_task(priority=2))

    submit(
        store,
        a_task(priority=1, deadline=MINUTE, prerequisites=[above]),
        a_task(priority=8, deadline=3 * MINUTE, prerequisites=[above]),
    )

    assert urgency_of(store, above) == (8, now + micros(MINUTE))


def test_each_queue_orders_by_its_own_strategy(store: Store) -> None:
    store.configure(Queue(name="aging", strategy=Strategy.AGING))
    store.configure(Queue(name="fifo", strategy=Strategy.FIFO))
    old, aging = submit(store, a_task(queue="aging"), a_task(queue="aging"))
    first, fifo = submit(store, a_task(queue="fifo"), a_task(queue="fifo"))

    submit_one(store, priority=90, prerequisites=[aging, fifo])

    assert order(store, "aging") == [aging, old]
    assert order(store, "fifo") == [first, fifo]


@pytest.mark.parametrize("fields", [{"priority": 9, "raise_prerequisites": False}, {"priority": 0}, {"priority": -3}])
def test_other_tasks_lend_nothing(store: Store, fields: dict[str, Any]) -> None:
    above = submit_one(store, priority=-5)

    submit_one(store, prerequisites=[above], **fields)

    assert urgency_of(store, above) == (-5, None)


def test_tasks_that_have_started_or_ended_are_not_changed(store: Store) -> None:
    ended, running = submit(store, a_task(), a_task())
    first, second = claim_all(store, a_session(store))
    complete(store, first)

    below = submit_one(store, priority=9, prerequisites=[ended, running])

    assert (first.id, second.id) == (ended, running)
    assert [urgency_of(store, id)[0] for id in (ended, running)] == [0, 0]
    assert task_of(store, below).state is State.WAITING


def test_scheduled_and_retrying_tasks_are_raised_and_stay_scheduled(store: Store, clock: ManualClock) -> None:
    later = submit_one(store, delay=MINUTE)
    submit_one(store, priority=9, prerequisites=[later])
    assert (task_of(store, later).state, task_of(store, later).priority) == (State.SCHEDULED, 9)
    other = submit_one(store, priority=5)

    clock.advance(2 * MINUTE)
    store.sweep()

    assert [id for id in order(store) if id in (later, other)] == [later, other]


def test_the_same_batch_again_raises_nothing(store: Store) -> None:
    above = submit_one(store)
    new = a_task(key="k", priority=9, prerequisites=[above])
    submit(store, new)
    store.update(above, Change(priority=1))

    store.submit([new])

    assert urgency_of(store, above) == (1, None)


def test_a_refused_batch_raises_nothing(store: Store) -> None:
    store.configure(Queue(name="full", max_waiting=0))
    above = submit_one(store)

    with pytest.raises(WindlassError):
        store.submit([a_task(priority=9, prerequisites=[above], queue="full")])

    assert urgency_of(store, above) == (0, None)


def test_a_raised_task_keeps_its_place_when_its_queue_changes(store: Store) -> None:
    first, second = submit(store, a_task(), a_task())
    submit_one(store, priority=9, prerequisites=[second])

    store.configure(Queue(name="default", strategy=Strategy.AGING))
    store.configure(Queue(name="default", strategy=Strategy.PRIORITY))

    assert order(store)[0] == second
    assert first


def test_a_submit_raises_a_bounded_number_of_tasks(store: Store) -> None:
    above = submit(store, *(a_task() for _ in range(MOST_RAISED + 20)))

    submit_one(store, priority=9, prerequisites=above)

    raised = [id for id in above if urgency_of(store, id)[0] == 9]
    assert raised == sorted(above)[:MOST_RAISED]


def test_submits_at_the_same_time_all_raise_their_prerequisites(store: Store, clock: ManualClock) -> None:
    shared = submit(store, *(a_task() for _ in range(20)))

    at_once(4, lambda n: [submit_one(store, priority=n + 1, prerequisites=shared[n:]) for _ in range(3)])

    assert [urgency_of(store, id)[0] for id in shared[3:]] == [4] * 17
    assert [urgency_of(store, id)[0] for id in shared[:3]] == [1, 2, 3]
    clock.advance(SECOND)
    assert len(order(store)) == 20 + 12


def test_raised_tasks_are_counted_once(store: Store) -> None:
    above = submit(store, *(a_task() for _ in range(5)))

    submit_one(store, priority=3, deadline=timedelta(hours=1), prerequisites=above)

    counted = {(one.queue, one.state): one.tasks for one in store.counts()}
    assert counted == {("default", State.RUNNABLE): 5, ("default", State.WAITING): 1}


@pytest.mark.parametrize("fair", [False, True])
def test_a_task_that_a_limit_holds_back_is_raised(store: Store, fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    session = a_session(store, ttl=60 * MINUTE)
    limited = submit(store, *(a_task(limit="k", max_running=1) for _ in range(3)))
    [running] = store.claim(session, ["default"], 5)
    assert store.claim(session, ["default"], 5) == [], "the others are held back"
    other = submit_one(store, priority=5)

    submit_one(store, priority=9, prerequisites=[limited[2]])
    complete(store, running)

    assert [claim.id for claim in store.claim(session, ["default"], 2)] == [limited[2], other]
