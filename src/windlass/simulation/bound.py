"""The clairvoyant bound: the lowest cost of any pool that knows every task in advance.

Work is served no earlier than it arrives, and no later than W after that. Between these two cumulative curves the path
with the least variation is a taut string. It costs its capacity, and one start delay for each worker that it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.simulation.load import Load


class Bound(Struct, frozen=True, kw_only=True):
    """The cost of the clairvoyant pool, and its size over time."""

    worker_seconds: float
    path: list[tuple[int, float]]
    """(last second, workers) of each piece."""

    def list_workers(self) -> list[float]:
        """Return the workers needed in each second."""
        begins = [0, *(end for end, _ in self.path)]
        return [workers for begin, (end, workers) in zip(begins, self.path, strict=False) for _ in range(begin, end)]


def compute_bound(load: Load, patience: float = 1.0) -> Bound:
    """Compute the cheapest path through a load in which tasks may wait for this share of the goal."""
    upper = sum_work(load)
    # Work that may start after the end of the load need not be served in it.
    slack = int(load.wait * patience)
    lower = ([0.0] * (slack + 1) + upper)[: len(upper)]
    path = find_taut_string(lower, upper)
    slopes = [slope for _, slope in path]
    rises = sum(max(0.0, after - before) for before, after in zip([load.min, *slopes], slopes, strict=False))
    return Bound(worker_seconds=upper[-1] + rises * load.delay, path=path)


def sum_work(load: Load) -> list[float]:
    """Return the work that has arrived by the end of each second, starting with 0."""
    work = [0.0] * (load.length + 1)
    for at, service in load.arrivals:
        if at < load.length:
            work[int(at) + 1] += service * (load.slow.get_factor(at) if load.slow else 1.0)
    for second in range(load.length):
        work[second + 1] += work[second]
    return work


def find_taut_string(lower: Sequence[float], upper: Sequence[float]) -> list[tuple[int, float]]:
    """Return the end and slope of each piece of the shortest path between two curves."""
    at, height, last = 0, lower[0], len(lower) - 1
    pieces: list[tuple[int, float]] = []
    while at < last:
        at, height, slope = find_next_bend(lower, upper, at, height)
        pieces.append((at, slope))
    return pieces


def find_next_bend(lower: Sequence[float], upper: Sequence[float], at: int, height: float) -> tuple[int, float, float]:
    """Return where the string from this point first bends: second, height and slope."""
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
