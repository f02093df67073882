"""Updates with an expected version: of two that expect the same version, one succeeds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.support.builders import RAISED, a_task, at_once, claim_one, in_state, report, submit, submit_one, task_of
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import Change, TaskId
from windlass.core.task_update import Version, version_of
from windlass.errors import Conflict, NotAllowed
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

DONE = Entry(subject="task/1", action="did", text="did it")
HOUR = timedelta(hours=1)

MEANWHILE: dict[str, Callable[[Store, TaskId], object]] = {
    "another priority": lambda store, id: store.update(id, Change(priority=1)),
    "another deadline": lambda store, id: store.update(id, Change(deadline=HOUR)),
    "another due time": lambda store, id: store.update(id, Change(at=HOUR)),
    "another limit": lambda store, id: store.update(id, Change(expires=HOUR)),
    "claimed": lambda store, id: claim_one(store),
    "run and failed": lambda store, id: report(store, claim_one(store), RAISED),
    "cancelled": lambda store, id: store.cancel([id], reason="enough"),
    "cancelled and brought back": lambda store, id: (store.cancel([id], reason="enough"), store.retry([id])),
}


def seen(store: Store, id: TaskId) -> Version:
    return version_of(task_of(store, id))


def answered(act: Callable[[], object]) -> bool:
    """Whether it was done, and not refused."""
    try:
        act()
    except Conflict:
        return False
    return True


def test_a_task_that_is_as_it_was_seen_is_changed(store: Store) -> None:
    id = submit_one(store)

    answer = store.update(id, Change(priority=3), expect=seen(store, id), entries=[DONE])
    again = store.update(id, Change(priority=4), expect=version_of(answer), entries=[DONE])

    assert (answer.priority, again.priority, task_of(store, id).priority) == (3, 4, 4)
    assert len(store.audit()) == 2


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=str)
def test_a_task_that_changed_meanwhile_is_left_alone(store: Store, meanwhile: str) -> None:
    id = submit_one(store)
    expected = seen(store, id)
    MEANWHILE[meanwhile](store, id)
    before = task_of(store, id)

    with pytest.raises(Conflict, match=str(id)):
        store.update(id, Change(priority=9), expect=expected, entries=[DONE])

    assert task_of(store, id) == before
    assert store.audit() == []


def test_a_cancel_of_what_runs_is_a_change_too(store: Store) -> None:
    id = in_state(store, State.LEASED)
    expected = seen(store, id)
    store.cancel([id], reason="enough")

    with pytest.raises(Conflict):
        store.update(id, Change(priority=9), expect=expected)


def test_a_task_that_ended_as_it_was_seen_is_still_not_changed(store: Store) -> None:
    id = in_state(store, State.COMPLETED)

    with pytest.raises(NotAllowed):
        store.update(id, Change(priority=9), expect=seen(store, id), entries=[DONE])

    assert store.audit() == []


def test_a_task_that_was_changed_and_changed_back_is_as_it_was_seen(store: Store) -> None:
    id = submit_one(store)
    expected = seen(store, id)
    for priority in (5, 0):
        store.update(id, Change(priority=priority))

    assert store.update(id, Change(priority=9), expect=expected).priority == 9


def test_of_those_who_have_seen_the_same_task_one_changes_it(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]
    id = submit_one(stores[0])

    for round in range(1, 7):
        expected = seen(stores[0], id)

        def change(n: int, round: int = round, expected: Version = expected) -> bool:
            given = Change(priority=10 * round + n)
            return answered(lambda: stores[n].update(id, given, expect=expected, entries=[DONE]))

        answers = at_once(4, change)

        assert sorted(answers) == [False, False, False, True]
        assert task_of(stores[0], id).priority == 10 * round + answers.index(True)
    assert len(stores[0].audit()) == 6


def test_of_those_who_ask_for_the_very_same_change_one_makes_it(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]
    id = submit_one(stores[0])
    expected = seen(stores[0], id)

    answers = at_once(4, lambda n: answered(lambda: stores[n].update(id, Change(priority=7), expect=expected)))

    assert sorted(answers) == [False, False, False, True]


def test_a_queue_that_is_as_it_was_seen_is_set(store: Store) -> None:
    plain, heavy = Queue(name="mail"), Queue(name="mail", weight=2)

    store.configure(heavy, expect=plain, entries=[DONE])
    store.configure(replace(heavy, paused=True, paused_by="ann"), expect=heavy, entries=[DONE])

    assert store.queues() == [replace(heavy, paused=True, paused_by="ann")]
    assert len(store.audit()) == 2


@pytest.mark.parametrize("expect", [Queue(name="mail", weight=3), Queue(name="post"), Queue(name="mail", fair=True)])
def test_a_queue_that_is_not_as_expected_is_left_alone(store: Store, expect: Queue) -> None:
    with pytest.raises(Conflict, match="mail"):
        store.configure(Queue(name="mail", weight=9), expect=expect, entries=[DONE])
    assert store.queues() == []

    store.configure(Queue(name="mail", weight=2))
    with pytest.raises(Conflict, match="mail"):
        store.configure(Queue(name="mail", weight=9), expect=expect, entries=[DONE])

    assert store.queues() == [Queue(name="mail", weight=2)]
    assert store.audit() == []


def test_a_refused_strategy_gives_no_task_another_place(store: Store) -> None:
    low, high = submit(store, a_task(priority=1), a_task(priority=2))

    with pytest.raises(Conflict):
        store.configure(Queue(name="default", strategy=Strategy.FIFO), expect=Queue(name="default", weight=2))

    assert [store.ahead(id) for id in (low, high)] == [1, 0]


def test_of_those_who_have_seen_the_same_queue_one_sets_it(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]
    expected = Queue(name="mail")

    for round in range(1, 7):

        def change(n: int, round: int = round, expected: Queue = expected) -> bool:
            wanted = Queue(name="mail", weight=10 * round + n)
            return answered(lambda: stores[n].configure(wanted, expect=expected, entries=[DONE]))

        answers = at_once(4, change)

        assert sorted(answers) == [False, False, False, True]
        [expected] = stores[0].queues()
        assert expected.weight == 10 * round + answers.index(True)
    assert len(stores[0].audit()) == 6
