"""Play one load with one policy, and score the run.

The score is cost × lateness × resizes. 1.0 is the limit: a fluid pool that knows every task in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import sqrt
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from windlass.autoscale.observe import Observation
from windlass.simulation.bound import Bound
from windlass.simulation.load import Load
from windlass.simulation.simulated_pool import SimulatedPool

ALLOWED_LATE = 0.01
ALLOWED_RESIZES = 30.0
BEFORE, AFTER = 60, 20
"""Seconds before and after a step that are compared."""
RISE = 1.5
SURPRISE = 6.0
"""Standard deviations by which the rate must rise to count as a step."""
CALM = 30
"""Seconds without a late task after which a pool has recovered."""
GRACE = 120
"""Seconds after a step, in addition to the goal, in which a first late task is attributed to the step."""


class Resize(Struct, frozen=True, kw_only=True, gc=False):
    """One ledger line: a decision that changed the size."""

    second: int
    before: int
    after: int
    why: str = ""
    """The policy's explanation; empty if it gives none."""


class Timeline(Struct, frozen=True, kw_only=True):
    """The run second by second: each list has one number for each second."""

    arrivals: list[int] = []
    ready: list[int] = []
    starting: list[int] = []
    needed: list[float] = []
    """The workers of the clairvoyant bound."""
    waits: list[float] = []
    """The longest wait among the tasks that started in that second or still wait at its end."""


class SimulationResult(Struct, frozen=True, kw_only=True):
    """The result of one load played with one policy. Times are seconds."""

    load: str
    policy: str
    setting: str = ""
    """The setting of the policy that was played, such as the fixed size of `hindsight`."""
    goal: float
    """How long a task may wait."""
    tasks: int
    late: float
    """The share of tasks that waited longer than the goal."""
    wait_p50: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    worker_seconds: float
    """What the pool cost. A worker costs from the moment it is ordered until it ends."""
    cost: float
    """`worker_seconds` divided by the cost of the clairvoyant bound."""
    resizes_per_hour: float
    recovery: float | None
    """The longest time from a sudden rise of the load until tasks start in time again; None without such a rise."""
    longest_late: int
    """The longest streak of seconds in which some task was late."""
    score: float
    """Cost × lateness × resizes: 1.0 is the limit, and lower is better."""
    ledger: list[Resize] = []
    timeline: Timeline = Timeline()


class Policy(Protocol):
    """Returns the size that the pool should have, given the current second and what was observed in it."""

    def __call__(self, now: int, seen: Observation, /) -> int: ...


@runtime_checkable
class ExplainingPolicy(Protocol):
    """A policy that explains its latest decision."""

    explanation: str


Start: TypeAlias = Callable[[Load], tuple[int, Policy]]
"""Returns the first size for a load, and a new policy."""


class Run:
    """One load that is being played: the pool, the policy, and the records of the run."""

    def __init__(self, load: Load, start: Start, *, keep_timeline: bool = False) -> None:
        size, self.policy = start(load)
        self.load, self.pool, self.keep_timeline = load, SimulatedPool(load, size), keep_timeline
        self.late: list[bool] = []
        self.ledger: list[Resize] = []
        self.timeline = Timeline(arrivals=[], ready=[], starting=[], needed=[], waits=[])

    def play(self) -> None:
        """Play the whole load."""
        for _ in range(self.load.length):
            started = len(self.pool.waits)
            seen = self.pool.advance()
            before = self.pool.target
            self.pool.resize(self.policy(self.pool.now, seen))
            self.late.append(seen.late > 0 or seen.oldest > self.load.wait)
            if self.keep_timeline:
                self.record_second(seen, before, started)

    def record_second(self, seen: Observation, before: int, started: int) -> None:
        """Add one second to the timeline, and a resize to the ledger."""
        line, pool = self.timeline, self.pool
        line.arrivals.append(seen.arrivals)
        line.ready.append(seen.ready)
        line.starting.append(seen.starting)
        line.waits.append(max(seen.oldest, max(pool.waits[started:], default=0.0)))
        if pool.target != before:
            why = self.policy.explanation if isinstance(self.policy, ExplainingPolicy) else ""
            self.ledger.append(Resize(second=pool.now, before=before, after=pool.target, why=why))


def run(
    load: Load, bound: Bound, name: str, start: Start, *, setting: str = "", keep_timeline: bool = False
) -> SimulationResult:
    """Play a load with a policy. The result has a ledger and a timeline if `keep_timeline` is set."""
    played = Run(load, start, keep_timeline=keep_timeline)
    played.play()
    if keep_timeline:
        played.timeline.needed.extend(bound.list_workers())
    return score_run(played, bound, name, setting)


def score_run(played: Run, bound: Bound, name: str, setting: str) -> SimulationResult:
    """Compute the result of a finished run. A task that still waits counts with its wait so far."""
    load, pool = played.load, played.pool
    waits = sorted([*pool.waits, *(pool.now - at for at, _, _ in pool.queue)])
    late = sum(1 for wait in reversed(waits) if wait > load.wait) / max(1, len(waits))
    resizes = pool.resizes * 3600 / load.length
    cost = pool.cost / bound.worker_seconds
    return SimulationResult(
        load=load.name, policy=name, setting=setting, goal=float(load.wait), tasks=len(waits), late=late,
        wait_p50=find_quantile(waits, 0.5), wait_p95=find_quantile(waits, 0.95), wait_p99=find_quantile(waits, 0.99),
        wait_max=waits[-1] if waits else 0.0, worker_seconds=pool.cost, cost=cost, resizes_per_hour=resizes,
        recovery=compute_recovery(load, played.late), longest_late=find_longest_streak(played.late),
        score=cost * max(1.0, late / ALLOWED_LATE) * max(1.0, resizes / ALLOWED_RESIZES),
        ledger=played.ledger, timeline=played.timeline,
    )  # fmt: skip


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share of the sorted values lies."""
    return ordered[int(len(ordered) * share)] if ordered else 0.0


def find_longest_streak(marks: Iterable[bool]) -> int:
    """Return the length of the longest streak of true values."""
    longest = streak = 0
    for mark in marks:
        streak = streak + 1 if mark else 0
        longest = max(longest, streak)
    return longest


def find_steps(load: Load) -> list[int]:
    """Return the seconds at which the arrival rate rises suddenly and stays high for a while."""
    tasks = count_arrivals(load)
    found: list[int] = []
    second = BEFORE
    while second < load.length - 2 * AFTER:
        if is_step(tasks, second):
            found.append(find_turn(tasks, second))
            second += BEFORE + AFTER
        second += 1
    return found


def count_arrivals(load: Load) -> list[float]:
    """Return the arrivals up to the end of each second. A task that takes twice as long as usual counts twice."""
    tasks = [0.0] * (load.length + 1)
    for at, _ in load.arrivals:
        if at < load.length:
            tasks[int(at) + 1] += load.slow.get_factor(at) if load.slow else 1.0
    return list(accumulate(tasks))


def is_step(tasks: Sequence[float], second: int) -> bool:
    """Return True if the rate after this second is much higher than before, and not by chance."""
    old = (tasks[second] - tasks[second - BEFORE]) / BEFORE
    more = compute_excess(tasks, second)
    return more > (RISE - 1) * old and more * AFTER > SURPRISE * sqrt(max(3.0, old * AFTER))


def compute_excess(tasks: Sequence[float], second: int) -> float:
    """Return by how much the rate after this second exceeds the rate before it."""
    old = (tasks[second] - tasks[second - BEFORE]) / BEFORE
    return (tasks[second + AFTER] - tasks[second]) / AFTER - old


def find_turn(tasks: Sequence[float], second: int) -> int:
    """Return the exact second of a step that starts to show here: the last one with the largest difference."""
    differences = {at: compute_excess(tasks, at) for at in range(second, second + AFTER)}
    return max(at for at, more in differences.items() if more >= 0.95 * max(differences.values()))


def compute_recovery(load: Load, late: Sequence[bool]) -> float | None:
    """Return the longest time from a step until tasks start in time again and stay so; None without a step."""
    # No task can be late before the goal has passed, and a slowly growing queue makes tasks late slowly.
    return max((float(measure_recovery(late, step, GRACE + int(load.wait))) for step in find_steps(load)), default=None)


def measure_recovery(late: Sequence[bool], step: int, grace: int) -> int:
    """Return the seconds from a step to the last late task that follows it without a calm stretch in between."""
    last = step
    for second in range(step, len(late)):
        if late[second]:
            last = second + 1
        elif second - last >= (CALM if last > step else grace):
            break
    return last - step
