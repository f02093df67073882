"""One attempt of a task, run once more in this process: the same arguments, and nothing written back to the store.

Every app of the process is bound to a store that refuses writes, before the app is imported. The lease is one that no
store has ever granted, so what a handler does in its name on a connection of its own is refused there as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from windlass.cli.output import print_note
from windlass.client.app import App, bind_all
from windlass.client.arguments import Signature
from windlass.client.execution import arun_attempt, run_attempt
from windlass.core.assignment import Assignment, assignment_of
from windlass.core.references import referenced_ids, with_results
from windlass.core.settlement import Outcome
from windlass.core.task import Claim, Lease, SessionId, Task
from windlass.operations.handler_catalog import UnknownHandler
from windlass.stores.protocol import Store
from windlass.stores.read_only import read_only
from windlass.worker.node import AppBroken
from windlass.worker.worker_parent import describe_import_failure, load_app

NOBODY = SessionId(UUID(int=0))


class Ran(Struct, frozen=True, kw_only=True):
    """How it went; `error` is what the handler raised, with the frames from its own function on."""

    order: Assignment
    outcome: Outcome
    error: BaseException | None


def imported(target: str, store: Store) -> App:
    """The app, which can look at this store and not change it."""
    shut = read_only(store)
    bind_all(lambda: shut)
    try:
        return load_app(target)
    except (Exception, SystemExit) as error:
        raise AppBroken(describe_import_failure(target, error).rstrip()) from error


def run(app: App, store: Store, task: Task) -> Ran:
    """Run the task's latest attempt again; of a task that was never tried, its first."""
    handler = app.handlers.get(task.handler)
    if handler is None:
        known = ", ".join(sorted(app.handlers)[:20]) or "none"
        raise UnknownHandler(f"handler={task.handler!r} is not one of this app's; it has: {known}")
    order = assignment_of(Claim(Lease(task.id, task.fence, NOBODY), task), _arguments(store, task))
    order = replace(order, attempt=max(1, task.attempts))
    watched = _Watched(app, task.handler, handler.is_async)
    for hook in app.start_hooks:
        hook()
    try:
        outcome = _performed(watched, order, is_async=handler.is_async)
    finally:
        for hook in app.stop_hooks:
            hook()
    return Ran(order=order, outcome=outcome, error=watched.error)


def _performed(watched: _Watched, order: Assignment, *, is_async: bool) -> Outcome:
    if is_async:
        return asyncio.run(arun_attempt(watched, order, _ReplayChannel()))
    return run_attempt(watched, order, _ReplayChannel())


def _arguments(store: Store, task: Task) -> str:
    """The arguments as the attempt had them, with the results of other tasks in their places."""
    needed = referenced_ids(task.args)
    found = dict(zip(needed, store.get(needed), strict=True)) if needed else {}
    for id, other in found.items():
        if other is None:
            print_note(f"the task {id}, whose result is an argument, is no longer there: null stands for it")
    return with_results(task.args, {id: other and other.result for id, other in found.items()})


class _Handler(Struct, frozen=True):
    """As much of a handler as it takes to run it."""

    function: Callable[..., Any]
    signature: Signature


class _Watched:
    """The app with one handler, whose exception is kept as it was raised."""

    def __init__(self, app: App, name: str, is_async: bool) -> None:
        handler = app.handlers[name]
        self.error: BaseException | None = None
        self.max_result_bytes = app.max_result_bytes
        function = self._coroutine(handler.function) if is_async else self._function(handler.function)
        self.handlers: Mapping[str, _Handler] = {name: _Handler(function, handler.signature)}

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                self.error = _from_the_handler_on(error)
                raise

        return watched

    def _coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                self.error = _from_the_handler_on(error)
                raise

        return watched


def _from_the_handler_on(error: BaseException) -> BaseException:
    """The same error without our own frame, in which it was caught."""
    frames: TracebackType | None = error.__traceback__
    return error if frames is None else error.with_traceback(frames.tb_next)


class _ReplayChannel:
    """What the attempt says of itself is told to who watches; nobody has asked it to stop."""

    def progress(self, order: Assignment, share: float | None, message: str | None) -> None:
        print_note(f"progress: {'' if share is None else f'{share:.0%} '}{message or ''}".rstrip())

    def may_start(self, order: Assignment) -> bool:
        return True

    def cancelled(self, order: Assignment) -> bool:
        return False
