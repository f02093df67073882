"""Attributes what the threads of a handler print and log to the attempt that started them.

A new thread has an empty context, so `current()` is not available in it. These wrappers pass on only for which attempt
the thread works. A thread that outlives its attempt is shown, and no longer captured.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import wraps
from typing import Any

from windlass.client.context import current_assignment
from windlass.core.assignment import Assignment

_started_by: ContextVar[Assignment | None] = ContextVar("windlass_started_by", default=None)


def output_assignment() -> Assignment | None:
    """Return the assignment whose handler runs here, or has started this thread; None if there is none."""
    return current_assignment() or _started_by.get()


def attribute_threads() -> None:
    """From now on, attribute threads and calls of thread pools in this process to the attempt that starts them."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    @wraps(start)
    def start_attributed(self: threading.Thread) -> None:
        assignment = output_assignment()
        if assignment is not None:
            self.run = _attributed(assignment, self.run)
        start(self)

    @wraps(submit)
    def submit_attributed(self: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assignment = output_assignment()
        return submit(self, fn if assignment is None else _attributed(assignment, fn), *args, **kwargs)

    threading.Thread.start = start_attributed
    ThreadPoolExecutor.submit = submit_attributed


def _attributed(assignment: Assignment, run: Any) -> Any:
    @wraps(run)
    def attributed(*args: Any, **kwargs: Any) -> Any:
        token = _started_by.set(assignment)
        try:
            return run(*args, **kwargs)
        finally:
            _started_by.reset(token)

    return attributed
