"""The context of a running attempt: `windlass.current()`.

It is found through a context variable, so it is available in the handler, in everything it calls, and in
`asyncio.to_thread`, but not in threads that a handler starts itself; of those, a worker only captures the output. The
context talks to a `Channel`: the worker's socket in production, the store in `windlass.testing`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import datetime, timedelta
from typing import Any, Protocol, cast
from uuid import UUID

from windlass.client.arguments import Signature
from windlass.client.task_hooks import TaskHooks
from windlass.client.tracing import start_attempt_span
from windlass.client.transaction import Cancelled, Transaction
from windlass.core.assignment import Assignment
from windlass.core.settlement import Outcome, Returned
from windlass.core.task import Lease, TaskId
from windlass.core.times import Duration, duration, to_datetime
from windlass.errors import NotAllowed

__all__ = [
    "Adding",
    "Cancelled",
    "Channel",
    "Context",
    "GiveUp",
    "Handlers",
    "RetryIn",
    "Runnable",
    "SoftTimeout",
    "current",
    "current_assignment",
    "current_lease",
    "log",
]

log = logging.getLogger("windlass.task")


class RetryIn(Exception):
    """Raised by a handler to retry the task after a delay. It counts as an attempt.

    >>> raise RetryIn("30s")
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay: timedelta = duration(delay, "RetryIn")
        super().__init__(message or f"retry requested in {self.delay}")


class GiveUp(Exception):
    """Raised by a handler when the task can never succeed. No further attempt is made.

    >>> raise GiveUp("bad address")
    """


class SoftTimeout(Exception):
    """Raised in a handler that has run longer than its `soft_timeout`.

    The handler may catch it to clean up, and may run until its hard limit, `timeout`. Uncaught, it is a normal error.
    """


class Channel(Protocol):
    """Connects a running attempt to the process that runs it."""

    def progress(self, assignment: Assignment, /, share: float | None, message: str | None) -> None:
        """Report progress, which also counts as a heartbeat."""
        ...

    def waiting(self, assignment: Assignment, /, waits: bool) -> None:
        """Report that the attempt begins to wait for the result of another task, or has ended such a wait."""
        ...

    def may_start(self, assignment: Assignment, /) -> bool:
        """Return True if the attempt's lease is certainly still valid. Called right before the handler."""
        ...

    def cancelled(self, assignment: Assignment, /) -> bool:
        """Return whether cancelling the task was requested."""
        ...


class Runnable(Protocol):
    """The part of a handler that is needed to run it."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def signature(self) -> Signature: ...


class Handlers(Protocol):
    """The part of an app that is needed to run its handlers."""

    @property
    def handlers(self) -> Mapping[str, Runnable]: ...
    @property
    def max_result_bytes(self) -> int: ...
    @property
    def hooks(self) -> TaskHooks: ...
    @property
    def app_store(self) -> Any: ...


class Adding(Protocol):
    """Collects the steps that a handler adds to its workflow."""

    def outcome(self, value: Any, encode: Callable[[Any], str | None]) -> Outcome:
        """Return the outcome of a handler that has returned this value."""
        ...


class Context:
    """One running attempt, as the handler sees it. In a `with` block, `current()` returns it, and its span is open."""

    __slots__ = ("_app", "_channel", "_joins", "_span", "_token", "assignment", "more", "outcome", "written")

    def __init__(self, assignment: Assignment, channel: Channel, app: Handlers) -> None:
        self.assignment = assignment
        self.written: Returned | None = None
        """The outcome that `transaction` has committed. Nothing changes it afterwards."""
        self.outcome: Outcome | None = None
        """The outcome of the attempt, for its span."""
        self.more: Adding | None = None
        """The steps that the handler adds."""
        self._joins = False
        self._channel = channel
        self._app = app

    def __enter__(self) -> None:
        self._span = start_attempt_span(self.assignment)
        self._token: Token[Context] = _current.set(self)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        if self._span is not None:
            self._span.end(self.outcome)

    @property
    def task_id(self) -> UUID:
        """The task's id."""
        return TaskId(self.assignment.task)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.assignment.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt. Pass it to systems that must reject writes of older attempts."""
        return self.assignment.fence

    @property
    def lease(self) -> Lease:
        """The lease of this attempt."""
        return self.assignment.lease

    @property
    def deadline(self) -> datetime | None:
        """The time by which the task should be done."""
        return None if self.assignment.deadline is None else to_datetime(self.assignment.deadline)

    @property
    def handler(self) -> str:
        """The name of the handler."""
        return self.assignment.handler

    @property
    def queue(self) -> str:
        """The task's queue."""
        return self.assignment.queue

    @property
    def tenant(self) -> str:
        """The task's tenant."""
        return self.assignment.tenant

    @property
    def workflow(self) -> str | None:
        """The task's workflow."""
        return self.assignment.workflow

    @property
    def key(self) -> str | None:
        """The caller's own id for the task."""
        return self.assignment.key

    def start_adding(self, make: Callable[[Any], Adding]) -> Adding:
        """Return what collects the steps that the handler adds, made from the app's store on first use."""
        if self._joins:
            raise NotAllowed("A handler uses either more_steps() or transaction(conn), not both.")
        if self.more is None:
            self.more = make(self._app.app_store)
        return self.more

    @property
    def cancelled(self) -> bool:
        """Whether cancelling was requested. A handler can check it to stop cleanly."""
        return self._channel.cancelled(self.assignment)

    def progress(self, share: float | None = None, message: str | None = None) -> None:
        """Report progress as a share from 0 to 1 and a message. This is the heartbeat for `heartbeat_timeout`."""
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"share={share!r} is not between 0 and 1.")
        if not isinstance(cast("object", message), str | None):
            raise TypeError(f"message={message!r} is not text. Pass a str.")
        self._channel.progress(self.assignment, None if share is None else float(share), message)

    def report_waiting(self, waits: bool) -> None:
        """Report that the handler begins or ends a wait for another task; `Handle` calls this."""
        self._channel.waiting(self.assignment, waits)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the task, handler, queue, tenant, attempt and trace id."""
        a = self.assignment
        fields: dict[str, Any] = {"task_id": str(a.task), "handler": a.handler, "queue": a.queue}
        if a.trace is not None and a.trace.count("-") == 3:  # A `traceparent`: version, trace, span, flags.
            fields["trace_id"] = a.trace.split("-")[1]
        return logging.LoggerAdapter(log, {**fields, "tenant": a.tenant, "attempt": a.attempt})

    def transaction(self, conn: Any) -> Transaction:
        """Commit the handler's rows and the task's completion together, on a connection to the store's PostgreSQL.

        >>> with current().transaction(conn) as tx:
        ...     conn.execute("INSERT INTO invoice ...")
        ...     tx.result("invoice 42")

        At the end of the block the completion is written as the last statement and everything is committed. The value
        given to `tx.result` is the task's result; the handler's return value is not recorded. If the lease was lost,
        everything is rolled back and `StaleLease` is raised. An error or a cancel rolls back too. The rows of this
        transaction are written exactly once; nothing else is. Use `async with` for an asynchronous `conn`.
        """
        if self.written is not None:
            raise NotAllowed("The completion of this task is already committed. Use one transaction per attempt.")
        if self.more is not None:
            raise NotAllowed("A handler uses either more_steps() or transaction(conn), not both.")
        self._joins = True
        return Transaction(conn, self.lease, self.encode_result, self._mark_written)

    def encode_result(self, value: Any) -> str | None:
        """Return a result of the handler as JSON text, or raise `InvalidPayload`."""
        signature = self._app.handlers[self.assignment.handler].signature
        return signature.encode_result(value, self._app.max_result_bytes)

    def _mark_written(self, result: str | None) -> None:
        self.written = Returned(result)


_current: ContextVar[Context] = ContextVar("windlass_current")


def current() -> Context:
    """Return the attempt that is running in this context."""
    context = _current.get(None)
    if context is None:
        raise NotAllowed(
            "current() works only in a running task and in asyncio.to_thread, not in threads that a handler starts. "
            "In a test, run the handler with windlass.testing.drain or immediate."
        )
    return context


@contextmanager
def waiting_for_a_task() -> Generator[None]:
    """Report that the attempt that runs in this context waits for another task, inside the block."""
    context = _current.get(None)
    if context is None:
        yield
        return
    context.report_waiting(True)
    try:
        yield
    finally:
        context.report_waiting(False)


def current_assignment() -> Assignment | None:
    """Return the assignment of the attempt that is running in this context, or None."""
    context = _current.get(None)
    return None if context is None else context.assignment


def current_lease() -> Lease | None:
    """Return the lease of the attempt that is running in this context, or None."""
    assignment = current_assignment()
    return None if assignment is None else assignment.lease
