from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import (
    DAY,
    GAVE_UP,
    MICROSECOND,
    SECOND,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    counted,
    recounted,
    report,
    run,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Crashed, Released, Returned
from windlass.core.task import TaskId
from windlass.stores.protocol import RETENTION, Cursor, Filter, Neighbour, Neighbourhood, Store

NOBODY = keyed_id("default", None, "nobody")


def test_tasks_come_in_the_order_asked_for_and_the_unknown_as_nothing(store: Store) -> None:
    first, second = submit(store, a_task(), a_task())

    found = store.get([second, NOBODY, first, second])

    assert [task and task.id for task in found] == [second, None, first, second]
    assert store.get([]) == []


def test_the_newest_tasks_are_found_first_and_ties_go_by_id(store: Store, clock: ManualClock) -> None:
    ids: list[TaskId] = []
    for _ in range(3):
        ids = sorted(submit(store, a_task(), a_task()), reverse=True) + ids
        clock.advance(SECOND)

    assert [task.id for task in store.find(Filter()).tasks] == ids


def test_found_tasks_are_whole(store: Store) -> None:
    [id] = submit(store, a_task(args={"n": 1}, key="k", workflow="w", deadline=SECOND))

    assert store.find(Filter()).tasks == [task_of(store, id)]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        (Filter(), "abcdef"),
        (Filter(queue="mail"), "cf"),
        (Filter(tenant="acme"), "de"),
        (Filter(workflow="w"), "ef"),
        (Filter(handler="other"), "b"),
        (Filter(states=frozenset({State.COMPLETED})), "a"),
        (Filter(states=frozenset({State.COMPLETED, State.SCHEDULED})), "ae"),
        (Filter(tenant="acme", workflow="w"), "e"),
        (Filter(queue="mail", tenant="acme"), ""),
        (Filter(queue="mail", tenant="default", workflow="w", handler="work", states=frozenset({State.RUNNABLE})), "f"),
        (Filter(queue="nowhere"), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "filter",
)
def test_a_filter_finds_the_tasks_for_which_all_its_conditions_hold(store: Store, filter: Filter, found: str) -> None:
    submit(store, a_task(key="a"))
    complete(store, claim_one(store))
    submit(
        store,
        a_task(key="b", handler="other"),
        a_task(key="c", queue="mail"),
        a_task(key="d", tenant="acme"),
        a_task(key="e", tenant="acme", workflow="w", delay=DAY),
        a_task(key="f", queue="mail", workflow="w"),
    )

    assert sorted(task.key or "" for task in store.find(filter).tasks) == list(found)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 11])
@pytest.mark.parametrize("filter", [Filter(), Filter(queue="mail")], ids=str)
def test_pages_follow_each_other_without_gap_or_overlap(
    store: Store, clock: ManualClock, limit: int, filter: Filter
) -> None:
    for n in range(5):  # two of each instant, so that pages end between ties
        submit(store, a_task(queue="mail" if n % 2 else "default"), a_task(queue="mail"))
        clock.advance(MICROSECOND * (n % 2))

    found: list[TaskId] = []
    after: Cursor | None = None
    while True:
        page = store.find(filter, limit=limit, after=after)
        assert 0 < len(page.tasks) <= limit
        found += [task.id for task in page.tasks]
        after = page.after
        if after is None:
            break

    assert found == [task.id for task in store.find(filter, limit=1_000).tasks]
    assert len(set(found)) == len(found)


def test_a_page_is_not_moved_by_tasks_that_come_meanwhile(store: Store, clock: ManualClock) -> None:
    old = submit(store, a_task(), a_task())
    page = store.find(Filter(), limit=1)
    clock.advance(SECOND)

    submit(store, a_task())
    rest = store.find(Filter(), after=page.after)

    assert {task.id for task in page.tasks + rest.tasks} == set(old)
    assert rest.after is None


def test_nothing_found_is_an_empty_last_page(store: Store) -> None:
    page = store.find(Filter())

    assert (page.tasks, page.after) == ([], None)


def test_the_counts_equal_a_recount_at_every_step(store: Store, clock: ManualClock) -> None:
    def check() -> None:
        assert counted(store) == recounted(store)

    check()
    submit(store, *(a_task(queue=queue, tenant=tenant) for queue in ("default", "mail") for tenant in ("a", "b", "a")))
    submit(store, a_task(key="p"), a_task(key="c", prerequisites=["p"]), a_task(delay=SECOND), a_task(expires=SECOND))
    check()
    claims = claim_all(store)
    check()
    complete(store, *claims[:2])
    report(store, claims[2], GAVE_UP)
    report(store, claims[3], Released())
    check()
    store.cancel([claims[4].id], reason="not wanted")
    store.cancel(Filter(queue="mail", tenant="b"), reason="not wanted")
    check()
    clock.advance(SECOND)
    sweep_until_quiet(store)
    check()
    store.retry(Filter(states=frozenset({State.FAILED, State.EXPIRED})))
    check()
    store.purge(Filter(tenant="b"))
    check()
    clock.advance(2 * RETENTION)
    sweep_until_quiet(store)
    check()
    assert counted(store)


def test_counts_name_queue_tenant_and_state(store: Store) -> None:
    submit(store, a_task(), a_task(), a_task(queue="mail", tenant="acme", delay=DAY))

    assert counted(store) == {
        ("default", "default", State.RUNNABLE): 2,
        ("mail", "acme", State.SCHEDULED): 1,
    }


def test_attempts_come_oldest_first_without_those_that_were_released(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    outcomes = [Crashed(GAVE_UP.error), Released(), Crashed(GAVE_UP.error), Returned()]
    fences: list[int] = []
    for outcome in outcomes:
        claim = claim_one(store)
        clock.advance(SECOND)
        report(store, claim, outcome)
        fences.append(claim.lease.fence)

    attempts = store.attempts(id)

    assert [attempt.fence for attempt in attempts] == [fences[0], fences[2], fences[3]]
    assert [attempt.state for attempt in attempts] == [State.RUNNABLE, State.RUNNABLE, State.COMPLETED]
    assert [attempt.started for attempt in attempts] == sorted(attempt.started for attempt in attempts)


def test_an_unknown_task_has_no_attempts_and_no_neighbours(store: Store) -> None:
    assert store.attempts(NOBODY) == []
    assert store.neighbourhood(NOBODY) == Neighbourhood([], [])


def test_a_neighbourhood_shows_both_sides_in_the_order_of_ids(store: Store) -> None:
    submit(store, *(a_task(key=key) for key in "abc"))
    a = run(store, Returned())
    [middle] = submit(store, a_task(key="middle", prerequisites=["c", "b", "a"]))
    below = submit(store, *(a_task(key=f"below {n}", prerequisites=["middle"]) for n in range(3)))

    around = store.neighbourhood(middle)

    b, c = keyed_id("default", None, "b"), keyed_id("default", None, "c")
    states: dict[TaskId, tuple[Any, bool]] = {
        a: (State.COMPLETED, True),
        b: (State.RUNNABLE, False),
        c: (State.RUNNABLE, False),
    }
    assert around.prerequisites == [Neighbour(id, *states[id]) for id in sorted(states)]
    assert around.dependents == [Neighbour(id, State.WAITING, False) for id in sorted(below)]


def test_a_neighbourhood_is_cut_at_its_limit(store: Store) -> None:
    above = submit(store, *(a_task(key=str(n)) for n in range(5)))
    [child] = submit(store, a_task(prerequisites=above))

    around = store.neighbourhood(child, limit=3)

    assert [neighbour.id for neighbour in around.prerequisites] == sorted(above)[:3]


def test_reading_changes_nothing(store: Store) -> None:
    submit(store, a_task(key="a"), a_task(prerequisites=["a"]))
    before = all_tasks(store)

    store.counts()
    store.queues()
    for task in before:
        store.attempts(task.id)
        store.neighbourhood(task.id)

    assert all_tasks(store) == before
