"""A pool of workers: how many it should have, how many tasks it has room for, and which worker gets the next one.

Bookkeeping only, under the lock of the dispatcher, which starts and retires the workers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil
from typing import NamedTuple, TypeAlias

from windlass.autoscale.observe import PoolReport
from windlass.config import PoolSettings
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo
from windlass.core.queue_shares import ClaimPlan, QueueShares
from windlass.core.settlement import Settlement
from windlass.core.task import Claim
from windlass.custom_decider import PoolSituation
from windlass.worker.worker import RunningAttempt, Worker, WorkerState

READ_AHEAD_SECONDS = 0.05
"""The most work, in seconds, that may wait in a worker."""
MIN_READ_AHEAD_SECONDS = 0.01
READ_AHEAD_CLAIMS = 4
"""How many claims could be made while a worker runs what it has waiting."""
READ_AHEAD_TASKS = 2_000
"""The most tasks that may wait in the workers of a pool."""
READ_AHEAD_BYTES = 1 << 24
"""The most bytes of arguments that may wait in the workers of a pool, if tasks are as large as the latest ones."""
TASK_OVERHEAD_SECONDS = 10e-6
"""About how long a worker needs for a task besides its handler. It bounds the read-ahead of tasks that take no time."""
HOLD_EVERY_SECONDS = 5.0
"""How often a claim also takes a task that needs more slots than are free. Its worker starts nothing else before it."""
_LONGEST_BACK_OFF = 30.0
STAND_INS = 16
"""The most workers that a pool starts in place of workers whose tasks wait for other tasks."""
HOLD_FOR_DEF_SECONDS = 10.0
"""How long a worker starts no `async def` task because a `def` task waits for those that run. If that was not enough,
no `def` task is claimed for as long."""
GROWING_SECONDS = 1.0
"""The same for a pool that can grow: the task goes back to the store, so that a new worker gets it."""
STARTS = 20
"""How many of the latest worker starts predict how long the next one takes."""
QUANTILE = 0.8
FIRST_START = 0.05
"""Assumed seconds for a worker start before one was measured: a fork of the worker parent."""
LATEST_TASKS = 100
"""How many of the latest tasks determine the downstream of a pool, and what its tasks need."""
SECOND = 1_000_000


class PoolCounters:
    """What a pool has done on one node: counters that only grow, for the autoscaler and the metrics."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        """Seconds of waiting after which a start counts as late."""
        self.claimed = self.returned = self.started = self.late = 0
        self.ended = self.errors = self.retrying = self.deaths = 0
        self.busy = 0.0
        self.downstreams: deque[str | None] = deque(maxlen=LATEST_TASKS)
        """The downstreams of the latest tasks."""
        self._starts: deque[float] = deque(maxlen=STARTS)

    def record_started(self, claims: Sequence[Claim]) -> None:
        """Count tasks that were given to workers."""
        goal = self.goal * SECOND
        self.started += len(claims)
        self.late += sum([claim.claimed - claim.due > goal for claim in claims])
        self.downstreams.extend([claim.rules.downstream for claim in claims[-LATEST_TASKS:]])

    def record_completed(self, attempts: int, seconds: float) -> None:
        """Count attempts that completed, and the seconds that they ran in total."""
        self.busy += seconds
        self.ended += attempts

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


_Load: TypeAlias = tuple[bool, float, int, Worker, int, int, int]
"""Whether a worker is full, the share of its slots that is taken, its number, the worker, its capacity, the slots that
are taken, and the tasks that it was given."""


class Loads:
    """The loads of some workers while tasks are given to them: the least loaded worker gets the next task."""

    def __init__(self, capacities: Iterable[tuple[Worker, int]]) -> None:
        self._heap: list[_Load] = [
            (worker.taken >= capacity, worker.taken / worker.threads, worker.number, worker, capacity, worker.taken, 0)
            for worker, capacity in capacities
        ]
        heapify(self._heap)

    def take(self, slots: int, *, only_room: bool, only_free: bool = False) -> Worker | None:
        """Return the worker for a task that needs this many slots, and count the task to its load.

        The claim has decided how much to read ahead, so a claimed task also goes to a worker that is full. With
        `only_room` it does not, and with `only_free` only to a worker that can start it now.
        """
        heap = self._heap
        too_small: list[_Load] = []
        while heap and heap[0][3].threads < slots:
            too_small.append(heappop(heap))
        chosen = None
        if heap:
            _, _, number, worker, capacity, taken, given = heap[0]
            taken, given = taken + slots, given + 1
            if (taken <= capacity or not only_room) and (taken <= worker.threads or not only_free):
                chosen = worker
                if given < worker.runs_left:
                    heapreplace(
                        heap, (taken >= capacity, taken / worker.threads, number, worker, capacity, taken, given)
                    )
                else:
                    heappop(heap)
        for load in too_small:
            heappush(heap, load)
        return chosen


class Fit(NamedTuple):
    """What a task may need so that a pool can start it."""

    slots: int
    memory: int | None
    """Bytes; None for no limit."""
    holds: bool
    """True if these are more slots than are free."""


class _Needs(NamedTuple):
    """What a task needed."""

    slots: int
    memory: int


class Pool:
    """The workers of one pool on this node."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.resized_because = "its settings changed"
        """Why the pool got its target, for the workers that leave because of it."""
        self.target = settings.min_workers
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
        self._claim_seconds = 0.0
        self._mean_bytes = 0.0
        self._mean_seconds: float | None = None
        self._deaths_in_a_row = 0
        self._start_at = 0.0
        self._held_at = 0.0
        """When a claim last took tasks that may have needed more slots than were free."""
        self._needs_of_latest: deque[_Needs] = deque(maxlen=LATEST_TASKS)
        self.shares = QueueShares()
        """How its queues share its workers, if `divides` is True."""
        self._async_handlers: frozenset[str] = frozenset()
        self._is_async = False
        """Whether all handlers of its queues are `async def`."""
        self._skip_def_until = 0.0
        """Until when no `def` tasks are claimed, because no worker is free of `async def` tasks."""

    def use_handlers(self, handlers: Sequence[HandlerInfo]) -> None:
        """Use the handlers of the app: how many tasks a worker runs at once depends on them."""
        self._async_handlers = frozenset(one.name for one in handlers if one.is_async)
        here = [one for one in handlers if one.queue in self.settings.queues] or handlers
        self._is_async = bool(here) and all(one.is_async for one in here)

    @property
    def shares_loop(self) -> bool:
        """Whether a worker runs either one `def` task, or several `async def` tasks at once on its event loop."""
        settings = self.settings
        return settings.threads == 1 and settings.async_tasks > 1 and bool(self._async_handlers)

    @property
    def slots_per_worker(self) -> int:
        """How many slots a new worker has."""
        return self.settings.async_tasks if self.shares_loop else self.settings.threads

    def count_slots(self, claim: Claim) -> int:
        """Return how many slots of a worker a task gets.

        A task that was running when a process died runs alone, to find out if it is why. A task that may run only once
        runs alone too if others would share its event loop: if their worker is killed, it must fail.
        """
        if claim.crashes:
            return self.slots_per_worker
        if not self.shares_loop:
            return claim.rules.slots
        alone = claim.rules.at_most_once or claim.handler not in self._async_handlers
        return self.slots_per_worker if alone else 1

    def choose_handlers(self, handlers: frozenset[str], now: float) -> frozenset[str]:
        """Return those of these handlers whose tasks may be claimed now."""
        skips = now < self._skip_def_until and not self.has_idle_worker()
        return handlers & self._async_handlers if skips else handlers

    def has_idle_worker(self) -> bool:
        """Return True if a worker that takes tasks has none."""
        return any(worker.takes and not worker.taken for worker in list(self.workers.values()))

    @property
    def hold_for_def(self) -> float:
        """How many seconds a `def` task may wait in a worker for its `async def` tasks."""
        can_grow = self.settings.size is None and self.target < self.settings.max_workers
        return GROWING_SECONDS if can_grow else HOLD_FOR_DEF_SECONDS

    def skip_def_tasks(self, now: float) -> None:
        """Claim no `def` tasks for some time: one has waited too long for a worker without `async def` tasks."""
        self._skip_def_until = now + self.hold_for_def

    @property
    def wanted(self) -> int:
        """How many workers it should have: its target, and stand-ins for workers whose tasks wait for other tasks."""
        waiting = sum(worker.waiting > 0 for worker in self._staying())
        return self.target + min(STAND_INS, waiting)

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
            threads=self.slots_per_worker if self._is_async else settings.threads,
            min=min(settings.min_workers, left),
            max=min(settings.max_workers, left),
            override_max=min(settings.override_max, left),
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

    @property
    def divides(self) -> bool:
        """True if several queues share its workers by weight."""
        return len(self.settings.queues) > 1 and self.settings.order == "queues"

    def plan_claim(self, weights: Mapping[str, int], limit: int) -> ClaimPlan:
        """Plan the next claim: which queues come first, and how many tasks of each to take."""
        return self.shares.plan(weights, limit) if self.divides else ClaimPlan(self.settings.queues, None, limit)

    def record_taken(self, plan: ClaimPlan, claims: Iterable[Claim]) -> None:
        """Record what a planned claim got of each queue."""
        if self.divides:
            self.shares.record_claimed(plan, Counter(claim.queue for claim in claims))

    def record_completed(self, claims: Sequence[Claim], seconds: Sequence[float]) -> None:
        """Record attempts that completed, with the seconds that each ran."""
        total = sum(seconds)
        self.record_run_time(total / len(claims), len(claims))
        self.counters.record_completed(len(claims), total)
        if self.divides:
            self.shares.record_completed(zip([claim.queue for claim in claims], seconds, strict=True))

    def record_ended(self, claim: Claim, settlement: Settlement, seconds: float) -> None:
        """Record an attempt that has ended in any way, or a task that was given back without one."""
        self.counters.record_ended(settlement, seconds)
        if self.divides and settlement.charged:
            self.shares.record_completed([(claim.queue, seconds)])
        elif self.divides:
            self.shares.record_released([claim.queue], seconds)

    def record_lost(self, claims: Iterable[Claim]) -> None:
        """Record tasks whose leases were lost."""
        if self.divides:
            self.shares.record_released([claim.queue for claim in claims])

    @property
    def slots(self) -> int:
        """How many tasks its workers can run at once."""
        return sum(worker.threads for worker in self.workers.values())

    def find_fit(self, now: float) -> Fit:
        """Return what one more task may need so that it can start now, and does not hold up others.

        At times a task may need more slots than are free. Otherwise it would never start, if other tasks take every
        slot as soon as it is free.
        """
        memory = None if self.settings.memory is None else max(0, self.settings.memory - self._count_memory())
        if self.shares_loop:
            return Fit(1, memory, False)
        takers = [worker for worker in self.workers.values() if worker.takes]
        largest = max((worker.threads for worker in takers), default=self.settings.threads)
        slots = max(1, max((worker.free for worker in takers), default=largest))
        holds = slots < largest and now - self._held_at >= HOLD_EVERY_SECONDS
        return Fit(largest if holds else slots, memory, holds)

    def limit_by_needs(self, room: int, fit: Fit) -> int:
        """Return how many tasks to claim so that most of them fit, if they need as much as the latest ones."""
        tasks = len(self._needs_of_latest)
        if not tasks:
            return room
        slots = tasks if self.shares_loop else sum(needs.slots for needs in self._needs_of_latest)
        memory = sum(needs.memory for needs in self._needs_of_latest)
        limit = room * tasks // slots
        return max(1, min(limit, fit.memory * tasks // memory) if fit.memory and memory else limit)

    def choose_fitting(self, claims: Sequence[Claim], fit: Fit, now: float) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """Return the claimed tasks whose memory is free, and the others."""
        if fit.slots > 1 or fit.memory or self.shares_loop:
            latest = claims[-LATEST_TASKS:]
            self._needs_of_latest.extend([_Needs(self.count_slots(one), one.rules.memory or 0) for one in latest])
        if fit.holds and any(claim.rules.slots > 1 for claim in claims):
            self._held_at = now
        if fit.memory is None:
            return claims, ()
        free, fitting, others = fit.memory, list[Claim](), list[Claim]()
        for claim in claims:
            needs = claim.rules.memory or 0
            (fitting if needs <= free else others).append(claim)
            free -= needs if needs <= free else 0
        return fitting, others

    def _count_memory(self) -> int:
        """Return the bytes that the tasks of its workers need."""
        running = [one.claim.rules.memory or 0 for worker in self.workers.values() for one in worker.running.values()]
        return sum(running) + sum(one.claim.rules.memory or 0 for one in self.backlog)

    def find_capacities(self, now: float) -> dict[int, int]:
        """Return how many slots of tasks each worker can hold, including read-ahead.

        A slot whose task has run for longer than any read-ahead should take gets no read-ahead.
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
        return self._count_room(self.find_capacities(now))

    def count_claimable(self, now: float) -> int:
        """Return how many tasks to claim now; 0 while the workers have enough to do and a larger claim is to come.

        The next claim is due when half of the read-ahead is used up, so it may take twice as long as usual before a
        worker runs dry, and it brings many tasks at once.
        """
        capacities = self.find_capacities(now)
        room = self._count_room(capacities)
        read_ahead = sum(capacity - self.workers[number].threads for number, capacity in capacities.items())
        if not room or not (self.needs_work() or 2 * room >= read_ahead):
            return 0
        return max(1, int(room / self._mean_slots)) if self.shares_loop else room

    @property
    def _mean_slots(self) -> float:
        """How many slots a task takes if workers share their event loop, if it is like the latest ones."""
        latest = self._needs_of_latest
        if not latest:
            return 1.0 if self._is_async else float(self.slots_per_worker)
        return sum(needs.slots for needs in latest) / len(latest)

    def needs_work(self) -> bool:
        """Return True if a worker is idle, or will be very soon, without more tasks."""
        return any(worker.takes and worker.taken <= worker.threads for worker in self.workers.values())

    @property
    def assigned(self) -> int:
        """How many tasks are with its workers or in its backlog."""
        return sum(len(worker.running) for worker in self.workers.values()) + len(self.backlog)

    def loads(self, now: float) -> Loads:
        """Return the loads of its workers, to give out tasks."""
        capacities = self.find_capacities(now)
        return Loads([(self.workers[number], capacity) for number, capacity in capacities.items()])

    def record_run_time(self, seconds: float, attempts: int = 1) -> None:
        """Record how long attempts took: the mean of some that ended together."""
        mean = self._mean_seconds
        weight = 1 - 0.9**attempts
        self._mean_seconds = seconds if mean is None else mean + weight * (seconds - mean)

    def record_claim(self, claims: Sequence[Claim], seconds: float) -> None:
        """Record how long a claim took until its tasks were with the workers, and how large they are."""
        size = sum([len(claim.args) for claim in claims]) / len(claims)
        self._claim_seconds += 0.2 * (seconds - self._claim_seconds)
        self._mean_bytes += 0.5 * (size - self._mean_bytes)

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
        wanted = self.wanted
        self.asleep = max(0, min(self.asleep, wanted - len(staying)))
        if self.asleep and not any(worker.taken < worker.threads for worker in staying):
            self.asleep -= 1
        return max(0, wanted - self.asleep - len(staying)) if now >= self._start_at else 0

    def find_unneeded(self, now: float) -> list[Worker]:
        """Return the workers that were idle for too long, but keep the minimum, and at least one."""
        limit = self.settings.idle_after
        if limit is None or self.settings.size is not None:
            return []
        staying = self._staying()
        idle = [worker for worker in staying if worker.state is WorkerState.IDLE]
        idle = [worker for worker in idle if now - worker.since >= limit.total_seconds()]
        return idle[: max(0, len(staying) - max(1, self.settings.min_workers))]

    def find_surplus(self) -> list[Worker]:
        """Return the workers to retire: starting ones, then the longest idle, then those with the fewest tasks."""
        staying = self._staying()
        order = {WorkerState.STARTING: 0, WorkerState.IDLE: 1, WorkerState.BUSY: 2}
        staying.sort(key=lambda worker: (order[worker.state], worker.taken, worker.since))
        return staying[: max(0, len(staying) - self.wanted)]

    def _staying(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if not worker.state.over and worker.state != "draining"]

    def _count_room(self, capacities: Mapping[int, int]) -> int:
        rooms = (
            min(self.workers[number].runs_left, capacity - self.workers[number].taken)
            for number, capacity in capacities.items()
        )
        return max(0, sum(max(0, room) for room in rooms) - len(self.backlog))

    def _read_ahead(self, slots: int) -> float:
        """Return how many tasks a slot may have waiting: as many as it runs during some claims, within limits."""
        if not slots or self._mean_seconds is None:
            return 0.0
        seconds = min(READ_AHEAD_SECONDS, max(MIN_READ_AHEAD_SECONDS, READ_AHEAD_CLAIMS * self._claim_seconds))
        most = min(READ_AHEAD_TASKS, READ_AHEAD_BYTES / max(1.0, self._mean_bytes))
        if self.shares_loop:
            most *= self._mean_slots
        return min(seconds / (self._mean_seconds + TASK_OVERHEAD_SECONDS), most / slots)
