"""Runs one attempt of a task, from its assignment to its outcome. It never uses a store.

Every handler ends in an outcome: `sys.exit()` ends the attempt, not the worker. Exceptions that the worker raises in a
handler (`SoftTimeout`, `Cancelled`) are distinguished from those that the handler raises. A process that a handler
forks exits when the handler returns, raises or awaits in it, because the attempt belongs to its parent.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from windlass.client.context import (
    Cancelled,
    Channel,
    Context,
    GiveUp,
    Handlers,
    RetryIn,
    Runnable,
    SoftTimeout,
    log,
)
from windlass.core.assignment import Assignment
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped
from windlass.core.times import LONGEST, micros
from windlass.errors import InvalidPayload, InvalidTask

MAX_TRACEBACK = 16 * 1024
MAX_MESSAGE = 4 * 1024
MAX_KIND = 512
UNKNOWN_HANDLER_DELAY = 30_000_000
"""Microseconds until a task is tried again after it came to a worker that does not have its handler."""
_NOTHING = Returned(None)
_NO_HOOKS = nullcontext()


def run_attempt(app: Handlers, assignment: Assignment, channel: Channel) -> Outcome:
    """Run one attempt of a `def` handler, in this thread."""
    pid = os.getpid()
    handler = app.handlers.get(assignment.handler)
    context = Context(assignment, channel, app)
    outcome: Outcome | None = None
    try:
        with context:
            try:
                function, args, kwargs = _prepare_call(handler, assignment, channel)
                with app.hooks.run() if app.hooks else _NO_HOOKS:
                    outcome = _result_outcome(context, function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - every end of an attempt is reported
                outcome = _error_outcome(context, error)
            finally:
                _end_if_forked(pid)
            context.outcome = outcome
    except (SoftTimeout, Cancelled) as late:  # Raised from outside after the handler had returned.
        return outcome or _error_outcome(context, late)
    return outcome


async def arun_attempt(app: Handlers, assignment: Assignment, channel: Channel) -> Outcome:
    """Run one attempt of an `async def` handler. A cancellation that nobody requested propagates."""
    handler = app.handlers.get(assignment.handler)
    context = Context(assignment, channel, app)
    with context:
        try:
            function, args, kwargs = _prepare_call(handler, assignment, channel)
            with app.hooks.run() if app.hooks else _NO_HOOKS:
                outcome = _result_outcome(context, await _Interruptible(function(*args, **kwargs)))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() and not channel.cancelled(assignment) and not _is_ours(error):
                raise
            outcome = _error_outcome(context, Cancelled() if task is not None and task.cancelling() else error)
        except BaseException as error:  # noqa: BLE001 - every end of an attempt is reported
            outcome = _error_outcome(context, error)
        context.outcome = outcome
    return outcome


def interrupt(task: asyncio.Task[Any], reason: SoftTimeout | Cancelled) -> None:
    """Interrupt an attempt in `arun_attempt`, from its own event loop.

    Where the handler awaits, a `SoftTimeout` is raised as itself, and `Cancelled` as asyncio's `CancelledError`.
    """
    task.cancel(reason)


def describe_error(error: BaseException) -> Error:
    """Return the class, message and traceback of an exception as text, without our own frames, truncated."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        lines = traceback.format_exception(type(error), error, frames, limit=-50)
        text, message = "".join(lines), str(error)
    except BaseException as worse:  # noqa: BLE001 - a broken __str__ or __cause__ must not hide the error itself
        text, message = "", f"(its text cannot be formatted: {type(worse).__name__})"
    kind = "OutOfMemory" if isinstance(error, MemoryError) else type(error).__qualname__
    message, text = truncate(message, MAX_MESSAGE), truncate(text, MAX_TRACEBACK)
    return Error(kind=kind[:MAX_KIND], message=message, traceback=text)


def _end_if_forked(pid: int) -> None:
    """Exit if this process was forked by the handler."""
    if os.getpid() != pid:
        os._exit(0)


class _UnknownHandler(Exception):
    """This process does not have the handler."""


class _LeaseUncertain(Exception):
    """The attempt's lease may have expired before the handler was called."""


def _prepare_call(
    handler: Runnable | None, assignment: Assignment, channel: Channel
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """Return the function and its arguments. The lease is checked last, right before the call."""
    if handler is None:
        raise _UnknownHandler(assignment.handler)
    try:
        args, kwargs = handler.signature.decode(assignment.args)
    except (InvalidPayload, InvalidTask) as error:
        raise GiveUp(f"The arguments do not fit the handler: {error}") from None
    if not channel.may_start(assignment):
        raise _LeaseUncertain
    return handler.function, args, kwargs


def _result_outcome(context: Context, value: Any) -> Outcome:
    if context.written is not None:
        return context.written
    if value is None and context.more is None:
        return _NOTHING
    try:
        if context.more is not None:
            return context.more.outcome(value, context.encode_result)
        return Returned(context.encode_result(value))
    except InvalidPayload as error:
        raise GiveUp(f"The result cannot be stored: {error}") from None


def _error_outcome(context: Context, error: BaseException) -> Outcome:
    if context.written is not None:
        log.error("task %s raised after its completion was committed", context.task_id, exc_info=error)
        return context.written
    match error:
        case Cancelled():
            return Stopped(State.CANCELLED, "stopped while running")
        case RetryIn():
            return Raised(describe_error(error), retry_in=micros(min(max(error.delay, timedelta(0)), LONGEST)))
        case GiveUp():
            return Raised(describe_error(error), give_up=True)
        case _LeaseUncertain():
            return Released()
        case _UnknownHandler():
            return Released(delay=UNKNOWN_HANDLER_DELAY)
        case _:
            return Raised(describe_error(error))


class _Interruptible:
    """A coroutine into which a `SoftTimeout` can be thrown; asyncio itself can only throw `CancelledError`."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine
        self._pid = os.getpid()

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        step, value = inner.send, None
        while True:
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value
            finally:
                _end_if_forked(self._pid)  # The event loop belongs to the parent.
            try:
                step, value = inner.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - passed on to the handler
                step, value = inner.throw, _unwrap(error)


def _unwrap(error: BaseException) -> BaseException:
    if not (_is_ours(error) and isinstance(error.args[0], SoftTimeout)):
        return error
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()  # Otherwise every later asyncio.timeout() of the handler would see itself as cancelled.
    return error.args[0]


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) and isinstance(next(iter(error.args), 0), SoftTimeout | Cancelled)


def truncate(text: str, most: int) -> str:
    """Shorten text to a limit: keep a quarter from the start and three quarters from the end, where errors are."""
    if len(text) <= most:
        return text
    return f"{text[: most // 4]}\n… {len(text) - most:,} characters omitted …\n{text[-(most * 3 // 4) :]}"
