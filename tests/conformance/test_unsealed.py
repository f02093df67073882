"""Cancel, expire, retry and purge tasks of a workflow that is not sealed yet: nothing starts before the seal, and
nothing waits after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    SECOND,
    a_task,
    claim_all,
    claim_one,
    complete,
    run,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.stores.protocol import Filter, Store

WAITING, RUNNABLE, CANCELLED, COMPLETED = State.WAITING, State.RUNNABLE, State.CANCELLED, State.COMPLETED


def step(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    return a_task(key=key, prerequisites=prerequisites, workflow="w", **changes)


def always(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    """A step that runs whatever its prerequisites' ends."""
    return step(key, *prerequisites, on_failure=OnFailure.RUN, **changes)


@pytest.fixture(autouse=True)
def unsealed(store: Store) -> None:
    store.open_workflow("w", sealed=False)


def seal(store: Store, clock: ManualClock) -> None:
    clock.advance(SECOND)
    store.seal_workflow("w")
    assert sweep_until_quiet(store).healed == 0


def test_a_cancelled_root_takes_down_its_dependents_and_those_appended_later(store: Store, clock: ManualClock) -> None:
    root, child, other = submit(store, step("root"), step("child", "root"), step("other"))
    store.cancel([root], reason="not wanted")
    late, below = submit(store, step("late", "root"), step("below", "child"))
    next_to = submit_one(store, key="next", workflow="w", prerequisites=["other"])

    assert states_of(store, [root, child, late, below]) == [CANCELLED] * 4
    assert task_of(store, late).reason == f"Prerequisite {root} was cancelled."
    assert states_of(store, [other, next_to]) == [WAITING] * 2
    seal(store, clock)

    assert run_all(store) == [other, next_to]
    assert states_of(store, [root, child, late, below]) == [CANCELLED] * 4


def end_by_cancel(store: Store, clock: ManualClock, root: TaskId) -> None:
    store.cancel([root], reason="not wanted")


def end_by_filter(store: Store, clock: ManualClock, root: TaskId) -> None:
    store.cancel(Filter(handler="root"), reason="not wanted")


def end_by_expiry(store: Store, clock: ManualClock, root: TaskId) -> None:
    clock.advance(HOUR)
    sweep_until_quiet(store)


@pytest.mark.parametrize("end", [end_by_cancel, end_by_filter, end_by_expiry])
def test_a_task_that_runs_whatever_happens_waits_for_the_seal_after_its_root_has_ended(
    store: Store, clock: ManualClock, end: Callable[[Store, ManualClock, TaskId], None]
) -> None:
    root = a_task(key="root", handler="root", workflow="w", expires=MINUTE)
    ids = submit(store, root, always("cleanup", "root"), step("report", "cleanup"))

    end(store, clock, ids[0])
    late = submit_one(
        store, key="late", workflow="w", prerequisites=["root", "cleanup"], on_failure=OnFailure.RUN, queue="late"
    )

    assert task_of(store, ids[0]).state.ended_badly
    assert states_of(store, [*ids[1:], late]) == [WAITING] * 3
    assert claim_all(store) == []
    seal(store, clock)
    assert run_all(store) == ids[1:]
    assert state_of(store, late) is RUNNABLE


def test_a_task_that_runs_whatever_happens_waits_for_the_seal_though_its_root_ended_at_once(
    store: Store, clock: ManualClock
) -> None:
    [gone] = submit(store, step("gone"))
    store.cancel([gone], reason="not wanted")

    child, cleanup = submit(store, step("child", "gone"), always("cleanup", "child"))

    assert states_of(store, [child, cleanup]) == [CANCELLED, WAITING]
    seal(store, clock)
    assert run_all(store) == [cleanup]


def test_a_dependent_retried_without_its_cancelled_root_waits_for_the_seal(store: Store, clock: ManualClock) -> None:
    root, child = submit(store, step("root"), step("child", "root"))
    store.cancel([root], reason="not wanted")

    assert store.retry([child]) == 1

    assert (state_of(store, child), task_of(store, child).waiting) == (WAITING, 1)
    seal(store, clock)
    assert run_all(store) == [child]


def test_a_dependent_retried_twice_waits_for_the_seal_once(store: Store, clock: ManualClock) -> None:
    root, child = submit(store, step("root"), step("child", "root"))
    store.cancel([root], reason="not wanted")

    for _ in range(2):
        store.retry([child])
        assert (state_of(store, child), task_of(store, child).waiting) == (WAITING, 1)
        store.cancel([child], reason="again")
    store.retry([child])
    seal(store, clock)

    assert run_all(store) == [child]


@pytest.mark.parametrize("dependents", [True, False])
def test_a_root_retried_before_the_seal_waits_for_it_and_so_do_its_dependents(
    store: Store, clock: ManualClock, dependents: bool
) -> None:
    ids = submit(store, step("root"), step("child", "root"), step("below", "child"))
    store.cancel([ids[0]], reason="by mistake")

    assert store.retry([ids[0]] if dependents else ids, dependents=dependents) == 3

    assert states_of(store, ids) == [WAITING] * 3
    assert claim_all(store) == []
    seal(store, clock)
    assert run_all(store) == ids


def test_a_dependent_whose_root_was_purged_waits_for_the_seal_when_it_is_retried(
    store: Store, clock: ManualClock
) -> None:
    root, child = submit(store, step("root"), step("child", "root"))
    store.cancel([root], reason="not wanted")
    assert store.purge([root]) == 1

    store.retry([child])

    assert state_of(store, child) is WAITING
    seal(store, clock)
    assert run_all(store) == [child]


def test_a_task_retried_before_the_seal_still_waits_for_a_task_outside(store: Store, clock: ManualClock) -> None:
    [outside] = submit(store, a_task(queue="outside"))
    root, child = submit(store, step("root"), step("child", "root", outside))
    store.cancel([root], reason="not wanted")
    store.retry([child])
    complete(store, claim_one(store, queue="outside"))

    assert state_of(store, child) is WAITING
    seal(store, clock)
    assert run_all(store) == [child]


def test_a_workflow_that_was_cancelled_whole_takes_more_tasks_and_is_sealed(store: Store, clock: ManualClock) -> None:
    ids = submit(store, step("root"), step("child", "root"), always("cleanup", "child"))

    assert store.cancel(Filter(workflow="w"), reason="not wanted") == 3
    late = submit_one(store, key="late", workflow="w")
    seal(store, clock)

    assert states_of(store, ids) == [CANCELLED] * 3
    assert run_all(store) == [late]


def test_a_cancel_after_the_seal_follows_the_policies(store: Store, clock: ManualClock) -> None:
    root, child, cleanup = submit(store, step("root"), step("child", "root"), always("cleanup", "root"))
    seal(store, clock)
    store.cancel([root], reason="not wanted")
    sweep_until_quiet(store)

    assert states_of(store, [root, child, cleanup]) == [CANCELLED, CANCELLED, RUNNABLE]


def test_a_step_that_failed_after_the_seal_is_retried_at_once(store: Store, clock: ManualClock) -> None:
    root, child = submit(store, step("root"), step("child", "root"))
    seal(store, clock)
    run(store, GAVE_UP)
    sweep_until_quiet(store)

    store.retry([child])

    assert states_of(store, [root, child]) == [State.FAILED, RUNNABLE]
