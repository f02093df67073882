"""A pool: how many workers it should have, how much it has room for, and who gets the next task.

Pure bookkeeping under the crew's lock: it says how many to start and whom to retire; the crew does it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil

from windlass.autoscale.observe import PoolReport
from windlass.config import PoolSettings
from windlass.core.lifecycle import State
from windlass.core.settlement import Crashed, Outcome, Raised, Released, settle
from windlass.core.task import Claim
from windlass.custom_decider import PoolSituation
from windlass.worker.worker import ReadyTask, Worker, WorkerState

READ_AHEAD_SECONDS = 0.05
READ_AHEAD_TASKS = 500
_LONGEST_BACK_OFF = 30.0


class Pool:
    """The workers of one pool, as the node sees them."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.target = settings.floor
        self.asleep = 0
        """Workers within the target that left because nobody needed them."""
        self.counters = PoolCounters(settings.scale.wait)
        self.limit: int | None = None
        self.asked: int | None = None
        """The most workers, over all nodes, that signals allow; and the number that they ask for."""
        self.situations: dict[str, PoolSituation] = {}
        """What to ask deciders of the app, by name."""
        self.decided: dict[str, float] = {}
        """What they answered, in workers over all nodes; one without a fresh answer is not in it."""
        self.undecided: dict[str, str] = {}
        """Why others have no answer."""
        self.workers: dict[int, Worker] = {}
        self.backlog: deque[ReadyTask] = deque()
        """What came back from a worker unbegun and is to go to another one, or back to the store."""
        self._mean_seconds: float | None = None
        self._deaths_in_a_row = 0
        self._start_at = 0.0
        self._turns = [0] * len(settings.queues)

    def retune(self, settings: PoolSettings) -> None:
        """Follow other settings. Workers that run keep their threads; the next ones have the new number."""
        self.settings = settings
        self.counters.goal = settings.scale.wait

    def report(self, now: float, left: int) -> PoolReport:
        """What the pool has done and how large it is, for whoever decides; `left` is what the budget leaves it."""
        settings, tally = self.settings, self.counters
        states = [worker.state for worker in self.workers.values()]
        begun = [one for worker in self.workers.values() for one in worker.started]
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
            running=len(begun),
            start_delay=round(tally.start_delay, 3),
            claimed=tally.claimed,
            returned=tally.returned,
            started=tally.started,
            late=tally.late,
            ended=tally.ended,
            errors=tally.errors,
            retrying=tally.retrying,
            busy=round(tally.busy + sum(now - (one.begun_at or now) for one in begun), 3),
            deaths=tally.deaths,
            limit=self.limit,
            asked=self.asked,
            decided=self.decided,
            downstream=tally.downstream,
        )

    def next_queues(self) -> Sequence[str]:
        """The queues in the order in which the next claim asks them: each is first as often as its weight says."""
        settings = self.settings  # Read once: the claimer asks without the lock, and they may change meanwhile.
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
    def widest(self) -> int:
        """How many slots a task may need at most: workers keep their threads when a reload changes the number."""
        return max(
            (worker.threads for worker in list(self.workers.values()) if worker.takes), default=self.settings.threads
        )

    def capacities(self, now: float) -> dict[int, int]:
        """Return how many slots' worth of tasks each worker can hold, read-ahead included.

        Nothing is read ahead for a slot whose task has run for longer than all that is read ahead should take.
        """
        working = [worker for worker in self.workers.values() if worker.takes]
        ahead = self._ahead(sum(worker.threads for worker in working))
        return {
            worker.number: worker.threads
            + int((worker.threads - min(worker.threads, worker.held_up(now, READ_AHEAD_SECONDS))) * ahead)
            for worker in working
        }

    def room(self, now: float) -> int:
        """How many more tasks the pool can take, read-ahead included."""
        rooms = (
            min(self.workers[number].runs_left, capacity - self.workers[number].taken)
            for number, capacity in self.capacities(now).items()
        )
        return max(0, sum(max(0, room) for room in rooms) - len(self.backlog))

    def hungry(self) -> bool:
        """Whether a worker would stand still, now or very soon, without more tasks."""
        return any(worker.takes and worker.taken <= worker.threads for worker in self.workers.values())

    def next_worker(self, needs: int, capacities: Mapping[int, int], *, only_free: bool = False) -> Worker | None:
        """Who gets a task that needs so many slots: the least loaded of those that can hold it, else of all."""
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
        # Read-ahead is decided when claiming; here a whole claim is dealt out, so only a free slot may be asked for.
        return None if only_free and chosen.free < needs else chosen

    def record_run_time(self, seconds: float) -> None:
        """An attempt took so long."""
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + 0.1 * (seconds - mean)

    def reset_back_off(self) -> None:
        """A worker has done something, so starting workers is no use of itself."""
        self._deaths_in_a_row = 0

    def back_off(self, now: float) -> float:
        """A worker died; how long the next start is put off. Only deaths without any work between them add up."""
        self._deaths_in_a_row += 1
        doubled = min(self._deaths_in_a_row - 2, 10)
        wait = 0.0 if doubled < 0 else min(_LONGEST_BACK_OFF, 0.1 * 2**doubled)
        self._start_at = now + wait
        return wait

    def missing(self, now: float) -> int:
        """How many workers are to be started now. One that sleeps is woken when all others have their hands full."""
        staying = self._staying()
        self.asleep = max(0, min(self.asleep, self.target - len(staying)))
        if self.asleep and not any(worker.taken < worker.threads for worker in staying):
            self.asleep -= 1
        return max(0, self.target - self.asleep - len(staying)) if now >= self._start_at else 0

    def unneeded(self, now: float) -> list[Worker]:
        """Whom to let go because they have had nothing to do for long, down to the floor and one at the least."""
        patience = self.settings.idle_after
        if patience is None or self.settings.size is not None:
            return []
        staying = self._staying()
        idle = [worker for worker in staying if worker.state is WorkerState.IDLE]
        idle = [worker for worker in idle if now - worker.since >= patience.total_seconds()]
        return idle[: max(0, len(staying) - max(1, self.settings.floor))]

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


STARTS = 20
"""Worker starts by which the next one is judged."""
QUANTILE = 0.8
FIRST_START = 0.05
"""Seconds that a start is taken to last before one was measured: a fork of a warm parent."""
SECOND = 1_000_000


class PoolCounters:
    """The counters of one pool on one node."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        """Seconds after which a start counts as late."""
        self.claimed = self.returned = self.started = self.late = 0
        self.ended = self.errors = self.retrying = self.deaths = 0
        self.busy = 0.0
        self.downstreams: deque[str | None] = deque(maxlen=100)
        """What the latest tasks needed."""
        self._starts: deque[float] = deque(maxlen=STARTS)

    def record_claimed(self, claims: Sequence[Claim]) -> None:
        """These were leased."""
        self.claimed += len(claims)

    def record_started(self, claim: Claim) -> None:
        """This one was given to a worker."""
        task = claim.task
        self.started += 1
        self.late += (task.claimed or task.due) - task.due > self.goal * SECOND
        self.downstreams.append(task.rules.downstream)

    def record_ended(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended, or was not made."""
        self.busy += seconds
        if isinstance(outcome, Released):
            self.returned += not outcome.delay
            return
        self.ended += 1
        if isinstance(outcome, Raised | Crashed):
            state = settle(claim.task, outcome, _even).state
            self.errors += 1
            self.retrying += state is State.RETRYING
            self.returned += state is State.RUNNABLE

    def worker_started(self, seconds: float) -> None:
        """A worker was ready so long after it was ordered."""
        self._starts.append(seconds)

    @property
    def start_delay(self) -> float:
        """How long most starts have lately taken."""
        if not self._starts:
            return FIRST_START
        return sorted(self._starts)[ceil(QUANTILE * len(self._starts)) - 1]

    @property
    def downstream(self) -> str:
        """What all of the latest tasks needed, if that was one and the same."""
        names = {*self.downstreams}
        return (names.pop() or "") if len(names) == 1 else ""


def _even() -> float:
    return 0.5
