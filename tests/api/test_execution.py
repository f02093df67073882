"""One attempt: every handler ends in an outcome."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, NoReturn
from uuid import UUID

import msgspec
import pytest

import windlass
from windlass import App, Cancelled, Context, GiveUp, NotAllowed, RetryIn, SoftTimeout, current
from windlass.client.execution import MAX_MESSAGE, MAX_TRACEBACK, arun_attempt, interrupt, run_attempt
from windlass.core.assignment import Assignment
from windlass.core.lifecycle import State
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped
from windlass.testing import assert_enqueued, drain


class RecordingChannel:
    """A channel that records the progress reports."""

    def __init__(self, *, cancelled: bool = False, may_start: bool = True) -> None:
        self.starts = may_start
        self.reports: list[tuple[float | None, str | None]] = []
        self.is_cancelled = cancelled

    def progress(self, order: Assignment, share: float | None, message: str | None) -> None:
        self.reports.append((share, message))

    def waiting(self, order: Assignment, waits: bool) -> None: ...

    def may_start(self, order: Assignment) -> bool:
        return self.starts

    def cancelled(self, order: Assignment) -> bool:
        return self.is_cancelled


def an_assignment(handler: str = "work", args: str = "{}", **fields: Any) -> Assignment:
    return Assignment(task=UUID(int=1), fence=7, session=UUID(int=2), handler=handler, args=args, **fields)


def attempt(app: App, function: Any, **fields: Any) -> Outcome:
    app.task(name="work")(function)
    return run_attempt(app, an_assignment(**fields), RecordingChannel())


def raises(error: BaseException) -> Any:
    def work() -> NoReturn:
        raise error

    return work


def test_a_return_value_is_encoded_as_json(app: App) -> None:
    assert attempt(app, lambda: {"a": [1]}) == Returned('{"a":[1]}')


def test_none_is_stored_as_no_result(app: App) -> None:
    assert attempt(app, lambda: None) == Returned(None)


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt("ctrl"), GeneratorExit()])
def test_every_exception_is_an_error_of_the_attempt(app: App, error: BaseException) -> None:
    outcome = attempt(app, raises(error))

    assert isinstance(outcome, Raised)
    assert outcome.error.kind == type(error).__name__
    assert outcome.error.message == str(error)
    assert not outcome.give_up


def test_every_form_of_memory_error_has_the_same_kind(app: App) -> None:
    outcome = attempt(app, raises(MemoryError()))

    assert isinstance(outcome, Raised)
    assert outcome.error.kind == "OutOfMemory"


def test_a_traceback_starts_in_the_handler_and_shows_the_cause(app: App) -> None:
    def work() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    outcome = attempt(app, work)

    assert isinstance(outcome, Raised)
    assert "windlass/client/execution.py" not in outcome.error.traceback
    assert "in work" in outcome.error.traceback
    assert "KeyError: 'inner'" in outcome.error.traceback
    assert outcome.error.traceback.endswith("ValueError: outer\n")


def test_messages_and_tracebacks_are_truncated(app: App) -> None:
    def dig(depth: int) -> None:
        dig(depth + 1)

    long = attempt(app, raises(ValueError("x" * 100_000)))
    deep = attempt(App("memory:"), lambda: dig(0))

    assert isinstance(long, Raised)
    assert isinstance(deep, Raised)
    assert len(long.error.message) < MAX_MESSAGE + 100
    assert len(long.error.traceback) < MAX_TRACEBACK + 100
    assert deep.error.kind == "RecursionError"
    assert len(deep.error.traceback) < MAX_TRACEBACK + 100


def test_an_error_that_cannot_be_formatted_is_still_an_error(app: App) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    outcome = attempt(app, raises(Broken()))

    assert isinstance(outcome, Raised)
    assert outcome.error.kind.endswith("Broken")


def test_retry_in_and_give_up_decide_about_the_retry(app: App) -> None:
    other = App("memory:")

    again = attempt(app, raises(RetryIn("30s")))
    never = attempt(other, raises(GiveUp("bad address")))

    assert isinstance(again, Raised)
    assert again.retry_in == 30_000_000
    assert isinstance(never, Raised)
    assert (never.give_up, never.error.message) == (True, "bad address")


def test_soft_timeouts_and_cancels_have_different_outcomes(app: App) -> None:
    stopped = attempt(app, raises(Cancelled()))
    late = attempt(App("memory:"), raises(SoftTimeout()))

    assert stopped == Stopped(State.CANCELLED, "stopped while running")
    assert isinstance(late, Raised)
    assert late.error.kind == "SoftTimeout"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_attempt_whose_lease_may_have_expired_is_released_before_its_handler_is_called(kind: str) -> None:
    app, called = App("memory:"), list[str]()
    late = RecordingChannel(may_start=False)

    if kind == "def":

        @app.task(name="work")
        def work() -> None:
            called.append("work")

        outcome = run_attempt(app, an_assignment(), late)
    else:

        @app.task(name="work")
        async def awork() -> None:
            called.append("work")

        outcome = asyncio.run(arun_attempt(app, an_assignment(), late))

    assert (outcome, called) == (Released(), [])


def test_a_task_with_an_unknown_handler_is_released_without_using_an_attempt(app: App) -> None:
    outcome = run_attempt(app, an_assignment("nobody"), RecordingChannel())

    assert isinstance(outcome, Released)
    assert outcome.delay > 0


def test_an_assignment_is_encoded_in_few_bytes() -> None:
    order = an_assignment(attempt=2, tenant="acme", deadline=5)
    packed = msgspec.msgpack.encode(order)

    assert msgspec.msgpack.decode(packed, type=Assignment) == order
    assert len(packed) < 150


# Coroutines


def run(app: App, function: Any, channel: RecordingChannel | None = None, *, then: Any = None) -> Outcome:
    """Run the handler on an event loop and raise `then` in it once it waits."""
    app.task(name="work")(function)

    async def main() -> Outcome:
        task = asyncio.ensure_future(arun_attempt(app, an_assignment(), channel or RecordingChannel()))
        for _ in range(3):
            await asyncio.sleep(0)
        if then is not None:
            interrupt(task, then)
        return await task

    return asyncio.run(main())


def test_a_coroutine_returns_raises_and_knows_its_context(app: App) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: current().fence)

    async def fail() -> None:
        raise ValueError("bad")

    failed = run(App("memory:"), fail)

    assert run(app, work) == Returned("7")
    assert isinstance(failed, Raised)
    assert failed.error.kind == "ValueError"


def test_a_coroutine_can_catch_a_soft_timeout_and_continue(app: App) -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except SoftTimeout:
            async with asyncio.timeout(10):
                await asyncio.sleep(0)
            return "cleaned up"
        return "never"

    async def heedless() -> None:
        await asyncio.Event().wait()

    late = run(App("memory:"), heedless, then=SoftTimeout("too long"))

    assert run(app, work, then=SoftTimeout()) == Returned('"cleaned up"')
    assert isinstance(late, Raised)
    assert (late.error.kind, late.error.message) == ("SoftTimeout", "too long")


def test_a_cancelled_coroutine_is_stopped(app: App) -> None:
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    assert run(app, work, then=Cancelled()) == Stopped(State.CANCELLED, "stopped while running")
    assert cleaned == [True]


def test_an_unrequested_cancellation_propagates(app: App) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    app.task(name="work")(work)

    async def main() -> None:
        async with asyncio.timeout(0.01):
            await arun_attempt(app, an_assignment(), RecordingChannel())

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_a_coroutine_that_cancels_itself_has_raised(app: App) -> None:
    async def work() -> None:
        raise asyncio.CancelledError("by itself")

    outcome = run(app, work)

    assert isinstance(outcome, Raised)
    assert outcome.error.kind == "CancelledError"


# The context


def test_a_handler_knows_its_attempt(app: App) -> None:
    seen: list[Context] = []
    order = {"attempt": 3, "deadline": 1_000_000, "queue": "q", "tenant": "t", "workflow": "w", "key": "k"}

    attempt(app, lambda: seen.append(current()), **order)

    [context] = seen
    assert (context.task_id, context.fence, context.attempt) == (UUID(int=1), 7, 3)
    assert (context.handler, context.queue, context.tenant, context.workflow, context.key) == (
        "work",
        "q",
        "t",
        "w",
        "k",
    )
    assert context.deadline == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert context.lease == an_assignment().lease
    assert not context.cancelled


def test_current_raises_outside_of_a_task() -> None:
    with pytest.raises(NotAllowed, match=r"current\(\) works only in a running task"):
        windlass.current()


def test_progress_goes_through_the_channel(app: App) -> None:
    channel = RecordingChannel(cancelled=True)

    @app.task(name="work")
    def work() -> bool:
        current().progress(0.4, "half of it")
        current().progress()
        with pytest.raises(ValueError, match="not between 0 and 1"):
            current().progress(40)
        return current().cancelled

    assert run_attempt(app, an_assignment(), channel) == Returned("true")
    assert channel.reports == [(0.4, "half of it"), (None, None)]


def test_log_records_carry_the_task(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    attempt(app, lambda: current().log.info("hello %s", "there"))

    [record] = caplog.records
    assert (record.message, record.task_id, record.attempt) == ("hello there", str(UUID(int=1)), 1)  # type: ignore[attr-defined]


def test_what_a_handler_enqueues_is_enqueued_under_its_lease(app: App) -> None:
    leases: list[Any] = []
    store = app.store
    submit = store.submit

    def noting(tasks: Any, **options: Any) -> Any:
        leases.append(options.get("lease"))
        return submit(tasks, **options)

    store.submit = noting  # type: ignore[method-assign]

    @app.task(name="child")
    def child() -> None: ...

    @app.task(name="parent")
    def parent() -> None:
        child.enqueue()
        leases.append(current().lease)

    parent.enqueue()
    drain(app)

    assert_enqueued(app, child, times=1)
    assert leases[0] is None
    assert leases[1] == leases[2]
