"""How many workers a load needs: queueing formulae, without state."""

from __future__ import annotations

from math import ceil, exp, log, sqrt

LARGE = 200.0
"""Above this offered load the square-root rule is as good as Erlang's formula, and cheaper."""


def erlang_c(workers: int, load: float) -> float:
    """The chance that a task has to wait at all, for Poisson arrivals and that many workers."""
    if workers <= load:
        return 1.0
    blocked = 1.0
    for count in range(1, workers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / workers * (1 - blocked))


def staff(load: float, patience: float, late: float) -> int:
    """The fewest workers with at most a share `late` of tasks waiting longer than `patience` service times."""
    if load <= 0:
        return 0
    if load > LARGE:
        # A task waits longer than its patience with a chance below e^-(spare · patience), however large the pool.
        return ceil(load + min(2 * sqrt(load), log(1 / late) / max(patience, 1e-9)))
    workers, blocked = 0, 1.0
    while True:
        workers += 1
        blocked = load * blocked / (workers + load * blocked)
        if workers <= load:
            continue
        waiting = blocked / (1 - load / workers * (1 - blocked))
        if waiting * exp(-(workers - load) * patience) <= late:
            return workers


def guard(load: float, horizon: float, surprise: float, patience: float) -> float:
    """Workers with which a surprise of that much work, come in the reaction time, is cleared within the patience."""
    return (load * horizon + surprise) / (horizon + patience)
