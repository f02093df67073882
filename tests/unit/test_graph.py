from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import an_id
from windlass.core.graph import (
    MAX_PREREQUISITES,
    End,
    Unblocked,
    check_fan_in,
    check_graph,
    check_unique,
    find_any_cycle,
    find_cycle,
    unblock,
)
from windlass.core.lifecycle import State
from windlass.core.task import OnFailure, TaskId
from windlass.errors import CycleFound, DuplicateTask, InvalidTask

MANY = 100_000
graphs = st.integers(1, 9).flatmap(
    lambda size: st.dictionaries(
        st.integers(0, size), st.lists(st.integers(0, size + 1), max_size=3), min_size=1, max_size=size
    )
)


def reaches_itself(graph: Mapping[int, Sequence[int]], start: int) -> bool:
    """Whether a task waits for itself: follow every way upwards from it."""
    seen: set[int] = set()
    front = set(graph.get(start, ()))
    while front:
        seen |= front
        front = {above for here in front for above in graph.get(here, ())} - seen
    return start in seen


def shortest_through(graph: Mapping[int, Sequence[int]], start: int) -> int:
    """The number of tasks on the shortest cycle through one of them."""
    front, steps = set(graph[start]), 1
    while start not in front:
        front, steps = {above for here in front for above in graph.get(here, ())}, steps + 1
    return steps


def is_a_cycle(graph: Mapping[int, Sequence[int]], cycle: Sequence[int]) -> bool:
    return all(above in graph[here] for here, above in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


@given(graph=graphs)
def test_a_cycle_is_found_exactly_when_there_is_one(graph: dict[int, list[int]]) -> None:
    cycle = find_any_cycle(graph)

    assert bool(cycle) == any(reaches_itself(graph, node) for node in graph)
    if cycle:
        assert is_a_cycle(graph, cycle)
        assert len(set(cycle)) == len(cycle)
        assert len(cycle) in {shortest_through(graph, member) for member in cycle}


@given(graph=graphs, start=st.integers(0, 9))
def test_the_cycle_through_one_task_is_the_shortest(graph: dict[int, list[int]], start: int) -> None:
    ids = {an_id(node): [an_id(above) for above in parents] for node, parents in graph.items()}

    cycle, complete = find_cycle(an_id(start), lambda id: ids.get(id, []))

    assert complete
    if cycle is not None:
        numbers = [id.int for id in cycle]
        assert numbers[0] == start
        assert is_a_cycle(graph, numbers)
        assert len(numbers) == shortest_through(graph, start)
    else:
        assert not reaches_itself(graph, start)


@given(order=st.permutations(range(8)), data=st.data())
def test_a_graph_whose_edges_all_point_back_is_accepted(order: list[int], data: st.DataObject) -> None:
    graph = {
        node: data.draw(st.lists(st.sampled_from(order[:n]), max_size=3)) if n else [] for n, node in enumerate(order)
    }

    check_graph(graph)


def test_a_cycle_is_named_in_the_order_in_which_its_tasks_wait() -> None:
    with pytest.raises(CycleFound) as refused:
        check_graph({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []})

    cycle = refused.value.cycle
    start = cycle.index("a")
    assert cycle[start:] + cycle[:start] == ("a", "b", "c")
    assert " → ".join([*map(str, cycle), str(cycle[0])]) in str(refused.value)


def test_of_two_ways_round_the_shorter_is_named() -> None:
    assert find_any_cycle({"a": ["b", "a"], "b": ["a"]}) == ["a"]


def test_the_message_of_a_long_cycle_is_cut_short() -> None:
    cycle = {n: [(n + 1) % 1_000] for n in range(1_000)}

    with pytest.raises(CycleFound) as refused:
        check_graph(cycle)

    assert len(refused.value.cycle) == 1_000
    assert len(str(refused.value)) < 300
    assert "1000 tasks" in str(refused.value)


def test_names_outside_of_the_batch_are_not_looked_at() -> None:
    check_graph({"a": ["elsewhere"], "b": ["a", "elsewhere"]})


def test_a_chain_of_a_hundred_thousand_is_an_ordinary_graph() -> None:
    chain: dict[int, Sequence[int]] = {n: [n - 1] if n else [] for n in range(MANY)}
    check_graph(chain)

    chain[0] = [MANY - 1]
    assert len(find_any_cycle(chain)) == MANY


def test_a_fan_of_a_hundred_thousand_is_an_ordinary_graph() -> None:
    check_graph({0: [], **{n: [0] for n in range(1, MANY)}, MANY: range(1, MANY)})


def test_a_search_for_a_cycle_stops_at_its_budget() -> None:
    def chain(id: TaskId) -> Iterable[TaskId]:
        return [an_id(id.int + 1)]

    assert find_cycle(an_id(0), chain, budget=10) == (None, False)


def test_doubles_are_named_once_in_their_order() -> None:
    with pytest.raises(DuplicateTask) as refused:
        check_unique(["b", "a", "b", "c", "a", "b"])

    assert refused.value.ids == ("b", "a")
    check_unique(["a", "b", "c"])


def test_a_fan_in_has_its_limit() -> None:
    check_fan_in("me", range(MAX_PREREQUISITES))

    with pytest.raises(InvalidTask, match="me"):
        check_fan_in("me", range(MAX_PREREQUISITES + 1))


ends = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(End)), max_size=4)


@given(
    state=st.sampled_from(State),
    ended=ends,
    more=st.integers(0, 3),
    policy=st.sampled_from(OnFailure),
    due=st.integers(0, 2),
)
def test_what_the_ends_of_prerequisites_make_of_a_task(
    state: State, ended: list[tuple[int, End]], more: int, policy: OnFailure, due: int
) -> None:
    after = unblock(state, len(ended) + more, policy, ended, due=due, now=1)

    assert after.waiting == more
    if state is not State.WAITING:
        assert (after.state, after.reason, after.due) == (state, None, due)
    elif policy is OnFailure.CANCEL and not all(end.good for _, end in ended):
        assert after.state is State.CANCELLED
        assert after.reason is not None
    elif more:
        assert after == Unblocked(State.WAITING, more, None, due)
    else:
        assert after == Unblocked(State.SCHEDULED if due > 1 else State.RUNNABLE, 0, None, max(due, 1))


@given(ended=st.permutations([(1, End.FAILED), (2, End.COMPLETED), (3, End.MISSING), (4, End.SEALED)]))
def test_the_reason_does_not_depend_on_the_order_of_the_ends(ended: list[tuple[int, End]]) -> None:
    after = unblock(State.WAITING, 4, OnFailure.CANCEL, ended, due=0, now=1)

    assert after.reason == "Prerequisite 1 failed."
