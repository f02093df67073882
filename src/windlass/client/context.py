"""What a running handler can know and ask: `windlass.current()`.

The context of an attempt is found through a context variable, so it is there in the handler, in whatever it calls, and
in `asyncio.to_thread`; threads that a handler starts by itself do not have it. What a context cannot answer itself it
asks of a `Channel`: the worker's socket in production, the store itself in `windlass.testing`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Protocol, cast
from uuid import UUID

from windlass.client.transaction import Cancelled, Transaction
from windlass.core.assignment import Assignment
from windlass.core.payload import encode_result
from windlass.core.settlement import Returned
from windlass.core.task import Lease, TaskId
from windlass.core.times import Duration, duration, to_datetime
from windlass.errors import NotAllowed

__all__ = [
    "Cancelled",
    "Channel",
    "Context",
    "GiveUp",
    "RetryIn",
    "SoftTimeout",
    "current",
    "current_lease",
    "log",
    "running",
]

log = logging.getLogger("windlass.task")


class RetryIn(Exception):
    """Raised by a handler: try this task again after so long. It counts as an attempt.

    >>> raise RetryIn("30s")
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay: timedelta = duration(delay, "RetryIn")
        super().__init__(message or f"asked to be retried in {self.delay}")


class GiveUp(Exception):
    """Raised by a handler: this task can never succeed; no further attempt is made.

    >>> raise GiveUp("bad address")
    """


class SoftTimeout(Exception):
    """Raised in a handler that has run longer than its `soft_timeout`. It may catch it to clean up, and goes on to its
    hard limit, `timeout`; uncaught, it is an error like any other."""


class Channel(Protocol):
    """What a running attempt can ask of whoever runs it."""

    def progress(self, order: Assignment, share: float | None, message: str | None) -> None:
        """Pass on how far the attempt is; it also shows that the attempt is alive."""
        ...

    def may_start(self, order: Assignment) -> bool:
        """Return True if the attempt's lease surely still holds. Asked right before the handler is called."""
        ...

    def cancelled(self, order: Assignment) -> bool:
        """Whether somebody has asked for the task to be cancelled."""
        ...


class Context:
    """One running attempt, as its handler sees it."""

    def __init__(
        self, order: Assignment, channel: Channel, encode: Callable[[Any], str | None] = encode_result
    ) -> None:
        self.order = order
        self.written: Returned | None = None
        """The end of the attempt, once `transaction` has committed it; nothing that comes later changes it."""
        self._channel = channel
        self._encode = encode

    @property
    def task_id(self) -> UUID:
        """The task's id."""
        return TaskId(self.order.task)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.order.attempt

    @property
    def fence(self) -> int:
        """A number that is greater for every later attempt: give it to what must not be written by a zombie."""
        return self.order.fence

    @property
    def lease(self) -> Lease:
        """The right under which this attempt runs."""
        return self.order.lease

    @property
    def deadline(self) -> datetime | None:
        """When the task should be done."""
        return None if self.order.deadline is None else to_datetime(self.order.deadline)

    @property
    def handler(self) -> str:
        """The name of the handler."""
        return self.order.handler

    @property
    def queue(self) -> str:
        """The queue from which the task came."""
        return self.order.queue

    @property
    def tenant(self) -> str:
        """On whose behalf the task runs."""
        return self.order.tenant

    @property
    def workflow(self) -> str | None:
        """The workflow of which the task is a part."""
        return self.order.workflow

    @property
    def key(self) -> str | None:
        """The caller's own id for the task."""
        return self.order.key

    @property
    def cancelled(self) -> bool:
        """Whether the task is to be cancelled: a handler that looks here can leave in its own way."""
        return self._channel.cancelled(self.order)

    def progress(self, share: float | None = None, message: str | None = None) -> None:
        """Say how far the attempt is, from 0 to 1, and in words. It is the heartbeat for `heartbeat_timeout`."""
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"share={share!r} is not between 0 and 1")
        if not isinstance(cast("object", message), str | None):
            raise TypeError(f"message={message!r} is not text; pass a str")
        self._channel.progress(self.order, None if share is None else float(share), message)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the task, handler, queue, tenant and attempt, and the trace if there is one."""
        order = self.order
        fields: dict[str, Any] = {"task_id": str(order.task), "handler": order.handler, "queue": order.queue}
        if order.trace is not None and order.trace.count("-") == 3:  # A `traceparent`: version, trace, span, flags.
            fields["trace_id"] = order.trace.split("-")[1]
        return logging.LoggerAdapter(log, {**fields, "tenant": order.tenant, "attempt": order.attempt})

    def transaction(self, conn: Any) -> Transaction:
        """Commit the handler's own rows and the task's completion together, on a connection to the store's PostgreSQL.

        >>> with current().transaction(conn) as tx:
        ...     conn.execute("INSERT INTO invoice ...")
        ...     tx.result("invoice 42")

        At the end of the block the completion is written as the last statement, and all is committed. What `tx.result`
        was given is the task's result; what the handler returns afterwards is not recorded any more. If the lease was
        lost meanwhile everything is rolled back and `StaleLease` raised; an error, or a cancel, rolls back too. Exactly
        once holds for rows of this transaction, and for nothing else. An asynchronous `conn` takes `async with`.
        """
        if self.written is not None:
            raise NotAllowed("the completion of this task is committed already; one transaction can carry it")
        return Transaction(conn, self.lease, self._encode, self._is_written)

    def _is_written(self, result: str | None) -> None:
        self.written = Returned(result)


_current: ContextVar[Context] = ContextVar("windlass_current")


def current() -> Context:
    """The attempt that is running here."""
    context = _current.get(None)
    if context is None:
        raise NotAllowed(
            "current() works inside a running task only (and in asyncio.to_thread, not in threads of its own making); "
            "in a test, run the handler through windlass.testing.drain or immediate"
        )
    return context


def current_lease() -> Lease | None:
    """The lease of the attempt that is running here, if one is."""
    context = _current.get(None)
    return None if context is None else context.order.lease


@contextmanager
def running(context: Context) -> Generator[None]:
    """While in here, `current()` is this."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
