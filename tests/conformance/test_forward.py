from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_task,
    all_tasks,
    claim_all,
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
from windlass.core.graph import MAX_PLACEHOLDERS
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.errors import InvalidTask, NotAllowed, UnknownPrerequisite
from windlass.stores.protocol import Filter, Neighbour, Store


def after(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    return a_task(key=key, prerequisites=prerequisites, workflow="w", **changes)


def id_of(key: str) -> TaskId:
    return keyed_id("default", "w", key)


def test_a_workflow_that_did_not_ask_for_it_takes_no_forward_references(store: Store) -> None:
    store.open_workflow("w")
    store.open_workflow("w", forward=HOUR)  # repeating a call changes nothing

    with pytest.raises(UnknownPrerequisite):
        store.submit([after("child", "later")])


def test_a_forward_reference_belongs_to_one_workflow_of_one_tenant(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)

    for changes in ({"workflow": "other"}, {"workflow": None}, {"workflow": "w", "tenant": "acme"}):
        with pytest.raises(UnknownPrerequisite):
            store.submit([a_task(key="child", prerequisites=["later"], **changes)])


def test_a_task_waits_for_one_that_was_named_ahead_of_time(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    [child] = submit(store, after("child", "parent"))
    clock.advance(MINUTE)
    assert (state_of(store, child), task_of(store, child).waiting) == (State.WAITING, 1)

    [receipt] = store.submit([after("parent")])

    assert (receipt.id, receipt.created, receipt.state) == (id_of("parent"), True, State.RUNNABLE)
    assert run_all(store) == [receipt.id, child]


def test_a_placeholder_is_no_task(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    [child] = submit(store, after("child", "parent"))

    assert store.get([id_of("parent")]) == [None]
    assert [task.id for task in store.find(Filter()).tasks] == [child]
    assert sum(count.tasks for count in store.counts()) == 1
    assert store.neighbourhood(child).prerequisites == [Neighbour(id_of("parent"), None, False)]


def test_a_filled_placeholder_outlives_its_time_limit(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=MINUTE)
    child, parent = submit(store, after("child", "parent")) + submit(store, after("parent"))

    clock.advance(HOUR)
    swept = sweep_until_quiet(store)

    assert swept.missing == 0
    assert run_all(store) == [parent, child]


def test_a_placeholder_filled_by_a_task_that_is_cancelled_at_once_cancels_dependents(store: Store) -> None:
    submit(store, after("bad"))
    run(store, GAVE_UP)
    store.open_workflow("w", forward=HOUR)
    [child] = submit(store, after("child", "parent"))

    [parent] = submit(store, after("parent", "bad"))
    sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.CANCELLED, State.CANCELLED]


@pytest.mark.parametrize("policy", OnFailure)
def test_a_task_that_never_comes_is_missing(store: Store, clock: ManualClock, policy: OnFailure) -> None:
    store.open_workflow("w", forward=MINUTE)
    [child] = submit(store, after("child", "parent", on_failure=policy))

    clock.advance(MINUTE - MICROSECOND)
    sweep_until_quiet(store)
    assert state_of(store, child) is State.WAITING

    clock.advance(MICROSECOND)
    swept = sweep_until_quiet(store)
    task = task_of(store, child)
    assert (swept.missing, task.waiting) == (1, 0)
    if policy is OnFailure.CANCEL:
        assert (task.state, task.finished) == (State.CANCELLED, clock.now())
        assert task.reason == f"Prerequisite {id_of('parent')} was never submitted."
    else:
        assert task.state is State.RUNNABLE
    assert store.neighbourhood(child).prerequisites == [Neighbour(id_of("parent"), None, True)]


def test_the_time_limit_runs_from_the_first_naming(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=MINUTE)
    [first] = submit(store, after("first", "parent"))
    clock.advance(MINUTE - SECOND)
    [second] = submit(store, after("second", "parent"))

    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert states_of(store, [first, second]) == [State.CANCELLED, State.CANCELLED]


def test_a_missing_task_that_comes_late_is_a_task_like_any_other(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=MINUTE)
    [child] = submit(store, after("child", "parent"))
    clock.advance(MINUTE)
    sweep_until_quiet(store)

    [parent] = submit(store, after("parent"))
    [other] = submit(store, after("other", "parent"))

    assert states_of(store, [parent, child, other]) == [State.RUNNABLE, State.CANCELLED, State.WAITING]
    assert run_all(store) == [parent, other]


def test_a_missing_task_may_be_named_again(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=MINUTE)
    submit(store, after("child", "parent"))
    clock.advance(MINUTE)
    sweep_until_quiet(store)

    [again] = submit(store, after("again", "parent"))
    clock.advance(MINUTE - MICROSECOND)
    sweep_until_quiet(store)

    assert state_of(store, again) is State.WAITING


def test_a_cancelled_task_brought_back_waits_for_its_placeholder_again(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    [child] = submit(store, after("child", "parent"))
    store.cancel([child], reason="by mistake")

    store.retry([child])

    assert (state_of(store, child), task_of(store, child).waiting) == (State.WAITING, 1)


def test_a_workflow_with_open_forward_references_is_not_sealed(store: Store) -> None:
    store.open_workflow("w", sealed=False, forward=HOUR)
    child, root = submit(store, after("child", "parent"), after("root"))

    with pytest.raises(NotAllowed):
        store.seal_workflow("w")

    assert states_of(store, [child, root]) == [State.WAITING, State.WAITING]


def test_sealing_may_end_the_forward_references_as_missing(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False, forward=HOUR)
    child, root, brave = submit(
        store, after("child", "parent"), after("root"), after("brave", "parent", on_failure=OnFailure.RUN)
    )
    clock.advance(SECOND)

    store.seal_workflow("w", missing=True)
    sweep_until_quiet(store)

    assert states_of(store, [child, root, brave]) == [State.CANCELLED, State.RUNNABLE, State.RUNNABLE]
    assert task_of(store, child).reason == f"Prerequisite {id_of('parent')} was never submitted."


def test_a_workflow_whose_forward_references_were_filled_is_sealed(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", sealed=False, forward=HOUR)
    [child] = submit(store, after("child", "parent"))
    [parent] = submit(store, after("parent"))

    store.seal_workflow("w")

    assert run_all(store) == [parent, child]


def test_too_many_forward_references_are_refused(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)

    with pytest.raises(InvalidTask, match="forward references"):
        store.submit([after("child", *(f"later-{n}" for n in range(MAX_PLACEHOLDERS + 1)))])

    assert all_tasks(store) == []


def test_the_task_of_another_tenant_never_fills_a_place(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    foreign = keyed_id("acme", None, "guessed")
    try:
        [child] = submit(store, after("child", foreign))
    except UnknownPrerequisite:
        return  # an id of which nobody can say whose it will be may as well be refused

    submit(store, a_task(key="guessed", tenant="acme"))
    complete(store, *claim_all(store))
    sweep_until_quiet(store)

    assert state_of(store, foreign) is State.COMPLETED
    assert state_of(store, child) is State.WAITING
    assert [neighbour.state for neighbour in store.neighbourhood(child).prerequisites] == [None]
    assert store.neighbourhood(foreign).dependents == []


def test_a_forward_reference_does_not_reveal_tasks_of_other_tenants(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    there = submit_one(store, key="secret", tenant="acme")
    not_there = keyed_id("acme", None, "nothing")

    def answer(prerequisite: TaskId) -> str:
        try:
            [receipt] = store.submit([after(f"child of {prerequisite}", prerequisite)])
        except UnknownPrerequisite as refusal:
            return str(refusal).replace(str(prerequisite), "")
        return receipt.state

    assert answer(there) == answer(not_there)


def test_a_retried_submit_fills_no_place_twice(store: Store, clock: ManualClock) -> None:
    store.open_workflow("w", forward=HOUR)
    [child] = submit(store, after("child", "parent"))
    submit(store, after("parent"))

    [again] = store.submit([after("parent")])
    run(store, Returned())

    assert not again.created
    assert (state_of(store, child), task_of(store, child).waiting) == (State.RUNNABLE, 0)
