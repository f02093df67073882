"""A handler adds steps to its workflow, and may continue after them as another call."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass import App, NotAllowed, State, TaskCancelled, TaskFailed
from windlass.clock import ManualClock
from windlass.core.continuation import MAX_ADDED
from windlass.stores.protocol import Filter
from windlass.testing import drain, immediate


@pytest.fixture
def tree(app: App) -> Any:
    class Tree:
        runs: int = 0

        @app.task(name="part", retries=0)
        def part(n: int) -> int:  # noqa: N805
            if n < 0:
                raise ValueError(n)
            return n * n

        @app.task(name="total")
        def total(parts: list[int | None], extra: int = 0) -> int:  # noqa: N805
            return sum(part or 0 for part in parts) + extra

        @app.task(name="squares", retries=1)
        def squares(numbers: list[int], policy: str | None = None) -> int:  # noqa: N805
            Tree.runs += 1
            more = windlass.more_steps()
            parts = [more.add(Tree.part, n) for n in numbers]
            return more.then(Tree.total, parts, extra=1, on_failure=policy)  # pyright: ignore[reportArgumentType]

        @app.task(name="show")
        def show(number: int) -> str:  # noqa: N805
            return f"={number}"

    return Tree


def test_a_task_continues_with_the_results_of_its_steps(app: App, tree: Any) -> None:
    with app.workflow("sum") as wf:
        squares = wf.add(tree.squares, [1, 2, 3])
        shown = wf.add(tree.show, squares)

    assert drain(app) == 6

    assert (squares.result(), shown.result(), tree.runs) == (15, "=15", 1)
    assert squares.task().handler == "total"
    assert len(app.store.find(Filter(workflow="sum")).tasks) == 5


def test_it_works_without_a_workflow_and_in_immediate_mode(app: App, tree: Any) -> None:
    handle = tree.squares.enqueue([2])
    drain(app)
    assert handle.result() == 5

    with immediate(app):
        assert tree.squares.enqueue([3]).result() == 10


def test_a_step_that_fails_cancels_the_task_unless_it_says_otherwise(app: App, tree: Any) -> None:
    strict, lenient = tree.squares.enqueue([1, -1]), tree.squares.enqueue([1, -1], "run")

    drain(app)

    with pytest.raises(TaskCancelled, match=r"Prerequisite .* failed"):
        strict.result()
    assert lenient.result() == 2


def test_a_handler_that_raises_has_added_nothing_and_its_retry_adds_everything_once(
    app: App, tree: Any, clock: ManualClock
) -> None:
    tries: list[int] = []

    @app.task(name="flaky", retries=1)
    def flaky() -> int:
        more = windlass.more_steps()
        parts = [more.add(tree.part, n) for n in range(3)]
        tries.append(len(parts))
        if len(tries) == 1:
            raise ConnectionError
        return more.then(tree.total, parts)

    handle = flaky.enqueue()
    drain(app, clock=clock, advance=True)

    assert (handle.result(), tries) == (5, [3, 3])
    assert len(app.store.find(Filter(handler="part")).tasks) == 3


def test_steps_may_be_added_without_going_on(app: App, tree: Any) -> None:
    @app.task(name="starter")
    def starter() -> str:
        more = windlass.more_steps()
        assert windlass.more_steps() is more
        more.add(tree.show, more.add(tree.part, 4))
        return "started"

    handle = starter.enqueue()
    assert drain(app) == 3
    assert handle.result() == "started"


def test_steps_may_wait_for_events_and_times(app: App, tree: Any, clock: ManualClock) -> None:
    @app.task(name="ask")
    def ask() -> dict[str, str]:
        more = windlass.more_steps()
        answer = more.wait_for("answered", timeout="1d")
        return more.then(thank, answer, after=[more.sleep("1h")])

    @app.task(name="thank")
    def thank(answer: dict[str, str]) -> dict[str, str]:
        return answer

    with app.workflow("question") as wf:
        asked = wf.add(ask)
    drain(app)
    assert asked.state is State.WAITING

    app.events.set("question", "answered", {"yes": "no"})
    drain(app, clock=clock, advance=True)

    assert asked.result() == {"yes": "no"}


def test_a_coroutine_adds_steps_too(app: App, tree: Any) -> None:
    @app.task(name="later")
    async def later() -> int:
        more = windlass.more_steps()
        return more.then(tree.total, [more.add(tree.part, 3)])

    handle = later.enqueue()
    drain(app)

    assert handle.result() == 9


def test_what_a_handler_does_wrong_is_named(app: App, tree: Any) -> None:
    def fails(handler: Any) -> str:
        handle = app.task(name=handler.__name__, retries=0)(handler).enqueue()
        drain(app)
        with pytest.raises(TaskFailed) as failed:
            handle.result()
        return str(failed.value)

    def forgets() -> int:
        windlass.more_steps().then(tree.show, 1)
        return 7

    def adds_after() -> Any:
        more = windlass.more_steps()
        more.then(tree.show, 1)
        return more.add(tree.part, 1)

    def has_key() -> Any:
        return windlass.more_steps().then(tree.show.using(key="k"), 1)

    def no_workflow() -> Any:
        return windlass.more_steps().wait_for("approved")

    def too_many() -> Any:
        more = windlass.more_steps()
        for _ in range(MAX_ADDED + 1):
            more.sleep("1h")

    def joins() -> Any:
        windlass.more_steps()
        windlass.current().transaction(None)

    assert "called then() but returned another value" in fails(forgets)
    assert "then() was called already" in fails(adds_after)
    assert "the task keeps its own key" in fails(has_key)
    assert "only a workflow has events" in fails(no_workflow)
    assert f"more than {MAX_ADDED:,} added by one task" in fails(too_many)
    assert "either more_steps() or transaction(conn)" in fails(joins)


def test_steps_are_added_only_by_a_running_task(app: App, tree: Any) -> None:
    with pytest.raises(NotAllowed, match="only in a running task"):
        windlass.more_steps()
