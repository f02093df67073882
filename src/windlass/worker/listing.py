"""Builds the list of a node's worker processes that goes with the renewal of its session."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.clock import SystemClock, monotonic
from windlass.core.times import Micros
from windlass.core.worker_list import MAX_TASKS, MAX_WORKERS, RunningTask, WorkerList, WorkerProcess, encode_workers
from windlass.worker.running_attempt import RunningAttempt
from windlass.worker.socket_hub import SocketHub
from windlass.worker.worker import Worker

MEBIBYTE = 1 << 20
CLOCK_STEP = 1_000_000
"""Microseconds by which the wall clock must have moved against the steady one before times are computed anew."""


class WorkerListing:
    """Describes the workers of a hub.

    The text of an idle node stays the same from one call to the next, so that its session is not rewritten: times are
    moments instead of ages, and memory is rounded.
    """

    def __init__(self, hub: SocketHub) -> None:
        self._hub = hub
        self._offset = 0

    def text(self) -> str:
        """Return the list as a store keeps it."""
        self._follow_wall_clock()
        with self._hub.lock:
            workers = list(self._hub.dispatcher.workers.values())
            listed = workers[:MAX_WORKERS]
            rows = [self._describe(worker, MAX_TASKS // len(listed)) for worker in listed]
        # Memory is read without the lock: 256 files of the system take milliseconds.
        rows = [replace(row, memory=self._memory(worker)) for row, worker in zip(rows, listed, strict=True)]
        return encode_workers(WorkerList(workers=tuple(rows), more=len(workers) - len(listed)))

    def _describe(self, worker: Worker, most_tasks: int) -> WorkerProcess:
        begun = sorted(worker.started, key=lambda given: given.begun_at or 0.0)
        return WorkerProcess(
            number=worker.number,
            pool=worker.pool,
            state=worker.state.value,
            since=self._moment(worker.since),
            pid=worker.pid,
            tasks_run=worker.ran,
            running=len(begun),
            tasks=tuple(self._running(given) for given in begun[:most_tasks]),
        )

    def _running(self, given: RunningAttempt) -> RunningTask:
        task = given.work.claim.task
        return RunningTask(id=str(task.id), handler=task.handler, since=self._moment(given.begun_at or 0.0))

    def _memory(self, worker: Worker) -> int:
        return round(self._hub.memory(worker) / MEBIBYTE) * MEBIBYTE

    def _moment(self, steady: float) -> Micros:
        return int(steady * 1e6) + self._offset

    def _follow_wall_clock(self) -> None:
        offset = SystemClock().now() - int(monotonic() * 1e6)
        if abs(offset - self._offset) > CLOCK_STEP:
            self._offset = offset
