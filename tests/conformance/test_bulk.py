"""Operations on more tasks than one transaction of a SQL store handles, and retries with dependents."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.builders import (
    GAVE_UP,
    SECOND,
    a_task,
    after,
    all_tasks,
    claim_all,
    claimed_ids,
    counted,
    recounted,
    report,
    run,
    run_all,
    state_of,
    states_of,
    submit,
    sweep_until_quiet,
    task_of,
)
from tests.support.graphs import Graph, chain, run_graph, tasks_of
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.core.task import OnFailure, TaskId
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Store

ENTRY = Entry(subject="task/all", action="did", text="did it", by="ann")
LONG = 520
"""More than one transaction of a SQL store takes."""


def dense(size: int, seed: int) -> Graph:
    """Every task waits for the first one, and for some of those just before it."""
    chance = Random(seed)
    return [(n, sorted({0, *chance.choices(range(max(0, n - 40), n), k=8)}) if n else []) for n in range(size)]


def submit_graph(store: Store, clock: ManualClock, graph: Graph) -> list[TaskId]:
    ids = submit(store, *tasks_of(graph, "w", "default"))
    clock.advance(SECOND)  # The later ones of a batch are due some microseconds later.
    return ids


def fail_the_first(store: Store) -> None:
    run(store, GAVE_UP)
    sweep_until_quiet(store)


def states(store: Store) -> dict[State, int]:
    found = [task.state for task in all_tasks(store)]
    return {state: found.count(state) for state in State if state in found}


@pytest.mark.parametrize("by_filter", [True, False], ids=["by filter", "by ids"])
def test_a_long_chain_brought_back_has_one_task_to_run_and_keeps_its_order(
    store: Store, clock: ManualClock, by_filter: bool
) -> None:
    ids = submit_graph(store, clock, chain(LONG))
    store.cancel(Filter(workflow="w"), reason="not wanted")
    sweep_until_quiet(store)
    Random(1).shuffle(ids)

    assert store.retry(Filter(workflow="w") if by_filter else ids, entries=[ENTRY]) == LONG

    assert states(store) == {State.RUNNABLE: 1, State.WAITING: LONG - 1}
    assert counted(store) == recounted(store)
    assert len(store.audit("task/all")) == 1
    ran = run_graph(store, clock, chain(LONG), "default")
    assert (ran.order, ran.too_early, ran.healed) == (list(range(LONG)), [], 0)


def test_a_dense_graph_brought_back_by_filter_keeps_its_order(store: Store, clock: ManualClock) -> None:
    graph = dense(LONG, seed=18)
    submit_graph(store, clock, graph)
    fail_the_first(store)
    assert states(store) == {State.FAILED: 1, State.CANCELLED: LONG - 1}

    assert store.retry(Filter()) == LONG

    ran = run_graph(store, clock, graph, "default")
    assert (len(ran.order), ran.too_early, ran.healed) == (LONG, [], 0)


def test_a_retry_of_many_takes_only_what_ended_badly(store: Store, clock: ManualClock) -> None:
    graph: Graph = [(n, [n - 1] if n % 11 else []) for n in range(LONG)]
    submit_graph(store, clock, graph)
    for number, claim in enumerate(claim_all(store)):
        report(store, claim, GAVE_UP if number % 2 else Returned())
    sweep_until_quiet(store)
    before = states(store)

    assert store.retry(Filter(workflow="w")) == before[State.FAILED] + before[State.CANCELLED]

    assert states(store)[State.COMPLETED] == before[State.COMPLETED]
    assert counted(store) == recounted(store)
    ran = run_graph(store, clock, graph, "default")
    assert [pair for pair in ran.too_early if pair[1] in ran.order] == []


def test_a_retry_from_a_step_waits_for_the_longer_way_around(store: Store, clock: ManualClock) -> None:
    graph: Graph = [*chain(5), (5, [0, 4])]
    ids = submit_graph(store, clock, graph)
    fail_the_first(store)
    assert states_of(store, ids) == [State.FAILED] + [State.CANCELLED] * 5

    assert store.retry([ids[0]], dependents=True, dry_run=True, entries=[ENTRY]) == 6
    assert states_of(store, ids) == [State.FAILED] + [State.CANCELLED] * 5
    assert store.audit("task/all") == []
    assert store.retry([ids[0]], dependents=True, entries=[ENTRY]) == 6

    assert states_of(store, ids) == [State.RUNNABLE] + [State.WAITING] * 5
    assert task_of(store, ids[5]).waiting == 2
    assert len(store.audit("task/all")) == 1
    assert run_graph(store, clock, graph, "default").order == [0, 1, 2, 3, 4, 5]


def test_a_retry_from_the_root_of_a_dense_graph_keeps_its_order(store: Store, clock: ManualClock) -> None:
    graph = dense(LONG, seed=1_002)
    ids = submit_graph(store, clock, graph)
    fail_the_first(store)

    assert store.retry([ids[0]], dependents=True) == LONG

    assert counted(store) == recounted(store)
    ran = run_graph(store, clock, graph, "default")
    assert (len(ran.order), ran.too_early, ran.healed) == (LONG, [], 0)


def test_a_retry_from_a_step_in_the_middle_of_a_long_chain_takes_what_is_below(
    store: Store, clock: ManualClock
) -> None:
    ids = submit_graph(store, clock, chain(LONG))
    store.cancel([ids[10]], reason="not wanted")
    sweep_until_quiet(store)

    assert store.retry([ids[10]], dependents=True) == LONG - 10

    assert states(store) == {State.RUNNABLE: 1, State.WAITING: LONG - 1}
    assert len(run_graph(store, clock, chain(LONG), "default").order) == LONG


def test_a_retry_from_a_step_leaves_what_another_prerequisite_keeps_down(store: Store, clock: ManualClock) -> None:
    a, b, both, below, mine, everything = submit(
        store,
        a_task(key="a"),
        a_task(key="b"),
        after("both", "a", "b"),
        after("below", "both"),
        after("mine", "a"),
        after("everything", "mine", "below"),
    )
    clock.advance(SECOND)
    for claim in claim_all(store):
        report(store, claim, GAVE_UP)
    sweep_until_quiet(store)

    assert store.retry([a], dependents=True) == 2
    assert states_of(store, [a, mine]) == [State.RUNNABLE, State.WAITING]
    assert states_of(store, [both, below, everything]) == [State.CANCELLED] * 3
    assert run_all(store) == [a, mine]

    assert store.retry([b], dependents=True) == 4
    assert run_all(store) == [b, both, below, everything]


def test_a_retry_from_a_step_leaves_what_a_person_has_cancelled(store: Store, clock: ManualClock) -> None:
    a, b, c = submit(store, a_task(key="a"), after("b", "a"), after("c", "b"))
    store.cancel([b], reason="not wanted")
    clock.advance(SECOND)
    fail_the_first(store)
    assert states_of(store, [a, b, c]) == [State.FAILED, State.CANCELLED, State.CANCELLED]

    assert store.retry([a], dependents=True) == 1

    assert states_of(store, [a, b, c]) == [State.RUNNABLE, State.CANCELLED, State.CANCELLED]


def test_a_retry_from_a_step_leaves_what_a_prerequisite_that_never_came_keeps_down(
    store: Store, clock: ManualClock
) -> None:
    store.open_workflow("w", forward=SECOND)
    a, b = submit(store, a_task(key="a", workflow="w"), after("b", "a", "never", workflow="w"))
    clock.advance(SECOND)
    sweep_until_quiet(store)
    fail_the_first(store)
    assert states_of(store, [a, b]) == [State.FAILED, State.CANCELLED]

    assert store.retry([a], dependents=True) == 1

    assert states_of(store, [a, b]) == [State.RUNNABLE, State.CANCELLED]


def test_a_retry_from_a_step_that_did_not_end_badly_does_nothing(store: Store, clock: ManualClock) -> None:
    a, b = submit(store, a_task(key="a"), after("b", "a"))

    assert store.retry([a], dependents=True, entries=[ENTRY]) == 0

    assert states_of(store, [a, b]) == [State.RUNNABLE, State.WAITING]
    assert store.audit("task/all") == []


def test_a_retry_from_a_step_passes_by_what_ran_all_the_same(store: Store, clock: ManualClock) -> None:
    a, b, c = submit(store, a_task(key="a"), after("b", "a", on_failure=OnFailure.RUN), after("c", "b"))
    clock.advance(SECOND)
    fail_the_first(store)
    assert run_all(store) == [b, c]

    assert store.retry([a], dependents=True) == 1

    assert states_of(store, [a, b, c]) == [State.RUNNABLE, State.COMPLETED, State.COMPLETED]


def test_a_cancel_of_many_counts_all_it_has_cancelled_and_gives_each_the_reason(
    store: Store, clock: ManualClock
) -> None:
    below = after("last", str(LONG - 1), workflow="w", queue="other")
    *ids, last = submit(store, *tasks_of(chain(LONG), "w", "default"), below)
    clock.advance(SECOND)

    assert store.cancel(Filter(queue="default"), reason="not wanted", entries=[ENTRY]) == LONG
    sweep_until_quiet(store)

    tasks = [task for task in store.get(ids) if task is not None]
    assert {(task.state, task.reason) for task in tasks} == {(State.CANCELLED, "not wanted")}
    assert (state_of(store, last), task_of(store, last).reason) == (
        State.CANCELLED,
        f"Prerequisite {ids[-1]} was cancelled.",
    )
    assert store.cancel(Filter(), reason="again") == 0
    assert counted(store) == recounted(store)
    assert len(store.audit("task/all")) == 1


def test_a_cancel_of_many_by_state_counts_those_that_wait(store: Store, clock: ManualClock) -> None:
    submit_graph(store, clock, chain(LONG))
    [first] = claimed_ids(claim_all(store))

    assert store.cancel(Filter(states=frozenset({State.WAITING})), reason="not wanted") == LONG - 1

    assert states(store) == {State.LEASED: 1, State.CANCELLED: LONG - 1}
    assert state_of(store, first) is State.LEASED


def test_a_purge_of_many_removes_all_that_have_ended(store: Store, clock: ManualClock) -> None:
    submit_graph(store, clock, chain(LONG))
    fail_the_first(store)

    assert store.purge(Filter()) == LONG

    assert all_tasks(store) == []
    assert recounted(store) == counted(store) == {}
