"""A pool: how many workers it should have, how much it has room for, and who gets the next task.

Pure bookkeeping under the crew's lock: it says how many to start and whom to retire; the crew does it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from windlass.config import PoolSettings
from windlass.worker.given import Work
from windlass.worker.states import WorkerState
from windlass.worker.worker import Worker

READ_AHEAD_SECONDS = 0.05
READ_AHEAD_TASKS = 500
_LONGEST_BACK_OFF = 30.0


class Pool:
    """The workers of one pool, as the node sees them."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.target = settings.size
        self.workers: dict[int, Worker] = {}
        self.backlog: deque[Work] = deque()
        """What came back from a worker unbegun and is to go to another one, or back to the store."""
        self._mean_seconds: float | None = None
        self._deaths_in_a_row = 0
        self._start_at = 0.0
        self._turns = [0] * len(settings.queues)

    def next_queues(self) -> Sequence[str]:
        """The queues in the order in which the next claim asks them: each is first as often as its weight says."""
        queues, weights = self.settings.queues, self.settings.weights or (1,) * len(self.settings.queues)
        self._turns = [turn + weight for turn, weight in zip(self._turns, weights, strict=True)]
        first = max(range(len(queues)), key=self._turns.__getitem__)
        self._turns[first] -= sum(weights)
        return queues[first:] + queues[:first]

    def room(self) -> int:
        """How many more tasks the pool can take, read-ahead included."""
        working = [worker for worker in self.workers.values() if worker.takes]
        ahead = self._ahead(sum(worker.threads for worker in working))
        rooms = (min(worker.left, worker.threads + int(worker.threads * ahead) - worker.taken) for worker in working)
        return max(0, sum(max(0, room) for room in rooms) - len(self.backlog))

    def hungry(self) -> bool:
        """Whether a worker would stand still, now or very soon, without more tasks."""
        return any(worker.takes and worker.taken <= worker.threads for worker in self.workers.values())

    def next_worker(self, needs: int, *, only_free: bool = False) -> Worker | None:
        """Who gets a task that needs so many slots: the least loaded who has room for it."""
        working = [worker for worker in self.workers.values() if worker.takes and worker.threads >= needs]
        if not working:
            return None
        chosen = min(working, key=lambda worker: (worker.taken / worker.threads, worker.number))
        # Read-ahead is decided when claiming; here a whole claim is dealt out, so only a free slot may be asked for.
        return None if only_free and chosen.free < needs else chosen

    def measured(self, seconds: float) -> None:
        """An attempt took so long."""
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + 0.1 * (seconds - mean)

    def lived(self) -> None:
        """A worker has done something, so starting workers is no use of itself."""
        self._deaths_in_a_row = 0

    def failed(self, now: float) -> float:
        """A worker died; how long the next start is put off. Only deaths without any work between them add up."""
        self._deaths_in_a_row += 1
        doubled = min(self._deaths_in_a_row - 2, 10)
        wait = 0.0 if doubled < 0 else min(_LONGEST_BACK_OFF, 0.1 * 2**doubled)
        self._start_at = now + wait
        return wait

    def missing(self, now: float) -> int:
        """How many workers are to be started now."""
        return max(0, self.target - len(self._staying())) if now >= self._start_at else 0

    def surplus(self) -> list[Worker]:
        """Whom to retire: those that start, then the idle ones (the latest used stays), then those with least to do."""
        staying = self._staying()
        order = {WorkerState.STARTING: 0, WorkerState.IDLE: 1, WorkerState.BUSY: 2}
        staying.sort(key=lambda worker: (order[worker.state], worker.taken, worker.since))
        return staying[: max(0, len(staying) - self.target)]

    def _staying(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if not worker.state.over and worker.state != "draining"]

    def _ahead(self, slots: int) -> float:
        """How many tasks a slot may have waiting for it: 50 ms of measured work, and not too many in all."""
        if not slots or self._mean_seconds is None:
            return 0.0
        return min(READ_AHEAD_SECONDS / max(self._mean_seconds, 1e-6), READ_AHEAD_TASKS / slots)
