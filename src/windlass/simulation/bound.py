"""The clairvoyant bound: the least that any pool could cost which knew every task ahead.

Work may be served no earlier than it arrives and no later than W after. Between these two cumulative curves the path
of smallest variation is a taut string. It costs its capacity, and one start delay for each worker that it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.simulation.load import Load


def bound(load: Load) -> float:
    """Worker-seconds of the clairvoyant path, with its start-ups."""
    upper = cumulative(load)
    # Work that could not be begun later than the last moment is not owed by then.
    patience = int(load.wait)
    lower = [0.0] * (patience + 1) + upper[: len(upper) - patience - 1]
    slopes = taut_string(lower, upper)
    rises = sum(max(0.0, after - before) for before, after in zip([load.floor, *slopes], slopes, strict=False))
    return upper[-1] + rises * load.delay


def cumulative(load: Load) -> list[float]:
    """The work that has arrived by the end of each second, from zero."""
    work = [0.0] * (load.length + 1)
    for at, service in load.arrivals:
        if at < load.length:
            work[int(at) + 1] += service * (load.slow.at(at) if load.slow else 1.0)
    for second in range(load.length):
        work[second + 1] += work[second]
    return work


def taut_string(lower: Sequence[float], upper: Sequence[float]) -> list[float]:
    """The slope of each piece of the shortest path between two curves, from their start to the lower one's end."""
    at, height, last = 0, lower[0], len(lower) - 1
    slopes: list[float] = []
    while at < last:
        at, height, slope = next_knot(lower, upper, at, height)
        slopes.append(slope)
    return slopes


def next_knot(lower: Sequence[float], upper: Sequence[float], at: int, height: float) -> tuple[int, float, float]:
    """Where the string that is pulled from a point first bends, and its slope until there."""
    steepest, flattest = float("-inf"), float("inf")
    low_at = high_at = at
    last = len(lower) - 1
    for x in range(at + 1, last + 1):
        rise_low = (lower[x] - height) / (x - at)
        rise_high = ((upper[x] if x < last else lower[x]) - height) / (x - at)
        if rise_low > flattest:
            return high_at, upper[high_at], flattest
        if rise_high < steepest:
            return low_at, lower[low_at], steepest
        if rise_low >= steepest:
            steepest, low_at = rise_low, x
        if rise_high <= flattest:
            flattest, high_at = rise_high, x
    return last, lower[last], steepest
