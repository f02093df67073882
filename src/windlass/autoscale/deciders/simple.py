"""Well-known deciders: thresholds with hysteresis, additive increase, PID, Little's law and Erlang's formula.

Each recommends one size. Bounds, holds and the resize budget apply to all of them.
"""

from __future__ import annotations

from math import ceil, exp, log, sqrt

from msgspec.structs import replace

from windlass.autoscale.observe import Observation
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation

USE = 0.7
"""The target utilization of `target` and `pid`."""
GAIN, INTEGRAL, DERIVATIVE = 0.4, 0.02, 0.1
HALF_LIFE = 3.0
"""Half-life in seconds of the smoothing for the derivative of `pid`. Single seconds are mostly noise."""
SLEW = 0.5
"""The largest step of `pid`, as a share of the size."""
LARGE = 200.0
"""The offered load above which a simple bound replaces Erlang's formula. It is as good, and cheaper."""


def recommend_size(size: float, reason: str) -> Recommendation:
    """Recommend exactly one size."""
    return Recommendation(must=size, want=size, keep=size, peak=size, reason=reason)


def compute_utilization(moment: Moment) -> float:
    """Return the share of busy workers, including the backlog. It is above 1 when work waits."""
    observed = moment.observed
    wanted = observed.running + observed.queued * moment.service / max(moment.settings.wait, 0.1)
    return wanted / max(1, observed.alive)


def threshold(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Add a quarter after 5 s above the upper threshold; remove a tenth after 60 s below the lower one."""
    marks, memory, size = moment.settings.thresholds, moment.memory, float(moment.current)
    fading = memory.use.record(moment.now, compute_utilization(moment), marks.half_life)
    use, way = fading.value or 0.0, memory.direction
    # Reversing the last step needs a clearer signal than repeating it.
    above = memory.above + 1 if use > marks.high + (marks.deadband if way < 0 else 0.0) else 0
    below = memory.below + 1 if use < marks.low - (marks.deadband if way > 0 else 0.0) else 0
    if above >= 5 and not moment.observed.starting:
        size, above, way = size * 1.25 + 1, 0, 1
    elif below >= 60:
        size, below, way = size * 0.9 - 0.5, 0, -1
    kept = replace(memory, above=above, below=below, direction=way, use=fading)
    return recommend_size(size, f"utilization {use:.0%}"), kept


def aimd(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Add two workers while tasks wait too long; keep three quarters after a calm minute."""
    observed, size = moment.observed, float(moment.current)
    calm = moment.memory.calm + 1 if not observed.queued and observed.running < USE * observed.ready else 0
    if observed.oldest > 0.3 * moment.settings.wait and not observed.starting:
        size += 2
    elif calm >= 60:
        size, calm = size * 0.75, 0
    return recommend_size(size, f"oldest {observed.oldest:.1f} s"), replace(moment.memory, calm=calm)


def pid(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Control the utilization. The integral stops at a bound; the derivative uses the measurement alone."""
    use, memory, current = compute_utilization(moment), moment.memory, max(1.0, float(moment.current))
    error = use / USE - 1
    fading = memory.use.record(moment.now, use, HALF_LIFE)
    smooth = fading.value if fading.value is not None else use
    change = smooth - (memory.measured if memory.measured is not None else smooth)
    step = GAIN * error + INTEGRAL * memory.integral + DERIVATIVE * change
    size = current * (1 + max(-SLEW, min(SLEW, step)))
    free = abs(step) < SLEW and moment.settings.min < size < moment.settings.max
    integral = max(-5.0, min(5.0, memory.integral + error)) if free else memory.integral * 0.9
    kept = replace(memory, integral=integral, measured=smooth, use=fading)
    return recommend_size(size, f"utilization {use:.0%}, target {USE:.0%}"), kept


def target(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Divide the load by the target utilization (Little's law)."""
    return recommend_size(moment.load / USE, f"load {moment.load:.1f} at {USE:.0%} utilization"), moment.memory


def mmc(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Recommend the fewest workers with which few enough tasks miss the goal (Erlang's formula)."""
    settings = moment.settings
    size = staff(moment.load, settings.wait / max(moment.service, 1e-6), settings.late)
    return recommend_size(size, f"load {moment.load:.1f}, goal {settings.wait:g} s"), moment.memory


def due(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Recommend workers for the tasks that become due before a new worker is ready, spread over the goal."""
    reach = moment.observed.start_delay + 2
    count = moment.observed.due_within(reach)
    size = min(count, count * moment.service / max(moment.settings.wait, 0.1))
    return recommend_size(size, f"{count} due within {reach:.0f} s"), moment.memory


def read_app_decider(name: str, observed: Observation, current: int) -> Recommendation:
    """Recommend what a decider of the app asks for. No user code runs here: a worker has called it before.

    The size does not change without an answer, so that a bug moves nothing. Only workers can call deciders, so a pool
    with no workers gets one while tasks wait.
    """
    answer = observed.decided.get(name)
    if answer is None:
        return recommend_size(max(current, 1 if observed.queued else 0), f"{name} gave no answer, so the size stays")
    return recommend_size(answer, f"{name} asks for {answer:g}")


def staff(load: float, patience: float, late: float) -> int:
    """Return the fewest workers with which at most a share `late` of tasks waits longer than `patience` run times."""
    if load <= 0:
        return 0
    if load > LARGE:
        # For any pool size, the chance of a longer wait is below e^-(spare · patience).
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
