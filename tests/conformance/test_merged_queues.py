from __future__ import annotations

import pytest

from tests.support.builders import SECOND, a_session, a_task, claimed_ids, submit, submit_one
from windlass.core.ordering import Queue, Strategy
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.task import TaskId
from windlass.errors import InvalidTask, SessionLost
from windlass.stores.protocol import Store

QUEUES = ("first", "second", "third")


@pytest.fixture(autouse=True)
def by_deadline(store: Store) -> None:
    for name in QUEUES:
        store.configure(Queue(name=name, strategy=Strategy.DEADLINE))


def claim(store: Store, limit: int = 100, *, serves: Serves = EVERYTHING, merge: bool = True) -> list[TaskId]:
    return claimed_ids(store.claim(a_session(store), QUEUES, limit, serves=serves, merge=merge))


def test_the_earliest_deadline_goes_first_whatever_queue_it_is_in(store: Store) -> None:
    late = submit_one(store, queue="first", deadline=100 * SECOND)
    soon = submit_one(store, queue="second", deadline=SECOND)

    assert claim(store, 1) == [soon]
    assert claim(store, 1) == [late]


def test_without_a_merge_order_holds_within_a_queue(store: Store) -> None:
    late = submit_one(store, queue="first", deadline=100 * SECOND)
    soon = submit_one(store, queue="second", deadline=SECOND)

    assert claim(store, merge=False) == [late, soon]


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_many_tasks_come_in_one_order_over_all_queues(store: Store, batch: int) -> None:
    deadlines = [(number * 37) % 60 + 1 for number in range(60)]
    ids = submit(
        store, *(a_task(queue=QUEUES[n % 3], deadline=due * SECOND, slots=1 + n % 2) for n, due in enumerate(deadlines))
    )

    claimed: list[TaskId] = []
    while some := claim(store, batch):
        claimed += some

    assert claimed == [id for _, id in sorted(zip(deadlines, ids, strict=True))]


def test_paused_queues_and_what_is_not_served_are_left_out_of_the_order(store: Store) -> None:
    paused = submit_one(store, queue="first", deadline=SECOND)
    large = submit_one(store, queue="second", deadline=2 * SECOND, slots=2)
    plain = submit(store, *(a_task(queue=queue, deadline=n * SECOND) for n, queue in ((9, "second"), (8, "third"))))
    store.configure(Queue(name="first", strategy=Strategy.DEADLINE, paused=True))

    assert claim(store, serves=Serves(slots=1)) == plain[::-1]
    store.configure(Queue(name="first", strategy=Strategy.DEADLINE))
    assert claim(store) == [paused, large]


def test_a_lost_session_gets_nothing_from_queues_taken_as_one(store: Store) -> None:
    submit_one(store, queue="first")
    session = a_session(store)
    store.close_session(session)

    with pytest.raises(SessionLost):
        store.claim(session, QUEUES, 5, merge=True)


def test_a_queue_that_has_become_fair_is_not_overlooked_while_others_fill_the_claim(store: Store) -> None:
    submit_one(store, queue="third", deadline=SECOND)
    assert len(claim(store, 1)) == 1
    soon = submit_one(store, queue="first", deadline=SECOND)
    submit(store, *(a_task(queue="second", deadline=100 * SECOND) for _ in range(3)))
    store.configure(Queue(name="first", strategy=Strategy.DEADLINE, fair=True))

    assert claim(store, 1) == [soon]


def test_a_merged_claim_has_no_shares_of_its_queues(store: Store) -> None:
    task = submit_one(store, queue="first")

    with pytest.raises(InvalidTask, match="each: a claim that merges its queues has no shares"):
        store.claim(a_session(store), QUEUES, 1, merge=True, each={"first": 1})

    assert claim(store) == [task]
