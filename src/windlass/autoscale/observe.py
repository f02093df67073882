"""Observe a pool over all nodes, from the reports of the nodes and a snapshot of the store.

Arrivals are not counted, because that would cost one more write for every task. They follow from the change of the
queue and from what was claimed meanwhile. If one side of this sum is older than the other, the next tick corrects it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from windlass.autoscale.settings import Settings
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.stores.coordination import Look

SECOND = 1_000_000


class Observation(Struct, frozen=True, kw_only=True, gc=False):
    """What the controller reads at each tick: counts since the last tick, and current sizes."""

    queued: int = 0
    """Runnable tasks that have not started."""
    oldest: float = 0.0
    """Seconds that the oldest queued task has waited."""
    arrivals: int = 0
    """Tasks that became runnable for the first time, including scheduled ones."""
    scheduled: int = 0
    """The arrivals that were scheduled, and so known in advance."""
    retried: int = 0
    """Tasks that became runnable again after a failure. They do not count as arrivals."""
    completions: int = 0
    """Attempts that ended, with or without an error."""
    errors: int = 0
    busy: float = 0.0
    """Worker-seconds spent on tasks since the last tick, including unfinished tasks."""
    started: int = 0
    late: int = 0
    """The started tasks that had waited longer than the goal."""
    ready: int = 0
    running: int = 0
    """The ready workers that run a task."""
    starting: int = 0
    draining: int = 0
    start_delay: float = 0.0
    """Seconds that a worker takes to start, as recently measured."""
    due: tuple[tuple[float, int], ...] = ()
    """Scheduled tasks as (seconds from now, tasks), nearest first."""
    limit: int | None = None
    """The most workers that a signal allows; None without one."""
    asked: int | None = None
    """The workers that signals ask for; None without one."""
    breaker: Literal["closed", "open", "half_open"] = "closed"
    """The state of the circuit breaker that all tasks of this pool depend on."""
    deaths: int = 0
    """Workers that died unexpectedly since the last tick."""
    decided: dict[str, float] = {}
    """The slots that deciders of the app ask for, by name as in `app:by_orders`; only those that gave an answer."""

    @property
    def alive(self) -> int:
        """The workers that are ready or starting."""
        return self.ready + self.starting

    def due_within(self, seconds: float) -> int:
        """Return the number of scheduled tasks that become runnable within this time."""
        return sum(count for ahead, count in self.due if ahead <= seconds) if self.due else 0


class Totals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counters of a pool on a node since its session began. They only grow, so a missed report loses nothing."""

    claimed: int = 0
    returned: int = 0
    """Tasks returned to their queue before they started."""
    started: int = 0
    late: int = 0
    ended: int = 0
    errors: int = 0
    retrying: int = 0
    """Attempts after which the task waits for a retry."""
    busy: float = 0.0
    """Seconds that tasks have run, including unfinished tasks."""
    deaths: int = 0


class PoolReport(Totals, frozen=True, kw_only=True, omit_defaults=True):
    """The report of one pool on one node. `running` counts tasks, the other sizes count workers."""

    queues: tuple[str, ...] = ()
    threads: int = 1
    min: int = 0
    max: int = 0
    """The most workers that the pool may have on this node, by its settings and the node's budget."""
    override_max: int = 0
    """The most workers that it may have on this node when an operator raises the size."""
    settings: Settings = Settings()
    """The node's settings for the pool. Its bounds are `min` and `max` above."""
    fixed: bool = False
    """True if the node has a fixed size configured, so that the pool is not autoscaled."""
    target: int = 0
    ready: int = 0
    starting: int = 0
    draining: int = 0
    asleep: int = 0
    """Workers within the target that stopped because they were idle. They start at once when needed."""
    running: int = 0
    start_delay: float = 0.0
    limit: int | None = None
    asked: int | None = None
    """The most workers over all nodes that the signals of this node allow, and the number that they ask for."""
    decided: dict[str, float] = {}
    """The workers over all nodes that deciders of the app ask for, by name such as `app:by_orders`."""
    downstream: str = ""
    """The downstream that all recent tasks needed; empty if there were several or none."""


class NodeReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report of a node about its pools, written once per second."""

    pools: dict[str, PoolReport] = {}
    degraded: str = ""
    """The error of the node's controller; empty if it works."""


COUNTED = Totals.__struct_fields__


class Baseline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts of the last tick, which the next tick subtracts."""

    queued: int | None = None
    retrying: int = 0
    sessions: dict[str, Totals] = {}
    expected: int = 0
    """Scheduled tasks that were about to become due."""
    owed: int = 0
    """Arrivals that were counted too often, because one side of the sum was older than the other."""


def select_members(reports: Mapping[str, NodeReport], pool: str) -> dict[str, PoolReport]:
    """Return the reports about this pool by session, sorted by session id."""
    return {session: reports[session].pools[pool] for session in sorted(reports) if pool in reports[session].pools}


def observe(look: Look, pool: Mapping[str, PoolReport], seen: Baseline) -> tuple[Observation, Baseline]:
    """Return the observation of the time since the last tick, and the counts for the next one."""
    queues = {queue for report in pool.values() for queue in report.queues}
    counts = [each for each in look.queues if each.queue in queues]
    active = [each for each in counts if not each.paused]
    queued = sum(each.runnable for each in active)
    retrying = sum(each.retrying for each in counts)
    changes = count_changes(pool, seen.sessions)
    retried = max(0, int(changes.retrying) - (retrying - seen.retrying)) if seen.queued is not None else 0
    arrivals = (
        0 if seen.queued is None else queued - seen.queued + changes.claimed - changes.returned - retried - seen.owed
    )
    scheduled, due = list_due(look, queues, State.SCHEDULED), list_due(look, queues)
    threads = max((report.threads for report in pool.values()), default=1)
    observation = Observation(
        queued=queued,
        oldest=compute_oldest_wait(look.now, [each.oldest for each in active]),
        arrivals=max(0, arrivals),
        scheduled=min(max(0, arrivals), seen.expected),
        retried=retried,
        completions=changes.ended,
        errors=changes.errors,
        busy=max(0.0, changes.busy),
        started=changes.started,
        late=changes.late,
        ready=sum((report.ready + report.asleep) * report.threads for report in pool.values()),
        running=sum(report.running for report in pool.values()),
        starting=sum(report.starting * report.threads for report in pool.values()),
        draining=sum(report.draining * report.threads for report in pool.values()),
        start_delay=max((report.start_delay for report in pool.values()), default=0.0),
        due=due,
        limit=choose_slots(min, [report.limit for report in pool.values()], threads),
        asked=choose_slots(max, [report.asked for report in pool.values()], threads),
        deaths=changes.deaths,
        decided=collect_answers(pool, threads),
    )
    return observation, Baseline(
        queued=queued,
        retrying=retrying,
        sessions={session: copy_totals(report) for session, report in pool.items()},
        expected=sum(tasks for ahead, tasks in scheduled if ahead <= 1),
        owed=max(0, -arrivals),
    )


def copy_totals(report: PoolReport) -> Totals:
    """Return the counters of a report."""
    return Totals(**{field: getattr(report, field) for field in COUNTED})


def count_changes(pool: Mapping[str, PoolReport], before: Mapping[str, Totals]) -> Totals:
    """Return by how much the counters have grown. A new session starts to count now."""
    sums = dict.fromkeys(COUNTED, 0)
    for session, report in pool.items():
        old = before.get(session)
        for field in COUNTED if old is not None else ():
            sums[field] += getattr(report, field) - getattr(old, field)
    return Totals(**sums)


def compute_oldest_wait(now: Micros, since: Sequence[Micros | None]) -> float:
    """Return the seconds since the earliest of these times; 0 without one."""
    known = [moment for moment in since if moment is not None]
    return max(0.0, (now - min(known)) / SECOND) if known else 0.0


def list_due(look: Look, queues: set[str], state: State | None = None) -> tuple[tuple[float, int], ...]:
    """Return the tasks that become due as (seconds from now, tasks); with a state, only tasks in that state."""
    ahead: dict[float, int] = {}
    for due in look.due:
        if due.queue in queues and state in (None, due.state):
            ahead[float(due.seconds)] = ahead.get(float(due.seconds), 0) + due.tasks
    return tuple(sorted(ahead.items()))


def collect_answers(pool: Mapping[str, PoolReport], threads: int) -> dict[str, float]:
    """Return the slots that the app's deciders ask for. If nodes differ, the largest answer counts."""
    answers = [answer for report in pool.values() for answer in report.decided.items()]
    return {name: threads * max(size for each, size in answers if each == name) for name, _ in answers}


def choose_slots(choose: Callable[[list[int]], int], workers: Sequence[int | None], threads: int) -> int | None:
    """Return the smallest or largest known number of workers, in slots; None if no node knows one."""
    known = [number * threads for number in workers if number is not None]
    return choose(known) if known else None
