"""Workflows: references become prerequisites and results; all tasks are submitted, or none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from windlass import App, InvalidPayload, NotAllowed, Retry, State, TaskCancelled, UnknownPrerequisite, UnknownTask
from windlass.client import workflow as workflows
from windlass.core.references import MAX_RESOLVED_BYTES, referenced_ids, with_results
from windlass.core.task import TaskId
from windlass.testing import drain


@dataclass
class Bundle:
    name: str
    parts: list[int]


@pytest.fixture
def shop(app: App) -> Any:
    """Handlers that return, add and fail."""

    class Shop:
        @app.task(name="give", retry=Retry(retries=0))
        def give(number: int) -> int:  # noqa: N805
            if number < 0:
                raise ValueError("negative")
            return number

        @app.task(name="add")
        def add(numbers: list[int], more: int = 0) -> int:  # noqa: N805
            return sum(numbers) + more

        @app.task(name="unpack")
        def unpack(bundle: Bundle, by_name: dict[str, int]) -> list[Any]:  # noqa: N805
            return [bundle.name, *bundle.parts, by_name]

        @app.task(name="report")
        def report(number: int | None = None) -> int | None:  # noqa: N805
            return number

    return Shop


def test_steps_run_in_order_and_references_become_results(app: App, shop: Any) -> None:
    with app.workflow("nightly") as wf:
        first = wf.add(shop.give, 1)
        parts = [wf.add(shop.add, [first, 10], more=n) for n in range(3)]
        last = wf.add(shop.add, parts, after=[first])

    assert first.state is State.RUNNABLE
    assert last.state is State.WAITING
    assert drain(app) == 5
    assert last.result(0) == 11 + 12 + 13
    assert {step.task().workflow for step in wf.steps} == {"nightly"}


def test_references_may_be_deeply_nested(app: App, shop: Any) -> None:
    with app.workflow("deep") as wf:
        a, b = wf.add(shop.give, 1), wf.add(shop.give, 2)
        step = wf.add(shop.unpack, Bundle("x", [a, 5, b]), {"b": b})

    drain(app)

    assert step.result(0) == ["x", 1, 5, 2, {"b": 2}]


def test_a_block_that_raises_submits_nothing(app: App, shop: Any) -> None:
    wf = app.workflow("broken")
    with suppress(ZeroDivisionError), wf:
        step = wf.add(shop.give, 1)
        raise ZeroDivisionError

    assert app.store.counts() == []
    with pytest.raises(UnknownTask):
        _ = step.state
    with pytest.raises(NotAllowed):
        wf.add(shop.give, 2)


def test_a_failed_step_cancels_its_dependents_unless_they_have_on_failure_run(app: App, shop: Any) -> None:
    with app.workflow("fails") as wf:
        bad = wf.add(shop.give, -1)
        needs = wf.add(shop.add, [bad])
        anyway = wf.add(shop.report, bad, on_failure="run")

    drain(app)

    assert bad.state is State.FAILED
    with pytest.raises(TaskCancelled):
        needs.result(0)
    assert anyway.result(0) is None


def test_a_key_names_the_same_step_each_time(app: App, shop: Any) -> None:
    ids: list[Any] = []
    for _ in range(2):
        with app.workflow("keyed", tenant="acme") as wf:
            a = wf.add(shop.give, 1, key="a")
            wf.add(shop.add.using(key="b", priority=3), [a])
            wf.add(shop.give, 2, after=["a"], key="c")
        ids.append([step.id for step in wf.steps])

    assert ids[0] == ids[1]
    assert [task.tenant for task in app.store.get(ids[0]) if task] == ["acme"] * 3


def test_workflows_can_be_built_in_coroutines(app: App, shop: Any) -> None:
    async def main() -> Any:
        async with app.workflow("async") as wf:
            a = wf.add(shop.give, 4)
            b = wf.add(shop.add, [a])
        await asyncio.to_thread(drain, app)
        return await b

    assert asyncio.run(main()) == 4


def test_arguments_are_checked_when_they_are_added(app: App, shop: Any) -> None:
    wf = app.workflow("wrong")
    a = wf.add(shop.give, 1)

    with pytest.raises(InvalidPayload, match="number: Expected `int`, got `str`"):
        wf.add(shop.give, "one")
    with pytest.raises(InvalidPayload, match="would be read as a reference"):
        wf.add(shop.unpack, Bundle("x", []), {"a": a, "b": {"$result": "x"}})
    with pytest.raises(TypeError, match="missing a required argument"):
        wf.add(shop.give)
    assert wf.steps == [a]


def test_a_workflow_too_large_for_one_batch_is_sealed_at_the_end(
    app: App, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_BATCH", 10)
    monkeypatch.setattr(workflows, "_PART", 4)

    with app.workflow("large") as wf:
        steps = [wf.add(shop.give, n) for n in range(15)]
        total = wf.add(shop.add, steps)

    assert drain(app) == 16
    assert total.result(0) == sum(range(15))


def test_a_large_workflow_that_is_refused_midway_runs_nothing(
    app: App, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_BATCH", 10)
    monkeypatch.setattr(workflows, "_PART", 4)

    wf = app.workflow("large")
    for n in range(15):
        wf.add(shop.give, n, after=["nobody"] if n == 9 else ())

    with pytest.raises(UnknownPrerequisite):
        wf.__exit__(None)

    assert drain(app) == 0
    assert {task.state for task in app.store.get([step.id for step in wf.steps]) if task} == {State.CANCELLED}


def test_an_empty_workflow_submits_nothing(app: App) -> None:
    with app.workflow("empty"):
        pass

    assert app.store.counts() == []


def test_references_are_found_once_each_and_replaced_by_stored_results() -> None:
    a, b = "018f0000-0000-7000-8000-00000000000a", "018f0000-0000-7000-8000-00000000000b"
    args = f'{{"x":{{"$result":"{a}"}},"y":[{{"$result":"{b}"}},{{"$result":"{a}"}}],"z":{{"$result":1}}}}'

    ids = referenced_ids(args)

    assert [str(id) for id in ids] == [a, b]
    assert with_results(args, {ids[0]: "1.10", ids[1]: None}) == '{"x":1.10,"y":[null,1.10],"z":{"$result":1}}'
    assert referenced_ids('{"x":1}') == []


def test_results_that_are_too_large_together_are_refused() -> None:
    id = TaskId(App("memory:").handle("018f0000-0000-7000-8000-00000000000a").id)
    args = f'{{"x":{{"$result":"{id}"}}}}'

    with pytest.raises(InvalidPayload, match="more than 1,048,576 bytes"):
        with_results(args, {id: '"' + "x" * MAX_RESOLVED_BYTES + '"'})


def test_concurrent_large_workflows_and_single_tasks_do_not_deadlock(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.client.workflow.MAX_BATCH", 1)
    monkeypatch.setattr("windlass.client.workflow._PART", 1)

    @app.task(name="leaf")
    def leaf() -> None: ...

    async def large(number: int) -> None:
        async with app.workflow(f"large-{number}") as wf:
            for _ in range(5):
                wf.add(leaf)

    async def all_at_once() -> None:
        await asyncio.gather(*[large(number) for number in range(30)], *[leaf.aenqueue() for _ in range(30)])

    asyncio.run(asyncio.wait_for(all_at_once(), 10))

    assert sum(count.tasks for count in app.store.counts()) == 30 * 5 + 30


def test_a_name_that_exists_is_refused_for_tasks_without_a_key(app: App, shop: Any) -> None:
    with app.workflow("nightly") as wf:
        wf.add(shop.give, 1, key="a")

    again = app.workflow("nightly")
    again.add(shop.give, 1, key="a")
    again.add(shop.give, 2)
    with pytest.raises(NotAllowed, match="append=True"), again:
        pass

    assert drain(app) == 1
    with app.workflow("nightly", tenant="acme") as other:
        other.add(shop.give, 3)
    assert drain(app) == 1, "the name of another tenant's workflow is free"


def test_a_name_that_exists_is_refused_in_a_coroutine_too(app: App, shop: Any) -> None:
    async def submit() -> None:
        async with app.workflow("nightly") as wf:
            wf.add(shop.give, 1)

    asyncio.run(submit())
    with pytest.raises(NotAllowed, match="already exists"):
        asyncio.run(submit())

    assert drain(app) == 1


def test_tasks_are_added_to_a_workflow_on_purpose_or_once_by_key(app: App, shop: Any) -> None:
    for _ in range(2):
        with app.workflow("keyed") as wf:
            wf.add(shop.give, 1, key="a")
    for _ in range(2):
        with app.workflow("grows", append=True) as wf:
            wf.add(shop.give, 1)

    assert drain(app) == 3
