"""Helpers for testing applications that use Windlass.

`drain` runs enqueued tasks through the real claim path of a real store, with a clock that the test controls.
`immediate` runs each task inside the call that enqueues it. `assert_enqueued` checks which tasks exist. Arguments and
results go through JSON, as in production.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from windlass.client.app import App
from windlass.client.execution import arun_attempt, describe_error, run_attempt
from windlass.client.handlers import Handler
from windlass.clock import ManualClock, SystemClock
from windlass.core.assignment import Assignment, assignment_of
from windlass.core.references import referenced_ids, with_results
from windlass.core.settlement import Outcome, Raised, settle
from windlass.core.task import Claim, Lease, NewTask, Progress, SessionId, Task, TaskId
from windlass.core.times import LONGEST, Micros
from windlass.errors import InvalidPayload, NotAllowed
from windlass.stores.protocol import Cursor, Filter, Receipt, Store, Swept
from windlass.wiring import open_store

__all__ = ["ManualClock", "TickingClock", "assert_enqueued", "drain", "immediate", "memory_store"]


class TickingClock(ManualClock):
    """A manual clock that advances by one microsecond per reading, so that later tasks have later times.

    With a clock that stands still, tasks of two calls would have the same age and run in any order.
    """

    def now(self) -> Micros:
        self.advance(timedelta(microseconds=1))
        return super().now()


def drain(app: App, *, clock: ManualClock | None = None, advance: bool = False, limit: int = 10_000) -> int:
    """Run all runnable tasks and the tasks they enqueue, until none is left. Return the number of attempts.

    It claims, runs and settles one task after the other in this thread, in the order of the queues. With `advance` it
    moves `clock`, which must be the store's clock, to the next due time, so that delays and retries take no time.
    Retries have no jitter. More than `limit` attempts raise `AssertionError`, in case a task keeps enqueuing itself.
    """
    return _Drain(app, app.store, clock if advance else None, limit).run()


@contextmanager
def memory_store(app: App, *, clock: ManualClock | None = None) -> Generator[Store]:
    """Give the app an empty memory store inside the block, for `drain` and `assert_enqueued`.

    `conn=` has no effect in it: the task is stored at once, whatever happens to the caller's transaction.
    """
    store = open_store("memory:", clock=clock)
    try:
        with app.app_store.replaced_by(cast("Store", _UnjoinedStore(store)), direct=True):
            yield store
    finally:
        store.close()


@contextmanager
def immediate(app: App) -> Generator[None]:
    """Make `enqueue` run the task before it returns, on a separate memory store, inside the block.

    Delays are skipped and nothing is retried. An error is stored, and raised by `handle.result()`. Use the handles
    inside the block: afterwards the app has its own store again.
    """
    clock = TickingClock(SystemClock().now())
    store = _RunningStore(app, open_store("memory:", clock=clock), clock)
    with app.app_store.replaced_by(cast("Store", store), direct=True):
        yield


def assert_enqueued(
    app: App, handler: Handler[..., Any, Any], *args: Any, times: int | None = None, **kwargs: Any
) -> list[Task]:
    """Assert that a handler was enqueued, with exactly these arguments if any are given. Return the tasks.

    Without `times`, at least once; with it, exactly that many times (0 for never). Finished tasks count too.
    """
    there = list(_every_task(app.store, handler.name))
    wanted = _plain(handler.signature.encode(args, kwargs)) if args or kwargs else None
    found = [task for task in there if wanted is None or msgspec.json.decode(task.args) == wanted]
    if (times is None and not found) or (times is not None and len(found) != times):
        expected = "at least once" if times is None else f"{times} times"
        shown = "\n".join(f"  {task.state.value} {task.args}" for task in there[:10]) or "  none"
        what = handler.name if wanted is None else f"{handler.name} with {msgspec.json.encode(wanted).decode()}"
        raise AssertionError(
            f"{what} was enqueued {len(found)} times, expected {expected}. Tasks of this handler:\n{shown}"
        )
    return found


class _Drain:
    """A session on the store and the loop that runs its tasks."""

    def __init__(self, app: App, store: Store, clock: ManualClock | None, limit: int, *, retries: bool = True) -> None:
        self._app = app
        self._store = store
        self._clock = clock
        self._limit = limit
        self._retries = retries
        self._channel = _StoreChannel(store)

    def run(self) -> int:
        session = self._store.open_session("drain", ttl=LONGEST)
        attempts = 0
        try:
            while claim := self._next(session):
                attempts += 1
                if attempts > self._limit:
                    raise AssertionError(f"drain: not done after {self._limit:,} attempts. Does a task enqueue itself?")
                outcome = self._run(claim)
                self._store.settle([(claim.lease, settle(claim, outcome, lambda: 0.5))])
        finally:
            self._store.close_session(session)
        return attempts

    def _next(self, session: SessionId) -> Claim | None:
        """Claim the next task, advancing the clock if allowed."""
        while True:
            swept = self._sweep()
            queues = sorted({count.queue for count in self._store.counts()})
            claims = self._store.claim(session, queues, 1)
            if claims:
                return claims[0]
            if self._clock is None or swept.next_due is None or swept.next_due <= self._clock.now():
                return None
            self._clock.advance(timedelta(microseconds=swept.next_due - self._clock.now()))

    def _sweep(self) -> Swept:
        while not (swept := self._store.sweep()).quiet:
            pass
        return swept

    def _run(self, claim: Claim) -> Outcome:
        handler = self._app.handlers.get(claim.handler)
        if handler is None:
            raise NotAllowed(f"drain: the app has no handler {claim.handler!r} for task {claim.id}.")
        try:
            assignment = assignment_of(claim, self._arguments(claim.args))
        except InvalidPayload as error:
            return Raised(describe_error(error), give_up=True)
        run = _run_coroutine if handler.is_async else run_attempt
        outcome = run(self._app, assignment, self._channel)
        if isinstance(outcome, Raised) and not self._retries:
            return replace(outcome, give_up=True)
        return outcome

    def _arguments(self, args: str) -> str:
        needed = referenced_ids(args)
        tasks = self._store.get(needed) if needed else []
        return with_results(args, {id: task and task.result for id, task in zip(needed, tasks, strict=True)})


class _StoreChannel:
    """A channel that uses the store directly."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def progress(self, assignment: Assignment, share: float | None, message: str | None) -> None:
        self._store.progress([Progress(lease=assignment.lease, share=share, message=message)])

    def waiting(self, assignment: Assignment, waits: bool) -> None:
        """Do nothing."""

    def may_start(self, assignment: Assignment) -> bool:
        return True

    def cancelled(self, assignment: Assignment) -> bool:
        [task] = self._store.get([TaskId(assignment.task)])
        return task is None or task.cancel_requested


class _RunningStore:
    """A store that runs submitted tasks before `submit` returns."""

    def __init__(self, app: App, store: Store, clock: ManualClock) -> None:
        self._app = app
        self._store = store
        self._clock = clock

    def submit(
        self, tasks: Sequence[NewTask], *, conn: object | None = None, lease: Lease | None = None
    ) -> list[Receipt]:
        receipts = self._store.submit(tasks)
        _Drain(self._app, self._store, self._clock, 100_000, retries=False).run()
        return receipts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _UnjoinedStore:
    """A store that ignores the caller's connection."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit(
        self, tasks: Sequence[NewTask], *, conn: object | None = None, lease: Lease | None = None
    ) -> list[Receipt]:
        return self._store.submit(tasks, lease=lease)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _run_coroutine(app: App, assignment: Assignment, channel: _StoreChannel) -> Outcome:
    """Run a coroutine handler on a new event loop, in another thread if this one already runs a loop."""

    def run() -> Outcome:
        return asyncio.run(arun_attempt(app, assignment, channel))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    return _in_another_thread(run)


def _in_another_thread(function: Callable[[], Outcome]) -> Outcome:
    future: Future[Outcome] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            future.set_exception(error)

    Thread(target=run, name="windlass-testing").start()
    return future.result()


def _every_task(store: Store, handler: str) -> Generator[Task]:
    after: Cursor | None = None
    while True:
        page = store.find(Filter(handler=handler), limit=1_000, after=after)
        yield from page.tasks
        after = page.after
        if after is None:
            return


def _plain(args: Mapping[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(args))
