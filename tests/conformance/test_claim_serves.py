from __future__ import annotations

import pytest

from tests.support.builders import a_session, a_task, at_once, claimed_ids, submit
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.task import NewTask, TaskId
from windlass.stores.protocol import Store

PLAIN = Serves(handlers=frozenset(["work"]), labels=frozenset(), slots=1, memory=1_000)
LARGE = Serves(handlers=frozenset(["work", "report"]), labels=frozenset(["gpu", "arm"]), slots=8)
UNSERVED = {
    "an unknown handler": NewTask(handler="report"),
    "a label": NewTask(handler="work", requires=("gpu",)),
    "too many slots": NewTask(handler="work", slots=2),
    "too much memory": NewTask(handler="work", memory=1_001),
}


def claim(store: Store, serves: Serves, limit: int = 100, queues: tuple[str, ...] = ("default",)) -> list[TaskId]:
    return claimed_ids(store.claim(a_session(store), queues, limit, serves=serves))


@pytest.mark.parametrize("need", UNSERVED)
def test_thousands_that_are_not_served_keep_nobody_from_those_behind_them(store: Store, need: str) -> None:
    head = submit(store, *([UNSERVED[need]] * 3_000))
    behind = submit(store, *(a_task() for _ in range(20)))

    assert claim(store, PLAIN) == behind
    assert claim(store, PLAIN) == []
    assert claim(store, LARGE, 10) == head[:10]


def test_several_kinds_are_claimed_in_the_order_of_the_queue(store: Store) -> None:
    ids = submit(
        store,
        a_task(handler="report"),
        a_task(downstream="mail"),
        a_task(requires=("gpu",)),
        a_task(),
        a_task(downstream="mail", priority=5),
        a_task(slots=3),
        a_task(),
    )

    assert claim(store, PLAIN, 3) == [ids[4], ids[1], ids[3]]
    assert claim(store, PLAIN) == [ids[6]]
    assert claim(store, EVERYTHING) == [ids[0], ids[2], ids[5]]


def test_each_queue_is_asked_in_turn_whatever_stands_at_its_head(store: Store) -> None:
    first = submit(store, a_task(handler="report"), a_task(), a_task())
    second = submit(store, a_task(queue="second", priority=9), a_task(queue="second", handler="report"))

    assert claim(store, PLAIN, 2, ("default", "second")) == first[1:]
    assert claim(store, PLAIN, 9, ("default", "second")) == second[:1]


def test_labels_are_a_set_and_all_of_them_are_needed(store: Store) -> None:
    [both, doubled, one] = submit(
        store, a_task(requires=("arm", "gpu")), a_task(requires=("gpu", "arm")), a_task(requires=("gpu",))
    )

    assert claim(store, Serves(labels=frozenset(["gpu", "disk"]))) == [one]
    assert claim(store, Serves(labels=frozenset(["gpu", "arm", "disk"]))) == [both, doubled]


def test_what_nobody_served_is_served_once_somebody_does(store: Store) -> None:
    [report] = submit(store, a_task(handler="report"))
    assert claim(store, PLAIN) == claim(store, PLAIN) == []

    [work] = submit(store, a_task())

    assert claim(store, PLAIN) == [work]
    assert claim(store, LARGE) == [report]
    assert claim(store, PLAIN) == []
    assert claim(store, PLAIN) == submit(store) == []


def test_a_claimer_that_serves_nothing_gets_nothing(store: Store) -> None:
    submit(store, a_task(), a_task(handler="report"))

    assert claim(store, Serves(handlers=frozenset())) == []


def test_no_task_is_claimed_twice_and_none_is_lost_by_claimers_that_serve_different_kinds(
    home: Home, clock: ManualClock
) -> None:
    stores = [home.open(clock) for _ in range(4)]
    kinds = (a_task(handler="report"), a_task(requires=("gpu",)), a_task(), a_task(slots=2))
    ids = submit(stores[0], *(kinds[number % 4] for number in range(200)))
    ways = [PLAIN, LARGE, PLAIN, EVERYTHING]

    claimed = [id for some in at_once(4, lambda n: claim(stores[n], ways[n], 40)) for id in some]
    rest = claim(stores[0], EVERYTHING, 1_000)

    assert len(claimed) == len(set(claimed))
    assert sorted(claimed + rest) == sorted(ids)
