"""What the controller is told at each tick: counts since the last tick, and sizes as they are now.

Every number is about one pool over all nodes. Whoever observes fills it in; the controller reads nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from windlass.autoscale.settings import Settings
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.stores.coordination import Look


class Observation(Struct, frozen=True, kw_only=True, gc=False):
    """One second in the life of a pool. Seconds are floats, counts are integers."""

    queued: int = 0
    """Runnable tasks that nobody runs yet."""
    oldest: float = 0.0
    """How long the one that has waited longest has waited, in seconds."""
    arrivals: int = 0
    """Tasks that became runnable for the first time, with those from the schedule."""
    scheduled: int = 0
    """How many of the arrivals came from the schedule, and were known ahead."""
    retried: int = 0
    """Tasks that became runnable again after a failure. They follow errors, not demand: no arrivals."""
    completions: int = 0
    """Attempts that ended, well or not."""
    errors: int = 0
    busy: float = 0.0
    """Worker-seconds spent on tasks since the last tick, those of unfinished tasks too."""
    started: int = 0
    late: int = 0
    """How many of the started had waited longer than the goal."""
    ready: int = 0
    running: int = 0
    """How many of the ready are at work now."""
    starting: int = 0
    draining: int = 0
    start_delay: float = 0.0
    """How long a worker takes to start, as lately measured."""
    due: tuple[tuple[float, int], ...] = ()
    """What the schedule holds: (seconds from now, tasks), nearest first, as far ahead as the observer looks."""
    limit: int | None = None
    """The most workers that a downstream can bear, if it says so."""
    asked: int | None = None
    """The workers that signals from outside ask for, if there are any."""
    breaker: Literal["closed", "open", "half_open"] = "closed"
    """The circuit breaker of the downstream that all tasks of this pool need."""
    deaths: int = 0
    """Workers that died unasked since the last tick."""
    decided: dict[str, float] = {}
    """What deciders of the app ask for, in slots, by name as in `app:by_orders`; one without an answer is not in it."""

    @property
    def alive(self) -> int:
        """The workers that serve or soon will: those still starting are not ordered a second time."""
        return self.ready + self.starting

    def due_within(self, seconds: float) -> int:
        """How many scheduled tasks become runnable in that time."""
        return sum(count for ahead, count in self.due if ahead <= seconds) if self.due else 0


class Totals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pool has done on a node since the node's session began."""

    claimed: int = 0
    returned: int = 0
    """Tasks that went back to their queue unbegun."""
    started: int = 0
    late: int = 0
    ended: int = 0
    errors: int = 0
    retrying: int = 0
    """Attempts after which the task waits for its next one."""
    busy: float = 0.0
    """Seconds that tasks have run for, the unfinished ones too."""
    deaths: int = 0


class PoolReport(Totals, frozen=True, kw_only=True, omit_defaults=True):
    """One pool on one node."""

    queues: tuple[str, ...] = ()
    threads: int = 1
    floor: int = 0
    ceiling: int = 0
    """How many workers this node may have in it, by its settings and what its budget leaves."""
    most: int = 0
    """How many it may have in it when a person orders more."""
    settings: Settings = Settings()
    """What the node was told about goals; the bounds are the two above."""
    fixed: bool = False
    """Whether the node was told a size: then the pool does not size itself."""
    target: int = 0
    ready: int = 0
    starting: int = 0
    draining: int = 0
    asleep: int = 0
    """Workers within the target that left because nobody needed them, and come back at once when somebody does."""
    running: int = 0
    start_delay: float = 0.0
    limit: int | None = None
    asked: int | None = None
    """The most workers, over all nodes, that the signals of this node allow; and the number that they ask for."""
    decided: dict[str, float] = {}
    """The workers, over all nodes, that deciders of the app ask for on this node, by name as in `app:by_orders`."""
    downstream: str = ""
    """What all of its latest tasks needed, if that was one and the same."""


class NodeReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All pools of a node."""

    pools: dict[str, PoolReport] = {}
    degraded: str = ""
    """What is wrong with the node's own controller; empty when nothing is."""


COUNTED = Totals.__struct_fields__
SECOND = 1_000_000


class Baseline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the last tick saw, against which the next one counts."""

    queued: int | None = None
    retrying: int = 0
    sessions: dict[str, Totals] = {}
    expected: int = 0
    """Tasks that the schedule was about to bring."""
    owed: int = 0
    """Arrivals that were counted too many, because one side of the sum was older than the other."""


def select_members(reports: Mapping[str, NodeReport], pool: str) -> dict[str, PoolReport]:
    """The nodes that have this pool, by session, in the order in which shares are dealt out."""
    return {session: reports[session].pools[pool] for session in sorted(reports) if pool in reports[session].pools}


def observe(look: Look, pool: Mapping[str, PoolReport], seen: Baseline) -> tuple[Observation, Baseline]:
    """The second since the last tick, and what the next tick counts from."""
    queues = {queue for report in pool.values() for queue in report.queues}
    counts = [each for each in look.queues if each.queue in queues]
    open_ones = [each for each in counts if not each.paused]
    queued = sum(each.runnable for each in open_ones)
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
        oldest=compute_oldest_wait(look.now, [each.oldest for each in open_ones]),
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
    """The counters of a report."""
    return Totals(**{field: getattr(report, field) for field in COUNTED})


def count_changes(pool: Mapping[str, PoolReport], before: Mapping[str, Totals]) -> Totals:
    """By how much the counters have grown. A session that was not there before begins to count now."""
    sums = dict.fromkeys(COUNTED, 0)
    for session, report in pool.items():
        old = before.get(session)
        for field in COUNTED if old is not None else ():
            sums[field] += getattr(report, field) - getattr(old, field)
    return Totals(**sums)


def compute_oldest_wait(now: Micros, since: Sequence[Micros | None]) -> float:
    """For how many seconds the task that has waited longest has waited."""
    known = [moment for moment in since if moment is not None]
    return max(0.0, (now - min(known)) / SECOND) if known else 0.0


def list_due(look: Look, queues: set[str], state: State | None = None) -> tuple[tuple[float, int], ...]:
    """What comes due, as (seconds from now, tasks): retries too, for they need workers like all others."""
    ahead: dict[float, int] = {}
    for due in look.due:
        if due.queue in queues and state in (None, due.state):
            ahead[float(due.seconds)] = ahead.get(float(due.seconds), 0) + due.tasks
    return tuple(sorted(ahead.items()))


def collect_answers(pool: Mapping[str, PoolReport], threads: int) -> dict[str, float]:
    """Return what the app's deciders ask for, in slots; of several nodes the largest answer counts."""
    answers = [answer for report in pool.values() for answer in report.decided.items()]
    return {name: threads * max(size for each, size in answers if each == name) for name, _ in answers}


def choose_slots(choose: Callable[[list[int]], int], workers: Sequence[int | None], threads: int) -> int | None:
    """The smallest or largest number of workers that any node has heard of, in slots."""
    known = [number * threads for number in workers if number is not None]
    return choose(known) if known else None
