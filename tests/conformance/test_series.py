"""Time series per queue: what happened in each second and minute."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    RAISED,
    SECOND,
    a_session,
    a_task,
    at_once,
    claim_one,
    complete,
    report,
    run,
    submit,
    submit_one,
    sweep_until_quiet,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.settlement import RELEASED
from windlass.core.task import NewTask
from windlass.core.times import Micros, micros
from windlass.errors import InvalidTask
from windlass.stores.protocol import Filter, Store
from windlass.stores.series import SECONDS_KEPT, SERIES_KEPT, Point, Resolution

S, M = Resolution.SECOND, Resolution.MINUTE


@pytest.fixture(autouse=True)
def start_of_a_minute(clock: ManualClock) -> None:
    """Start every test at the start of a minute, so that it knows which point counts what."""
    clock.advance(timedelta(microseconds=M - clock.now() % M))


def points(store: Store, queue: str | None = "default", resolution: Resolution = S) -> list[Point]:
    return store.series(queue, resolution, 0)


def test_a_store_without_tasks_has_no_points(store: Store) -> None:
    assert store.series(None, S, 0) == store.series("default", M, 0) == []


def test_arrivals_starts_waits_and_ends_are_counted_in_the_second_in_which_they_happen(
    store: Store, clock: ManualClock
) -> None:
    start = clock.now()
    submit(store, a_task(), a_task(), a_task())
    clock.advance(2 * SECOND)
    claims = store.claim(a_session(store), ["default"], limit=3)
    clock.advance(3 * SECOND)
    complete(store, claims[0])
    report(store, claims[1], RAISED)
    report(store, claims[2], GAVE_UP)

    arrived, started, ended = points(store)

    assert arrived == Point(at=start, arrived=3)
    # The tasks of a batch are due one microsecond after another.
    assert started == Point(at=start + 2 * S, started=3, waited=6 * S - 3, longest_wait=2 * S)
    assert started.mean_wait == 2 * S - 1
    assert ended == Point(at=start + 5 * S, completed=1, retried=1, failed=1)
    assert ended.mean_wait is None


def test_minutes_add_up_seconds(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    for _ in range(3):
        submit_one(store)
        clock.advance(40 * SECOND)

    assert points(store, resolution=M) == [Point(at=start, arrived=2), Point(at=start + M, arrived=1)]


def test_every_queue_has_points_of_its_own_and_none_stands_for_all(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(queue="mail"), a_task(tenant="acme"), a_task(tenant="beta"))

    assert points(store, "mail") == [Point(at=clock.now(), arrived=1)]
    assert points(store, "default") == [Point(at=clock.now(), arrived=2)]
    assert points(store, None) == [Point(at=clock.now(), arrived=3)]
    assert points(store, "unknown") == []


def test_points_begin_with_the_one_that_covers_the_given_time(store: Store, clock: ManualClock) -> None:
    for _ in range(3):
        submit_one(store)
        clock.advance(SECOND)
    since = clock.now() - 2 * S + 7

    assert [point.at for point in store.series("default", S, since)] == [since - 7, since - 7 + S]


def test_only_new_tasks_arrive(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="once"))
    submit(store, a_task(key="once"))

    assert points(store) == [Point(at=clock.now(), arrived=1)]


@pytest.mark.parametrize(
    "task",
    [
        a_task(delay=HOUR),
        a_task(expires=-SECOND),
        a_task(workflow="w", key="a", deadline=HOUR),
        a_task(priority=5, slots=2),
    ],
    ids=["scheduled", "expired", "workflow", "plain"],
)
def test_a_task_arrives_whatever_state_it_starts_in(store: Store, clock: ManualClock, task: NewTask) -> None:
    submit(store, task)

    assert points(store) == [Point(at=clock.now(), arrived=1)]


def test_a_task_that_becomes_runnable_later_does_not_arrive_again(store: Store, clock: ManualClock) -> None:
    [first, _] = submit(store, a_task(key="a"), a_task(key="b", prerequisites=["a"]))
    submit_one(store, delay=SECOND)
    clock.advance(5 * SECOND)
    sweep_until_quiet(store)
    assert run(store, RAISED) == first
    clock.advance(HOUR)
    sweep_until_quiet(store)
    store.cancel([first], reason="enough")
    store.retry([first])

    assert sum(point.arrived for point in points(store, resolution=M)) == 3


def test_the_wait_of_a_task_is_counted_from_when_it_was_due(store: Store, clock: ManualClock) -> None:
    submit_one(store, delay=10 * SECOND)
    clock.advance(12 * SECOND)
    sweep_until_quiet(store)
    claim_one(store)

    [_, started] = points(store)
    assert (started.started, started.waited, started.longest_wait) == (1, 2 * S, 2 * S)


def test_a_claim_from_several_queues_counts_for_each(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(queue="a"), a_task(queue="b"), a_task(queue="b", tenant="acme"))
    clock.advance(SECOND)
    store.claim(a_session(store), ["a", "b"], limit=10)

    assert [point.started for point in points(store, "a")] == [0, 1]
    assert [point.started for point in points(store, "b")] == [0, 2]


def test_an_attempt_that_is_released_or_lost_is_no_end(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(), a_task())
    claim = claim_one(store)
    store.claim(a_session(store, ttl=SECOND), ["default"], limit=1)
    clock.advance(3 * SECOND)
    store.settle([(claim.lease, RELEASED)])
    sweep_until_quiet(store)

    [point] = points(store)
    assert (point.arrived, point.started) == (2, 2)


def test_a_repeated_report_and_a_purge_count_nothing(store: Store, clock: ManualClock) -> None:
    submit_one(store)
    claim = claim_one(store)
    complete(store, claim)
    complete(store, claim)
    clock.advance(SECOND)
    store.purge(Filter())

    [point] = points(store)
    assert (point.arrived, point.started, point.completed) == (1, 1, 1)


def fold(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep, and let the sweep fold however few deltas there are."""
    monkeypatch.setattr("windlass.stores.sql.sweep.FOLD_ABOVE", 0)
    sweep_until_quiet(store)


def test_points_stay_the_same_when_the_sweep_folds_them(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for outcome in (RAISED, GAVE_UP, GAVE_UP):
        submit_one(store)
        clock.advance(SECOND)
        run(store, outcome)
    before = points(store), points(store, None), points(store, resolution=M), store.counts()

    for _ in range(2):
        fold(store, monkeypatch)
        assert (points(store), points(store, None), points(store, resolution=M), store.counts()) == before
    submit_one(store)

    assert sum(point.arrived for point in points(store)) == 4


def test_seconds_are_kept_for_a_while_and_minutes_for_longer(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = clock.now()
    for _ in range(2):
        submit_one(store)
        clock.advance(SECOND)
    fold(store, monkeypatch)
    at = [Point(at=start, arrived=1), Point(at=start + S, arrived=1)]
    assert points(store) == at

    advance_to(clock, start + micros(SECONDS_KEPT))
    fold(store, monkeypatch)
    assert points(store) == at
    clock.advance(SECOND)
    assert points(store) == at[1:]
    clock.advance(MINUTE)
    fold(store, monkeypatch)
    assert points(store) == []
    assert points(store, resolution=M) == points(store, None, M) == [Point(at=start, arrived=2)]

    advance_to(clock, start + M + micros(SERIES_KEPT) - 1)
    fold(store, monkeypatch)
    assert points(store, resolution=M) == [Point(at=start, arrived=2)]
    clock.advance(timedelta(microseconds=1))
    assert points(store, resolution=M) == []
    fold(store, monkeypatch)
    assert points(store, resolution=M) == []


def test_how_long_points_are_kept_may_be_chosen(
    home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home.open(clock, series_kept=5 * MINUTE)
    start = clock.now()
    submit_one(store)
    fold(store, monkeypatch)
    clock.advance(5 * MINUTE)
    fold(store, monkeypatch)
    assert points(store) == points(store, resolution=M) == [Point(at=start, arrived=1)]

    clock.advance(MINUTE)
    fold(store, monkeypatch)

    assert points(store) == points(store, resolution=M) == []


def advance_to(clock: ManualClock, at: Micros) -> None:
    clock.advance(timedelta(microseconds=at - clock.now()))


def test_what_happens_at_once_in_several_stores_is_counted_once_each(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]

    def work(n: int) -> None:
        for _ in range(5):
            submit(stores[n], a_task(), a_task())
            stores[n].sweep()

    at_once(4, work)

    [point] = points(stores[0])
    assert point.arrived == 40


@pytest.mark.parametrize(("queue", "resolution"), [("", S), ("a b\n", S), ("default", 1), ("default", None)])
def test_a_wrong_queue_or_resolution_is_refused(store: Store, queue: str, resolution: Any) -> None:
    with pytest.raises(InvalidTask):
        store.series(queue, resolution, 0)
