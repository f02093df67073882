"""How quickly a pool recovers: the moments at which a load rises suddenly, and when tasks start in time again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt

from windlass.simulation.load import Load

BEFORE, AFTER = 60, 20
"""Seconds that are compared on both sides of a moment."""
RISE = 1.5
SURPRISE = 6.0
"""How many standard deviations the rise must be, so that chance is no step."""
CALM = 30
"""Seconds without a late task after which a pool has recovered."""
GRACE = 120
"""Seconds after a step, beyond the goal, in which a first late task is still the step's doing."""


def find_steps(load: Load) -> list[int]:
    """The seconds at which what arrives goes up at once and stays up for a while."""
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
    """How many tasks have come by the end of each second. One that takes twice as long as usual counts for two."""
    tasks = [0.0] * (load.length + 1)
    for at, _ in load.arrivals:
        if at < load.length:
            tasks[int(at) + 1] += load.slow.get_factor(at) if load.slow else 1.0
    return list(accumulate(tasks))


def is_step(tasks: Sequence[float], second: int) -> bool:
    """Whether the rate is much higher after this second than it was before, and not by chance."""
    old = (tasks[second] - tasks[second - BEFORE]) / BEFORE
    more = compute_excess(tasks, second)
    return more > (RISE - 1) * old and more * AFTER > SURPRISE * sqrt(max(3.0, old * AFTER))


def compute_excess(tasks: Sequence[float], second: int) -> float:
    """By how much the rate is higher after this second than before it."""
    old = (tasks[second] - tasks[second - BEFORE]) / BEFORE
    return (tasks[second + AFTER] - tasks[second]) / AFTER - old


def find_turn(tasks: Sequence[float], second: int) -> int:
    """The moment of the step that begins to show here: the last at which the difference is as large as it gets."""
    differences = {at: compute_excess(tasks, at) for at in range(second, second + AFTER)}
    return max(at for at, more in differences.items() if more >= 0.95 * max(differences.values()))


def compute_recovery(load: Load, late: Sequence[bool]) -> float | None:
    """The longest time from a step until tasks start in time again and go on doing so. None without a step."""
    # Nobody can be late before the goal has passed, and a queue that grows slowly makes them late slowly.
    return max((float(measure_recovery(late, step, GRACE + int(load.wait))) for step in find_steps(load)), default=None)


def measure_recovery(late: Sequence[bool], step: int, grace: int) -> int:
    """How long after a step the last late task was that no calm stretch separates from it."""
    last = step
    for second in range(step, len(late)):
        if late[second]:
            last = second + 1
        elif second - last >= (CALM if last > step else grace):
            break
    return last - step
