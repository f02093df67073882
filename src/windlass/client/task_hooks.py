"""Functions of the app that run with every attempt, in its process: before it, after it, or around it.

They run where `current()` works. What a `before` hook raises is the error of the attempt, as if the handler had raised
it. An `after` hook runs however the attempt ends, and what it raises is only logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager

log = logging.getLogger("windlass.task")


class TaskHooks:
    """The hooks of one app, in the order of their registration."""

    def __init__(self) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self.around: list[Callable[[], AbstractContextManager[object]]] = []

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.around)

    @contextmanager
    def run(self) -> Generator[None]:
        """Run the block as an attempt: the last hook that was begun ends first."""
        with ExitStack() as stack:
            for hook in self.after:
                stack.callback(_run_logged, hook)
            for hook in self.before:
                hook()
            for make in self.around:
                stack.enter_context(make())
            yield


def _run_logged(hook: Callable[[], object]) -> None:
    try:
        hook()
    except Exception:
        log.exception("The after_task hook %s failed. The attempt keeps its outcome.", getattr(hook, "__name__", hook))
