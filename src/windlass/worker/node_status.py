"""What a node reports about itself: its health, and the list of its worker processes.

Alive means that its threads run, so that a restart would not help. Ready means that it would run a task that arrived
now. The autoscaler is shown in both and decides neither: while it is degraded, pools keep their size.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from windlass.clock import Clock
from windlass.core.times import Micros
from windlass.core.worker_list import (
    MAX_STUCK,
    MAX_TASKS,
    MAX_WORKERS,
    RunningTask,
    StuckProcess,
    WorkerList,
    WorkerProcess,
    encode_workers,
)
from windlass.health import Health, Part
from windlass.worker.autoscaler import Autoscaler
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.socket_hub import SocketHub
from windlass.worker.worker import RunningAttempt, Worker

HUB_SECONDS = 30.0
"""How long a step of the hub may take. It normally makes several steps a second."""
KEEPER_SECONDS = 300.0
"""How long a step of the session keeper may take: far longer than any store call that succeeds."""
LOCK_SECONDS = 2.0
"""How long a health check waits for the lock."""


class NodeHealth:
    """The health of one node."""

    def __init__(
        self,
        hub: SocketHub,
        keeper: SessionKeeper,
        autoscaler: Autoscaler,
        failure: Callable[[], str | None],
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._keeper = keeper
        self._autoscaler = autoscaler
        self._failure = failure
        self._clock = clock
        self._stepped: dict[str, float] = {}

    def watch(self, duty: str, step: Callable[[], None]) -> Callable[[], None]:
        """Return the step of a duty, wrapped so that the time of its last call is recorded."""

        def watched() -> None:
            self._stepped.setdefault(duty, self._clock.monotonic())
            step()
            self._stepped[duty] = self._clock.monotonic()

        return watched

    def check_alive(self) -> Health:
        """Return whether the threads of the node run. The store does not matter: a restart would not bring it back."""
        part = self._threads()
        return Health(ready=part.ready, parts=[part, self._controller()])

    def check_ready(self) -> Health:
        """Return whether the node would run a task that arrived now."""
        parts = [self._threads(), self._session(), self._store(), self._workers()]
        return Health(ready=all(part.ready for part in parts), parts=[*parts, self._controller()])

    def _threads(self) -> Part:
        failure = self._failure()
        if failure is not None:
            return Part(name="threads", ready=False, text=failure)
        for duty, patience in (("hub", HUB_SECONDS), ("keeper", KEEPER_SECONDS)):
            silent = self._silent(duty) or 0.0
            if silent > patience:
                return Part(name="threads", ready=False, text=f"{duty} has not run for {silent:.0f} s")
        return Part(name="threads", ready=True, text="running")

    def _session(self) -> Part:
        held = self._keeper.current is not None
        return Part(name="session", ready=held, text="open" if held else "none")

    def _store(self) -> Part:
        silent = self._keeper.measure_silence(self._clock.monotonic())
        if silent is None:
            return Part(name="store", ready=False, text="has not answered yet")
        late = silent > self._keeper.max_silence
        return Part(name="store", ready=not late, text=f"answered {silent:.0f} s ago")

    def _workers(self) -> Part:
        if not self._hub.lock.acquire(timeout=LOCK_SECONDS):
            return Part(name="workers", ready=False, text="the node is too busy to check them")
        try:
            dispatcher = self._hub.dispatcher
            if self._hub.broken is not None or not dispatcher.has_parent:
                return Part(name="workers", ready=False, text="the app is not imported")
            if dispatcher.draining:
                return Part(name="workers", ready=False, text="the node is draining")
            sizes = {
                name: (sum(worker.state.working for worker in pool.workers.values()), pool.target - pool.asleep)
                for name, pool in dispatcher.pools.items()
            }
        finally:
            self._hub.lock.release()
        text = ", ".join(f"{name} {ready}/{target}" for name, (ready, target) in sorted(sizes.items()))
        return Part(name="workers", ready=all(ready or target <= 0 for ready, target in sizes.values()), text=text)

    def _controller(self) -> Part:
        """Describe the autoscaler: how long ago its last tick was, and which pools it cannot size."""
        silent = self._silent("autoscaler")
        if silent is None:
            return Part(name="autoscaler", ready=False, text="has not ticked yet")
        degraded = "; ".join(f"{pool}: {why}" for pool, why in sorted(self._autoscaler.degraded.items()))
        text = f"last tick {silent:.0f} s ago" + (f", degraded: {degraded}" if degraded else "")
        return Part(name="autoscaler", ready=not degraded and silent < HUB_SECONDS, text=text)

    def _silent(self, duty: str) -> float | None:
        """Return the seconds since the last step of a duty; None if it has not started."""
        at = self._stepped.get(duty)
        return None if at is None else max(0.0, self._clock.monotonic() - at)


MEBIBYTE = 1 << 20
CLOCK_STEP = 1_000_000
"""Microseconds by which the wall clock must jump before times are recomputed from it."""


class WorkerListing:
    """Describes the workers of a hub.

    The text of an idle node does not change between two calls, so that its session is not rewritten: it has times
    instead of ages, and memory is rounded.
    """

    def __init__(self, hub: SocketHub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        self._offset = 0

    def encode(self) -> str:
        """Return the list as a store keeps it."""
        self._follow_wall_clock()
        with self._hub.lock:
            workers = list(self._hub.dispatcher.workers.values())
            listed = workers[:MAX_WORKERS]
            rows = [self._describe(worker, MAX_TASKS // len(listed)) for worker in listed]
            stuck = [StuckProcess(pid=pid, since=self._moment(at)) for pid, at in self._hub.stuck.items()]
        # Memory is read without the lock, because reading 256 files in /proc takes milliseconds.
        rows = [replace(row, memory=self._memory(worker)) for row, worker in zip(rows, listed, strict=True)]
        more = len(workers) - len(listed)
        return encode_workers(WorkerList(workers=tuple(rows), more=more, stuck=tuple(stuck[:MAX_STUCK])))

    def _describe(self, worker: Worker, most_tasks: int) -> WorkerProcess:
        started = sorted(worker.started, key=lambda one: one.started_at or 0.0)
        return WorkerProcess(
            number=worker.number,
            pool=worker.pool,
            state=worker.state.value,
            since=self._moment(worker.since),
            pid=worker.pid,
            tasks_run=worker.ran,
            running=len(started),
            tasks=tuple(self._running(one) for one in started[:most_tasks]),
        )

    def _running(self, attempt: RunningAttempt) -> RunningTask:
        claim = attempt.claim
        return RunningTask(id=str(claim.id), handler=claim.handler, since=self._moment(attempt.started_at or 0.0))

    def _memory(self, worker: Worker) -> int:
        return round(self._hub.memory(worker) / MEBIBYTE) * MEBIBYTE

    def _moment(self, monotonic: float) -> Micros:
        return int(monotonic * 1e6) + self._offset

    def _follow_wall_clock(self) -> None:
        offset = self._clock.now() - int(self._clock.monotonic() * 1e6)
        if abs(offset - self._offset) > CLOCK_STEP:
            self._offset = offset
