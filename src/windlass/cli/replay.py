"""Run an attempt of a task again in this process, with the same arguments and a read-only store.

Every app of the process is bound to the read-only store before the app is imported. The store never granted the lease
of the attempt, so it also refuses what a handler does with it on a connection of its own.
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
from windlass.core.task import Lease, SessionId, Task, claim_of
from windlass.operations.handler_catalog import UnknownHandler
from windlass.stores.protocol import Store
from windlass.stores.read_only import read_only
from windlass.worker.node import AppBroken
from windlass.worker.worker_parent import describe_import_failure, load_app

NOBODY = SessionId(UUID(int=0))


class Replay(Struct, frozen=True, kw_only=True):
    """The result of a replay. `error` is what the handler raised, with the frames from its own function on."""

    order: Assignment
    outcome: Outcome
    error: BaseException | None


def import_app(target: str, store: Store) -> App:
    """Import the app with read-only access to the store."""
    guarded = read_only(store)
    bind_all(lambda: guarded)
    try:
        return load_app(target)
    except (Exception, SystemExit) as error:
        raise AppBroken(describe_import_failure(target, error).rstrip()) from error


def run_again(app: App, store: Store, task: Task) -> Replay:
    """Run the latest attempt of a task again, or the first if there was none."""
    handler = app.handlers.get(task.handler)
    if handler is None:
        known = ", ".join(sorted(app.handlers)[:20]) or "none"
        raise UnknownHandler(f"handler={task.handler!r} is not in this app. Its handlers: {known}.")
    order = assignment_of(claim_of(task, Lease(task.id, task.fence, NOBODY)), _arguments(store, task))
    order = replace(order, attempt=max(1, task.attempts))
    recorder = _ErrorRecorder(app, task.handler, handler.is_async)
    for hook in app.start_hooks:
        hook()
    try:
        outcome = _perform(recorder, order, is_async=handler.is_async)
    finally:
        for hook in app.stop_hooks:
            hook()
    return Replay(order=order, outcome=outcome, error=recorder.error)


def _perform(recorder: _ErrorRecorder, order: Assignment, *, is_async: bool) -> Outcome:
    if is_async:
        return asyncio.run(arun_attempt(recorder, order, _ReplayChannel()))
    return run_attempt(recorder, order, _ReplayChannel())


def _arguments(store: Store, task: Task) -> str:
    """Return the arguments of the attempt, with the results of other tasks filled in."""
    needed = referenced_ids(task.args)
    found = dict(zip(needed, store.get(needed), strict=True)) if needed else {}
    for id, other in found.items():
        if other is None:
            print_note(f"Task {id}, whose result is an argument, is gone. Using null instead.")
    return with_results(task.args, {id: other and other.result for id, other in found.items()})


class _Handler(Struct, frozen=True):
    """The part of a handler that running it needs."""

    function: Callable[..., Any]
    signature: Signature


class _ErrorRecorder:
    """An app with one handler that records the exception of the handler."""

    def __init__(self, app: App, name: str, is_async: bool) -> None:
        handler = app.handlers[name]
        self.error: BaseException | None = None
        self.max_result_bytes = app.max_result_bytes
        self.hooks = app.hooks
        self.app_store = app.app_store
        function = self._coroutine(handler.function) if is_async else self._function(handler.function)
        self.handlers: Mapping[str, _Handler] = {name: _Handler(function, handler.signature)}

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                self.error = _without_own_frame(error)
                raise

        return watched

    def _coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                self.error = _without_own_frame(error)
                raise

        return watched


def _without_own_frame(error: BaseException) -> BaseException:
    """Return the error without the frame of this module."""
    frames: TracebackType | None = error.__traceback__
    return error if frames is None else error.with_traceback(frames.tb_next)


class _ReplayChannel:
    """Prints the progress of the attempt and never asks it to stop."""

    def progress(self, order: Assignment, share: float | None, message: str | None) -> None:
        print_note(f"progress: {'' if share is None else f'{share:.0%} '}{message or ''}".rstrip())

    def waiting(self, order: Assignment, waits: bool) -> None:
        """Do nothing."""

    def may_start(self, order: Assignment) -> bool:
        return True

    def cancelled(self, order: Assignment) -> bool:
        return False
