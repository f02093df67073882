from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.builders import SECOND, a_session, a_task, at_once, claimed_ids, complete, submit, submit_one
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.ordering import Queue
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.task import Claim, TaskId, claim_of
from windlass.errors import SessionLost
from windlass.stores.protocol import Store


def claim(
    store: Store,
    *,
    shut: Sequence[str] = (),
    only: str | None = None,
    limit: int = 100,
    queues: Sequence[str] = ("default",),
) -> list[Claim]:
    return store.claim(a_session(store), queues, limit, serves=Serves(shut=frozenset(shut), only=only))


@pytest.fixture
def mixed(store: Store) -> list[TaskId]:
    """Payments, plain, mail, payments, plain with rules, mail."""
    return submit(
        store,
        a_task(downstream="payments"),
        a_task(),
        a_task(downstream="mail"),
        a_task(downstream="payments", slots=2),
        a_task(slots=2),
        a_task(downstream="mail"),
    )


def picked(ids: Sequence[TaskId], *numbers: int) -> list[TaskId]:
    return [ids[number] for number in numbers]


def test_tasks_of_a_shut_downstream_are_passed_over(store: Store, mixed: list[TaskId]) -> None:
    assert claimed_ids(claim(store, shut=["payments"])) == picked(mixed, 1, 2, 4, 5)
    assert claimed_ids(claim(store, shut=["payments"])) == []
    assert claimed_ids(claim(store)) == picked(mixed, 0, 3)


def test_several_downstreams_may_be_shut(store: Store, mixed: list[TaskId]) -> None:
    assert claimed_ids(claim(store, shut=["mail", "nobody", "payments"])) == picked(mixed, 1, 4)


def test_a_name_that_nobody_has_shuts_nothing(store: Store, mixed: list[TaskId]) -> None:
    assert claimed_ids(claim(store, shut=["pay", "", "mail2", "paymentsx", "%"])) == mixed


def test_only_one_downstream_may_be_asked_for(store: Store, mixed: list[TaskId]) -> None:
    assert claimed_ids(claim(store, only="payments", limit=1)) == picked(mixed, 0)
    assert claimed_ids(claim(store, only="payments")) == picked(mixed, 3)
    assert claimed_ids(claim(store, only="nobody")) == []
    assert claimed_ids(claim(store)) == picked(mixed, 1, 2, 4, 5)


def test_what_is_asked_for_and_shut_is_not_claimed(store: Store, mixed: list[TaskId]) -> None:
    assert claim(store, only="mail", shut=["mail"]) == []
    assert claimed_ids(claim(store, only="mail", shut=["payments"])) == picked(mixed, 2, 5)


def test_the_limit_counts_what_is_claimed_and_not_what_is_passed_over(store: Store) -> None:
    submit(store, *(a_task(downstream="payments") for _ in range(50)))
    ids = submit(store, *(a_task() for _ in range(5)))

    assert claimed_ids(claim(store, shut=["payments"], limit=3)) == ids[:3]


def test_order_priority_and_queues_are_as_ever(store: Store) -> None:
    low = submit_one(store, priority=-1)
    submit_one(store, priority=9, downstream="payments")
    high = submit_one(store, priority=1, downstream="mail")
    mail = submit_one(store, queue="mail")

    assert claimed_ids(claim(store, shut=["payments"], queues=["mail", "default"])) == [mail, high, low]


def test_a_claim_past_a_downstream_is_a_claim_like_any_other(store: Store, clock: ManualClock) -> None:
    submit_one(store, downstream="payments", args={"n": 1}, key="k", deadline=SECOND)
    session = a_session(store)

    [claimed] = store.claim(session, ["default"], 1, serves=Serves(only="payments"))

    [task] = store.get([claimed.id])
    assert claimed == claim_of(task, claimed.lease)
    assert (claimed.lease.session, claimed.rules.downstream) == (session, "payments")
    complete(store, claimed)
    assert store.claim(session, ["default"], 1, serves=Serves(only="payments")) == []


def test_what_no_claim_takes_is_not_taken_past_a_downstream_either(store: Store, clock: ManualClock) -> None:
    submit_one(store, expires=SECOND)
    submit_one(store, delay=SECOND)
    store.configure(Queue(name="mail", paused=True))
    submit_one(store, queue="mail")
    clock.advance(SECOND)

    assert claim(store, shut=["payments"], queues=["default", "mail"]) == []


def test_a_lost_session_gets_nothing_past_a_downstream(store: Store, mixed: list[TaskId]) -> None:
    session = a_session(store)
    store.close_session(session)

    with pytest.raises(SessionLost):
        store.claim(session, ["default"], 5, serves=Serves(shut=frozenset(["payments"])))


def test_no_task_is_claimed_twice_by_claims_of_both_kinds(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]
    ids = submit(stores[0], *(a_task(downstream=("payments", "mail", None)[n % 3]) for n in range(90)))
    shut = [Serves(shut=frozenset([name])) for name in ("payments", "mail")]
    ways = [EVERYTHING, shut[0], Serves(only="mail"), shut[1]]

    claims = at_once(4, lambda n: stores[n].claim(a_session(stores[n]), ["default"], 30, serves=ways[n]))

    claimed = [id for some in claims for id in claimed_ids(some)]
    assert len(claimed) == len(set(claimed))
    rest = claimed_ids(claim(stores[0]))
    assert sorted(claimed + rest) == sorted(ids)
