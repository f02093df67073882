"""From what the store sees and what the nodes report to one observation of one pool.

Arrivals are nowhere counted: a tally of them would be one more write for every task. They follow from what is: what is
queued now, less what was, and what was taken meanwhile. What is a moment older on one side evens out a tick later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from windlass.autoscale.observations import Observation
from windlass.autoscale.reports import NodeReport, PoolReport, Totals
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.stores.coordination import Look

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
