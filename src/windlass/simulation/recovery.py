"""How quickly a pool recovers: the moments at which a load rises suddenly, and when tasks start in time again."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from windlass.simulation.bound import cumulative
from windlass.simulation.load import Load

BEFORE, AFTER = 60, 20
"""Seconds of work that are compared on both sides of a moment."""
RISE = 1.5
SURPRISE = 6.0
"""How many standard deviations the rise must be, counted in tasks, so that chance is no step."""
CALM = 30
"""Seconds without a late task after which a pool has recovered."""
GRACE = 120
"""Seconds after a step, beyond the goal, in which a first late task is still the step's doing."""


def steps(load: Load) -> list[int]:
    """The seconds at which the work that arrives goes up at once and stays up for a while."""
    work = cumulative(load)
    found: list[int] = []
    for second in range(BEFORE, load.length - AFTER):
        # A ramp rises at every second: one step is told at most once in the time that is compared.
        if rises(work, second, load.mean) and (not found or second - found[-1] > BEFORE + AFTER):
            found.append(second)
    return found


def rises(work: Sequence[float], second: int, mean: float) -> bool:
    """Whether the load is much higher after this second than it was before."""
    old = (work[second] - work[second - BEFORE]) / BEFORE
    new = (work[second + AFTER] - work[second]) / AFTER
    chance = sqrt(max(1.0, old * AFTER / mean))
    return new > RISE * old and (new - old) * AFTER / mean > SURPRISE * chance


def recovery(load: Load, late: Sequence[bool]) -> float | None:
    """The longest time from a step until tasks start in time again and go on doing so. None without a step."""
    # Nobody can be late before the goal has passed, and a queue that grows slowly makes them late slowly.
    return max((float(recovered(late, step, GRACE + int(load.wait))) for step in steps(load)), default=None)


def recovered(late: Sequence[bool], step: int, grace: int) -> int:
    """How long after a step the last late task was that no calm stretch separates from it."""
    last = step
    for second in range(step, len(late)):
        if late[second]:
            last = second + 1
        elif second - last >= (CALM if last > step else grace):
            break
    return last - step
