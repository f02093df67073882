"""The caller's view of one task: its state, its result, and why it is not running.

A handle holds only the id; every method asks the store. Each method has an async version with the prefix `a`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import UNSET, UnsetType

from windlass.client.app_store import AppStore, is_worker
from windlass.client.async_bridge import in_thread
from windlass.client.context import current_assignment, waiting_for_a_task
from windlass.client.notebook import html_table
from windlass.client.options import When
from windlass.client.task_view import Attempt, Progress, Task, view_attempt, view_progress, view_task
from windlass.core.lifecycle import State
from windlass.core.task import Change, TaskId
from windlass.core.task import Task as StoredTask
from windlass.core.times import Duration, duration, moment
from windlass.core.why import Why
from windlass.errors import (
    EndedBadly,
    InvalidTask,
    NotAllowed,
    StillUnfinished,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
    UnknownTask,
    WindlassError,
)

R_co = TypeVar("R_co", covariant=True)

_ERRORS: dict[State, type[EndedBadly]] = {
    State.FAILED: TaskFailed,
    State.CANCELLED: TaskCancelled,
    State.EXPIRED: TaskExpired,
}


class Handle(Generic[R_co]):
    """One task. `await handle` returns its result."""

    __slots__ = ("_app_store", "_handler", "created", "id")

    def __init__(
        self, app_store: AppStore, id: UUID, handler: str | None = None, *, created: bool | None = None
    ) -> None:
        self._app_store = app_store
        self._handler = handler
        self.id = TaskId(id)
        self.created = created
        """Whether this call created the task: False if its key was known, or an equal task stands for it; None if the
        handle was not made by `enqueue`."""

    def __repr__(self) -> str:
        return f"Handle({self.id})"

    def task(self) -> Task:
        """Return the task as it is now."""
        return view_task(self._stored())

    @property
    def state(self) -> State:
        """The state of the task now."""
        return self._stored().state

    def wait(self, timeout: Duration | None = None) -> State:
        """Wait until the task is finished and return its state. Raise `StillUnfinished` on timeout."""
        return self._wait(timeout).state

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the task and return its result, or raise `TaskFailed`, `TaskCancelled` or `TaskExpired`."""
        return self._result_of(self._wait(timeout))

    def cancel(self, reason: str = "cancelled by its caller") -> bool:
        """Cancel the task and return whether it was unfinished. A running task is asked to stop, and later killed."""
        return self._app_store.store.cancel([self.id], reason=reason) > 0

    def update(
        self,
        *,
        priority: int | UnsetType = UNSET,
        deadline: When | UnsetType | None = UNSET,
        at: When | UnsetType = UNSET,
        expires: When | UnsetType | None = UNSET,
    ) -> Task:
        """Change an unfinished task and its place in the queue. `None` removes a limit; omitted fields stay."""
        change = Change(
            priority=priority,
            deadline=_moment(deadline, "deadline"),
            at=_moment(at, "at"),
            expires=_moment(expires, "expires"),
        )
        return view_task(self._app_store.store.update(self.id, change))

    def retry(self, *, why: str = "", by: str | None = None) -> bool:
        """Run the task again with fresh counters, and return whether it had failed, expired or been cancelled."""
        from windlass.client.inspection import retry_task  # A large import that few programs need.

        return retry_task(self._app_store, self.id, why, by)

    def progress(self) -> Progress | None:
        """Return what the handler reported last with `current().progress(...)`; None if it reported nothing."""
        self._stored()
        [seen] = self._app_store.store.progress_of([self.id])
        return None if seen is None else view_progress(seen)

    def attempts(self) -> list[Attempt]:
        """Return the attempts that have ended with their errors, oldest first."""
        self._stored()
        return [view_attempt(each, number) for number, each in enumerate(self._app_store.store.attempts(self.id), 1)]

    def logs(self) -> list[str]:
        """Return what each attempt has printed and logged, oldest first. The last one may still run."""
        self._stored()
        return [log.text for log in self._app_store.store.logs(self.id)]

    def why(self) -> Why:
        """Explain why the task is not running: every condition, the first one that fails, and what would fix it."""
        store: Any = self._app_store.store
        if is_worker():  # The node explains: a handler may not read everything that this needs.
            return store.explain(self.id)
        from windlass.operations.explain import explain  # A large import that no other call needs.

        return explain(store, self._stored())

    async def astate(self) -> State:
        """Async version of `state`."""
        return (await in_thread(self._stored)).state

    async def atask(self) -> Task:
        """Async version of `task`."""
        return await in_thread(self.task)

    async def await_(self, timeout: Duration | None = None) -> State:
        """Async version of `wait`."""
        return (await self._await(timeout)).state

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """Async version of `result`."""
        return self._result_of(await self._await(timeout))

    async def acancel(self, reason: str = "cancelled by its caller") -> bool:
        """Async version of `cancel`."""
        return await in_thread(self.cancel, reason)

    async def aupdate(
        self,
        *,
        priority: int | UnsetType = UNSET,
        deadline: When | UnsetType | None = UNSET,
        at: When | UnsetType = UNSET,
        expires: When | UnsetType | None = UNSET,
    ) -> Task:
        """Async version of `update`."""
        return await in_thread(self.update, priority=priority, deadline=deadline, at=at, expires=expires)

    async def aretry(self, *, why: str = "", by: str | None = None) -> bool:
        """Async version of `retry`."""
        return await in_thread(self.retry, why=why, by=by)

    async def aprogress(self) -> Progress | None:
        """Async version of `progress`."""
        return await in_thread(self.progress)

    async def aattempts(self) -> list[Attempt]:
        """Async version of `attempts`."""
        return await in_thread(self.attempts)

    async def alogs(self) -> list[str]:
        """Async version of `logs`."""
        return await in_thread(self.logs)

    async def awhy(self) -> Why:
        """Async version of `why`."""
        return await in_thread(self.why)

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self.aresult().__await__()

    def _stored(self) -> StoredTask:
        [task] = self._app_store.store.get([self.id])
        if task is None:
            raise UnknownTask(self.id)
        self._check_handler(task)
        return task

    def _check_handler(self, task: StoredTask) -> None:
        """Refuse a task of another handler than `app.handle(id, handler)` named: its result has another type."""
        if self._handler not in (None, task.handler):
            raise InvalidTask(f"Task {task.id} is of the handler {task.handler!r}, not of {self._handler!r}.")

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the task as it is now."""
        try:
            return self.task()._repr_html_()  # pyright: ignore[reportPrivateUsage]
        except WindlassError as error:
            return html_table("Handle", [("id", self.id), ("error", error)])

    def _wait(self, timeout: Duration | None) -> StoredTask:
        limit = _seconds(timeout)
        task = self._stored()
        if task.state.final:
            return task
        _refuse_to_block_the_loop()
        finished = self._app_store.waiter.finished(self.id)
        try:
            with waiting_for_a_task():
                return finished.result(limit)
        except TimeoutError:
            raise StillUnfinished(self.id, limit or 0) from None
        finally:
            finished.cancel()

    async def _await(self, timeout: Duration | None) -> StoredTask:
        import asyncio

        limit = _seconds(timeout)
        finished = self._app_store.waiter.finished(self.id)
        try:
            with waiting_for_a_task():
                return await asyncio.wait_for(asyncio.wrap_future(finished), limit)
        except TimeoutError:
            raise StillUnfinished(self.id, limit or 0) from None

    def _result_of(self, task: StoredTask) -> R_co:
        self._check_handler(task)
        error = _ERRORS.get(task.state)
        if error is not None:
            raise error(task.id, task.state.value, task.reason, view_task(task))
        return self._app_store.decode(task)


def _refuse_to_block_the_loop() -> None:
    """Raise `NotAllowed` in an `async def` handler: while it blocks, no other handler of its worker runs."""
    import asyncio

    if current_assignment() is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # There is none in this thread.
        return
    raise NotAllowed("result() and wait() would block the event loop of this worker. Write `await handle` instead.")


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout").total_seconds()


def _moment(value: When | UnsetType | None, field: str) -> Any:
    return value if value is None or value is UNSET else moment(value, field)
