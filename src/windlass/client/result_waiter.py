"""Waits for tasks to finish. All waiting callers of an app share one polling thread.

It polls every 2 ms at first and backs off to 100 ms; a new waiter resets the interval. The thread starts with the first
waiter and ends with the last.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread

from windlass.core.task import Task, TaskId
from windlass.errors import InvalidPayload, UnknownTask
from windlass.stores.protocol import Store

SHORTEST_SECONDS = 0.002
LONGEST_SECONDS = 0.1
_GROWTH = 1.5
_MAX_IDS = 1_000


class ResultWaiter:
    """The futures of unfinished tasks, and the thread that polls for them."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._changed = Condition()
        self._waiters: dict[TaskId, list[Future[Task]]] = {}
        self._thread: Thread | None = None
        self._has_new = False

    def finished(self, task: TaskId) -> Future[Task]:
        """Return a future of the finished task. Cancel the future to stop waiting."""
        future: Future[Task] = Future()
        with self._changed:
            self._waiters.setdefault(task, []).append(future)
            self._has_new = True
            self._changed.notify()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="windlass-results", daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        pause = SHORTEST_SECONDS
        while True:
            with self._changed:
                if self._has_new:
                    pause, self._has_new = SHORTEST_SECONDS, False
                if not (ids := self._wanted()):
                    self._thread = None
                    return
            for start in range(0, len(ids), _MAX_IDS):
                self._poll(ids[start : start + _MAX_IDS])
            with self._changed:
                if not self._has_new and self._waiters:
                    self._changed.wait(pause)
            pause = min(pause * _GROWTH, LONGEST_SECONDS)

    def _wanted(self) -> list[TaskId]:
        for id, futures in list(self._waiters.items()):
            futures[:] = [future for future in futures if not future.cancelled()]
            if not futures:
                del self._waiters[id]
        return list(self._waiters)

    def _poll(self, ids: list[TaskId]) -> None:
        try:
            tasks = self._store().get(ids)
        except InvalidPayload as error:  # In a handler, an answer has a largest size.
            middle = len(ids) // 2
            if not middle:
                self._resolve(ids[0], error)
                return
            self._poll(ids[:middle])
            self._poll(ids[middle:])
            return
        except BaseException as error:  # noqa: BLE001 - each waiter raises it
            for id in ids:
                self._resolve(id, error)
            return
        for id, task in zip(ids, tasks, strict=True):
            if task is None:
                self._resolve(id, UnknownTask(id))
            elif task.state.final:
                self._resolve(id, task)

    def _resolve(self, id: TaskId, end: Task | BaseException) -> None:
        with self._changed:
            futures = self._waiters.pop(id, [])
        for future in futures:
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(end, BaseException):
                future.set_exception(end)
            else:
                future.set_result(end)
