"""The limits: policies that know what comes. No rule can be as good, and none is judged for not being so."""

from __future__ import annotations

from functools import partial
from math import ceil

from windlass.autoscale.observe import Observation
from windlass.simulation.bound import Bound, bound
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy, Start
from windlass.simulation.results import SimulationResult
from windlass.simulation.rivals.sizes import bounded
from windlass.simulation.rivals.textbook import static
from windlass.simulation.score import run

HINDSIGHT = tuple(range(1, 12)) + tuple(range(12, 30, 2)) + tuple(range(30, 201, 10))
"""The sizes among which the best static one is chosen afterwards, for each load by itself."""
PATIENCE = 0.7
"""The share of the goal that the clairvoyant uses up: tasks and workers are whole, the bound is fluid."""
SMOOTH, SPARE = 120, 1.1
"""A step down is taken if the next two minutes need it no more, and if it is more than a tenth."""


def clairvoyant(load: Load) -> tuple[int, Policy]:
    """The path of the bound as a staircase, each worker ordered one start before it is needed.

    It knows when tasks come and how long they run, but not which of them fail or whose worker dies: what then waits
    too long is cleared within the goal.
    """
    needed = bound(load, PATIENCE).needed()
    ahead = ceil(load.delay) + 1
    size = bounded(load, max(needed[: ahead + SMOOTH], default=load.floor))

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size
        behind = seen.queued * load.mean / load.wait if seen.oldest > PATIENCE * load.wait else 0.0
        soon = max(needed[now : now + ahead], default=0.0) + behind
        later = max(soon, max(needed[now : now + ahead + SMOOTH], default=0.0))
        if soon > size or bounded(load, later) * SPARE < size:
            size = bounded(load, later)
        return size

    return size, decide


def hindsight(load: Load, limit: Bound, *, kept: bool = False) -> SimulationResult:
    """The best fixed size for this load, which nobody knows ahead. Larger ones than its score cannot be better."""
    best: SimulationResult | None = None
    for size in HINDSIGHT:
        least = size * load.length / limit.worker_seconds
        if best is not None and least > best.score:
            break
        if least < 0.8 and size < HINDSIGHT[-1]:
            continue
        result = run(load, limit, "hindsight", fixed(size), setting=str(size))
        best = result if best is None or result.score < best.score else best
    assert best is not None
    return run(load, limit, "hindsight", fixed(int(best.setting)), setting=best.setting, kept=kept) if kept else best


def fixed(size: int) -> Start:
    """A pool of that size."""
    return partial(static, size)
