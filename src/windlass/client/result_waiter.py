"""Waiting for tasks to end. All who wait in one app share one look at the store, however many they are.

One thread looks, at first every 2 ms, then more and more rarely, up to every 100 ms; a new waiter makes it brisk again.
It comes with the first waiter and goes with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from typing import TypeAlias

from windlass.core.task import Task, TaskId
from windlass.errors import UnknownTask

SHORTEST_SECONDS = 0.002
LONGEST_SECONDS = 0.1
_GROWTH = 1.5
_AT_ONCE = 1_000

Get: TypeAlias = Callable[[Sequence[TaskId]], list[Task | None]]


class ResultWaiter:
    """Those who wait, and the thread that looks for them."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._changed = Condition()
        self._waiters: dict[TaskId, list[Future[Task]]] = {}
        self._thread: Thread | None = None
        self._is_fresh = False

    def end_of(self, task: TaskId) -> Future[Task]:
        """The task once it has ended. Cancel the future to wait no longer."""
        future: Future[Task] = Future()
        with self._changed:
            self._waiters.setdefault(task, []).append(future)
            self._is_fresh = True
            self._changed.notify()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="windlass-waiting", daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        pause = SHORTEST_SECONDS
        while True:
            with self._changed:
                if self._is_fresh:
                    pause, self._is_fresh = SHORTEST_SECONDS, False
                if not (ids := self._wanted()):
                    self._thread = None
                    return
            for start in range(0, len(ids), _AT_ONCE):
                self._look(ids[start : start + _AT_ONCE])
            with self._changed:
                if not self._is_fresh and self._waiters:
                    self._changed.wait(pause)
            pause = min(pause * _GROWTH, LONGEST_SECONDS)

    def _wanted(self) -> list[TaskId]:
        for id, futures in list(self._waiters.items()):
            futures[:] = [future for future in futures if not future.cancelled()]
            if not futures:
                del self._waiters[id]
        return list(self._waiters)

    def _look(self, ids: list[TaskId]) -> None:
        try:
            tasks = self._get(ids)
        except BaseException as error:  # noqa: BLE001 - each waiter raises it; this thread has nobody else to tell
            for id in ids:
                self._tell(id, error)
            return
        for id, task in zip(ids, tasks, strict=True):
            if task is None:
                self._tell(id, UnknownTask(id))
            elif task.state.final:
                self._tell(id, task)

    def _tell(self, id: TaskId, end: Task | BaseException) -> None:
        with self._changed:
            futures = self._waiters.pop(id, [])
        for future in futures:
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(end, BaseException):
                future.set_exception(end)
            else:
                future.set_result(end)
