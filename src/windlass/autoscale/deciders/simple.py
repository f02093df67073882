"""Deciders that many know: marks with hysteresis, additive increase, PID, Little's law and Erlang's formula.

Each answers with one size; bounds, holds and the budget of resizes are the same for all.
"""

from __future__ import annotations

from math import ceil, exp, log, sqrt

from msgspec.structs import replace

from windlass.autoscale.observe import Observation
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation

USE = 0.7
"""The utilisation that `target` and `pid` aim at."""
GAIN, INTEGRAL, DERIVATIVE = 0.4, 0.02, 0.1
HALF_LIFE = 3.0
"""Seconds over which the derivative of `pid` is smoothed: the utilisation of single seconds is mostly noise."""
SLEW = 0.5
"""The largest step of `pid`, as a share of the size."""


def recommend_size(size: float, reason: str) -> Recommendation:
    """A wish for exactly one size."""
    return Recommendation(must=size, want=size, keep=size, peak=size, reason=reason)


def compute_utilization(moment: Moment) -> float:
    """The busy share, with the backlog in it: above 1 when work waits."""
    observed = moment.observed
    wanted = observed.running + observed.queued * moment.service / max(moment.settings.wait, 0.1)
    return wanted / max(1, observed.alive)


def threshold(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Above the upper mark for 5 s a quarter more, below the lower one for 60 s a tenth less; between them nothing."""
    marks, memory, size = moment.settings.thresholds, moment.memory, float(moment.current)
    fading = memory.use.record(moment.now, compute_utilization(moment), marks.half_life)
    use, way = fading.value or 0.0, memory.direction
    # A step back from the last one needs a clearer sign than a step on.
    above = memory.above + 1 if use > marks.high + (marks.deadband if way < 0 else 0.0) else 0
    below = memory.below + 1 if use < marks.low - (marks.deadband if way > 0 else 0.0) else 0
    if above >= 5 and not moment.observed.starting:
        size, above, way = size * 1.25 + 1, 0, 1
    elif below >= 60:
        size, below, way = size * 0.9 - 0.5, 0, -1
    kept = replace(memory, above=above, below=below, direction=way, use=fading)
    return recommend_size(size, f"utilisation {use:.0%}"), kept


def aimd(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Two more while tasks wait too long, three quarters after a minute of calm."""
    observed, size = moment.observed, float(moment.current)
    calm = moment.memory.calm + 1 if not observed.queued and observed.running < USE * observed.ready else 0
    if observed.oldest > 0.3 * moment.settings.wait and not observed.starting:
        size += 2
    elif calm >= 60:
        size, calm = size * 0.75, 0
    return recommend_size(size, f"oldest {observed.oldest:.1f} s"), replace(moment.memory, calm=calm)


def pid(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Utilisation to its aim. The integral stands still at a bound; the derivative acts on the measurement alone."""
    use, memory, current = compute_utilization(moment), moment.memory, max(1.0, float(moment.current))
    error = use / USE - 1
    fading = memory.use.record(moment.now, use, HALF_LIFE)
    smooth = fading.value if fading.value is not None else use
    change = smooth - (memory.measured if memory.measured is not None else smooth)
    step = GAIN * error + INTEGRAL * memory.integral + DERIVATIVE * change
    size = current * (1 + max(-SLEW, min(SLEW, step)))
    free = abs(step) < SLEW and moment.settings.floor < size < moment.settings.ceiling
    integral = max(-5.0, min(5.0, memory.integral + error)) if free else memory.integral * 0.9
    kept = replace(memory, integral=integral, measured=smooth, use=fading)
    return recommend_size(size, f"utilisation {use:.0%}, aim {USE:.0%}"), kept


def target(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Little's law: the load over the utilisation aimed at."""
    return recommend_size(moment.load / USE, f"load {moment.load:.1f} at {USE:.0%}"), moment.memory


def mmc(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Erlang's formula: the fewest workers with which few enough tasks wait longer than the goal."""
    settings = moment.settings
    size = staff(moment.load, settings.wait / max(moment.service, 1e-6), settings.late)
    return recommend_size(size, f"load {moment.load:.1f}, goal {settings.wait:g} s"), moment.memory


def due(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """What the schedule holds for the time until a worker could serve it, spread over the goal."""
    reach = moment.observed.start_delay + 2
    count = moment.observed.due_within(reach)
    size = min(count, count * moment.service / max(moment.settings.wait, 0.1))
    return recommend_size(size, f"{count} due within {reach:.0f} s"), moment.memory


def read_app_decider(name: str, observed: Observation, current: int) -> Recommendation:
    """Return what the app's decider asks for. Without an answer the size stays, so that a fault moves nothing.

    A pool that has nobody cannot be asked at all: while tasks wait it gets one worker.
    """
    answer = observed.decided.get(name)
    if answer is None:
        return recommend_size(max(current, 1 if observed.queued else 0), f"{name} has no answer, so the size stays")
    return recommend_size(answer, f"{name} asks for {answer:g}")


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


LARGE = 200.0
"""Above this offered load the square-root rule is as good as Erlang's formula, and cheaper."""
