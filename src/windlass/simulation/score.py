"""One policy over one load, and the score: cost × lateness × restlessness, 1.0 being the fluid clairvoyant limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log

from windlass.autoscale.observe import Observation
from windlass.simulation.bound import Bound
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy, Start, Telling
from windlass.simulation.recovery import recovery
from windlass.simulation.results import Resize, SimulationResult, Timeline
from windlass.simulation.world import World

ALLOWED_LATE = 0.01
ALLOWED_RESIZES = 30.0


class Run:
    """A load under way: the pool, the policy, and what is written down of it."""

    def __init__(self, load: Load, start: Start, *, kept: bool = False) -> None:
        size, self.policy = start(load)
        self.load, self.world, self.kept = load, World(load, size), kept
        self.late: list[bool] = []
        self.ledger: list[Resize] = []
        self.timeline = Timeline(arrivals=[], ready=[], starting=[], needed=[], waits=[])

    def play(self) -> None:
        """Let the whole load pass."""
        for _ in range(self.load.length):
            started = len(self.world.waits)
            seen = self.world.advance()
            before = self.world.target
            self.world.resize(self.policy(self.world.now, seen))
            self.late.append(seen.late > 0 or seen.oldest > self.load.wait)
            if self.kept:
                self.keep(seen, before, started)

    def keep(self, seen: Observation, before: int, started: int) -> None:
        """Write down one second."""
        line, world = self.timeline, self.world
        line.arrivals.append(seen.arrivals)
        line.ready.append(seen.ready)
        line.starting.append(seen.starting)
        line.waits.append(max(seen.oldest, max(world.waits[started:], default=0.0)))
        if world.target != before:
            why = told(self.policy)
            self.ledger.append(Resize(second=world.now, before=before, after=world.target, why=why))


def told(policy: Policy) -> str:
    """Why the policy decided so, if it says."""
    return policy.said if isinstance(policy, Telling) else ""


def run(
    load: Load, limit: Bound, name: str, start: Start, *, setting: str = "", kept: bool = False
) -> SimulationResult:
    """Play one load with one policy; `limit` is its bound. With `kept` the result has ledger and timeline."""
    played = Run(load, start, kept=kept)
    played.play()
    if kept:
        played.timeline.needed.extend(limit.needed())
    return judge(played, limit, name, setting)


def judge(played: Run, limit: Bound, name: str, setting: str) -> SimulationResult:
    """The numbers of a run that has ended. What still waits has waited at least that long."""
    load, world = played.load, played.world
    waits = sorted([*world.waits, *(world.now - at for at, _, _ in world.queue)])
    late = sum(1 for wait in reversed(waits) if wait > load.wait) / max(1, len(waits))
    resizes = world.resizes * 3600 / load.length
    cost = world.cost / limit.worker_seconds
    return SimulationResult(
        load=load.name, policy=name, setting=setting, goal=float(load.wait), tasks=len(waits), late=late,
        wait_p50=quantile(waits, 0.5), wait_p95=quantile(waits, 0.95), wait_p99=quantile(waits, 0.99),
        wait_max=waits[-1] if waits else 0.0, worker_seconds=world.cost, cost=cost, resizes_per_hour=resizes,
        recovery=recovery(load, played.late), longest_late=longest(played.late),
        score=cost * max(1.0, late / ALLOWED_LATE) * max(1.0, resizes / ALLOWED_RESIZES),
        ledger=played.ledger, timeline=played.timeline,
    )  # fmt: skip


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them lies."""
    return ordered[int(len(ordered) * share)] if ordered else 0.0


def longest(marks: Iterable[bool]) -> int:
    """The longest row of true ones."""
    most = row = 0
    for mark in marks:
        row = row + 1 if mark else 0
        most = max(most, row)
    return most


def combined(scores: Iterable[float]) -> float:
    """The geometric mean, so that no scenario counts more than another."""
    logs = [log(score) for score in scores]
    return exp(sum(logs) / len(logs)) if logs else 0.0
