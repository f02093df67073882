from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from tests.unit.values import an_id
from windlass import App, current
from windlass.core.assignment import Assignment
from windlass.core.settlement import Outcome, Raised, Returned, Stopped
from windlass.worker.async_runner import AsyncRunner
from windlass.worker.interrupts import Interrupts


class Runner:
    """An `AsyncRunner` for handlers that the test registers, with a queue of assignments behind the first."""

    def __init__(self) -> None:
        self.app = App("memory:")
        self.interrupts = Interrupts()
        self.outcomes: list[tuple[int, Outcome]] = []
        self.queue: deque[Assignment] = deque()
        self.kept: list[asyncio.Future[None]] = []
        self.failure: Exception | None = None
        self.runner = AsyncRunner(self.app, self, self.interrupts, self._report, self._take_next)

    def assign(self, *handlers: Callable[..., Any]) -> list[Assignment]:
        """Register handlers and return their assignments, with tickets from 1."""
        for function in handlers:
            self.app.task(name=function.__name__)(function)
        return [
            Assignment(ticket=ticket, task=an_id(ticket), fence=1, handler=function.__name__, args="{}")
            for ticket, function in enumerate(handlers, 1)
        ]

    def run(self, *handlers: Callable[..., Any]) -> Assignment | None:
        """Run the first handler with the others waiting behind it."""
        first, *others = self.assign(*handlers)
        self.queue.extend(others)
        return self.runner.run(first)

    def _report(self, assignment: Assignment, outcome: Outcome) -> None:
        if self.failure is not None:
            raise self.failure
        self.outcomes.append((assignment.ticket, outcome))

    def _take_next(self) -> Assignment | None:
        return self.queue.popleft() if self.queue else None

    # The channel of the attempts

    def progress(self, assignment: Assignment, share: float | None, message: str | None) -> None: ...

    def waiting(self, assignment: Assignment, waits: bool) -> None: ...

    def may_start(self, assignment: Assignment) -> bool:
        return True

    def cancelled(self, assignment: Assignment) -> bool:
        return False


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.runner.close()


def test_attempts_that_wait_run_one_after_another_on_the_loop(runner: Runner) -> None:
    seen: list[tuple[str, int]] = []

    async def one() -> None:
        await asyncio.sleep(0)
        seen.append(("one", threading.get_ident()))

    async def two() -> int:
        seen.append(("two", threading.get_ident()))
        return 2

    async def three() -> None:
        raise ValueError("oops")

    assert runner.run(one, two, three) is None

    assert [name for name, _ in seen] == ["one", "two"]
    assert len({thread for _, thread in seen} | {threading.get_ident()}) == 2
    assert runner.outcomes[:2] == [(1, Returned(None)), (2, Returned("2"))]
    assert isinstance(runner.outcomes[2][1], Raised)


def test_an_outcome_is_reported_before_the_next_attempt_starts(runner: Runner) -> None:
    reported: list[int] = []

    async def one() -> None: ...

    async def two() -> None:
        reported.extend(ticket for ticket, _ in runner.outcomes)

    runner.run(one, two)

    assert reported == [1]


def test_a_def_handler_behind_an_async_one_goes_back_to_the_caller(runner: Runner) -> None:
    async def one() -> None: ...

    def two() -> None: ...

    async def three() -> None: ...

    left = runner.run(one, two, three)

    assert left is not None
    assert left.handler == "two"
    assert [ticket for ticket, _ in runner.outcomes] == [1]
    assert [waiting.handler for waiting in runner.queue] == ["three"]


def test_attempts_do_not_see_the_context_of_earlier_ones(runner: Runner) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    seen: list[tuple[str, int]] = []

    async def one() -> None:
        variable.set("by one")

    async def two() -> None:
        seen.append((variable.get(), current().task_id.int))

    runner.run(one, two)

    assert seen == [("unset", 2)]


def test_an_interruption_reaches_the_attempt_it_is_meant_for(runner: Runner) -> None:
    async def one() -> None:
        runner.interrupts.raise_in(2, cancelled=True)  # It has not started yet, so this must do nothing.

    async def two() -> str:
        await asyncio.sleep(0)
        return "unharmed"

    async def three() -> None:
        runner.interrupts.raise_in(1, cancelled=True)  # It has ended.
        runner.interrupts.raise_in(3, cancelled=True)
        await asyncio.sleep(60)

    async def four() -> None:
        runner.interrupts.raise_in(4, cancelled=False)
        await asyncio.sleep(60)

    runner.run(one, two, three, four)

    outcomes = [outcome for _, outcome in runner.outcomes]
    assert outcomes[:2] == [Returned(None), Returned('"unharmed"')]
    assert isinstance(outcomes[2], Stopped)
    assert isinstance(outcomes[3], Raised)
    assert outcomes[3].error.kind == "SoftTimeout"


def test_the_caller_gets_an_error_of_the_report(runner: Runner) -> None:
    async def one() -> None: ...

    runner.failure = BrokenPipeError("the node is gone")

    with pytest.raises(BrokenPipeError, match="the node is gone"):
        runner.run(one)


def test_what_a_handler_leaves_on_the_loop_runs_between_attempts(runner: Runner) -> None:
    ticked = threading.Event()

    async def tick() -> None:
        await asyncio.sleep(0)
        ticked.set()

    async def one() -> None:
        runner.kept.append(asyncio.ensure_future(tick()))

    runner.run(one)

    assert ticked.wait(10)
