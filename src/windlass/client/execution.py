"""One attempt, from its order to its outcome. It never touches a store.

Whatever a handler does, an outcome comes back: `sys.exit()` in a handler ends its attempt, not its worker. What the
worker raises in a handler from outside (`SoftTimeout`, `Cancelled`) is told from what it raised itself. A process that
a handler has forked ends where the handler returns, raises or awaits in it: the attempt is its parent's.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from typing import Any, Protocol

from windlass.client.context import Cancelled, Channel, Context, GiveUp, RetryIn, SoftTimeout, log, running
from windlass.client.signature import Signature
from windlass.client.tracing import processing
from windlass.core.assignment import Assignment
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped
from windlass.core.times import LONGEST, micros
from windlass.errors import InvalidPayload, InvalidTask

MAX_TRACEBACK = 16 * 1024
MAX_MESSAGE = 4 * 1024
UNKNOWN_HANDLER_DELAY = 30_000_000
"""Microseconds until a task whose handler is not known here is looked at again, by whoever then comes first."""


class Runnable(Protocol):
    """What is needed of a handler to run it."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def signature(self) -> Signature: ...


class Handlers(Protocol):
    """What is needed of an app: its handlers by name."""

    @property
    def handlers(self) -> Mapping[str, Runnable]: ...
    @property
    def max_result_bytes(self) -> int: ...


def perform(app: Handlers, order: Assignment, channel: Channel) -> Outcome:
    """Run one attempt of a `def` handler, in this thread."""
    attempt = _Attempt(app, order, channel)
    outcome: Outcome | None = None
    try:
        with processing(order) as span, running(attempt.context):
            try:
                args, kwargs = attempt.arguments()
                outcome = attempt.returned(attempt.handler.function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the end of an attempt, whatever it is, is reported
                outcome = attempt.raised(error)
            finally:
                _end_if_forked(attempt.pid)
            span.ended(outcome)
    except (SoftTimeout, Cancelled) as late:  # raised from outside when the handler was already through
        return outcome or attempt.raised(late)
    return outcome


async def aperform(app: Handlers, order: Assignment, channel: Channel) -> Outcome:
    """Run one attempt of an `async def` handler. A cancel from outside that no request explains goes on outwards."""
    attempt = _Attempt(app, order, channel)
    with processing(order) as span, running(attempt.context):
        try:
            args, kwargs = attempt.arguments()
            return span.ended(attempt.returned(await _Steered(attempt.handler.function(*args, **kwargs))))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() and not channel.cancelled(order) and not _is_ours(error):
                raise
            return span.ended(attempt.raised(Cancelled() if task is not None and task.cancelling() else error))
        except BaseException as error:  # noqa: BLE001 - the end of an attempt, whatever it is, is reported
            return span.ended(attempt.raised(error))


def interrupt(task: asyncio.Task[Any], reason: SoftTimeout | Cancelled) -> None:
    """Interrupt an attempt under way in `aperform`, from its own loop.

    A `SoftTimeout` is raised as such where the handler awaits; `Cancelled` is asyncio's own `CancelledError` there.
    """
    task.cancel(reason)


def error_of(error: BaseException) -> Error:
    """An exception as text: its class, message and traceback, without our own frames, within limits."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        lines = traceback.format_exception(type(error), error, frames, limit=-50)
        text, message = "".join(lines), str(error)
    except BaseException as worse:  # noqa: BLE001 - a broken __str__ or __cause__ must not hide the error itself
        text, message = "", f"(its text cannot be shown: {type(worse).__name__})"
    kind = "OutOfMemory" if isinstance(error, MemoryError) else type(error).__qualname__
    return Error(kind=kind, message=_cut(message, MAX_MESSAGE), traceback=_cut(text, MAX_TRACEBACK))


def _end_if_forked(pid: int) -> None:
    """End this process if it is not the one that began the attempt."""
    if os.getpid() != pid:
        os._exit(0)


class _UnknownHandler(Exception):
    """This process does not have the handler."""


class _LeaseDoubtful(Exception):
    """The attempt's lease may have run out before the handler was called."""


class _Attempt:
    """What both kinds of handler have in common."""

    def __init__(self, app: Handlers, order: Assignment, channel: Channel) -> None:
        self.pid = os.getpid()
        self._order = order
        self._channel = channel
        self._handler = app.handlers.get(order.handler)
        self._max_result_bytes = app.max_result_bytes
        self.context = Context(order, channel, self._encode)

    @property
    def handler(self) -> Runnable:
        if self._handler is None:
            raise _UnknownHandler(self._order.handler)
        return self._handler

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return what the handler is called with, if it may be called now: nothing stands between this and the call."""
        try:
            decoded = self.handler.signature.decode(self._order.args)
        except (InvalidPayload, InvalidTask) as error:
            raise GiveUp(f"the arguments do not fit the handler: {error}") from None
        if not self._channel.may_start(self._order):
            raise _LeaseDoubtful
        return decoded

    def returned(self, value: Any) -> Outcome:
        if self.context.written is not None:
            return self.context.written
        try:
            return Returned(self._encode(value))
        except InvalidPayload as error:
            raise GiveUp(f"the result cannot be stored: {error}") from None

    def raised(self, error: BaseException) -> Outcome:
        if self.context.written is not None:
            log.error("task %s raised after its completion was committed", self._order.task, exc_info=error)
            return self.context.written
        match error:
            case Cancelled():
                return Stopped(State.CANCELLED, "stopped while it ran")
            case RetryIn():
                return Raised(error_of(error), retry_in=micros(min(max(error.delay, timedelta(0)), LONGEST)))
            case GiveUp():
                return Raised(error_of(error), give_up=True)
            case _LeaseDoubtful():
                return Released()
            case _UnknownHandler():
                return Released(delay=UNKNOWN_HANDLER_DELAY)
            case _:
                return Raised(error_of(error))

    def _encode(self, value: Any) -> str | None:
        return self.handler.signature.encode_result(value, self._max_result_bytes)


class _Steered:
    """A coroutine into which a `SoftTimeout` can be thrown: asyncio itself can only throw `CancelledError`."""

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
                _end_if_forked(self._pid)  # Its loop, and all that waits on it, is its parent's.
            try:
                step, value = inner.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - handed on to the handler, whatever it is
                step, value = inner.throw, _meant(error)


def _meant(error: BaseException) -> BaseException:
    if not (_is_ours(error) and isinstance(error.args[0], SoftTimeout)):
        return error
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()  # Otherwise every later asyncio.timeout() of the handler would take itself for cancelled.
    return error.args[0]


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) and isinstance(next(iter(error.args), 0), SoftTimeout | Cancelled)


def _cut(text: str, most: int) -> str:
    """The text within a limit: its beginning, and more of its end, where an error stands."""
    if len(text) <= most:
        return text
    return f"{text[: most // 4]}\n… {len(text) - most:,} characters left out …\n{text[-(most * 3 // 4) :]}"
