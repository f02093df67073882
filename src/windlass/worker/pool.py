"""A pool of workers: how many it should have, how many tasks it has room for, and which worker gets the next one.

Bookkeeping only, under the lock of the dispatcher, which starts and retires the workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil

from windlass.autoscale.observe import PoolReport
from windlass.config import PoolSettings
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import Claim
from windlass.custom_decider import PoolSituation
from windlass.worker.worker import RunningAttempt, Worker, WorkerState

READ_AHEAD_SECONDS = 0.05
READ_AHEAD_TASKS = 500
_LONGEST_BACK_OFF = 30.0
STARTS = 20
"""How many of the latest worker starts predict how long the next one takes."""
QUANTILE = 0.8
FIRST_START = 0.05
"""Assumed seconds for a worker start before one was measured: a fork of the worker parent."""
SECOND = 1_000_000


class PoolCounters:
    """What a pool has done on one node: counters that only grow, for the autoscaler and the metrics."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        """Seconds of waiting after which a start counts as late."""
        self.claimed = self.returned = self.started = self.late = 0
        self.ended = self.errors = self.retrying = self.deaths = 0
        self.busy = 0.0
        self.downstreams: deque[str | None] = deque(maxlen=100)
        """The downstreams of the latest tasks."""
        self._starts: deque[float] = deque(maxlen=STARTS)

    def record_claimed(self, claims: Sequence[Claim]) -> None:
        """Count tasks that were claimed."""
        self.claimed += len(claims)

    def record_started(self, claim: Claim) -> None:
        """Count a task that was given to a worker."""
        task = claim.task
        self.started += 1
        self.late += (task.claimed or task.due) - task.due > self.goal * SECOND
        self.downstreams.append(task.rules.downstream)

    def record_ended(self, settlement: Settlement, seconds: float) -> None:
        """Count an attempt that has ended, or a task that was given back without one."""
        self.busy += seconds
        if not settlement.charged:
            self.returned += settlement.state is State.RUNNABLE
            return
        self.ended += 1
        if settlement.error is not None:
            self.errors += 1
            self.retrying += settlement.state is State.RETRYING
            self.returned += settlement.state is State.RUNNABLE

    def record_worker_start(self, seconds: float) -> None:
        """Record how long a worker took from the request to fork it until it was ready."""
        self._starts.append(seconds)

    @property
    def start_delay(self) -> float:
        """How long most of the latest worker starts took."""
        if not self._starts:
            return FIRST_START
        return sorted(self._starts)[ceil(QUANTILE * len(self._starts)) - 1]

    @property
    def downstream(self) -> str:
        """The downstream that all of the latest tasks needed; empty if they differ."""
        names = {*self.downstreams}
        return (names.pop() or "") if len(names) == 1 else ""


class Pool:
    """The workers of one pool on this node."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.target = settings.floor
        self.asleep = 0
        """Workers within the target that exited because they were not needed."""
        self.counters = PoolCounters(settings.scale.wait)
        self.limit: int | None = None
        """The most workers, over all nodes, that external signals allow."""
        self.asked: int | None = None
        """The number of workers, over all nodes, that external signals ask for."""
        self.situations: dict[str, PoolSituation] = {}
        """What to ask the app's deciders, by name."""
        self.decided: dict[str, float] = {}
        """Their fresh answers: workers over all nodes."""
        self.undecided: dict[str, str] = {}
        """Why other deciders have no answer."""
        self.workers: dict[int, Worker] = {}
        self.backlog: deque[RunningAttempt] = deque()
        """Attempts taken back from a worker before they started. They go to another worker or back to the store."""
        self._mean_seconds: float | None = None
        self._deaths_in_a_row = 0
        self._start_at = 0.0
        self._turns = [0] * len(settings.queues)

    def retune(self, settings: PoolSettings) -> None:
        """Use other settings. Running workers keep their threads; new ones get the new number."""
        self.settings = settings
        self.counters.goal = settings.scale.wait

    def report(self, now: float, left: int) -> PoolReport:
        """Return what the pool has done and its size, for the autoscaler; `left` is what the budget leaves it."""
        settings, counters = self.settings, self.counters
        states = [worker.state for worker in self.workers.values()]
        started = [one for worker in self.workers.values() for one in worker.started]
        return PoolReport(
            queues=settings.queues,
            threads=settings.threads,
            floor=min(settings.floor, left),
            ceiling=min(settings.ceiling, left),
            most=min(settings.most, left),
            settings=settings.scale,
            fixed=settings.size is not None,
            target=self.target,
            ready=sum(state.working for state in states),
            starting=states.count(WorkerState.STARTING),
            draining=states.count(WorkerState.DRAINING),
            asleep=self.asleep,
            running=len(started),
            start_delay=round(counters.start_delay, 3),
            claimed=counters.claimed,
            returned=counters.returned,
            started=counters.started,
            late=counters.late,
            ended=counters.ended,
            errors=counters.errors,
            retrying=counters.retrying,
            busy=round(counters.busy + sum(now - (one.started_at or now) for one in started), 3),
            deaths=counters.deaths,
            limit=self.limit,
            asked=self.asked,
            decided=self.decided,
            downstream=counters.downstream,
        )

    def rotate_queues(self) -> Sequence[str]:
        """Return the queues in the order of the next claim: each comes first as often as its weight says."""
        settings = self.settings  # Read once: the claimer calls this without the lock.
        queues, weights = settings.queues, settings.weights or (1,) * len(settings.queues)
        before = self._turns if len(self._turns) == len(queues) else [0] * len(queues)
        turns = [turn + weight for turn, weight in zip(before, weights, strict=True)]
        first = max(range(len(queues)), key=turns.__getitem__)
        turns[first] -= sum(weights)
        self._turns = turns
        return queues[first:] + queues[:first]

    @property
    def slots(self) -> int:
        """How many tasks its workers can run at once."""
        return sum(worker.threads for worker in self.workers.values())

    @property
    def max_slots(self) -> int:
        """How many slots a task may need at most. Workers keep their threads when a reload changes the number."""
        return max(
            (worker.threads for worker in list(self.workers.values()) if worker.takes), default=self.settings.threads
        )

    def find_capacities(self, now: float) -> dict[int, int]:
        """Return how many slots of tasks each worker can hold, including read-ahead.

        A slot whose task has run for longer than the read-ahead should take gets no read-ahead.
        """
        working = [worker for worker in self.workers.values() if worker.takes]
        ahead = self._read_ahead(sum(worker.threads for worker in working))
        return {
            worker.number: worker.threads
            + int((worker.threads - min(worker.threads, worker.count_long_running(now, READ_AHEAD_SECONDS))) * ahead)
            for worker in working
        }

    def count_room(self, now: float) -> int:
        """Return how many more tasks the pool can take, including read-ahead."""
        rooms = (
            min(self.workers[number].runs_left, capacity - self.workers[number].taken)
            for number, capacity in self.find_capacities(now).items()
        )
        return max(0, sum(max(0, room) for room in rooms) - len(self.backlog))

    def needs_work(self) -> bool:
        """Return True if a worker is idle, or will be very soon, without more tasks."""
        return any(worker.takes and worker.taken <= worker.threads for worker in self.workers.values())

    def choose_worker(self, needs: int, capacities: Mapping[int, int], *, only_free: bool = False) -> Worker | None:
        """Return the worker for a task that needs this many slots: the least loaded that has room, else of all."""
        working = [worker for worker in self.workers.values() if worker.takes and worker.threads >= needs]
        if not working:
            return None
        chosen = min(
            working,
            key=lambda worker: (
                worker.taken >= capacities.get(worker.number, worker.threads),
                worker.taken / worker.threads,
                worker.number,
            ),
        )
        # Read-ahead is decided by the claim. Here a whole claim is handed out, so only a free slot can be required.
        return None if only_free and chosen.free < needs else chosen

    def record_run_time(self, seconds: float) -> None:
        """Record how long an attempt took."""
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + 0.1 * (seconds - mean)

    def reset_back_off(self) -> None:
        """Record that a worker has finished something, so that starting workers is worthwhile."""
        self._deaths_in_a_row = 0

    def back_off(self, now: float) -> float:
        """Delay the next start after a worker died; return the seconds. Only deaths without work in between add up."""
        self._deaths_in_a_row += 1
        doubled = min(self._deaths_in_a_row - 2, 10)
        wait = 0.0 if doubled < 0 else min(_LONGEST_BACK_OFF, 0.1 * 2**doubled)
        self._start_at = now + wait
        return wait

    def count_missing(self, now: float) -> int:
        """Return how many workers to start now. A sleeping one is woken when all others are busy."""
        staying = self._staying()
        self.asleep = max(0, min(self.asleep, self.target - len(staying)))
        if self.asleep and not any(worker.taken < worker.threads for worker in staying):
            self.asleep -= 1
        return max(0, self.target - self.asleep - len(staying)) if now >= self._start_at else 0

    def find_unneeded(self, now: float) -> list[Worker]:
        """Return the workers that were idle for too long, but keep the floor, and at least one."""
        limit = self.settings.idle_after
        if limit is None or self.settings.size is not None:
            return []
        staying = self._staying()
        idle = [worker for worker in staying if worker.state is WorkerState.IDLE]
        idle = [worker for worker in idle if now - worker.since >= limit.total_seconds()]
        return idle[: max(0, len(staying) - max(1, self.settings.floor))]

    def find_surplus(self) -> list[Worker]:
        """Return the workers to retire: starting ones, then the longest idle, then those with the fewest tasks."""
        staying = self._staying()
        order = {WorkerState.STARTING: 0, WorkerState.IDLE: 1, WorkerState.BUSY: 2}
        staying.sort(key=lambda worker: (order[worker.state], worker.taken, worker.since))
        return staying[: max(0, len(staying) - self.target)]

    def _staying(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if not worker.state.over and worker.state != "draining"]

    def _read_ahead(self, slots: int) -> float:
        """Return how many tasks a slot may have waiting: 50 ms of measured work, within a limit for the pool."""
        if not slots or self._mean_seconds is None:
            return 0.0
        return min(READ_AHEAD_SECONDS / max(self._mean_seconds, 1e-6), READ_AHEAD_TASKS / slots)
