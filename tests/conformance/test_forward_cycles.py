from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_task,
    all_tasks,
    claim_all,
    claimed_ids,
    run_all,
    state_of,
    states_of,
    submit,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.graph import CYCLE_BUDGET
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.errors import CycleFound
from windlass.stores.protocol import Filter, Store
from windlass.stores.series import Resolution


def after(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    return a_task(key=key, prerequisites=prerequisites, workflow="w", **changes)


def id_of(key: str) -> TaskId:
    return keyed_id("default", "w", key)


def test_a_cycle_closed_by_a_late_task_is_refused_with_its_path_and_leaves_nothing(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    submit(store, after("a", "c"), after("b", "a"), after("unrelated", "d"))
    before = all_tasks(store)

    with pytest.raises(CycleFound) as refused:
        store.submit([after("fine"), after("c", "b", "fine")])

    assert refused.value.cycle == ("c", "b", "a")
    assert all_tasks(store) == before
    assert store.get([id_of("fine"), id_of("c")]) == [None, None]


def test_after_a_refused_cycle_the_place_can_still_be_filled(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    [a] = submit(store, after("a", "b"))
    with pytest.raises(CycleFound):
        store.submit([after("b", "a")])

    [b] = submit(store, after("b"))

    assert run_all(store) == [b, a]


def test_a_cycle_through_two_places_filled_in_one_batch_is_refused(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    submit(store, after("a", "x"), after("b", "y"))

    with pytest.raises(CycleFound) as refused:
        store.submit([after("x", "b"), after("y", "a")])

    assert set(refused.value.cycle) == set("abxy")
    assert len(all_tasks(store)) == 2


def test_a_late_task_that_closes_no_cycle_may_wait_for_others(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    submit(store, after("last", "middle"))
    submit(store, after("middle", "first", "also last"))
    submit(store, after("first"), after("also last", "first"))
    clock.advance(SECOND)

    assert [task_of(store, id).key for id in run_all(store)] == ["first", "also last", "middle", "last"]


def test_an_edge_that_has_been_resolved_closes_no_cycle(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=MINUTE)
    [child] = submit(store, after("child", "parent", on_failure=OnFailure.RUN))
    clock.advance(MINUTE)
    sweep_until_quiet(store)

    [parent] = submit(store, after("parent", "child"))

    assert run_all(store) == [child, parent]


def test_a_cycle_too_long_for_the_submit_is_failed_by_the_sweep(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=timedelta(days=1))
    longest = CYCLE_BUDGET + 4
    submit(store, after("0", "last"), *(after(str(n), str(n - 1)) for n in range(1, longest)))
    [behind, beside] = submit(store, after("behind", str(longest - 1)), after("beside", queue="other"))
    [last] = submit(store, after("last", str(longest - 1)))

    clock.advance(MINUTE)
    swept = sweep_until_quiet(store)

    assert swept.cycles == longest + 1
    assert states_of(store, [behind, beside]) == [State.CANCELLED, State.RUNNABLE]
    task = task_of(store, last)
    assert (task.state, task.finished) == (State.FAILED, clock.now())
    assert task.reason is not None
    assert "cycle" in task.reason
    assert [point.failed for point in store.series("default", Resolution.SECOND, clock.now())] == [longest + 1]
    [group] = store.dead_groups().groups
    assert (group.count, group.error) == (longest + 1, Error(kind="Ended", message=task.reason))


def test_a_cycle_that_the_sweep_failed_fails_again_when_it_is_retried(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=timedelta(days=1))
    longest = CYCLE_BUDGET + 4
    submit(store, after("0", "last"), *(after(str(n), str(n - 1)) for n in range(1, longest)))
    [last] = submit(store, after("last", str(longest - 1)))
    sweep_until_quiet(store)

    retried = store.retry(Filter(workflow="w"))
    waiting = state_of(store, last)
    swept = sweep_until_quiet(store)

    assert retried == swept.cycles == longest + 1
    assert waiting is State.WAITING
    assert state_of(store, last) is State.FAILED


def test_a_chain_too_long_for_the_submit_is_left_in_peace_by_the_sweep(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=timedelta(days=1))
    longest = CYCLE_BUDGET + 4
    submit(store, after("child", "late"))
    ids = submit(store, after("0"), *(after(str(n), str(n - 1)) for n in range(1, longest)))
    [late] = submit(store, after("late", str(longest - 1)))

    clock.advance(MINUTE)
    swept = sweep_until_quiet(store)

    assert (swept.cycles, swept.healed) == (0, 0)
    assert state_of(store, late) is State.WAITING
    assert claimed_ids(claim_all(store)) == [ids[0]]
