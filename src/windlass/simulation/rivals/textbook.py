"""What textbooks say: marks with hysteresis, additive increase, PID, Little's law, and a fixed size."""

from __future__ import annotations

from collections import deque

from windlass.autoscale.observe import Observation
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy
from windlass.simulation.rivals.sizes import beyond, bounded


def threshold(high: float, low: float, load: Load) -> tuple[int, Policy]:
    """Utilisation above one mark for 5 s: a quarter more; below the other for 60 s: a tenth less."""
    size, above, below = load.floor, 0, 0

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size, above, below
        use = seen.busy / seen.ready if seen.ready else float(seen.queued > 0)
        above, below = (above + 1 if use > high else 0), (below + 1 if use < low else 0)
        if above >= 5 and not seen.starting:
            size, above = bounded(load, size * 1.25 + 1), 0
        elif below >= 60:
            size, below = bounded(load, min(size * 0.9, size - 1)), 0
        return size

    return size, decide


def aimd(step: float, load: Load) -> tuple[int, Policy]:
    """Late or about to be: +k each 5 s. A minute without a queue and with a third idle: ×0.75."""
    size, calm = load.floor, 0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, calm
        calm = calm + 1 if not seen.queued and seen.running < 0.7 * seen.ready else 0
        if seen.oldest > 0.3 * load.wait and now % 5 == 0:
            size = bounded(load, size + step)
        elif calm >= 60:
            size, calm = bounded(load, size * 0.75), 0
        return size

    return size, decide


def pid(gain: float, load: Load) -> tuple[int, Policy]:
    """Utilisation, with the backlog in it, to 0.8; the integral stands still while the output is at a bound."""
    size, integral, last = load.floor, 0.0, 0.0

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size, integral, last
        if now % 5:
            return size
        need = seen.running + seen.queued * load.mean / load.wait
        error = (need / 0.8 - size) / max(1, size)
        output = max(1, size) * (1 + gain * error + 0.1 * integral + 0.1 * (error - last))
        if load.floor < output < load.ceiling:
            integral = max(-2.0, min(2.0, integral + error * 0.05))
        last = error
        size = beyond(size, bounded(load, output))
        return size

    return size, decide


def little(share: float, load: Load) -> tuple[int, Policy]:
    """Little's law alone: λ·s / ρ, the rate over a minute, ρ 0.7 by default."""
    size = load.floor
    recent: deque[int] = deque(maxlen=60)

    def decide(_now: int, seen: Observation, /) -> int:
        nonlocal size
        recent.append(seen.arrivals)
        size = beyond(size, bounded(load, sum(recent) / len(recent) * load.mean / share))
        return size

    return size, decide


def static(size: float, load: Load) -> tuple[int, Policy]:
    """A fixed size."""
    fixed = bounded(load, size)
    return fixed, lambda _now, _seen, /: fixed
