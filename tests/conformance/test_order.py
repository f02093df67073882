from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    RAISED,
    SECOND,
    a_session,
    a_task,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    report,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ordering import Queue, Strategy
from windlass.core.settlement import Crashed, Released
from windlass.core.task import Change
from windlass.core.times import to_datetime
from windlass.stores.protocol import Store


def claimed_keys(store: Store) -> list[str | None]:
    """The keys of everything claimable, in the order of the claim; each claimed by itself."""
    session = a_session(store)
    keys: list[str | None] = []
    while claims := store.claim(session, ["default"], limit=1):
        keys.append(claims[0].key)
    return keys


def test_by_default_the_highest_priority_comes_first_then_the_deadline_then_who_was_first(
    store: Store, clock: ManualClock
) -> None:
    submit(store, a_task(key="plain"), a_task(key="late", deadline=HOUR), a_task(key="soon", deadline=MINUTE))
    clock.advance(SECOND)
    submit(store, a_task(key="low", priority=-1, deadline=SECOND), a_task(key="high", priority=1), a_task(key="second"))

    assert claimed_keys(store) == ["high", "soon", "late", "plain", "second", "low"]


def test_the_deadline_strategy_takes_the_earliest_deadline_whatever_the_priority(
    store: Store, clock: ManualClock
) -> None:
    store.configure(Queue(name="default", strategy=Strategy.DEADLINE, horizon=HOUR))
    submit(
        store,
        a_task(key="none"),
        a_task(key="after the horizon", deadline=2 * HOUR, priority=9),
        a_task(key="late", deadline=HOUR / 2),
        a_task(key="soon", deadline=MINUTE),
    )

    assert claimed_keys(store) == ["soon", "late", "none", "after the horizon"]


def test_the_deadline_strategy_breaks_ties_by_priority(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", strategy=Strategy.DEADLINE))
    moment = to_datetime(clock.now()) + HOUR
    submit(store, *(a_task(key=str(priority), priority=priority, deadline=moment) for priority in (0, 2, 1)))

    assert claimed_keys(store) == ["2", "1", "0"]


def test_under_aging_a_point_of_priority_is_worth_one_step_of_waiting(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", strategy=Strategy.AGING, horizon=HOUR, step=MINUTE))
    submit(store, a_task(key="old"))
    clock.advance(2 * MINUTE + SECOND)
    submit(store, a_task(key="new, two points", priority=2), a_task(key="new, three points", priority=3))
    submit(store, a_task(key="urgent", deadline=MINUTE))

    assert claimed_keys(store) == ["urgent", "new, three points", "old", "new, two points"]


def test_fifo_looks_at_nothing_but_when_a_task_was_due(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", strategy=Strategy.FIFO))
    submit(store, a_task(key="delayed", delay=2 * SECOND), a_task(key="first", deadline=HOUR))
    clock.advance(SECOND)
    submit(store, a_task(key="second", priority=9, deadline=SECOND))
    clock.advance(2 * SECOND)
    submit(store, a_task(key="third"))
    sweep_until_quiet(store)

    assert claimed_keys(store) == ["first", "second", "delayed", "third"]


@pytest.mark.parametrize("strategy", Strategy)
def test_ties_are_broken_by_id(store: Store, clock: ManualClock, strategy: Strategy) -> None:
    store.configure(Queue(name="default", strategy=strategy))

    ids = [submit_one(store) for _ in range(20)]  # not one batch, and the clock stands still: all tie

    assert claimed_ids(claim_all(store)) == sorted(ids)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_batch_keeps_its_order_under_every_strategy(store: Store, strategy: Strategy) -> None:
    store.configure(Queue(name="default", strategy=strategy))

    ids = submit(store, *(a_task() for _ in range(20)))

    assert claimed_ids(claim_all(store)) == ids


@pytest.mark.parametrize(
    ("strategy", "change"),
    [
        (Strategy.PRIORITY, {"priority": 1}),
        (Strategy.PRIORITY, {"deadline": MINUTE}),
        (Strategy.DEADLINE, {"deadline": MINUTE}),
        (Strategy.AGING, {"priority": 1}),
        (Strategy.AGING, {"deadline": MINUTE}),
        (Strategy.FIFO, {"at": -MINUTE}),
    ],
    ids=str,
)
def test_an_update_moves_a_task_to_its_new_place(store: Store, strategy: Strategy, change: dict[str, Any]) -> None:
    store.configure(Queue(name="default", strategy=strategy))
    first, second, third = submit(store, a_task(), a_task(), a_task())

    store.update(third, Change(**change))

    assert claimed_ids(claim_all(store)) == [third, first, second]


def test_a_new_strategy_changes_the_places_of_existing_tasks(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="first"))
    clock.advance(SECOND)
    submit(store, a_task(key="urgent", deadline=MINUTE), a_task(key="important", priority=1))
    submit(store, a_task(key="waits", prerequisites=["important"]), a_task(key="later", delay=MINUTE))

    store.configure(Queue(name="default", strategy=Strategy.FIFO))

    assert claimed_keys(store) == ["first", "urgent", "important"]


def test_a_new_strategy_leaves_other_queues_as_they_are(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="low"), a_task(key="high", priority=1))

    store.configure(Queue(name="other", strategy=Strategy.FIFO))

    assert claimed_keys(store) == ["high", "low"]


def test_a_task_that_comes_back_keeps_its_place(store: Store, clock: ManualClock) -> None:
    first = submit_one(store)
    clock.advance(SECOND)
    second = submit_one(store)

    for outcome in (RAISED, Crashed(RAISED.error), Released(), Released(delay=1_000)):
        claim = claim_one(store)
        assert claim.id == first
        report(store, claim, outcome)
        clock.advance(HOUR)
        sweep_until_quiet(store)

    assert claimed_ids(claim_all(store)) == [first, second]


def test_a_task_of_a_lost_node_keeps_its_place(store: Store, clock: ManualClock) -> None:
    first = submit_one(store)
    clock.advance(SECOND)
    second = submit_one(store)
    claim_one(store)

    clock.advance(HOUR)
    sweep_until_quiet(store)

    assert claimed_ids(claim_all(store)) == [first, second]


def test_a_task_brought_back_by_an_operator_keeps_its_place(store: Store, clock: ManualClock) -> None:
    first = submit_one(store)
    clock.advance(SECOND)
    second = submit_one(store)
    store.cancel([first], reason="by mistake")

    clock.advance(SECOND)
    store.retry([first])

    assert task_of(store, first).due > task_of(store, second).due
    assert claimed_ids(claim_all(store)) == [first, second]


def test_a_task_that_had_to_wait_for_others_keeps_the_place_of_its_submit(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="parent", queue="other"), a_task(key="child", prerequisites=["parent"]))
    clock.advance(SECOND)
    submit(store, a_task(key="later"))

    complete(store, claim_one(store, queue="other"))

    assert claimed_keys(store) == ["child", "later"]


def test_a_task_with_a_new_place_is_claimed_once(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)

    for strategy in (Strategy.FIFO, Strategy.PRIORITY, Strategy.FIFO, Strategy.FIFO):
        store.configure(Queue(name="default", strategy=strategy))

    assert claimed_ids(claim_all(store)) == [id]
