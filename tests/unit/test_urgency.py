"""The rule by which prerequisites inherit urgency, on arbitrary graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import an_id
from windlass.core.lifecycle import State
from windlass.core.submission import Draft, Urgency
from windlass.core.task import NewTask, TaskId
from windlass.core.urgency import MOST_RAISED, Above, find_raised, get_outside, spread_urgency

Graph = Mapping[int, Sequence[int]]


def a_draft(number: int, above: Sequence[int], priority: int = 0, *, raises: bool = True) -> Draft:
    new = NewTask(handler="h", priority=priority, raise_prerequisites=raises)
    return Draft(id=an_id(number), new=new, prerequisites=tuple(map(an_id, above)), fingerprint=None, kept_args="{}")


def ancestors(graph: Graph, number: int) -> set[int]:
    found: set[int] = set()
    left = [*graph.get(number, ())]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += graph.get(one, ())
    return found


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[int, int]]:
    """A graph in which tasks wait for tasks with a smaller number, and the priorities of the tasks."""
    size = draw(st.integers(2, 12))
    graph = {n: draw(st.lists(st.integers(0, n - 1), unique=True, max_size=4)) if n else [] for n in range(size)}
    return graph, {n: draw(st.integers(-2, 4)) for n in range(size)}


@given(graphs(), st.data())
def test_a_task_gets_the_highest_priority_of_all_that_wait_for_it(
    given: tuple[Graph, dict[int, int]], data: st.DataObject
) -> None:
    graph, own = given
    stored = data.draw(st.integers(0, len(graph)))
    before = {n: highest(graph, own, n, range(stored)) for n in graph}  # What earlier submits have raised.
    drafts = [a_draft(n, graph[n], own[n]) for n in graph if n >= stored]

    lent = spread_urgency(data.draw(st.permutations(drafts)), 0)
    raised = find_raised(get_outside(lent, drafts), lambda ids: look(graph, before, ids))

    for n in graph:
        found = raised.get(an_id(n)) if n < stored else lent.get(an_id(n))
        after = max(before[n] if n < stored else own[n], found.priority if found else -10)
        assert after == highest(graph, own, n, graph)


def highest(graph: Graph, priorities: Mapping[int, int], number: int, lenders: Iterable[int]) -> int:
    lent = [priorities[one] for one in lenders if priorities[one] > 0 and number in ancestors(graph, one)]
    return max([priorities[number], *lent])


def look(graph: Graph, priorities: Mapping[int, int], ids: Sequence[TaskId]) -> dict[TaskId, Above]:
    """Return stored tasks."""
    found: dict[TaskId, Above] = {}
    for number in (id.int for id in ids if id.int in graph):
        above = [an_id(one) for one in graph[number]]
        found[an_id(number)] = Above(State.WAITING, Urgency(priorities[number], None), above)
    return found


def test_the_search_ends_at_tasks_that_are_urgent_enough_or_have_started() -> None:
    looked: list[TaskId] = []
    states = {1: State.WAITING, 2: State.LEASED, 3: State.WAITING, 4: State.WAITING}
    urgencies = {1: 9, 2: 0, 3: 0, 4: 0}

    def look(ids: Sequence[TaskId]) -> dict[TaskId, Above]:
        looked.extend(ids)
        return {
            id: Above(states[id.int], Urgency(urgencies[id.int], None), [an_id(4)] if id.int == 3 else [an_id(5)])
            for id in ids
            if id.int in states
        }

    raised = find_raised({an_id(n): Urgency(5, None) for n in (1, 2, 3)}, look)

    assert raised == {an_id(3): Urgency(5, None), an_id(4): Urgency(5, None)}
    assert [id.int for id in looked] == [1, 2, 3, 4, 5]


def test_a_batch_without_urgent_dependents_costs_no_lookup() -> None:
    plain = [a_draft(1, []), a_draft(2, [1]), a_draft(3, [1], priority=9, raises=False), a_draft(4, [], priority=9)]

    assert spread_urgency(plain, 0) == {}
    assert find_raised({}, lambda _: 1 / 0) == {}  # type: ignore[arg-type, return-value]


def test_a_chain_of_any_length_is_looked_at_up_to_a_limit() -> None:
    def look(ids: Sequence[TaskId]) -> dict[TaskId, Above]:
        return {id: Above(State.WAITING, Urgency(0, None), [an_id(id.int + 1)]) for id in ids}

    assert len(find_raised({an_id(1): Urgency(1, None)}, look)) == MOST_RAISED
