"""Workflows as people see them: a graph up to a size, counts above it, at linear cost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.support.builders import SECOND, a_session, a_task, claim_all, complete, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.operations import workflows
from windlass.operations.access import Access
from windlass.operations.workflow_graph import Summary, Workflow, step_name
from windlass.operations.workflows import Slice, UnknownWorkflow
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store, TaskReader
from windlass.stores.workflow_reads import Edge, EdgePage


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


class Counted:
    """A store that counts its calls."""

    def __init__(self, store: TaskReader) -> None:
        self.calls: Counter[str] = Counter()
        self._store = store

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


def whole(store: TaskReader, name: str = "w") -> Workflow:
    found = workflows.get(Access(cast("Store", store)), name)
    assert isinstance(found, Workflow)
    return found


def names(found: Workflow, places: Sequence[int]) -> list[str]:
    return [step_name(found.steps[place]) for place in places]


def submit_graph(store: MemoryStore, graph: dict[str, list[str]]) -> None:
    submit(store, *(a_task(key=key, workflow="w", prerequisites=before) for key, before in graph.items()))


def slices(store: TaskReader, found: Workflow | Summary, limit: int) -> list[Slice]:
    pages = [workflows.page(Access(cast("Store", store)), found, limit=limit)]
    while pages[-1].next is not None:
        pages.append(workflows.page(Access(cast("Store", store)), found, limit=limit, after=pages[-1].next))
    return pages


def test_a_fan_in_of_1500_has_all_edges_and_the_right_critical_path(store: MemoryStore, clock: ManualClock) -> None:
    """The prerequisite that ended last has the greatest id, after the first thousand."""
    keys = [f"p{n}" for n in range(1_500)]
    submit_graph(store, {**{key: [] for key in keys}, "join": keys})
    claims = claim_all(store)
    last = max(claims, key=lambda claim: claim.id)
    complete(store, *(claim for claim in claims if claim is not last))
    clock.advance(SECOND)
    complete(store, last)

    found = whole(store)

    join = found.places[keyed_id("default", "w", "join")]
    assert (found.tasks, found.prerequisites.number(join)) == (1_501, 1_500)
    assert names(found, found.critical) == [last.key, "join"]


@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_a_workflow_of_12000_steps_is_read_in_a_few_calls(store: MemoryStore, shape: str) -> None:
    above = [[f"s{n - 1}" if shape == "chain" else "s0"] if n else [] for n in range(12_000)]
    submit_graph(store, {f"s{n}": before for n, before in enumerate(above)})
    counted = Counted(store)

    found = whole(cast("TaskReader", counted))

    assert found.tasks == 12_000
    assert counted.calls == {"workflow_tenants": 1, "workflow_steps": 2, "workflow_edges": 2}
    assert len(found.critical) == (12_000 if shape == "chain" else 2)
    assert found.states == {State.WAITING: 11_999, State.RUNNABLE: 1}


def test_steps_of_a_cycle_are_included(store: MemoryStore) -> None:
    """A cycle may be in the store until the sweep finds it."""
    a, b, c = submit(store, *(a_task(key=key, workflow="w") for key in "abc"))

    class Cyclic(Counted):
        def workflow_edges(self, *_: object, **__: object) -> EdgePage:
            return EdgePage([Edge(b, a), Edge(a, b), Edge(b, c)], None)

    found = whole(cast("TaskReader", Cyclic(store)))

    assert [step.key for step in found.steps] == ["a", "b", "c"]
    assert names(found, found.critical) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(20))
def test_order_critical_path_and_slack_agree_with_their_definitions(
    store: MemoryStore, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    keys = [f"s{n:02}" for n in range(30)]
    graph = {key: chance.sample(keys[:n], min(n, chance.randrange(4))) for n, key in enumerate(keys)}
    submit_graph(store, graph)
    session = a_session(store, ttl=600 * SECOND)
    running = list(claim_all(store, session))
    for _ in range(chance.randrange(20, 30)):
        clock.advance(SECOND)
        complete(store, running.pop(chance.randrange(len(running))))
        running += claim_all(store, session)
        if not running:
            break

    found, now = whole(store), clock.now()

    place = {cast("str", step.key): n for n, step in enumerate(found.steps)}
    ends = {cast("str", step.key): step.finished for step in found.steps}
    assert all(place[before] < place[key] for key in keys for before in graph[key])
    late = {key: (ends[key] is None, ends[key] or 0, place[key]) for key in keys}
    path = [max(keys, key=late.__getitem__)]
    while graph[path[-1]]:
        path.append(max(graph[path[-1]], key=late.__getitem__))
    assert names(found, found.critical) == path[::-1]
    for key in keys:
        view = found.view(place[key], now)
        assert view.ready == max([view.step.submitted, *(ends[before] or 0 for before in graph[key])])
        assert {step.key for step in found.steps if step.id in view.prerequisites} == set(graph[key])
    assert all(found.slack(now)[step] == 0 for step in found.critical)


@pytest.mark.parametrize("limit", [1, 7, 1_000])
@pytest.mark.parametrize("most", [10, 100_000])
def test_pages_hold_every_step_once_with_all_its_prerequisites(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(workflows, "MAX_STEPS", most)
    monkeypatch.setattr(workflows, "MAX_LINKS", 20)
    graph: dict[str, list[str]] = {}
    for n in range(40):
        graph[f"s{n}"] = [f"s{before}" for before in range(n)]
    for key, before in graph.items():
        submit_one(store, key=key, workflow="w", prerequisites=before)
        clock.advance(SECOND)

    found = workflows.get(Access(store), "w")
    pages = slices(store, found, limit)

    assert isinstance(found, Summary) is (most == 10)
    views = [view for some in pages for view in some.steps]
    assert [view.name for view in views] == list(graph)
    assert [len(view.prerequisites) for view in views] == [len(before) for before in graph.values()]
    assert all(sum(len(view.prerequisites) for view in some.steps[:-1]) <= 20 for some in pages)
    assert all(len(some.steps) <= limit for some in pages)
    assert all((view.critical is None) is (most == 10) for view in views)


def test_a_summary_counts_all_steps_in_pages(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_STEPS", 100)
    submit(store, *(a_task(workflow="w", handler=f"h{n % 3}") for n in range(12_000)))
    counted = Counted(store)

    found = workflows.get(Access(cast("Store", counted)), "w")

    assert isinstance(found, Summary)
    assert (found.tasks, found.states) == (12_000, {State.RUNNABLE: 12_000})
    assert {group.handler: group.tasks for group in found.groups} == {"h0": 4_000, "h1": 4_000, "h2": 4_000}
    assert (found.submitted, found.ended) == (clock.now(), None)
    assert counted.calls == {"workflow_tenants": 1, "workflow_steps": 1, "workflow_groups": 2}


def test_too_many_edges_also_make_a_summary(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflows, "MAX_EDGES", 3)
    submit_graph(store, {"a": [], "b": ["a"], "c": ["a", "b"]})
    exact = workflows.get(Access(store), "w")
    submit_one(store, key="d", workflow="w", prerequisites=["c"])

    assert (isinstance(exact, Workflow), isinstance(workflows.get(Access(store), "w"), Summary)) == (True, True)


def test_a_step_is_found_by_id_key_or_shown_name(store: MemoryStore) -> None:
    keyed = submit_one(store, key="k", workflow="w")
    plain = submit_one(store, workflow="w")
    other = submit_one(store, key="k", workflow="v")

    def found(text: str) -> TaskId:
        return workflows.find_step(Access(store), "w", text, tenant="default").id

    assert (found("k"), found(str(keyed)), found(f"work-{str(plain)[-6:]}")) == (keyed, keyed, plain)
    for text in (str(other), "fly", ""):
        with pytest.raises(InvalidTask, match="matches no step"):
            found(text)
    with pytest.raises(UnknownWorkflow):
        workflows.find_step(Access(store), "none", "k", tenant="default")


def test_a_search_finds_by_name_and_stage_and_continues_where_it_ended(store: MemoryStore, clock: ManualClock) -> None:
    for number in range(6):
        clock.advance(SECOND)
        submit_one(store, workflow=f"run-{number}", tenant="acme" if number % 2 else "beta")
    complete(store, claim_all(store)[0])
    access = Access(store)

    def found(**options: Any) -> list[str]:
        return [each.name for each in workflows.search(access, **options).workflows]

    assert found(name="RUN-3") == ["run-3"]
    assert found(tenant="beta") == ["run-4", "run-2", "run-0"]
    assert found(stage=workflows.Stage.COMPLETED) == ["run-0"]
    assert found(stage=workflows.Stage.UNFINISHED, limit=2) == ["run-5", "run-4"]
    assert found(stage=workflows.Stage.FAILING) == []
    first = workflows.search(access, limit=4)
    second = workflows.search(access, limit=4, after=first.after)
    assert [each.name for each in [*first.workflows, *second.workflows]] == [f"run-{n}" for n in range(5, -1, -1)]
    assert second.after is None
    assert workflows.search(access, limit=6).after is None


def test_the_deadline_of_a_workflow_is_that_of_its_last_steps(store: MemoryStore) -> None:
    submit(store, a_task(key="a", workflow="w", deadline=SECOND))
    submit(store, a_task(key="b", workflow="w", prerequisites=["a"], deadline=9 * SECOND))
    submit(store, a_task(key="c", workflow="w", prerequisites=["a"], deadline=5 * SECOND))
    submit_one(store, key="x", workflow="none")

    found, none = whole(store), whole(store, "none")

    [last] = store.get([keyed_id("default", "w", "c")])
    assert last is not None
    assert workflows.find_deadline(Access(store), found) == last.deadline
    assert workflows.find_deadline(Access(store), none) is None
