"""Steps that a running task adds to its workflow: `windlass.more_steps()`.

Nothing is written before the handler returns. Then the steps are written in the transaction that ends the attempt,
under its lease. So an attempt that raises adds nothing, and a retry adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from windlass.client.app_store import AppStore
from windlass.client.context import current
from windlass.client.handlers import Using
from windlass.client.step_builder import Policy, Step, StepBuilder
from windlass.core.assignment import Assignment
from windlass.core.continuation import MAX_ADDED
from windlass.core.settlement import Continued, Outcome, Returned
from windlass.core.task import Added, NewTask
from windlass.errors import InvalidPayload, InvalidTask, NotAllowed

R = TypeVar("R")


def more_steps() -> MoreSteps:
    """Return a builder of steps that the running task adds to its workflow when its handler returns.

    They are written together with the end of the attempt, or not at all. `return more.then(handler, ...)` makes the
    task continue as that call when all of them have completed, without holding a slot meanwhile.

    >>> more = windlass.more_steps()
    >>> sizes = [more.add(measure, path) for path in paths]
    >>> return more.then(add_up, sizes)
    """
    context = current()
    return cast("MoreSteps", context.start_adding(lambda app_store: MoreSteps(app_store, context.assignment)))


class _ContinuesLater:
    """What `then` returns, for the handler to return."""


class MoreSteps(StepBuilder):
    """Builds steps that a running task adds to its workflow; see `more_steps`."""

    def __init__(self, app_store: AppStore, assignment: Assignment) -> None:
        super().__init__(app_store, assignment.workflow, assignment.tenant)
        self._handler = assignment.handler
        self._then: NewTask | None = None
        self._continues = _ContinuesLater()

    def then(
        self,
        handler: Using[..., R],
        *args: Any,
        after: Iterable[Any] = (),
        on_failure: Policy | None = None,
        **kwargs: Any,
    ) -> R:
        """Let the running task continue as this call when all added steps have ended. Return what this returns.

        The task keeps its id, so its result is that of the call, and its dependents wait for it. Until then it holds no
        slot. If a step does not complete, the task is cancelled, or with `on_failure="run"` it continues with `None` in
        place of the result. Only the call is retried, with its own policy: this handler does not run again.

        >>> return more.then(add_up, sizes)
        """
        self._check_open()
        waits_for = [*self.steps, *after]
        self._then = self._call(handler, args, kwargs, after=waits_for, on_failure=on_failure, key=None)
        if self._then.key is not None:
            raise InvalidTask(f"key={self._then.key!r}: the task keeps its own key. Leave it out.")
        return cast("R", self._continues)

    def outcome(self, value: Any, encode: Callable[[Any], str | None]) -> Outcome:
        """Return the outcome of a handler that has returned this value."""
        if self._then is None:
            result = encode(value)
            return Continued(Added(steps=tuple(self._tasks)), result) if self._tasks else Returned(result)
        if value is not self._continues:
            raise InvalidPayload(
                f"{self._handler} called then() but returned another value. Write `return more.then(...)`."
            )
        return Continued(Added(steps=tuple(self._tasks), then=self._then))

    def _check_open(self) -> None:
        if self._then is not None:
            raise NotAllowed(
                "then() was called already. It is the last thing that a handler does: `return more.then(...)`."
            )

    def _add(self, task: NewTask) -> Step[Any]:
        if len(self._tasks) >= MAX_ADDED:
            raise InvalidTask(
                f"steps: more than {MAX_ADDED:,} added by one task. Add tasks that add more, as a tree: each level "
                f"multiplies the number by up to {MAX_ADDED:,}."
            )
        return super()._add(task)
