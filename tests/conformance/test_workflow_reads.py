"""Reads of whole workflows, in pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.builders import (
    DAY,
    GAVE_UP,
    SECOND,
    a_task,
    after,
    claim_one,
    complete,
    report,
    submit,
    submit_one,
    sweep_until_quiet,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.stores.protocol import RETENTION, Store
from windlass.stores.workflow_reads import Edge, Step, StepGroup, WorkflowSeen


def steps_of(store: Store, workflow: str, *, limit: int = 1_000, **options: object) -> list[Step]:
    return [step for page in step_pages(store, workflow, limit=limit, **options) for step in page]


def step_pages(store: Store, workflow: str, *, limit: int, **options: object) -> Iterator[list[Step]]:
    cursor = None
    while True:
        page = store.workflow_steps(workflow, **{"tenant": "default", **options}, limit=limit, after=cursor)  # pyright: ignore[reportArgumentType]
        yield page.steps
        cursor = page.after
        if cursor is None:
            return


def edges_of(store: Store, workflow: str, *, limit: int = 10_000) -> list[Edge]:
    found: list[Edge] = []
    cursor = None
    while True:
        page = store.workflow_edges(workflow, tenant="default", limit=limit, after=cursor)
        found += page.edges
        cursor = page.after
        if cursor is None:
            return found


def listed(store: Store, *, limit: int = 100, tenant: str | None = None) -> list[WorkflowSeen]:
    found: list[WorkflowSeen] = []
    cursor = None
    while True:
        page = store.workflows(tenant=tenant, limit=limit, after=cursor)
        found += page.workflows
        cursor = page.after
        if cursor is None:
            return found


def names_of(found: list[WorkflowSeen]) -> list[tuple[str, str]]:
    return [(one.workflow, one.tenant) for one in found]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_steps_come_in_submit_order_page_by_page(store: Store, clock: ManualClock, limit: int) -> None:
    ids: list[TaskId] = []
    for n in range(3):
        ids += sorted(submit(store, after(f"a{n}", workflow="w"), after(f"b{n}", workflow="w")))
        submit(store, a_task(), a_task(workflow="other"), a_task(workflow="w", tenant="acme"))
        clock.advance(SECOND)

    pages = list(step_pages(store, "w", limit=limit))

    assert [step.id for page in pages for step in page] == ids
    assert all(len(page) <= limit for page in pages)


def test_a_step_has_the_columns_that_a_view_needs(store: Store, clock: ManualClock) -> None:
    submitted_at = clock.now()
    id = submit_one(store, key="k", workflow="w", handler="work", queue="mail", args={"large": "x" * 1_000})
    clock.advance(SECOND)
    claim = claim_one(store, queue="mail")
    clock.advance(SECOND)
    complete(store, claim)

    assert steps_of(store, "w") == [
        Step(
            id=id,
            key="k",
            handler="work",
            queue="mail",
            state=State.COMPLETED,
            submitted=submitted_at,
            claimed=submitted_at + 1_000_000,
            finished=submitted_at + 2_000_000,
            reason=None,
        )
    ]


@pytest.mark.parametrize("limit", [1, 10])
def test_steps_may_be_chosen_by_state(store: Store, limit: int) -> None:
    submit(store, *(after(f"s{n}", workflow="w", delay=DAY if n % 3 else None) for n in range(9)))

    waiting = steps_of(store, "w", limit=limit, states={State.SCHEDULED})

    assert {step.key for step in waiting} == {"s1", "s2", "s4", "s5", "s7", "s8"}
    assert len(steps_of(store, "w", states={State.SCHEDULED, State.RUNNABLE})) == 9
    assert steps_of(store, "w", states={State.FAILED}) == []


def test_steps_are_counted_by_queue_handler_and_state(store: Store, clock: ManualClock) -> None:
    submitted_at = clock.now()
    submit(store, a_task(workflow="w"), a_task(workflow="w", delay=DAY), a_task(workflow="w", queue="mail"))
    submit(store, a_task(workflow="w", handler="other"), a_task(workflow="v"), a_task(workflow="w", tenant="acme"))
    clock.advance(SECOND)
    report(store, claim_one(store, queue="mail"), GAVE_UP)

    page = store.workflow_groups("w", tenant="default")

    def group(queue: str, handler: str, state: State, *, ran: int | None = None) -> StepGroup:
        times = {"submitted": submitted_at, "claimed": ran, "finished": ran}
        return StepGroup(queue=queue, handler=handler, state=state, tasks=1, **times)

    assert page.after is None
    assert page.groups == [
        group("default", "other", State.RUNNABLE),
        group("default", "work", State.RUNNABLE),
        group("default", "work", State.SCHEDULED),
        group("mail", "work", State.FAILED, ran=submitted_at + 1_000_000),
    ]


def test_a_count_goes_on_where_the_last_one_ended(store: Store, clock: ManualClock) -> None:
    for _ in range(3):
        submit(store, a_task(workflow="w"), a_task(workflow="w"))
        clock.advance(SECOND)

    pages = [store.workflow_groups("w", tenant="default", limit=4)]
    pages.append(store.workflow_groups("w", tenant="default", limit=4, after=pages[0].after))

    assert [[group.tasks for group in page.groups] for page in pages] == [[4], [2]]
    assert pages[1].after is None
    assert store.workflow_groups("none", tenant="default").groups == []


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_edges_come_by_child_page_by_page(store: Store, clock: ManualClock, limit: int) -> None:
    outside = submit_one(store, key="outside")
    first = submit(store, after("a", workflow="w"), after("b", workflow="w"), after("c", workflow="w"))
    clock.advance(SECOND)
    submit(store, after("loose", workflow="w"))
    join = submit_one(store, key="join", workflow="w", prerequisites=["a", "b", "c", outside])
    clock.advance(SECOND)
    last = submit_one(store, key="last", workflow="w", prerequisites=["join", "a"])
    submit(store, after("a", workflow="v"), after("b", "a", workflow="v"))

    a = keyed_id("default", "w", "a")
    expected = [Edge(id, join) for id in sorted(first)] + [Edge(id, last) for id in sorted([join, a])]
    assert edges_of(store, "w", limit=limit) == expected


def test_edges_stay_when_they_are_resolved_and_a_seal_is_none(store: Store) -> None:
    store.open_workflow("w", sealed=False)
    a, b = submit(store, after("a", workflow="w"), after("b", "a", workflow="w"))
    before = edges_of(store, "w")
    store.seal_workflow("w")
    complete(store, claim_one(store))
    sweep_until_quiet(store)

    assert before == edges_of(store, "w") == [Edge(a, b)]


def test_a_fan_in_of_1500_has_all_its_edges(store: Store) -> None:
    parts = submit(store, *(after(f"p{n}", workflow="w") for n in range(1_500)))
    join = submit_one(store, key="join", workflow="w", prerequisites=[f"p{n}" for n in range(1_500)])

    assert edges_of(store, "w", limit=1_000) == [Edge(id, join) for id in sorted(parts)]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_workflows_are_listed_by_their_latest_submit(store: Store, clock: ManualClock, limit: int) -> None:
    begun = clock.now()
    for name in ("a", "b", "c", "a", "b"):
        submit(store, a_task(workflow=name), a_task(workflow=name), a_task())
        clock.advance(SECOND)
    submit(store, a_task(workflow="c", tenant="acme"), a_task(workflow="c", tenant="zoo"))

    found = listed(store, limit=limit)

    assert names_of(found) == [("c", "zoo"), ("c", "acme"), ("b", "default"), ("a", "default"), ("c", "default")]
    assert (found[3].submitted, found[3].latest) == (begun, begun + 3_000_000)
    assert [sum(group.tasks for group in one.groups) for one in found] == [1, 1, 4, 4, 2]
    assert all(one.complete for one in found)
    assert names_of(listed(store, limit=limit, tenant="acme")) == [("c", "acme")]
    assert store.workflow_tenants("c") == ["acme", "default", "zoo"]
    assert store.workflow_tenants("c", limit=2) == ["acme", "default"]
    assert store.workflow_tenants("none") == []


def test_a_workflow_that_is_gone_is_not_listed(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(workflow="w"))
    complete(store, claim_one(store))
    clock.advance(RETENTION + SECOND)
    sweep_until_quiet(store)

    assert (listed(store), store.workflow_tenants("w"), steps_of(store, "w")) == ([], [], [])


def test_a_page_of_nothing_is_refused(store: Store) -> None:
    for read in (store.workflow_steps, store.workflow_groups, store.workflow_edges):
        with pytest.raises(InvalidTask, match="limit=0"):
            read("w", tenant="default", limit=0)
    with pytest.raises(InvalidTask, match="limit=0"):
        store.workflows(limit=0)
