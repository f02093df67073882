from __future__ import annotations

import pytest

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    SECOND,
    a_session,
    a_task,
    after,
    all_tasks,
    at_once,
    claim_all,
    claim_one,
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
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Outcome, Released
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.errors import CycleFound, UnknownPrerequisite
from windlass.stores.protocol import Store


def submit_graph(store: Store, clock: ManualClock, *tasks: NewTask) -> list[TaskId]:
    """Submit a batch, and let the microseconds pass by which its later tasks are due later."""
    ids = submit(store, *tasks)
    clock.advance(SECOND)
    return ids


def test_a_task_waits_for_its_prerequisite(store: Store, clock: ManualClock) -> None:
    parent, child = submit_graph(store, clock, a_task(key="parent"), after("child", "parent"))
    assert states_of(store, [parent, child]) == [State.RUNNABLE, State.WAITING]
    assert task_of(store, child).waiting == 1

    [claim] = claim_all(store)
    complete(store, claim)

    assert states_of(store, [parent, child]) == [State.COMPLETED, State.RUNNABLE]
    assert task_of(store, child).waiting == 0


def test_a_task_that_is_unblocked_is_due_from_that_moment_and_keeps_its_place(store: Store, clock: ManualClock) -> None:
    parent, child = submit_graph(store, clock, a_task(key="parent", priority=1), after("child", "parent"))
    later = submit_one(store)
    clock.advance(HOUR)

    complete(store, claim_one(store))

    assert task_of(store, child).due == clock.now()
    assert claimed_ids(claim_all(store)) == [child, later]
    assert state_of(store, parent) is State.COMPLETED


def test_a_task_that_is_cancelled_or_still_waits_keeps_its_due_time(store: Store, clock: ManualClock) -> None:
    tasks = [after("waits", "one", "two"), after("cancelled", "bad")]
    *_, waits, cancelled = submit(store, a_task(key="one"), a_task(key="bad"), a_task(key="two"), *tasks)
    dues = [task_of(store, id).due for id in (waits, cancelled)]
    clock.advance(HOUR)

    complete(store, claim_one(store))
    run(store, GAVE_UP)

    assert states_of(store, [waits, cancelled]) == [State.WAITING, State.CANCELLED]
    assert [task_of(store, id).due for id in (waits, cancelled)] == dues


def test_a_task_that_is_unblocked_before_it_is_due_stays_due_then(store: Store, clock: ManualClock) -> None:
    parent, child = submit(store, a_task(key="parent"), after("child", "parent", delay=2 * HOUR))
    due = task_of(store, child).due
    clock.advance(HOUR)

    complete(store, claim_one(store))

    assert (state_of(store, child), task_of(store, child).due) == (State.SCHEDULED, due)
    assert state_of(store, parent) is State.COMPLETED


def test_the_order_within_the_batch_does_not_matter(store: Store, clock: ManualClock) -> None:
    child, parent = submit_graph(store, clock, after("child", "parent"), a_task(key="parent"))

    assert run_all(store) == [parent, child]


@pytest.mark.parametrize("outcome", [Released(), Released(delay=1_000_000), GAVE_UP], ids=type)
def test_only_a_final_end_unblocks_what_waits(store: Store, clock: ManualClock, outcome: Outcome) -> None:
    parent, child = submit_graph(store, clock, a_task(key="parent"), after("child", "parent", on_failure=OnFailure.RUN))

    run(store, outcome)

    final = state_of(store, parent).final
    assert state_of(store, child) is (State.RUNNABLE if final else State.WAITING)


def test_a_fan_in_waits_for_the_last_of_its_prerequisites(store: Store, clock: ManualClock) -> None:
    parents = [f"p{n}" for n in range(5)]
    *_, child = submit_graph(store, clock, *(a_task(key=key) for key in parents), after("child", *parents))

    for claim in claim_all(store):
        assert state_of(store, child) is State.WAITING
        complete(store, claim)

    assert state_of(store, child) is State.RUNNABLE


def test_prerequisites_that_end_in_one_batch_are_each_counted(store: Store, clock: ManualClock) -> None:
    *_, one, two = submit_graph(
        store,
        clock,
        *(a_task(key=key) for key in "abc"),
        after("one", "a", "b"),
        after("two", "a", "b", "c"),
    )

    a, b, c = claim_all(store)
    complete(store, a, b)
    assert states_of(store, [one, two]) == [State.RUNNABLE, State.WAITING]
    assert task_of(store, two).waiting == 1

    complete(store, c)
    assert state_of(store, two) is State.RUNNABLE


def test_a_fan_out_unblocks_every_dependent(store: Store, clock: ManualClock) -> None:
    _, *children = submit_graph(
        store, clock, a_task(key="parent"), *(after(f"child-{n}", "parent") for n in range(300))
    )

    complete(store, claim_one(store))
    sweep_until_quiet(store)

    assert claimed_ids(claim_all(store)) == children


def test_a_chain_runs_from_end_to_end(store: Store, clock: ManualClock) -> None:
    ids = submit_graph(store, clock, a_task(key="0"), *(after(str(n), str(n - 1)) for n in range(1, 30)))

    assert run_all(store) == ids


def test_a_diamond_runs_its_last_task_once(store: Store, clock: ManualClock) -> None:
    top, left, right, bottom = submit_graph(
        store, clock, a_task(key="top"), after("left", "top"), after("right", "top"), after("bottom", "left", "right")
    )

    assert run_all(store) == [top, left, right, bottom]


def test_a_prerequisite_named_twice_counts_once(store: Store, clock: ManualClock) -> None:
    parent, child = submit_graph(
        store, clock, a_task(key="parent"), after("child", "parent", keyed_id("default", None, "parent"), "parent")
    )

    assert task_of(store, child).waiting == 1
    assert run_all(store) == [parent, child]


def test_a_task_may_wait_for_tasks_that_exist_by_key_or_by_id(store: Store, clock: ManualClock) -> None:
    by_id = submit_one(store)
    [by_key] = submit(store, a_task(key="known"))

    [child] = submit_graph(store, clock, after("child", "known", by_id))

    assert task_of(store, child).waiting == 2
    assert run_all(store)[-1] == child
    assert state_of(store, by_key) is State.COMPLETED


def test_a_prerequisite_that_has_completed_already_is_not_waited_for(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="done"), a_task(key="open", queue="other"))
    complete(store, claim_one(store))

    one, two = submit_graph(store, clock, after("one", "done"), after("two", "done", "open"))

    assert states_of(store, [one, two]) == [State.RUNNABLE, State.WAITING]
    assert task_of(store, two).waiting == 1


def test_an_unblocked_task_that_is_due_later_is_scheduled(store: Store, clock: ManualClock) -> None:
    _, child = submit_graph(store, clock, a_task(key="parent"), after("child", "parent", delay=HOUR))
    assert state_of(store, child) is State.WAITING

    complete(store, claim_one(store))

    assert state_of(store, child) is State.SCHEDULED


def test_a_live_workflow_takes_more_tasks(store: Store, clock: ManualClock) -> None:
    submit_graph(store, clock, a_task(key="first", workflow="w"), after("second", "first", workflow="w"))
    complete(store, claim_one(store))

    submit_graph(store, clock, after("third", "first", "second", workflow="w"), a_task(key="new root", workflow="w"))

    assert [task_of(store, id).key for id in run_all(store)] == ["second", "new root", "third"]


def test_a_task_of_a_workflow_may_wait_for_one_that_stands_alone(store: Store, clock: ManualClock) -> None:
    alone = submit_one(store)

    [child] = submit_graph(store, clock, after("child", alone, workflow="w"))

    assert run_all(store) == [alone, child]


@pytest.mark.parametrize(
    "scope", [{"tenant": "acme"}, {"workflow": "other"}, {"tenant": "acme", "workflow": "w"}], ids=str
)
@pytest.mark.parametrize("workflow", ["w", None])
def test_tasks_of_other_tenants_and_workflows_are_refused_as_if_unknown(
    store: Store, scope: dict[str, str], workflow: str | None
) -> None:
    foreign = submit_one(store, **scope)
    unknown = keyed_id("default", "w", "nobody")

    with pytest.raises(UnknownPrerequisite) as of_foreign:
        store.submit([after("child", foreign, workflow=workflow)])
    with pytest.raises(UnknownPrerequisite) as of_unknown:
        store.submit([after("child", unknown, workflow=workflow)])

    assert of_foreign.value.ids == (foreign,)
    assert str(of_foreign.value).replace(str(foreign), "") == str(of_unknown.value).replace(str(unknown), "")
    assert len(all_tasks(store)) == 1


def test_a_batch_whose_tasks_wait_for_each_other_is_refused_by_name_and_leaves_nothing(store: Store) -> None:
    with pytest.raises(CycleFound) as refused:
        store.submit([a_task(key="fine"), after("a", "c", "fine"), after("b", "a"), after("c", "b"), after("d", "c")])

    assert set(refused.value.cycle) == set("abc")
    assert all_tasks(store) == []


def test_a_task_that_waits_for_itself_is_refused(store: Store) -> None:
    with pytest.raises(CycleFound) as refused:
        store.submit([after("a", "a")])

    assert refused.value.cycle == ("a",)


def test_parents_settled_by_many_nodes_at_once_lose_no_wake_up(store: Store, clock: ManualClock) -> None:
    parents = [a_task(key=f"p{n}") for n in range(40)]
    children = [after(f"c{n}", *(parent.key for parent in parents[n % 7 :: 2])) for n in range(20)]
    ids = submit_graph(store, clock, *parents, *children)
    claims = claim_all(store)

    def settle_some(thread: int) -> None:
        for claim in claims[thread::4]:
            complete(store, claim)

    at_once(4, settle_some)

    assert sweep_until_quiet(store).healed == 0
    assert set(states_of(store, ids[40:])) == {State.RUNNABLE}


def test_children_submitted_while_their_parent_is_settled_lose_no_wake_up(store: Store, clock: ManualClock) -> None:
    for n in range(20):
        submit(store, a_task(key=f"p{n}"))
        claim = claim_one(store)
        actions = [
            lambda claim=claim: complete(store, claim),
            lambda n=n: submit(store, after(f"c{n}", f"p{n}", queue="children")),
        ]
        at_once(2, lambda thread, actions=actions: actions[thread]())

    assert sweep_until_quiet(store).healed == 0
    assert len(store.claim(a_session(store), ["children"], limit=99)) == 20
