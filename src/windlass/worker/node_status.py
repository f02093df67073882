"""Whether a node is alive, and whether it is ready to run tasks.

Alive means that restarting the process would help nobody: its threads turn. Ready means that it would run a task that
came now. The controller's part is shown in both and decides neither: while it is degraded, pools keep their size.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from windlass.clock import SystemClock, monotonic
from windlass.core.times import Micros
from windlass.core.worker_list import MAX_TASKS, MAX_WORKERS, RunningTask, WorkerList, WorkerProcess, encode_workers
from windlass.health import Health, Part
from windlass.worker.autoscaler import Autoscaler
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.socket_hub import SocketHub
from windlass.worker.worker import RunningAttempt, Worker

HUB_SECONDS = 30.0
"""How long the hub may be silent; it turns several times a second and waits for nobody."""
KEEPER_SECONDS = 300.0
"""How long one turn of the keeper may take: far longer than any call to a store that still gets somewhere."""
LOCK_SECONDS = 2.0
"""How long a probe waits to look at the workers."""


class NodeHealth:
    """The health of one node."""

    def __init__(
        self, hub: SocketHub, keeper: SessionKeeper, autoscaler: Autoscaler, failure: Callable[[], str | None]
    ) -> None:
        self._hub = hub
        self._keeper = keeper
        self._autoscaler = autoscaler
        self._failure = failure
        self._turned: dict[str, float] = {}

    def watched(self, duty: str, step: Callable[[], None]) -> Callable[[], None]:
        """Return the step of a duty, which from now on also notes when it was last done."""

        def turn() -> None:
            self._turned.setdefault(duty, monotonic())
            step()
            self._turned[duty] = monotonic()

        return turn

    def alive(self) -> Health:
        """Return whether the threads of the node turn. The store has no say: a restart would not bring it back."""
        part = self._threads()
        return Health(ready=part.ready, parts=[part, self._controller()])

    def readiness(self) -> Health:
        """Return whether the node would run a task that came now."""
        parts = [self._threads(), self._session(), self._store(), self._workers()]
        return Health(ready=all(part.ready for part in parts), parts=[*parts, self._controller()])

    def _threads(self) -> Part:
        failure = self._failure()
        if failure is not None:
            return Part(name="threads", ready=False, text=failure)
        for duty, patience in (("hub", HUB_SECONDS), ("keeper", KEEPER_SECONDS)):
            silent = self._silent(duty) or 0.0
            if silent > patience:
                return Part(name="threads", ready=False, text=f"{duty} has not turned for {silent:.0f} s")
        return Part(name="threads", ready=True, text="they turn")

    def _session(self) -> Part:
        held = self._keeper.current is not None
        return Part(name="session", ready=held, text="held" if held else "there is none")

    def _store(self) -> Part:
        silent = self._keeper.silent_for(monotonic())
        if silent is None:
            return Part(name="store", ready=False, text="has not answered yet")
        late = silent > self._keeper.silence_allowed
        return Part(name="store", ready=not late, text=f"answered {silent:.0f} s ago")

    def _workers(self) -> Part:
        if not self._hub.lock.acquire(timeout=LOCK_SECONDS):
            return Part(name="workers", ready=False, text="the node is too busy to look at them")
        try:
            crew = self._hub.dispatcher
            if self._hub.broken is not None or not crew.has_parent:
                return Part(name="workers", ready=False, text="the app is not imported")
            if crew.draining:
                return Part(name="workers", ready=False, text="the node is draining")
            sizes = {
                name: (sum(worker.state.working for worker in pool.workers.values()), pool.target - pool.asleep)
                for name, pool in crew.pools.items()
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
        """Return for how many seconds a duty has not turned; None if it has not begun."""
        at = self._turned.get(duty)
        return None if at is None else max(0.0, monotonic() - at)


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
