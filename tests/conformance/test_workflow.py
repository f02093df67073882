from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    SECOND,
    a_task,
    claim_all,
    claimed_ids,
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
from windlass.core.task import NewTask, OnFailure
from windlass.errors import InvalidTask, UnknownPrerequisite, UnknownTask
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Neighbourhood, Store


def after(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    return a_task(key=key, prerequisites=prerequisites, workflow="w", **changes)


def test_the_tasks_of_an_unsealed_workflow_wait_for_its_seal(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False)
    root, child = submit(store, after("root"), after("child", "root"))
    clock.advance(SECOND)
    [late] = submit(store, after("late"))
    assert claim_all(store) == []
    assert states_of(store, [root, child, late]) == [State.WAITING] * 3
    assert task_of(store, root).waiting == 1

    store.seal_workflow("w")
    sweep_until_quiet(store)

    assert states_of(store, [root, child, late]) == [State.RUNNABLE, State.WAITING, State.RUNNABLE]
    assert run_all(store) == [root, late, child]


def test_a_workflow_is_opened_with_its_first_tasks_or_not_at_all(store: Store) -> None:
    entry = Entry(subject="workflow/w", action="opened", text="opened", by="ann")
    with pytest.raises(UnknownPrerequisite):
        store.open_workflow("w", sealed=False, tasks=[after("child", "missing")], entries=[entry])
    assert state_of(store, submit_one(store, workflow="w")) is State.RUNNABLE
    assert store.audit() == []

    first = store.open_workflow("v", sealed=False, tasks=[a_task(workflow="v", key="root")], entries=[entry])
    again = store.open_workflow("v", sealed=False, tasks=[a_task(workflow="v", key="root")], entries=[entry])

    assert [(one.created, one.state) for one in (*first, *again)] == [(True, State.WAITING), (False, State.WAITING)]
    assert len(store.audit()) == 1


def test_a_task_behind_a_stored_one_that_waits_for_the_seal_does_not_wait_for_it_as_well(
    store: Store, clock: ManualClock
) -> None:
    [early] = submit(store, after("early"))
    store.open_workflow("w", sealed=False)
    root, child = submit(store, after("root"), after("child", "root"))

    behind_root, behind_child, behind_early = submit(
        store, after("a", "root"), after("b", "child"), after("c", "early")
    )
    anyway = submit_one(store, key="d", workflow="w", prerequisites=["root"], on_failure=OnFailure.RUN)

    waiting = {id: task_of(store, id).waiting for id in (root, child, behind_root, behind_child, behind_early, anyway)}
    assert waiting == {root: 1, child: 1, behind_root: 1, behind_child: 2, behind_early: 2, anyway: 2}
    clock.advance(SECOND)
    assert run_all(store) == [early], "nothing else runs before the seal"
    store.seal_workflow("w")
    sweep_until_quiet(store)
    assert sorted(run_all(store)) == sorted(waiting)


def test_a_sealed_workflow_takes_tasks_that_run_at_once(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    store.seal_workflow("w")

    assert state_of(store, submit_one(store, workflow="w")) is State.RUNNABLE


def test_a_workflow_that_nobody_opened_is_sealed(store: Store) -> None:
    assert state_of(store, submit_one(store, workflow="w")) is State.RUNNABLE


def test_the_seal_of_one_workflow_is_not_that_of_another(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False)
    store.open_workflow("w", tenant="acme", sealed=False)
    store.open_workflow("other", sealed=False)
    mine, acme, other = submit(
        store, a_task(workflow="w"), a_task(workflow="w", tenant="acme"), a_task(workflow="other")
    )
    clock.advance(SECOND)

    store.seal_workflow("w", tenant="acme")

    assert states_of(store, [mine, acme, other]) == [State.WAITING, State.RUNNABLE, State.WAITING]


def test_opening_a_workflow_again_changes_nothing(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    store.open_workflow("w", sealed=True)
    assert state_of(store, submit_one(store, workflow="w")) is State.WAITING

    store.seal_workflow("w")
    store.open_workflow("w", sealed=False)
    assert state_of(store, submit_one(store, workflow="w")) is State.RUNNABLE


def test_sealing_again_changes_nothing(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    id = submit_one(store, workflow="w")

    store.seal_workflow("w")
    store.seal_workflow("w")

    assert (state_of(store, id), task_of(store, id).waiting) == (State.RUNNABLE, 0)


def test_an_unknown_workflow_cannot_be_sealed(store: Store) -> None:
    store.open_workflow("w", tenant="acme", sealed=False)

    with pytest.raises(UnknownTask):
        store.seal_workflow("w")


@pytest.mark.parametrize(("workflow", "tenant"), [("", "default"), ("w", "no name"), ("a\0b", "default")])
def test_a_workflow_needs_proper_names(store: Store, workflow: str, tenant: str) -> None:
    with pytest.raises(InvalidTask):
        store.open_workflow(workflow, tenant=tenant)


def test_a_sealed_task_that_is_due_later_is_scheduled(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    id = submit_one(store, workflow="w", delay=HOUR)
    assert state_of(store, id) is State.WAITING

    store.seal_workflow("w")

    assert state_of(store, id) is State.SCHEDULED


def test_a_task_cancelled_before_the_seal_stays_cancelled(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    root, child = submit(store, after("root"), after("child", "root"))
    store.cancel([root], reason="not wanted")

    store.seal_workflow("w")
    sweep_until_quiet(store)

    assert states_of(store, [root, child]) == [State.CANCELLED, State.CANCELLED]


def test_a_task_brought_back_before_the_seal_waits_for_it_again(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    id = submit_one(store, workflow="w")
    store.cancel([id], reason="by mistake")

    store.retry([id])
    assert state_of(store, id) is State.WAITING

    store.seal_workflow("w")
    assert state_of(store, id) is State.RUNNABLE


def test_the_seal_is_nobodys_neighbour(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    id = submit_one(store, workflow="w")

    assert store.neighbourhood(id) == Neighbourhood([], [])


def test_a_key_may_be_submitted_again_before_and_after_the_seal(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    [first] = store.submit([after("root")])
    [second] = store.submit([after("root")])
    store.seal_workflow("w")
    [third] = store.submit([after("root")])

    assert (first.id, second.id) == (third.id, third.id)
    assert [receipt.created for receipt in (first, second, third)] == [True, False, False]
    assert claimed_ids(claim_all(store)) == [first.id]


@pytest.mark.parametrize("ended", [True, False])
def test_a_task_that_waits_only_for_tasks_outside_still_waits_for_the_seal(
    store: Store, clock: ManualClock, ended: bool
) -> None:
    outside = submit_one(store)
    store.open_workflow("w", sealed=False)
    if ended:
        complete(store, *claim_all(store))
    [id] = submit(store, after("inside", outside))
    if not ended:
        complete(store, *claim_all(store))
    sweep_until_quiet(store)

    assert state_of(store, outside) is State.COMPLETED
    assert state_of(store, id) is State.WAITING

    store.seal_workflow("w")
    assert state_of(store, id) is State.RUNNABLE


def test_a_task_that_waits_only_for_what_ran_before_the_workflow_was_opened_still_waits_for_the_seal(
    store: Store,
) -> None:
    submit(store, after("early"))
    complete(store, *claim_all(store))
    store.open_workflow("w", sealed=False)

    [id] = submit(store, after("late", "early"))

    assert state_of(store, id) is State.WAITING


def test_a_workflow_goes_on_after_a_failure_of_one_branch(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False)
    ids = submit(store, after("bad"), after("good"), after("of bad", "bad"), after("of good", "good"))
    clock.advance(SECOND)
    store.seal_workflow("w")

    run(store, GAVE_UP)
    run_all(store)

    assert states_of(store, ids) == [State.FAILED, State.COMPLETED, State.CANCELLED, State.COMPLETED]
