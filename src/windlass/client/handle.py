"""A task as its caller holds it: where it stands, what it gave, and why it does not run.

A handle keeps nothing but the id; every question is asked of the store. Each has a twin for coroutines, with an `a`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import UNSET, UnsetType

from windlass.client.app_store import AppStore
from windlass.client.async_bridge import in_thread
from windlass.client.options import When
from windlass.core.lifecycle import State
from windlass.core.task import Change, Task, TaskId
from windlass.core.times import Duration, duration, moment
from windlass.core.why import Why
from windlass.errors import EndedBadly, StillUnfinished, TaskCancelled, TaskExpired, TaskFailed, UnknownTask

R_co = TypeVar("R_co", covariant=True)

_BAD_ENDS: dict[State, type[EndedBadly]] = {
    State.FAILED: TaskFailed,
    State.CANCELLED: TaskCancelled,
    State.EXPIRED: TaskExpired,
}


class Handle(Generic[R_co]):
    """One task. `await handle` gives its result."""

    __slots__ = ("_access", "id")

    def __init__(self, access: AppStore, id: UUID) -> None:
        self._access = access
        self.id = TaskId(id)

    def __repr__(self) -> str:
        return f"Handle({self.id})"

    def task(self) -> Task:
        """All that is known of the task now."""
        task = self._access.get(self.id)
        if task is None:
            raise UnknownTask(self.id)
        return task

    @property
    def state(self) -> State:
        """Where the task stands now."""
        return self.task().state

    def wait(self, timeout: Duration | None = None) -> State:
        """Wait until the task has ended, well or not; how. `StillUnfinished` when the time is up first."""
        return self._ended(timeout).state

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the task and give its result; `TaskFailed`, `TaskCancelled` or `TaskExpired` when it has none."""
        return self._result_of(self._ended(timeout))

    def cancel(self, reason: str = "cancelled by its caller") -> bool:
        """Cancel the task; whether it had not ended. A running one is asked to stop, and made to after a while."""
        return self._access.store.cancel([self.id], reason=reason) > 0

    def update(
        self,
        *,
        priority: int | UnsetType = UNSET,
        deadline: When | UnsetType | None = UNSET,
        at: When | UnsetType = UNSET,
        expires: When | UnsetType | None = UNSET,
    ) -> Task:
        """Change an unfinished task and its place in the queue; what is left out stays. `None` takes a limit away."""
        change = Change(
            priority=priority,
            deadline=_moment(deadline, "deadline"),
            at=_moment(at, "at"),
            expires=_moment(expires, "expires"),
        )
        return self._access.store.update(self.id, change)

    def why(self) -> Why:
        """Why the task does not run: each gate on its way, the first closed one above all, and what would open it."""
        from windlass.operations.explain import explain  # It brings much that no other call needs.

        return explain(self._access.store, self.task())

    async def astate(self) -> State:
        """The twin of `state`."""
        return (await self.atask()).state

    async def atask(self) -> Task:
        """The twin of `task`."""
        return await in_thread(self.task)

    async def await_(self, timeout: Duration | None = None) -> State:
        """The twin of `wait`."""
        return (await self._aended(timeout)).state

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """The twin of `result`."""
        return self._result_of(await self._aended(timeout))

    async def acancel(self, reason: str = "cancelled by its caller") -> bool:
        """The twin of `cancel`."""
        return await in_thread(self.cancel, reason)

    async def aupdate(
        self,
        *,
        priority: int | UnsetType = UNSET,
        deadline: When | UnsetType | None = UNSET,
        at: When | UnsetType = UNSET,
        expires: When | UnsetType | None = UNSET,
    ) -> Task:
        """The twin of `update`."""
        return await in_thread(self.update, priority=priority, deadline=deadline, at=at, expires=expires)

    async def awhy(self) -> Why:
        """The twin of `why`."""
        return await in_thread(self.why)

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self.aresult().__await__()

    def _ended(self, timeout: Duration | None) -> Task:
        limit = _seconds(timeout)
        task = self.task()
        if task.state.final:
            return task
        end = self._access.waiting.end_of(self.id)
        try:
            return end.result(limit)
        except TimeoutError:
            raise StillUnfinished(self.id, limit or 0) from None
        finally:
            end.cancel()

    async def _aended(self, timeout: Duration | None) -> Task:
        import asyncio

        limit = _seconds(timeout)
        end = self._access.waiting.end_of(self.id)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(end), limit)
        except TimeoutError:
            raise StillUnfinished(self.id, limit or 0) from None

    def _result_of(self, task: Task) -> R_co:
        error = _BAD_ENDS.get(task.state)
        if error is not None:
            raise error(task.id, task.state.value, task.reason, task)
        return self._access.decode(task)


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout").total_seconds()


def _moment(value: When | UnsetType | None, field: str) -> Any:
    return value if value is None or value is UNSET else moment(value, field)
